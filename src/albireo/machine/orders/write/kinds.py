"""Kind `write`: an order of a node to one of its items, whose receipt is the end of the message that gave it.

The order has the message's name for its command id, so a log that has it says after any takeover what became of it.

Spec: docs/messages.md; ADR-0183.
"""

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.orders import WRITE as QUESTION_WRITE
from albireo.codec.questions.orders import WriteAsked
from albireo.codec.record import CommandAccepted
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.message.ends import command_id_of, end_of, receipt_of
from albireo.machine.message.events import ExecuteBody, RecoverBody
from albireo.machine.message.post import ReceiptTold
from albireo.machine.orders.kind import ItemOrder, OrderAtOwner
from albireo.machine.orders.places import Aim
from albireo.machine.orders.write.orders import Orders, refusal_of_write
from albireo.model.bounded import Signed
from albireo.model.command import Receipt
from albireo.model.order_text import OrderText
from albireo.model.refusal import Refusal
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome
from albireo.model.value import value_text


class WriteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of a message that orders a write."""

    item: Annotated[OrderText, Meta(min_length=1)]
    """Full or local name at the owner."""
    value: float | Signed | bool | OrderText
    selection: OrderText = ""
    """Id of the selection that the order uses; empty: none."""


class WriteRoot(Protocol):
    """The root machine, as far as writes need it."""

    folds: Folds
    orders: Orders
    registry: Registry


class Write(ItemOrder[WriteAsked, WriteBody]):
    """Its end comes later: the receipt of the order."""

    question = QUESTION_WRITE
    body = WriteBody
    too_late = "never sent"
    is_done_at_once = False

    def __init__(self, root: WriteRoot) -> None:
        self._root = root
        self._names: dict[str, MessageName] = {}
        """Message of each order, by command id."""
        self._unproven: set[MessageName] = set()
        """Messages that an earlier life accepted: what the log lacks may have happened all the same."""

    def begin_afresh(self) -> None:
        self._names.clear()
        self._unproven.clear()

    def refusal(self, asked: WriteAsked, aim: Aim) -> Refusal | None:
        return refusal_of_write(asked, None if aim.mirror is None else aim.mirror.dim.by_name(aim.full_name))

    def id_of(self, asked: WriteAsked) -> str:
        return asked.command_id

    def expires_ms_of(self, asked: WriteAsked) -> int:
        return asked.expires_ms

    def body_of(self, asked: WriteAsked, aim: Aim) -> WriteBody:
        return WriteBody(aim.name, asked.value, asked.selection)

    def subject(self, asked: WriteAsked, aim: Aim) -> str:
        return f"{aim.full_name} = {value_text(asked.value)}"

    def teller(self, question: Question, asked: WriteAsked, aim: Aim) -> ReceiptTold:
        return write_told

    def do(self, order: OrderAtOwner[WriteBody], turn: Turn) -> Refusal | None:
        body = order.body
        asked = WriteAsked(
            item=body.item,
            value=body.value,
            command_id=order.command_id,
            user=order.user,
            reason=order.reason,
            expires_ms=order.expires_ms,
            selection=body.selection,
        )
        return self._root.orders.ask(order.question, asked, self._root.registry.item(body.item), turn)

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd | None:
        end = super().execute(order, moment, turn)
        if end is None:
            self._names[command_id_of(order.name)] = order.name
        return end

    def recover(self, asked: RecoverBody) -> MessageEnd | None:
        command_id = command_id_of(asked.name)
        if not asked.is_proven:
            self._unproven.add(asked.name)
        state = self._root.folds.commands.find(command_id)
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

    def begun(self, record: CommandAccepted) -> MessageName | None:
        return self._names.get(record.command_id)

    def finished(self, receipt: Receipt) -> tuple[MessageName, MessageEnd] | None:
        name = self._names.pop(receipt.command_id, None)
        return None if name is None else (name, self._proven(name, self._end_of(receipt)))

    def _end_of(self, receipt: Receipt) -> MessageEnd:
        outcome, cause = end_of(receipt)
        state = self._root.folds.commands.find(receipt.command_id)
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


def write_told(receipt: MessageReceipt) -> object:
    """The receipt that orders have, of the message that carried one."""
    return msgspec.to_builtins(receipt_of(receipt)) | {"cause": receipt.end.cause.value}
