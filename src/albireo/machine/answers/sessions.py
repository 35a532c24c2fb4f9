"""Answers about sessions: those of this node, and those of the nodes below."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import SESSION, SESSIONS, SessionsAsked
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.sessions import SESSIONS as SESSION_TABLE
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.kinds import session_row
from albireo.machine.orders.session.sessions import Sessions
from albireo.model.tree.session import Session, SessionRow


class SessionRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    sessions: Sessions


class SessionAnswers:
    """The part of the answers that is about sessions."""

    def __init__(self, root: SessionRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (
            handled(SESSION, self._session),
            handled(SESSIONS, self._sessions),
        )

    def _session(self, question: Question, _: Nothing, turn: Turn) -> None:
        """The session of who asks; by asking it a client says that it is still there."""
        own = self._root.sessions.of_link(question.sender)
        row = None if own is None else session_row(own, self._root.config.node)
        turn.answer(question, row)

    def _sessions(self, question: Question, asked: SessionsAsked, turn: Turn) -> None:
        mirror = self._places.mirror(asked.node)
        node, stale_since_ns = self._root.config.node, None
        found: Iterable[Session] = self._root.folds.of(SessionFold)
        if mirror is not None:
            node, stale_since_ns, found = mirror.node, mirror.stale_since_ns, mirror.table(SESSION_TABLE)
        turn.answer(question, asked.told(_behind(found, node, asked.after, stale_since_ns)))


def _behind(
    found: Iterable[Session], node: str, after: int, stale_since_ns: int | None
) -> Iterator[tuple[int, SessionRow]]:
    """Sessions with an id above `after`, by rising id."""
    for one in sorted((one for one in found if one.session_id > after), key=lambda one: one.session_id):
        yield one.session_id, session_row(one, node, stale_since_ns)
