"""One connection to the registers of a PLC voter, for the commissioning test; and a write that nobody waits for.

Every address is counted from the first of the 64 registers, and nothing outside them can be written through here.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.field.contract import GOES_ON, DeviceLost
from albireo.field.modbus.answers import DataReply, ExceptionReply, NotSent, Silence, WriteAnswer
from albireo.field.modbus.config import VOTER_REGISTERS
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.wire import Address, Wire
from albireo.runtime.link.names import NAMES

TAKEN_S: Final = 0.5
"""Longest wait until the device's TCP has taken a request: a LAN needs 1 ms."""
_TAKEN_PAUSE_S: Final = 0.001
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_WRITE_REGISTERS: Final = 16


class VoterPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the registers."""

    address: Address
    device_id: int
    first: int
    timeout_ns: int
    """Longest wait for one answer."""


class UnfitVoter(Exception):
    """The PLC did what a voter must not do; the line of the report that says so."""

    def __init__(self, name: str, found: str, remedy: str) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name
        self.found = found
        self.remedy = remedy


class VoterConnection:
    """Connection to the registers of a voter."""

    def __init__(self, place: VoterPlace) -> None:
        self._place = place
        self._wire = Wire(place.address, place.timeout_ns)

    async def connect(self) -> None:
        """Raises DeviceLost: refused or unreachable."""
        await self._wire.connect()

    def close(self) -> None:
        self._wire.close()

    async def read(self, first: int = 0, count: int = VOTER_REGISTERS) -> tuple[int, ...]:
        """Registers of the voter.

        Raises:
            Unfit: the PLC refuses.
            DeviceLost: it does not answer, or the connection is gone.
        """
        place = self._place
        answer = await self._wire.read(TableKind.HOLDING, place.device_id, place.first + first, count)
        _hear_cancellation()
        if isinstance(answer, DataReply):
            return struct.unpack(f">{count}H", answer.data)
        raise _unfit(answer, "read", place.first + first, count)

    async def read_elsewhere(self, address: int, count: int) -> tuple[int, ...]:
        """Holding registers beside the voter's, by their own address; raises as `read`."""
        return await self.read(address - self._place.first, count)

    async def write(self, first: int, words: Sequence[int]) -> None:
        """Write by one FC16; raises as `read`."""
        _refuse_outside(first, len(words))
        place = self._place
        answer = await self._wire.write_registers(place.device_id, place.first + first, words, lambda: GOES_ON)
        _hear_cancellation()
        if not isinstance(answer, DataReply):
            raise _unfit(answer, "write", place.first + first, len(words))


def _hear_cancellation() -> None:
    """Raises CancelledError: Python 3.11's wait_for, which pymodbus uses, loses one that comes with the answer."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _unfit(answer: WriteAnswer, verb: str, address: int, count: int) -> Exception:
    where = f"holding registers {address}..{address + count - 1}"
    match answer:
        case Silence() | NotSent():
            return DeviceLost("connected, but it does not answer")
        case ExceptionReply():
            return UnfitVoter(
                "registers",
                f"{where} can't be {verb}: {answer.text}",
                "lay out 64 holding registers there, readable and writable by any client, or change voter_address",
            )
        case _:
            return UnfitVoter("registers", f"{verb} of {where}: the answer fits not", "is it a Modbus TCP device?")


def _refuse_outside(first: int, count: int) -> None:
    assert 0 <= first and first + count <= VOTER_REGISTERS, "the test writes the voter's registers only"


async def write_and_reset(place: VoterPlace, first: int, words: Sequence[int]) -> None:
    """Write by one FC16 on a connection that is reset once the device's TCP has the request: nobody hears the answer.

    Raises:
        DeviceLost: no connection, or the request stayed here.
    """
    _refuse_outside(first, len(words))
    body = struct.pack(f">BHHB{len(words)}H", _WRITE_REGISTERS, place.first + first, len(words), 2 * len(words), *words)
    frame = struct.pack(">HHHB", 1, 0, len(body) + 1, place.device_id) + body
    try:
        async with asyncio.timeout(place.timeout_ns / 1e9):
            hosts = await NAMES.found(place.address.host, place.timeout_ns / 1e9)
            _, writer = await asyncio.open_connection(hosts[0], place.address.port)
    except (OSError, TimeoutError, IndexError) as error:
        raise DeviceLost("no connection") from error
    wire: socket.socket = writer.get_extra_info("socket")
    try:
        writer.write(frame)
        async with asyncio.timeout(TAKEN_S):
            while _unsent_bytes(wire):  # noqa: ASYNC110  # The kernel tells nobody when the other side's has it.
                await asyncio.sleep(_TAKEN_PAUSE_S)
    except (OSError, TimeoutError) as error:
        raise DeviceLost("the request was not taken") from error
    finally:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        writer.transport.abort()


def _unsent_bytes(wire: socket.socket) -> int:
    """Bytes that the other side's kernel has not acknowledged yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(wire.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(count)
