"""Roles that a question needs besides the one of its name: at another node, or over what is somebody else's."""

import msgspec

from albireo.codec.record import Audited, Stream
from albireo.machine.access.judge import AccessJudge
from albireo.machine.kernel.turn import NotAnswered, Question, Turn
from albireo.model.access import AccessRole


class RoleNeeded(msgspec.Struct, frozen=True):
    """Role that an order needs at its owner; whoever asks is judged where it is asked."""

    node: str
    """Node at which the role is needed."""
    subject: str
    """Words for the order."""
    user: str
    """Who was claimed to ask."""
    role: AccessRole = AccessRole.OPERATE


def check_role(access: AccessJudge, question: Question, needed: RoleNeeded, turn: Turn) -> None:
    """Let whoever asks give the order, if its role suffices; a refusal is on record like each other one.

    Raises:
        NotAnswered: it does not.
    """
    lacking = (one for one in (question.principal, question.speaker) if access.role_at(one, needed.node) < needed.role)
    principal = next(lacking, None)
    if principal is None:
        return
    moment = question.moment
    refused = access.refused_at(
        needed.node, principal, needed.subject, needed.role, needed.user, moment.now, moment.wall, question.speaker
    )
    put_on_record(refused.entry, turn)
    raise NotAnswered(refused.refusal)


def put_on_record(entry: Audited | None, turn: Turn, *, is_open: bool = True) -> None:
    """Put a refusal for want of a role on record and into the structured log. `is_open`: records are taken."""
    if entry is None:
        return
    turn.note("warning", "access_refused", principal=entry.principal, subject=entry.subject)
    if is_open:
        turn.record(Stream.AUDIT, [entry])
