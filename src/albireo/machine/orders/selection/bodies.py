"""Bodies of kind `select` and `deselect`: a message selects an item of this node for an order, or gives that back.

The end of the message is drafted behind the records of the selection, so a log with the end has the selection too.

Spec: docs/messages.md; ADR-0209.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.codec.message_records import MessageEnd
from albireo.machine.kernel.turn import NOBODY, Moment, Question, Turn
from albireo.machine.message.events import ExecuteBody, RecoverBody, no_body, rejected
from albireo.machine.orders.selection.selecting import EndedBy, Selecting, SelectionWanted
from albireo.model.bounded import Signed
from albireo.model.order_text import OrderText
from albireo.model.refusal import Refusal
from albireo.model.tree.message import DESELECT, SELECT, AddCause, MessageOutcome

Id = Annotated[OrderText, Meta(min_length=1)]


class SelectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that selects an item."""

    item: Id
    """Full or local name at the owner."""
    selection_id: Id
    for_ms: Signed


class DeselectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that gives a selection back."""

    item: Id
    selection_id: Id
    of_others: bool = False
    """True: an admin ends it, whoever has it. The role was judged where it was asked."""


def encode_selection(body: SelectBody | DeselectBody) -> tuple[str, bytes]:
    """Kind and bytes of the message with this body."""
    return SELECT if isinstance(body, SelectBody) else DESELECT, msgspec.msgpack.encode(body)


class MessageSelections:
    """Selections that messages order; it keeps nothing."""

    def __init__(self, selecting: Selecting) -> None:
        self._selecting = selecting

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd:
        """Select the item, or give the selection back; the end of the message says which it was."""
        try:
            body = _decoded(order.kind, order.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(order.kind, error)
        if moment.now >= order.not_after:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail="never begun")
        question = Question(NOBODY, 0, moment, order.principal)
        if isinstance(body, DeselectBody):
            ended_by = EndedBy(order.user, order.reason) if body.of_others else None
            done: object = self._selecting.release(question, body.item, body.selection_id, turn, ended_by)
        else:
            wanted = SelectionWanted(
                item=body.item,
                selection_id=body.selection_id,
                for_ms=body.for_ms,
                user=order.user,
                reason=order.reason,
            )
            done = self._selecting.ask(question, wanted, turn)
        if isinstance(done, Refusal):
            return rejected(done)
        return MessageEnd(outcome=MessageOutcome.EXECUTED, detail=f"{order.kind}ed")

    def recover(self, asked: RecoverBody) -> MessageEnd:
        """End of a message that an earlier tenure accepted, whose own word about it is not in the log.

        Nobody waits for it any more, and what it may have selected ends by itself.
        """
        detail = "this node stopped in between; what to do: select the item again"
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.ABORTION_BY_COMMUNICATION_LOSS, detail=detail)


def _decoded(kind: str, body: bytes) -> SelectBody | DeselectBody:
    shape: type[SelectBody] | type[DeselectBody] = SelectBody if kind == SELECT else DeselectBody
    return msgspec.msgpack.decode(body, type=shape)
