"""Bodies of kind `write`: a message becomes an order of this node, and the receipt of the order its end.

The order has the message's name for its command id, so a log that has it says after any takeover what became of it.

Spec: docs/messages.md; ADR-0183.
"""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.orders import WriteAsked
from albireo.machine.fold.commands.commands import Commands
from albireo.machine.kernel.turn import NOBODY, Moment, Question, Turn
from albireo.machine.message.ends import command_id_of, end_of
from albireo.machine.message.events import ExecuteBody, RecoverBody, no_body, rejected
from albireo.machine.orders.write.orders import Orders
from albireo.model.bounded import Signed
from albireo.model.command import Receipt
from albireo.model.instant import MS
from albireo.model.item import KnownItem
from albireo.model.order_text import EXPIRES_MS_MAX, OrderText
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome


class WriteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of a message that orders a write."""

    item: Annotated[OrderText, Meta(min_length=1)]
    """Full or local name at the owner."""
    value: float | Signed | bool | OrderText
    selection: OrderText = ""
    """Id of the selection that the order uses; empty: none."""


def encode_write(item: str, value: float | int | bool | str, selection: str = "") -> bytes:
    return msgspec.msgpack.encode(WriteBody(item, value, selection))


class MessageWrites:
    """Orders that messages gave, in one tenure."""

    def __init__(
        self,
        orders: Orders,
        commands: Commands,
        item_of: Callable[[str], KnownItem | None],
    ) -> None:
        """
        Args:
            item_of: item of a full or local name.
        """
        self._orders = orders
        self._commands = commands
        self._item_of = item_of
        self._names: dict[str, MessageName] = {}
        """Message of each order, by command id."""
        self._unproven: set[MessageName] = set()
        """Messages that an earlier life accepted: what the log lacks may have happened all the same."""

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        """Give the order; returns the end of a message that becomes none."""
        try:
            body = msgspec.msgpack.decode(order.body, type=WriteBody)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(order.kind, error)
        expires_ms = min((order.not_after - moment.now) // MS, EXPIRES_MS_MAX)
        if expires_ms <= 0:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail="never sent")
        command_id, item = command_id_of(order.name), self._item_of(body.item)
        asked = WriteAsked(
            item=body.item,
            value=body.value,
            command_id=command_id,
            user=order.user,
            reason=order.reason,
            expires_ms=expires_ms,
            selection=body.selection,
        )
        self._names[command_id] = order.name
        refusal = self._orders.ask(Question(NOBODY, 0, moment, order.principal), asked, item, turn)
        if refusal is None:
            return None
        del self._names[command_id]
        return rejected(refusal)

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        """End of a message that an earlier tenure accepted; None: its order has none yet."""
        command_id = command_id_of(asked.name)
        if not asked.is_proven:
            self._unproven.add(asked.name)
        state = self._commands.find(command_id)
        if state is None:
            detail = "accepted, and never ordered: this node stopped in between"
            end = MessageEnd(
                outcome=MessageOutcome.EXPIRED, cause=AddCause.ABORTION_BY_COMMUNICATION_LOSS, detail=detail
            )
            return self._proven(asked.name, end)
        if state.receipt is not None:
            return self._proven(asked.name, self._end_of(state.receipt))
        self._names[command_id] = asked.name
        return None

    def message_of(self, command_id: str) -> MessageName | None:
        """Message that gave an order without an end; None: none did."""
        return self._names.get(command_id)

    def finished(self, receipt: Receipt) -> tuple[MessageName, MessageEnd] | None:
        """Message and end that a receipt means; None: no message gave that order."""
        name = self._names.pop(receipt.command_id, None)
        return None if name is None else (name, self._proven(name, self._end_of(receipt)))

    def _end_of(self, receipt: Receipt) -> MessageEnd:
        outcome, cause = end_of(receipt)
        state = self._commands.find(receipt.command_id)
        return MessageEnd(
            outcome=outcome,
            cause=cause,
            detail=receipt.detail,
            read_back=receipt.read_back,
            selected_ns=0 if state is None else state.command.selected_ns,
            ended_ns=receipt.finished_ns,
        )

    def _proven(self, name: MessageName, end: MessageEnd) -> MessageEnd:
        """The end, without a promise that this log can't make."""
        if name in self._unproven and end.outcome.is_promise:
            detail = (
                "this node's store was replaced or not watched meanwhile: look at the device before you order again"
            )
            return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.UNKNOWN, detail=detail)
        return end
