"""Acting on cases of this node, and bodies of kind `case_action`: a message has a case of this node acted upon.

The end of the message is drafted behind the records of the case, so a log that has the one has the other too.

Spec: docs/messages.md; ADR-0224.
"""

from collections.abc import Sequence

import msgspec

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import Audited, CaseChanged, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.message.events import ExecuteBody, RecoverBody, no_body, rejected
from albireo.model.bounded import Count
from albireo.model.case import Action, case_label
from albireo.model.instant import WallTime
from albireo.model.refusal import Refusal
from albireo.model.tree.message import AddCause, MessageOutcome


class CaseActBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that acts on a case."""

    action: Action
    case_id: Count
    activation: Count | None
    duration_ms: Count | None


class CaseActing:
    """Acts on cases of this node; it keeps nothing."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def act(self, asked: ActionAsked, principal: str, wall: WallTime, turn: Turn) -> Sequence[CaseChanged] | Refusal:
        """Record what somebody does about a case, or say why not."""
        changes = self._folds.act(asked, wall)
        if isinstance(changes, Refusal):
            return changes
        if changes:
            turn.record(Stream.CASES, changes)
        audited = Audited(
            at_ns=wall,
            user=asked.user,
            action=asked.action,
            subject=subject_of(asked),
            detail=asked.comment,
            principal=principal,
        )
        turn.record(Stream.AUDIT, [audited])
        return changes

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd:
        """Act on the case as a message says; the end of the message says which it was."""
        try:
            body = msgspec.msgpack.decode(order.body, type=CaseActBody)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(order.kind, error)
        if moment.now >= order.not_after:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail="never begun")
        asked = ActionAsked(
            action=body.action,
            user=order.user,
            comment=order.reason,
            case_id=body.case_id,
            activation=body.activation,
            duration_ms=body.duration_ms,
        )
        done = self.act(asked, order.principal, moment.wall, turn)
        if isinstance(done, Refusal):
            return rejected(done)
        return MessageEnd(outcome=MessageOutcome.EXECUTED, detail=f"{body.action.value} {subject_of(asked)}")

    def recover(self, asked: RecoverBody) -> MessageEnd:
        """End of a message that an earlier tenure accepted, whose own word about it is not in the log."""
        detail = "this node stopped in between; what to do: look at the case before you act again"
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.UNKNOWN, detail=detail)


def encode_act(asked: ActionAsked, case_id: int) -> bytes:
    """Body of the message that such an action becomes."""
    return msgspec.msgpack.encode(CaseActBody(asked.action, case_id, asked.activation, asked.duration_ms))


def subject_of(asked: ActionAsked) -> str:
    """The case as the journal names it."""
    if asked.case_id is not None:
        return f"case {case_label(asked.case_id, asked.activation or 1)}"
    return f"item {asked.item_id} {asked.condition}" if asked.item_id is not None else "all cases"
