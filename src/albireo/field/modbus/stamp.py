"""Outputs with a stamp (`guard = "stamp"`): a late write of a member that leads no more is seen, and corrected.

The three registers right behind a value say who wrote it last, in one request with the value:

    value...  epoch (high word first)  epoch  count

After each poll the acting member reads its outputs with their stamps. A stamp may be:

    as this member wrote it             well
    an epoch below this member's        overtaken by a late order: case, counted; if this member has set the output, the
                                        value is set again, under a permit, with a new count
    this epoch, another count           its own earlier order landed late: as above, if the later one was confirmed
    an epoch above                      another member leads; nothing is set again
    zero                                the PLC lost it; the value in it is the PLC's own, nothing is set again

An output that this member has not set yet has no value to be set again: the late write is shown, and stays.

Spec: design/pair.md, Guard levels of outputs; ADR-0109.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.field.contract import GOES_ON, ConfigurationError, SendGuard, WriteTenure, Written
from albireo.field.modbus.answers import DataReply, ExceptionReply, NotSent, WriteAnswer
from albireo.field.modbus.items import REGISTERS_MAX, ModbusItem, TableKind
from albireo.field.modbus.output import ModbusOutputs, not_done, verified
from albireo.field.modbus.plan import PlanConfig, plan
from albireo.field.modbus.wire import Wire
from albireo.model.instant import SECOND, Instant

STAMP_REGISTERS: Final = 3
EPOCH_MAX: Final = 0xFFFF_FFFF
WORD_MAX: Final = 0xFFFF
SHOWN_NS: Final = 60 * SECOND
"""Time that the condition holds after the last late order: long enough to be noticed and judged."""

_Stamp = tuple[int, int]
"""(epoch, count)."""
_NEVER_WRITTEN: Final = (0, 0)


class _Set(msgspec.Struct, frozen=True):
    """Value that this member set an output to, in this tenure."""

    wanted: tuple[int, ...]
    stamp: _Stamp
    is_confirmed: bool = False
    """The device answered the write, or showed its stamp. An order without an outcome is never written again."""
    replaced: tuple[_Stamp, ...] = ()
    """Stamps that may have been there before: while the device shows one, the write is not through its cycle."""


class StampedOutputs(ModbusOutputs):
    """One connection's outputs, each with its stamp behind it."""

    def __init__(
        self,
        wire: Wire,
        table: Sequence[ModbusItem],
        registers_max: int,
        now: Callable[[], Instant],
        read_back_s: float = 0.0,
    ) -> None:
        """
        Args:
            read_back_s: longest time until an output shows what was written.

        Raises:
            ConfigurationError: a writable item is none of whole holding registers, or its stamp lies on another item.
        """
        self._wire = wire
        self._now = now
        self._read_back_s = read_back_s
        self._table = [one for one in table if one.item.is_writable]
        if wrong := [text for one in self._table if (text := _unfit(one, table))]:
            raise ConfigurationError("; ".join(wrong))
        stamped = [msgspec.structs.replace(one, words=one.words + STAMP_REGISTERS) for one in self._table]
        self._plan = plan(stamped, PlanConfig(registers_max=max(registers_max, *(one.words for one in stamped), 1)))
        self._tenure = WriteTenure(epoch=0)
        self._count = 0
        self._set: dict[int, _Set] = {}
        self._seen: dict[int, _Stamp] = {}
        self._overtaken: set[int] = set()
        self._shown_until = Instant(0)
        self._late = 0
        self._mended = 0

    def counters(self) -> Mapping[str, int]:
        return {"late_orders_seen": self._late, "outputs_set_again": self._mended}

    def conditions(self) -> Mapping[str, bool]:
        return {"late_order": self._now() < self._shown_until}

    @property
    def needs_mending(self) -> bool:
        return bool(self._overtaken)

    async def lead(self, tenure: WriteTenure) -> str:
        if tenure == self._tenure:
            return GOES_ON
        if not 0 < tenure.epoch <= EPOCH_MAX:
            return f"epoch {tenure.epoch} has no stamp"
        found = await self._stamps()
        if len(found) < len(self._table):
            return "the outputs and their stamps can't be read"
        self._tenure = tenure
        self._set.clear()
        self._overtaken.clear()
        self._seen = found
        # A new run of this adapter under the same epoch must not use a stamp of the run before.
        self._count = max((count for epoch, count in found.values() if epoch == tenure.epoch), default=0)
        return GOES_ON

    async def write(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> Written:
        if not self._tenure.epoch:
            return not_done(NotSent("no epoch is known yet"))
        row = next(row for row, one in enumerate(self._table) if one is item)
        before = self._set.get(row)
        replaced = tuple(one for one in (self._seen.get(row), before and before.stamp) if one)
        new = _Set(tuple(wanted), self._next_stamp(), replaced=replaced)
        answer = await self._stamped(row, new, may_send)
        if isinstance(answer, DataReply):
            if self._is_last(row, new):
                self._set[row] = msgspec.structs.replace(new, is_confirmed=True)
            return await verified(self._wire, item, wanted, self._read_back_s)
        if isinstance(answer, ExceptionReply) and before is not None and self._is_last(row, new):
            self._set[row] = before
        return not_done(answer)

    async def mend(self, may_send: SendGuard) -> None:
        """Set again what was overtaken; what can't be set now is found again by the next look."""
        for row in sorted(self._overtaken):
            known = self._set.get(row)
            self._overtaken.discard(row)
            if known is not None:
                again = msgspec.structs.replace(known, stamp=self._next_stamp())
                self._mended += isinstance(await self._stamped(row, again, may_send, instead_of=known), DataReply)

    def _next_stamp(self) -> _Stamp:
        self._count = self._count % WORD_MAX + 1
        return (self._tenure.epoch, self._count)

    async def _stamped(self, row: int, new: _Set, may_send: SendGuard, instead_of: _Set | None = None) -> WriteAnswer:
        """Value and stamp in one request, if it is still wanted when its turn has come."""
        item, (epoch, count) = self._table[row], new.stamp

        def is_allowed() -> str:
            if self._tenure.epoch != epoch:
                return f"ordered in epoch {epoch}, now it is {self._tenure.epoch}"
            if instead_of is not None and self._set.get(row) is not instead_of:
                return "another order came meanwhile"
            reason = may_send()
            if reason == GOES_ON:
                self._set[row] = new
            return reason

        words = [*new.wanted, epoch >> 16, epoch & WORD_MAX, count]
        return await self._wire.write_registers(item.device_id, item.address, words, is_allowed)

    def _is_last(self, row: int, new: _Set) -> bool:
        """Nothing changed since `new` was sent: neither another order nor another holder."""
        known = self._set.get(row)
        return known is not None and known.stamp == new.stamp

    async def look(self) -> None:
        if not self._tenure.epoch:
            return
        before = {row: known.stamp for row, known in self._set.items()}
        for row, found in (await self._stamps()).items():
            # NB: an order that was sent during the look is none that the look can judge.
            known = self._set.get(row)
            if (known.stamp if known else None) == before.get(row):
                self._judge(row, found)

    async def _stamps(self) -> dict[int, _Stamp]:
        """Stamp of each output that can be read now, by row."""
        image = np.zeros(self._plan.register_count, np.int64)
        read: set[int] = set()
        for block in self._plan.blocks:
            answer = await self._wire.read(TableKind.HOLDING, block.device_id, block.address, block.count)
            if isinstance(answer, DataReply):
                image[block.image_at : block.image_at + block.count] = np.frombuffer(answer.data, ">u2")
                read |= {span.row for span in block.spans}
        at = {row: self._plan.positions[row] + self._table[row].words for row in sorted(read)}
        return {row: (int(image[n]) << 16 | int(image[n + 1]), int(image[n + 2])) for row, n in at.items()}

    def _judge(self, row: int, found: _Stamp) -> None:
        last, known = self._seen.get(row), self._set.get(row)
        self._seen[row] = found
        if known is not None and found == known.stamp:
            self._overtaken.discard(row)
            self._set[row] = msgspec.structs.replace(known, is_confirmed=True, replaced=())
            return
        if known is not None and found in known.replaced:
            return
        if found == _NEVER_WRITTEN or found[0] > self._tenure.epoch:
            self._set.pop(row, None)
            self._overtaken.discard(row)
            return
        is_sure = known is not None and known.is_confirmed
        is_late = is_sure or (last is not None and found[0] < self._tenure.epoch)
        if is_late and found != last:
            self._late += 1
            self._shown_until = Instant(self._now() + SHOWN_NS)
        if is_sure:
            self._overtaken.add(row)


def _unfit(item: ModbusItem, table: Sequence[ModbusItem]) -> str:
    """Why a writable item can't have a stamp; empty: it can."""
    name = item.item.name
    if item.kind is not TableKind.HOLDING or item.bit is not None or item.is_odd_text:
        return f'{name}: guard = "stamp" needs whole holding registers; give the device another guard, or this no write'
    if item.words + STAMP_REGISTERS > REGISTERS_MAX:
        return f"{name}: {item.words} registers and a stamp do not fit into one request"
    end = item.end + STAMP_REGISTERS
    for other in table:
        same = (other.kind, other.device_id) == (item.kind, item.device_id)
        if other is not item and same and other.address < end and other.end > item.address:
            return (
                f"{name}: its stamp is at {item.end}..{end - 1}, where {other.item.name} is; leave these registers free"
            )
    return ""
