"""Plain outputs: one item written with read-back. A late order is kept away by time alone (`guard = "lease"`), or by a
gate of others on the only path to the device (`guard = "gate"`); both need nothing here. Our own gate writes this way.

Also what all guard levels share: the registers of a value, and what an answer to a write means.

Spec: design/pair.md, Guard levels of outputs; docs/adapters/modbus.md, Writing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from albireo.field.contract import GOES_ON, DeviceLost, SendGuard, WriteTenure, Written
from albireo.field.modbus.answers import (
    BUSY,
    DataReply,
    ExceptionCode,
    ExceptionReply,
    Nonsense,
    NotSent,
    Silence,
    WriteAnswer,
)
from albireo.field.modbus.decode import Unencodable, decode_one, encode_one
from albireo.field.modbus.items import ModbusItem, RegisterType, TableKind
from albireo.field.modbus.scaling import UNSCALED
from albireo.field.modbus.wire import DeviceUnreachable, Wire
from albireo.model.command import Outcome
from albireo.model.value import Value

READ_BACK_PAUSE_S: Final = 0.05
"""A PLC takes a written value over at the end of its cycle, other devices after seconds: so much later it is looked at
again, then after twice as long, and so on."""
READ_BACK_PAUSE_S_MAX: Final = 0.5

_MAYBE_DONE: Final = (ExceptionCode.DEVICE_FAILURE, ExceptionCode.ACKNOWLEDGE, ExceptionCode.GATEWAY_TARGET_SILENT)
"""Exceptions after which a write may have taken effect (V1.1b3, 7: "while ... attempting to perform", "in process")."""


class ModbusOutputs(Protocol):
    """Writer of one connection's items; each guard level has its own. One that only writes needs nothing else."""

    async def write(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> Written:
        """`wanted`: registers of the item as the device orders them, or one bit. See `Adapter.write`."""
        ...

    async def lead(self, tenure: WriteTenure) -> str:
        """See `PairAdapter.lead`."""
        return GOES_ON

    async def look(self) -> None:
        """After each poll: see what others wrote.

        Raises:
            DeviceLost: the connection is gone.
        """
        return None

    async def mend(self, may_send: SendGuard) -> None:
        """See `PairAdapter.mend`."""
        return None

    @property
    def needs_mending(self) -> bool:
        return False

    def closed(self) -> None:
        """The connection has ended; answers that were waited for never come."""
        return None

    def counters(self) -> Mapping[str, int]:
        return {}

    def conditions(self) -> Mapping[str, bool]:
        return {}


class PlainOutputs(ModbusOutputs):
    """A write is a write; nothing refuses it."""

    def __init__(self, wire: Wire, read_back_s: float = 0.0) -> None:
        self._wire = wire
        self._read_back_s = read_back_s

    async def write(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> Written:
        answer = await self.send(item, wanted, may_send)
        if not isinstance(answer, DataReply):
            return not_done(answer)
        return await verified(self._wire, item, wanted, self._read_back_s)

    async def send(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> WriteAnswer:
        """Write without read-back."""
        if item.kind is TableKind.COIL:
            return await self._wire.write_coil(item.device_id, item.address, bool(wanted[0]), may_send)
        if item.bit is not None:
            bit = item.bit ^ 8 if item.is_byte_swapped else item.bit
            mask, value = 1 << bit, 0xFFFF if wanted[0] else 0
            return await self._wire.write_masked(item.device_id, item.address, mask, value, may_send)
        if item.is_odd_text:
            return await self._send_odd_text(item, wanted, may_send)
        return await self._wire.write_registers(item.device_id, item.address, wanted, may_send)

    async def _send_odd_text(self, item: ModbusItem, wanted: Sequence[int], may_send: SendGuard) -> WriteAnswer:
        """The register of the last character first: half of it is another's, and a device that lacks function 22 is
        found out before anything was written."""
        at, address = (0 if item.is_low_word_first else item.words - 1), item.address
        mask = 0x00FF if item.is_byte_swapped else 0xFF00
        answer = await self._wire.write_masked(item.device_id, address + at, mask, wanted[at], may_send)
        rest = [*wanted[:at], *wanted[at + 1 :]]
        if not isinstance(answer, DataReply) or not rest:
            return answer
        answer = await self._wire.write_registers(item.device_id, address + (at == 0), rest, may_send)
        return answer if isinstance(answer, DataReply) else Nonsense("only the last character was confirmed")


def registers_of(item: ModbusItem, value: Value) -> list[int]:
    """Registers that stand for `value` in the device.

    Raises:
        Unencodable: it does not fit the item.
    """
    if item.kind is not TableKind.HOLDING:
        if isinstance(value, str):
            raise Unencodable(f"a switch is wanted, not {value!r}")
        return [1 if value else 0]
    return encode_one(item, value)


def not_done(answer: NotSent | Silence | Nonsense | ExceptionReply) -> Written:
    """Result of a write that the device did not confirm."""
    match answer:
        case NotSent():
            return Written(outcome=Outcome.REJECTED, detail=f"never sent: {answer.reason}")
        case Silence():
            return Written(outcome=Outcome.UNKNOWN, detail="sent, and the device did not answer")
        case Nonsense():
            return Written(outcome=Outcome.UNKNOWN, detail=f"sent, and the answer fits not: {answer.reason}")
        case ExceptionReply():
            outcome = Outcome.UNKNOWN if answer.code in _MAYBE_DONE else Outcome.REJECTED
            return Written(outcome=outcome, detail=f"the device answered {answer.text}")


async def verified(wire: Wire, item: ModbusItem, wanted: Sequence[int], longest_s: float) -> Written:
    """Read back what was written, until it is there or `longest_s` have passed."""
    read_back: Value | None = None
    for pause_s in _pauses(longest_s):
        await asyncio.sleep(pause_s)
        try:
            answer = await wire.read(item.kind, item.device_id, item.address, item.words)
        except DeviceUnreachable:
            answer = Silence()
        except DeviceLost:
            continue  # The next look makes a new connection, where that may be.
        if isinstance(answer, ExceptionReply) and answer.code in BUSY:
            continue
        if not isinstance(answer, DataReply):
            return Written(outcome=Outcome.EXECUTED, detail="the device confirmed it, but gives no read-back")
        found = _found(item, answer.data)
        read_back = held_by(item, found)
        if _is_as_wanted(item, wanted, found):
            return Written(outcome=Outcome.VERIFIED, read_back=read_back)
    if read_back is None:
        return Written(
            outcome=Outcome.EXECUTED, detail="the device confirmed it, and hangs up or is busy when read back"
        )
    return Written(outcome=Outcome.MISMATCHED, detail=f"read back {read_back!r}", read_back=read_back)


def _pauses(longest_s: float) -> Iterator[float]:
    """Pauses before each look, the first one 0; together `longest_s`."""
    yield 0.0
    pause_s = READ_BACK_PAUSE_S
    while longest_s > 0:
        yield min(pause_s, longest_s)
        longest_s -= pause_s
        pause_s = min(2 * pause_s, READ_BACK_PAUSE_S_MAX)


def _found(item: ModbusItem, data: bytes) -> list[int]:
    """Registers of a read-back, or the one bit."""
    return [data[0] & 1] if item.kind is TableKind.COIL else [int(one) for one in np.frombuffer(data, ">u2")]


def held_by(item: ModbusItem, registers: Sequence[int]) -> Value:
    """Value that registers, or one bit, hold in engineering units."""
    return bool(registers[0]) if item.kind is TableKind.COIL else decode_one(item, registers)


def _is_as_wanted(item: ModbusItem, wanted: Sequence[int], found: Sequence[int]) -> bool:
    """Whether the device holds what was written: the coil, the one bit, the truth, the text up to its end, the number.

    Numbers are compared as registers: a float that was rounded on its way in is still the same registers, and the
    largest integers are told apart, which engineering units do not.
    """
    match item.type:
        case RegisterType.BOOL:
            # NB: what is wanted of one bit is told as a whole register; the bits beside it are not ours.
            return held_by(item, found) == any(wanted)
        case RegisterType.STRING:
            return held_by(item, found) == held_by(item, wanted)
        case RegisterType.FLOAT32 | RegisterType.FLOAT64:
            plain = msgspec.structs.replace(item, scaling=UNSCALED)
            return decode_one(plain, found) == decode_one(plain, wanted)  # A zero has two signs.
        case _:
            return list(found) == list(wanted)
