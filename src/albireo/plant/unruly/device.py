"""A Modbus TCP device with several units, each with a manner of its own: honest, or wrong in one way.

Bytes are made here by hand, since no library sends what a broken device sends. One request is answered after the other,
as a gateway with one serial line does; what comes late comes while the next ones are answered.

A register holds a number that tells its unit and address, so that any value that was put in the wrong place is known:

    unit 3, address 17 --> 3 * 256 + 17        COUNTER: how often it was read, which shows that a value is fresh

Spec: MODBUS Application Protocol V1.1b3, 6, 7; MODBUS Messaging on TCP/IP V1.0b, 3.1.3 (MBAP header).
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

COUNTER: Final = 250
"""Address of the register that counts how often it was read, in each unit."""
UNIT_STEP: Final = 256
_HEAD_BYTES: Final = 7
_READS: Final = (1, 2, 3, 4)
_EXCEPTION_BIT: Final = 0x80
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class UnitAsked(msgspec.Struct, frozen=True):
    """One request."""

    number: int
    """Transaction identifier."""
    unit: int
    function: int
    body: bytes
    """The request behind its function code."""

    @property
    def address(self) -> int:
        return int.from_bytes(self.body[:2], "big")

    @property
    def count(self) -> int:
        """Registers or bits; 1 for the functions that write one."""
        return int.from_bytes(self.body[2:4], "big") if self.function in (*_READS, 15, 16) else 1

    def touches(self, address: int) -> bool:
        return self.address <= address < self.address + self.count


class UnrulyDevice:
    """The device; runs in the event loop of its caller."""

    def __init__(self, manners: Mapping[int, "Manner"], *, keeps_requests: bool = True) -> None:
        """
        Args:
            manners: of each unit that is there.
            keeps_requests: False for one that runs long.
        """
        self.manners = dict(manners)
        self.port = 0
        """Given by the kernel at the start."""
        self.asked: list[UnitAsked] = []
        """Every request so far, if they are kept."""
        self._keeps_requests = keeps_requests
        self.connections = 0
        self._written: dict[tuple[int, int], int] = {}
        self._reads: dict[int, int] = {}
        self._lines: set[UnrulyLine] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._serve, host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            self.reset()
            await server.wait_closed()

    def reset(self) -> None:
        """End every connection by RST."""
        for line in list(self._lines):
            line.reset()

    def holds(self, unit: int, address: int) -> int:
        """Value of a register, or of a coil; a coil that nobody wrote is off."""
        if address == COUNTER:
            return self._reads.get(unit, 0) & 0x7FFF
        return self._written.get((unit, address), unit * UNIT_STEP + address)

    def answer(self, asked: UnitAsked) -> bytes:
        """The right answer, with its function code."""
        places = range(asked.address, asked.address + asked.count)
        match asked.function:
            case 1 | 2:
                bits = [bool(self._written.get((asked.unit, one), 0)) for one in places]
                packed = sum(bit << index for index, bit in enumerate(bits))
                data = packed.to_bytes((len(bits) + 7) // 8, "little")
            case 3 | 4:
                if asked.touches(COUNTER):
                    self._reads[asked.unit] = self._reads.get(asked.unit, 0) + 1
                data = struct.pack(f">{asked.count}H", *(self.holds(asked.unit, one) for one in places))
            case 5 | 6:
                value = int.from_bytes(asked.body[2:4], "big")
                self._written[asked.unit, asked.address] = value == 0xFF00 if asked.function == 5 else value
                return bytes([asked.function]) + asked.body[:4]
            case 16:
                for place, value in zip(places, struct.unpack(f">{asked.count}H", asked.body[5:]), strict=True):
                    self._written[asked.unit, place] = value
                return bytes([16]) + asked.body[:4]
            case _:
                return exception(asked, 1)
        return bytes([asked.function, len(data)]) + data

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        line = UnrulyLine(self, writer)
        self._lines.add(line)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while not writer.is_closing():
                    head = await reader.readexactly(_HEAD_BYTES)
                    body = await reader.readexactly(int.from_bytes(head[4:6], "big") - 1)
                    asked = UnitAsked(int.from_bytes(head[:2], "big"), head[6], body[0], body[1:])
                    if self._keeps_requests:
                        self.asked.append(asked)
                    manner = self.manners.get(asked.unit)
                    if manner is not None:
                        await manner(asked, line)
        finally:
            self._lines.discard(line)
            line.end()


class UnrulyLine:
    """One connection to the device, in the hands of a manner."""

    def __init__(self, device: UnrulyDevice, writer: asyncio.StreamWriter) -> None:
        self.device = device
        self._writer = writer
        self._later: set[asyncio.Task[None]] = set()

    def send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    def send_later(self, after_s: float, data: bytes) -> None:
        """Send while the next requests are answered."""

        async def wait() -> None:
            await asyncio.sleep(after_s)
            self.send(data)

        task = asyncio.get_running_loop().create_task(wait())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def close(self) -> None:
        """End it by FIN, behind what was sent."""
        self._writer.close()

    def reset(self) -> None:
        wire: socket.socket = self._writer.get_extra_info("socket")
        if wire.fileno() >= 0:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self._writer.transport.abort()

    def end(self) -> None:
        for task in self._later:
            task.cancel()
        self._writer.close()


Manner = Callable[[UnitAsked, UnrulyLine], Awaitable[None]]
"""Reaction of a unit to a request; it sends what it likes."""


def frame(asked: UnitAsked, body: bytes, *, number: int | None = None, unit: int | None = None) -> bytes:
    """An answer on the wire; `number` and `unit` are those of the request unless said otherwise."""
    return struct.pack(
        ">HHHB",
        asked.number if number is None else number,
        0,
        len(body) + 1,
        asked.unit if unit is None else unit,
    ) + body  # fmt: skip


def exception(asked: UnitAsked, code: int) -> bytes:
    return bytes([asked.function | _EXCEPTION_BIT, code])
