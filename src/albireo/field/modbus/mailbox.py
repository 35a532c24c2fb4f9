"""Outputs behind mailboxes (`guard = "plc"`, and `"gate"` with a gate of ours): the guard on the other side refuses an
order of a member that leads no more.

    connected, or PLC restarted --> read status: boot number, guard --> empty order raises the guard --> answered: leads
    order --> one FC16 into the own mailbox --> answer "done" --> read back the item
                                            --> "stale" --> rejected: certainly not applied; lead anew before the next
                                            --> "refused", "unreached" --> rejected; "unknown" --> unknown (of a gate)
                                            --> no answer --> unknown; nothing more until it can't land any more

The boot number is read under this tenure, before each order's own last look at the lease. Raising the guard needs no
lease: whoever leads has a higher epoch, and the PLC refuses ours then.

What it does not do: guard anything. That is the PLC's program (docs/plc/guard.st), or the gate
(field/modbus/gate/gate.py).

Spec: machine/output/mailbox.py; design/pair.md, Guard levels of outputs; ADR-0109, ADR-0126.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.codec.errors import DecodeError
from albireo.field.contract import GOES_ON, ConfigurationError, DeviceLost, SendGuard, WriteTenure, Written
from albireo.field.modbus.answers import DataReply, ExceptionReply, Nonsense, NotSent, Silence
from albireo.field.modbus.items import ModbusItem, RegisterType, TableKind
from albireo.field.modbus.output import ModbusOutputs, not_done, verified
from albireo.field.modbus.wire import Wire
from albireo.machine.output.mailbox import (
    MAILBOX_REGISTERS,
    MEMBERS,
    RAISE_ONLY,
    STATUS_REGISTERS,
    WORD_MAX,
    GuardStatus,
    MailboxOrder,
    Result,
    decode_answer,
    decode_status,
    encode_order,
)
from albireo.model.command import Outcome
from albireo.model.instant import Instant

ANSWER_PAUSE_S: Final = 0.005
"""Between two looks for the PLC's answer: below the scan cycle of most."""
RAISES_MAX: Final = 3
"""Empty orders in one attempt to lead: one that the PLC met half written is answered "bad" and harmless to repeat."""
_AREA: Final = MEMBERS * MAILBOX_REGISTERS + STATUS_REGISTERS


class MailboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the mailboxes, and times to wait."""

    device_id: int
    address: int
    """First register of the 28."""
    answer_ns: int
    """Longest wait for the PLC's program to answer an order."""
    dead_ns: int
    """Time after which an order of a broken connection has landed or never will."""
    read_back_s: float = 0.0
    """Longest time until the item shows what was written."""
    guard: str = "the PLC's guard"
    """Name of whoever answers, in texts for an operator."""


class _Led(msgspec.Struct, frozen=True):
    """State of the PLC when it answered the empty order."""

    tenure: WriteTenure
    boot: int
    count: int
    """Count of the last order in the own mailbox."""


