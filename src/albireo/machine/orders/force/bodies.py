"""Bodies of kind `force` and `force_release`: a message forces an item of this node, or ends that.

The end of the message is drafted behind the records of the force, so a log that has the end has the force too. A force
bears the message's name, so a later tenure knows it again.

Spec: docs/messages.md; ADR-0195.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.orders import ItemForceAsked, ReleaseAsked
from albireo.machine.fold.items.forces import Forces
from albireo.machine.kernel.turn import NOBODY, Moment, Question, Turn
from albireo.machine.message.ends import command_id_of
from albireo.machine.message.events import ExecuteBody, RecoverBody, no_body, rejected
from albireo.machine.orders.force.forcing import Forcing
from albireo.model.bounded import Signed
from albireo.model.order_text import OrderText
from albireo.model.refusal import Refusal
from albireo.model.tree.message import FORCE, FORCE_RELEASE, AddCause, MessageOutcome


class ForceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that forces an item."""

    item: Annotated[OrderText, Meta(min_length=1)]
    """Full or local name at the owner."""
    value: float | Signed | bool | OrderText
    for_ms: Signed


class ReleaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that ends the force of an item."""

    item: Annotated[OrderText, Meta(min_length=1)]


def encode_force(asked: ItemForceAsked | ReleaseAsked, local: str) -> tuple[str, bytes]:
    """Kind and body of the message that such an order becomes."""
    if isinstance(asked, ReleaseAsked):
        return FORCE_RELEASE, msgspec.msgpack.encode(ReleaseBody(local))
    return FORCE, msgspec.msgpack.encode(ForceBody(local, asked.value, asked.for_ms))


class MessageForces:
    """Forces that messages order; it keeps nothing."""

    def __init__(self, forcing: Forcing, forces: Forces) -> None:
        self._forcing = forcing
        self._forces = forces

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd:
        """Force the item, or release it; the end of the message says which it was."""
        body: ForceBody | ReleaseBody
        try:
            if order.kind == FORCE:
                body = msgspec.msgpack.decode(order.body, type=ForceBody)
            else:
                body = msgspec.msgpack.decode(order.body, type=ReleaseBody)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(order.kind, error)
        if moment.now >= order.not_after:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail="never begun")
        question = Question(NOBODY, 0, moment, order.principal)
        if isinstance(body, ReleaseBody):
            released = ReleaseAsked(item=body.item, reason=order.reason, user=order.user)
            done = self._forcing.release(question, released, turn)
            if isinstance(done, Refusal):
                return rejected(done)
            return MessageEnd(outcome=MessageOutcome.EXECUTED, detail="released")
        forced = ItemForceAsked(
            item=body.item, value=body.value, for_ms=body.for_ms, reason=order.reason, user=order.user
        )
        row = self._forcing.ask(question, forced, turn, command_id_of(order.name))
        if isinstance(row, Refusal):
            return rejected(row)
        return MessageEnd(outcome=MessageOutcome.EXECUTED, detail="forced", read_back=row.value)

    def recover(self, asked: RecoverBody) -> MessageEnd:
        """End of a message that an earlier tenure accepted, whose own word about it is not in the log."""
        command_id = command_id_of(asked.name)
        for force in self._forces:
            if force.command_id == command_id:
                return MessageEnd(outcome=MessageOutcome.EXECUTED, detail="forced", read_back=force.value)
        detail = "this node stopped in between; what to do: look at `albireo forces` before you order again"
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.UNKNOWN, detail=detail)
