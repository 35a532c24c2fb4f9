"""Answers about sessions: those of this node, and those of the nodes below."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import SESSION, SESSION_END, SESSIONS, SessionEndAsked, SessionsAsked
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role, not_done
from albireo.machine.answers.forces import ForcingRoot, check_open
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.fold.people.sessions import SESSIONS as SESSION_TABLE
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn, answer_to, granted
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.session.bodies import encode_session_end
from albireo.machine.orders.session.sessions import EndOrder, Sessions
from albireo.model.access import AccessRole
from albireo.model.tree.message import SESSION_END as END_ORDER
from albireo.model.tree.session import Session, SessionRow, who_text

END_EXPIRES_MS: Final = 10_000
"""Time within which the end of a session at a node below may be begun there; people wait for it."""


class SessionRoot(ForcingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    sessions: Sessions


class SessionAnswers:
    """The part of the answers that is about sessions."""

    def __init__(self, root: SessionRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.handlers = (
            handled(SESSION, self._session),
            handled(SESSIONS, self._sessions),
            handled(SESSION_END, self._end),
        )

    def _session(self, question: Question, _: Nothing, turn: Turn) -> None:
        """The session of who asks; by asking it a client says that it is still there."""
        own = self._root.sessions.of_link(question.sender)
        row = None if own is None else row_of(own, self._root.config.node)
        turn.answer(question, row)

    def _sessions(self, question: Question, asked: SessionsAsked, turn: Turn) -> None:
        mirror = self._below.mirror(asked.node)
        node, stale_since_ns = self._root.config.node, None
        found: Iterable[Session] = self._root.folds.of(SessionFold)
        if mirror is not None:
            node, stale_since_ns, found = mirror.node, mirror.stale_since_ns, mirror.table(SESSION_TABLE)
        turn.answer(question, asked.told(_behind(found, node, asked.after, stale_since_ns)))

    def _end(self, question: Question, asked: SessionEndAsked, turn: Turn) -> None:
        root = self._root
        check_open(root)
        mirror = self._below.mirror(asked.node)
        node = root.config.node if mirror is None else mirror.node
        if mirror is not None or not self._is_own(question, asked):
            subject = f"session_end {asked.session_id} of another principal"
            check_role(root.access, question, RoleNeeded(node, subject, asked.user, AccessRole.ADMIN), turn)
        if mirror is not None:
            known = mirror.table(SESSION_TABLE).get(asked.session_id)
            self._end_below(question, asked, node, "" if known is None else f" of {who_text(known)}", turn)
            return
        order = EndOrder(
            session_id=asked.session_id, user=asked.user, principal=question.principal, reason=asked.reason
        )
        row = row_of(granted(root.sessions.end(order, question.moment, turn)), node)
        root.after(turn.end, question.sender, answer_to(question.request_id, row), turn)

    def _is_own(self, question: Question, asked: SessionEndAsked) -> bool:
        return self._root.sessions.owner_of(asked.session_id) == question.principal

    def _end_below(self, question: Question, asked: SessionEndAsked, owner: str, whose: str, turn: Turn) -> None:
        """Have the node below end the session; the role was judged here, for that node."""
        tree = self._root.tree
        sent = SendAsked(
            command_id=tree.draw_id(END_ORDER),
            owner=owner,
            kind=END_ORDER,
            body=encode_session_end(asked.session_id),
            expires_ms=END_EXPIRES_MS,
            user=asked.user,
            principal=question.principal,
            reason=asked.reason,
            subject=f"session {owner}:{asked.session_id}{whose}",
        )
        known = tree.all_mirrors[owner].table(SESSION_TABLE).get(asked.session_id)

        def told(receipt: MessageReceipt) -> object:
            row = {"session_id": asked.session_id, "node": owner} if known is None else row_of(known, owner)
            return not_done(receipt, "`albireo sessions list`") or row

        granted(tree.send(question, sent, turn, told))


def row_of(session: Session, node: str, stale_since_ns: int | None = None) -> SessionRow:
    return SessionRow(**msgspec.structs.asdict(session), node=node, stale_since_ns=stale_since_ns)


def _behind(
    found: Iterable[Session], node: str, after: int, stale_since_ns: int | None
) -> Iterator[tuple[int, SessionRow]]:
    """Sessions with an id above `after`, by rising id."""
    for one in sorted((one for one in found if one.session_id > after), key=lambda one: one.session_id):
        yield one.session_id, row_of(one, node, stale_since_ns)
