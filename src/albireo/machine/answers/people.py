"""Answers about people: whose a session is, and who may do what."""

from typing import Protocol

from albireo.codec.message import AnyMessage
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import (
    ACCESS_GRANT,
    ACCESS_LIST,
    ACCESS_REVOKE,
    SESSION,
    AccessChanged,
    GrantAsked,
    RevokeAsked,
)
from albireo.codec.record import AccessGranted, Audited, Stream
from albireo.machine.access.changes import AccessChanges
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.kinds import session_row
from albireo.machine.orders.session.sessions import Sessions
from albireo.model.position import Position
from albireo.model.refusal import Refusal


class PeopleRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folded_to: Position
    access_changes: AccessChanges
    sessions: Sessions

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class PeopleAnswers:
    """The part of the answers that is about people."""

    def __init__(self, root: PeopleRoot, _: Places) -> None:
        self._root = root
        self.handlers = (
            handled(SESSION, self._session),
            handled(ACCESS_LIST, self._access_list),
            handled(ACCESS_GRANT, self._change_access),
            handled(ACCESS_REVOKE, self._change_access),
        )

    def _session(self, question: Question, _: Nothing, turn: Turn) -> None:
        """The session of who asks; by asking it a client says that it is still there."""
        own = self._root.sessions.of_link(question.sender)
        turn.answer(question, None if own is None else session_row(own, self._root.config.node))

    def _access_list(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.access_changes.rows())

    def _change_access(self, question: Question, asked: GrantAsked | RevokeAsked, turn: Turn) -> None:
        root = self._root
        change = root.access_changes.record_of(asked, root.folded_to.sequence)
        if isinstance(change, Refusal):
            raise NotAnswered(change)
        is_given = isinstance(change, AccessGranted)
        audited = Audited(
            at_ns=question.moment.wall,
            user=asked.user,
            action="access_granted" if is_given else "access_revoked",
            subject=change.principal,
            detail=f"{change.role if isinstance(change, AccessGranted) else 'role'} at {change.node or 'every node'}",
            principal=question.principal,
        )
        turn.record(Stream.CONTROL, [change])
        end = turn.record(Stream.AUDIT, [audited])
        root.access_changes.appended(end)
        told = AccessChanged(principal=change.principal, node=change.node)
        root.after(end, question.sender, answer_to(question.request_id, told), turn)