class MailboxOutputs(ModbusOutputs):
    """One PLC's outputs, through the own member's mailbox."""

    def __init__(self, wire: Wire, config: MailboxConfig, table: Sequence[ModbusItem], now: Callable[[], Instant]):
        """
        Raises:
            ConfigurationError: a writable item has no target, or one that 32 bits can't hold.
        """
        self._wire = wire
        self._config = config
        self._now = now
        self._tenure = WriteTenure(epoch=0)
        self._led: _Led | None = None
        self._turn = asyncio.Lock()
        self._is_order_out = False
        """An order has no answer yet."""
        self._quiet_until = Instant(0)
        self._stale = 0
        if wrong := [text for one in table if one.item.is_writable and (text := unfit(one))]:
            raise ConfigurationError("; ".join(wrong))

    def counters(self) -> Mapping[str, int]:
        return {"stale_orders": self._stale}

    def closed(self) -> None:
        self._led = None
        if self._is_order_out:
            self._is_order_out = False
            self._quiet_until = Instant(self._now() + self._config.dead_ns)

    async def lead(self, tenure: WriteTenure) -> str:
        async with self._turn:
            self._tenure = tenure
            return await self._lead()

    async def write(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> Written:
        async with self._turn:
            if reason := await self._lead():
                return not_done(NotSent(reason))
            assert self._led is not None
            assert item.target is not None
            order = MailboxOrder(
                count=_after(self._led.count),
                epoch=self._led.tenure.epoch,
                boot=self._led.boot,
                target=item.target,
                value=value_of(item, wanted),
            )
            answer = await self._ordered(order, may_send)
            if not isinstance(answer, Result):
                return not_done(answer)
            if answer is Result.DONE:
                return await verified(self._wire, item, wanted, self._config.read_back_s)
            passed_on = _PASSED_ON.get(answer)
            return await self._was_refused(answer) if passed_on is None else passed_on

    async def _was_refused(self, answer: Result) -> Written:
        """Certainly not applied. Look why, and lead anew before the next order."""
        led, self._led = self._led, None
        self._stale += answer is Result.STALE
        if answer is Result.BAD:
            detail = f"{self._config.guard} found it damaged, or for a target that it does not have"
        else:
            status = await self._status()
            detail = f"{self._config.guard} refused it"
            if isinstance(status, GuardStatus) and led is not None:
                detail += ": it was restarted" if status.boot != led.boot else f" in favour of epoch {status.guard}"
        return Written(outcome=Outcome.REJECTED, detail=detail)

    async def _lead(self) -> str:
        if self._led is not None and self._led.tenure == self._tenure:
            return GOES_ON
        self._led = None
        if self._tenure.epoch < 1:
            return "no epoch is known yet"
        if self._now() < self._quiet_until:
            return "an earlier order may still be on its way over the connection that broke; order again a little later"
        reason = f"{self._config.guard} does not answer"
        for _ in range(RAISES_MAX):
            area = await self._read(0, _AREA)
            if isinstance(area, str):
                return area
            raised = await self._raised(area)
            if not isinstance(raised, str):
                self._led = raised
                return GOES_ON
            reason = raised
            if raised != self._damaged:
                break
        return reason

    async def _raised(self, area: Sequence[int]) -> _Led | str:
        """Send the empty order that raises the guard; why not, if it did not come to that."""
        box = self._tenure.member * MAILBOX_REGISTERS
        try:
            status = decode_status(area, MEMBERS * MAILBOX_REGISTERS)
        except DecodeError as error:
            return f"the registers at mailbox_address show no guard: {error.reason}"
        count = _after(area[box + 1])
        order = MailboxOrder(count=count, epoch=self._tenure.epoch, boot=status.boot, target=RAISE_ONLY)
        answer = await self._ordered(order, lambda: GOES_ON)
        match answer:
            case Result.DONE:
                return _Led(self._tenure, status.boot, count)
            case Result.STALE:
                self._stale += 1
                return f"{self._config.guard} stands at epoch {status.guard}, this member leads in {self._tenure.epoch}"
            case Result.BAD:
                return self._damaged
            case _:
                return f"{self._config.guard} does not answer"

    @property
    def _damaged(self) -> str:
        return f"{self._config.guard} found the order damaged"

    async def _ordered(
        self, order: MailboxOrder, may_send: SendGuard
    ) -> Result | NotSent | Silence | Nonsense | ExceptionReply:
        """Write the order and wait for its answer; `Silence`: nobody knows what became of it."""
        config = self._config
        address = config.address + self._tenure.member * MAILBOX_REGISTERS
        sent = await self._wire.write_registers(config.device_id, address, encode_order(order), may_send)
        if isinstance(sent, NotSent):
            return sent
        self._is_order_out = not isinstance(sent, ExceptionReply)
        if self._led is not None:
            self._led = msgspec.structs.replace(self._led, count=order.count)
        if not isinstance(sent, DataReply):
            self._given_up()
            return sent
        until = self._now() + config.answer_ns
        while self._now() < until:
            if result := await self._result(order.count):
                self._is_order_out = False
                return result
            await asyncio.sleep(ANSWER_PAUSE_S)
        self._given_up()
        return Silence()

    def _given_up(self) -> None:
        """Without an answer the counts have to be read anew; a lost connection may still deliver the order."""
        self._led = None
        if not self._wire.is_connected:
            self.closed()

    async def _result(self, count: int) -> Result:
        """The answer to order `count`; NONE: not yet."""
        box = await self._read(self._tenure.member * MAILBOX_REGISTERS, MAILBOX_REGISTERS)
        if isinstance(box, str):
            return Result.NONE
        try:
            answer = decode_answer(box)
        except DecodeError:
            return Result.NONE
        return answer.result if answer.done == count and box[1] == count else Result.NONE

    async def _status(self) -> GuardStatus | str:
        words = await self._read(MEMBERS * MAILBOX_REGISTERS, STATUS_REGISTERS)
        if isinstance(words, str):
            return words
        try:
            return decode_status(words)
        except DecodeError as error:
            return error.reason

    async def _read(self, offset: int, count: int) -> list[int] | str:
        config = self._config
        try:
            answer = await self._wire.read(TableKind.HOLDING, config.device_id, config.address + offset, count)
        except DeviceLost as lost:
            return lost.reason
        if isinstance(answer, DataReply):
            return [int(one) for one in np.frombuffer(answer.data, ">u2")]
        text = answer.text if isinstance(answer, ExceptionReply) else "nothing that fits"
        return f"the device answers {text} when its guard is read"


_PASSED_ON: Final = {
    Result.REFUSED: Written(outcome=Outcome.REJECTED, detail="the device behind the gate refused it"),
    Result.UNREACHED: Written(
        outcome=Outcome.REJECTED,
        detail="the gate did not pass it on: the device is away, or an earlier order may still be on its way to it; "
        "order again a little later",
    ),
    Result.UNKNOWN: Written(
        outcome=Outcome.UNKNOWN, detail="the gate passed it on, and nobody knows what became of it"
    ),
}
"""Orders that the guard of a gate let pass, and that were not confirmed."""


def value_of(item: ModbusItem, wanted: Sequence[int]) -> int:
    """The 32 bits of an order: most significant word first, whatever the order of the item's own registers."""
    words = list(wanted)[::-1] if item.is_low_word_first else list(wanted)
    value = 0
    for word in words:
        value = value << 16 | (((word & 0xFF) << 8 | word >> 8) if item.is_byte_swapped else word)
    return value


def words_of(item: ModbusItem, value: int) -> list[int]:
    """Inverse of `value_of`: registers of the item in the device's sequence, or one bit."""
    words = [value >> 16 & WORD_MAX, value & WORD_MAX][-item.words :]
    if item.is_byte_swapped:
        words = [(word & 0xFF) << 8 | word >> 8 for word in words]
    return words[::-1] if item.is_low_word_first else words


def unfit(item: ModbusItem) -> str:
    """Why a writable item can't be reached through a mailbox; empty: it can."""
    if item.target is None:
        return f"{item.item.name}: writable, and a mailbox needs its target; write its number into the item table"
    if item.words > 2 or item.type is RegisterType.STRING:
        return f"{item.item.name}: a mailbox holds 32 bits; make it not writable, or an item of one or two registers"
    return ""


def _after(count: int) -> int:
    """1..65535, never 0."""
    return count % WORD_MAX + 1
