"""Orders: the way of a command from its request to its receipt.

The steps are records of the `commands` fold; this machine decides which record comes next and sends the one order that
belongs to it. Who waits for an answer is kept beside it (command_waiters.py): a restart loses the waiting, never the
command. A command that was not accepted before the restart expires: log time, by which it would run out, stood still
meanwhile.

    asked -> refused at once (unknown item, not writable, not selected, out of range, too many)
          -> CommandRequested --committed, owner connected--> CommandAccepted --committed--> WriteOrder
          -> WriteDone from the owner -> CommandFinished --committed--> answer
    taken back before CommandAccepted -> CommandFinished(rejected, cause abortion-by-cancel)

Spec: docs/ARCHITECTURE.md, walk 2.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.codec.message import WriteDone, WriteOrder
from albireo.codec.questions.orders import WriteAsked
from albireo.codec.record import Audited, CommandAccepted, CommandFinished, CommandRequested, Record, Stream
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.commands.commands import OPEN_MAX, CommandState
from albireo.machine.fold.commands.selections import SelectionWatch
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.orders.selection.selecting import Selecting, not_selected, not_writable
from albireo.machine.orders.write.command_waiters import LATE_NS, WAITING_MAX, CommandWaiters, OrderTold
from albireo.model.command import Command, Outcome, Receipt
from albireo.model.instant import MS, Instant, LogTime
from albireo.model.item import Control, DataItem, KnownItem
from albireo.model.order_text import EXPIRES_MS_MAX, TEXT_CHARS_MAX
from albireo.model.principal import may_be_one
from albireo.model.refusal import Refusal, RefusalCode, id_reused, no_item
from albireo.model.tree.message import AddCause
from albireo.model.value import Value, ValueType


class Orders(RootPart):
    """The machine around the fold of commands."""

    def __init__(self, folds: Folds, registry: Registry, waiters: CommandWaiters, watch: SelectionWatch) -> None:
        self.commands = folds.commands
        self.selecting = Selecting(folds, registry, watch)
        self._folds = folds
        self._dim = folds.dim
        self._waiters = waiters
        waiters.led = self.commands
        self._accepting: set[str] = set()
        """Commands whose `accepted` is appended and not yet committed: it must not be appended twice."""
        self._finishing: set[str] = set()
        self._cancelled: set[str] = set()
        """Commands that were taken back before anything was accepted, until their receipt is committed."""
        self._asked: dict[str, int] = {}
        """Item of each command that was taken in this tenure and is not finished, on record already or not."""

    def items_ordered(self) -> set[int]:
        """Ids of the items of unfinished commands."""
        return self.commands.items_ordered() | set(self._asked.values())

    def ask(self, question: Question, asked: WriteAsked, item: KnownItem | None, turn: Turn) -> Refusal | None:
        """Take a request, or say why not. The same order again is answered with what became of it."""
        sender, request_id, moment = question.sender, question.request_id, question.moment
        known = self.commands.find(asked.command_id)
        earlier = self._waiters.command(asked.command_id) if known is None else known.command
        if earlier is not None and (other := _difference(earlier, asked, item, question.principal)):
            return id_reused(asked.command_id, other)
        if known is not None and known.receipt is not None:
            turn.answer(question, known.receipt)
            return None
        due = Instant(moment.now + min(max(asked.expires_ms, 0), EXPIRES_MS_MAX) * MS + LATE_NS)
        if earlier is not None:
            is_heard = self._waiters.wait(earlier, sender, request_id, due)
            return None if is_heard else _WAITED_FOR
        is_full = max(self.commands.open_count, len(self._waiters)) >= OPEN_MAX
        refusal = _TOO_MANY if is_full else refusal_of_write(asked, item)
        if refusal is not None or item is None:
            return refusal or no_item(asked.item)
        refusal = self.selecting.refusal_of_order(item, asked.selection, question.principal, moment.now)
        if refusal is not None:
            return refusal
        command = _command(asked, item, question.principal, moment)
        self._waiters.wait(command, sender, request_id, due)
        self._request(command, item, asked, moment, turn)
        return None

    def knows(self, command_id: str) -> bool:
        """True: the id names an order to an item of this node."""
        return self.commands.find(command_id) is not None or self._waiters.command(command_id) is not None

    def _request(self, command: Command, item: KnownItem, asked: WriteAsked, moment: Moment, turn: Turn) -> None:
        self._asked[command.command_id] = command.item_id
        records: list[Record] = []
        if (used := self.selecting.operate(item)) is not None:
            records, command = [used[0]], msgspec.structs.replace(command, selected_ns=used[1])
        turn.record(Stream.COMMAND, [*records, CommandRequested(command=command)])
        self._audit("write", command, item.item.worded(command.value), asked.reason, moment, turn)

    def _audit(self, action: str, command: Command, what: str, why: str, moment: Moment, turn: Turn) -> None:
        """Append an entry for the event journal: the log lets go of its commands, and nobody else stores them."""
        item = self._dim.by_id(command.item_id)
        audited = Audited(
            at_ns=moment.wall,
            user=command.user,
            action=action,
            subject="" if item is None else item.full_name,
            detail=f"{what} [{command.command_id}]" + (f": {why}" if why else ""),
            principal=command.principal,
        )
        turn.record(Stream.AUDIT, [audited])

    def restarted(self, log_time: LogTime, moment: Moment, turn: Turn) -> None:
        """Expire what was not accepted before this tenure, because nobody can tell how long nobody served."""
        self.selecting.begin(moment, log_time)
        for state in self.commands.waiting():
            detail = "never sent: the node restarted before the adapter that owns the item took it"
            receipt = Receipt(command_id=state.command.command_id, outcome=Outcome.EXPIRED, detail=detail)
            self._finish(receipt, moment, turn)

    def cancel(self, question: Question, command_id: str, turn: Turn, told: OrderTold) -> Refusal | None:
        """Take an order back if it was not accepted yet, and answer with what became of it once that is committed.

        An order that is accepted goes on: its outcome is the answer.
        """
        state = self.commands.find(command_id)
        command = self._waiters.command(command_id) if state is None else state.command
        if command is None:
            return Refusal(RefusalCode.UNKNOWN_NAME, f"no order {command_id!r} is open")
        due = Instant(question.moment.now + min(max(command.expires_ms, 0), EXPIRES_MS_MAX) * MS + LATE_NS)
        if not self._waiters.wait(command, question.sender, question.request_id, due, told):
            return _WAITED_FOR
        is_accepted = state is not None and state.accepted_epoch
        if not is_accepted and command_id not in self._accepting and command_id not in self._finishing:
            self._cancelled.add(command_id)
            self._end_cancelled(question.moment, turn)
        return None

    def _end_cancelled(self, moment: Moment, turn: Turn) -> None:
        """Finish what was taken back, as soon as it is on record that it was asked for."""
        for state in self.commands.waiting() if self._cancelled else ():
            command_id = state.command.command_id
            if command_id in self._cancelled:
                detail, cause = "cancelled: never sent, and never will be", AddCause.ABORTION_BY_CANCEL.value
                receipt = Receipt(command_id=command_id, outcome=Outcome.REJECTED, detail=detail, cause=cause)
                self._finish(receipt, moment, turn)

    def accept(self, takes_orders: Callable[[int], bool], turn: Turn) -> None:
        """Append "accepted" for every waiting command whose owner is there.

        Args:
            takes_orders: whether the adapter of this item id takes orders now.
        """
        for state in self.commands.waiting():
            command = state.command
            is_held = any(command.command_id in one for one in (self._accepting, self._finishing, self._cancelled))
            if not is_held and takes_orders(command.item_id):
                self._accepting.add(command.command_id)
                turn.record(Stream.COMMAND, [CommandAccepted(command_id=command.command_id)])

    def accepted(self, state: CommandState, owner: bytes, not_after: int, turn: Turn) -> None:
        """Send the one order, as `CommandAccepted` is committed; it is not to be carried out after `not_after`."""
        command = state.command
        self._accepting.discard(command.command_id)
        order = WriteOrder(
            command_id=command.command_id,
            item_id=command.item_id,
            value=command.value,
            epoch=turn.epoch,
            not_after=not_after,
        )
        turn.send(owner, order)

    def never_sent(self, command_id: str, outcome: Outcome, why: str, moment: Moment, turn: Turn) -> None:
        """End a command that was accepted, and whose order did not leave and will not any more."""
        self._finish(Receipt(command_id=command_id, outcome=outcome, detail=f"never sent: {why}"), moment, turn)

    def done(self, message: WriteDone, moment: Moment, turn: Turn) -> None:
        """Record what the owner says became of its order."""
        self._finish(message.receipt, moment, turn)

    def followed(self, now: Footing, turn: Turn) -> None:
        self._waiters.end_known(self.commands, turn)
        self.selecting.followed(now.moment.now)

    def consequences(self, now: Footing, turn: Turn) -> None:
        """Finish what time alone ends, as expired or unknown, and what was taken back; end selections."""
        self.selecting.go_on(now.moment, turn, is_open=now.is_open)
        self._end_cancelled(now.moment, turn)
        for receipt in self.commands.overdue(LogTime(self._folds.log_time_ms * MS)):
            self._finish(receipt, now.moment, turn)

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        for one in records:
            if isinstance(one, CommandFinished):
                self.finished(one.receipt, turn)

    def _finish(self, receipt: Receipt, moment: Moment, turn: Turn) -> None:
        state = self.commands.find(receipt.command_id)
        if state is None or state.receipt is not None or receipt.command_id in self._finishing:
            return
        receipt = _recordable(receipt, moment)
        self._finishing.add(receipt.command_id)
        turn.record(Stream.COMMAND, [CommandFinished(receipt=receipt)])
        self._audit("write_ended", state.command, str(receipt.outcome), receipt.detail, moment, turn)

    def finished(self, receipt: Receipt, turn: Turn) -> None:
        """Answer everybody who waits, as `CommandFinished` is committed."""
        self._accepting.discard(receipt.command_id)
        self._finishing.discard(receipt.command_id)
        self._cancelled.discard(receipt.command_id)
        self._asked.pop(receipt.command_id, None)
        self._waiters.answer(receipt, turn)


def _command(asked: WriteAsked, item: KnownItem, principal: str, moment: Moment) -> Command:
    return Command(
        command_id=asked.command_id,
        item_id=item.item_id,
        value=coerced(asked.value, item.item.value_type),
        user=asked.user,
        reason=asked.reason,
        requested_ns=moment.wall,
        expires_ms=asked.expires_ms,
        principal=principal,
    )


_TOO_MANY: Final = Refusal(RefusalCode.BUSY, f"{OPEN_MAX} commands are on their way already", "wait for some to finish")
_WAITED_FOR: Final = Refusal(
    RefusalCode.BUSY, f"{WAITING_MAX} questions wait for this command already", "wait for an answer"
)


def _difference(earlier: Command, asked: WriteAsked, item: KnownItem | None, principal: str) -> str:
    """Part of an order that differs from the earlier one of the same id, as a word; empty: it is the same order."""
    if item is None or item.item_id != earlier.item_id:
        return "item"
    if not _is_equal(asked.value, earlier.value):
        return "value"
    return "" if may_be_one(earlier.principal, principal) else "principal"


def _is_equal(asked: Value, recorded: Value) -> bool:
    """True: the value that is asked for is the recorded one, which has the type of its item."""
    if isinstance(asked, str) or isinstance(recorded, str):
        return asked == recorded
    return (float(asked) if isinstance(recorded, float) else asked) == recorded


def _recordable(receipt: Receipt, moment: Moment) -> Receipt:
    """The receipt with what its writer left open, and nothing that a record may not have."""
    read_back = receipt.read_back
    return msgspec.structs.replace(
        receipt,
        outcome=receipt.outcome if receipt.outcome.is_final else Outcome.UNKNOWN,
        finished_ns=receipt.finished_ns or moment.wall,
        detail=receipt.detail[:TEXT_CHARS_MAX],
        ack_guid=receipt.ack_guid[:TEXT_CHARS_MAX],
        read_back=read_back[:TEXT_CHARS_MAX] if isinstance(read_back, str) else read_back,
        cause=receipt.cause if receipt.cause in _CAUSES else "",
    )


_CAUSES: Final = frozenset(one.value for one in AddCause)


def refusal_of_write(asked: WriteAsked, known: KnownItem | None) -> Refusal | None:
    """Reason why this order can't be meant; None: there is none."""
    if known is None:
        return no_item(asked.item)
    item = known.item
    if not item.is_writable:
        return not_writable(item)
    if item.control is Control.SELECT and not asked.selection:
        return not_selected(item.name, was_named=False)
    if not 0 < asked.expires_ms <= EXPIRES_MS_MAX:
        return Refusal(RefusalCode.BAD_VALUE, f"expires_ms must be within 1..{EXPIRES_MS_MAX}")
    if (refusal := refusal_of_value(item, asked.value)) is not None:
        return refusal
    beyond = item.out_of_range(asked.value)
    return Refusal(RefusalCode.BAD_VALUE, f"{beyond} of {item.name}") if beyond else None


def refusal_of_value(item: DataItem, value: Value) -> Refusal | None:
    """Reason why a value is none of this item's type; None: it is."""
    types: dict[ValueType, type | tuple[type, ...]] = {
        ValueType.FLOAT64: (int, float),
        ValueType.INT64: int,
        ValueType.BOOL: (bool, int),
        ValueType.STRING: str,
    }
    wanted = types[item.value_type]
    if not isinstance(value, wanted) or (isinstance(value, bool) and item.value_type is not ValueType.BOOL):
        cause = f"{item.name} takes {item.value_type.name.lower()}, not {value!r}"
    elif isinstance(value, float) and not math.isfinite(value):
        cause = f"{value} is not a value that can be written"
    elif item.value_type is ValueType.BOOL and value not in (0, 1):
        cause = f"{item.name} takes true or false, not {value!r}"
    else:
        return None
    return Refusal(RefusalCode.BAD_VALUE, cause)


def coerced(value: Value, value_type: ValueType) -> Value:
    """The value as an item of this type has it; there is no objection to it."""
    if value_type is ValueType.FLOAT64:
        return float(value)
    return bool(value) if value_type is ValueType.BOOL else value
