"""The door of a gate: its Modbus TCP server. Bounded connections, one request at a time on each.

    accepted --full--> reset, unless another one has been silent for long: that one then
        | header, PDU --> `serve` --> answer, none, or the end of the connection
        | no frame, closed, the client takes no answer --> reset

A connection ends by RST, as the device's would: nothing of it arrives later. A client that is gone without a word is
found by keep-alive; one that does not take its answers, or stops within a frame, is given up after `TAKEN_S`.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, cast

from albireo.field.modbus.gate.requests import HEADER_BYTES, Header, decode_header, framed
from albireo.field.modbus.wire import Address
from albireo.runtime.link.names import NAMES

CONNECTIONS_MAX: Final = 16
"""Two members with some adapters, and people who look. Overflow rule: the one that asked nothing for longest goes, if
that is longer than `SILENT_S`; else the new one is turned away."""
SILENT_S: Final = 60.0
"""A member that acts polls, one that stands by knocks once a second."""
TAKEN_S: Final = 10.0
"""Longest wait until a client takes an answer, and for the rest of a frame that has begun."""
NAME_S: Final = 10.0
"""Longest wait at the start for what the name of its own address stands for."""
BUFFER_BYTES_MAX: Final = 1024
"""Size of requests that were not looked at yet; asyncio stops reading from the client above twice of it."""
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: a machine that lost power is known as gone within half a minute (Linux)."""


class ClientDropped(Exception):
    """End this connection without an answer."""


Serve = Callable[[Header, bytes], Awaitable[bytes | None]]
"""Answers one PDU; None: says nothing to it. Raises HangUp."""


class Door:
    """The listening side."""

    def __init__(self, serve: Serve, on_failure: Callable[[BaseException], object]) -> None:
        """
        Args:
            on_failure: gets what `serve` raised beyond HangUp: our own bug, or a disk.
        """
        self._serve = serve
        self._on_failure = on_failure
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], float] = {}
        """Each connection, and when it asked last."""
        self._is_shut = False
        self.turned_away = 0
        self.malformed = 0
        """Connections that spoke no Modbus TCP."""

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def open(self, address: Address) -> Address:
        """Listen; returns the address with its real port.

        Raises:
            OSError: it can't be had.
        """
        host = await NAMES.found(address.host, NAME_S) if address.host else None
        if host == ():
            raise OSError(NAMES.told(address.host))
        self._server = await asyncio.start_server(self._came, host, address.port, limit=BUFFER_BYTES_MAX)
        return Address(address.host, int(self._server.sockets[0].getsockname()[1]))

    def shut(self) -> None:
        """Close the door at once: nobody is served any more."""
        self._is_shut = True
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def closed(self) -> None:
        """Shut, and return when every connection has ended."""
        self.shut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire: socket.socket = writer.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        if self._is_shut or not self._has_room():
            self.turned_away += 1
            writer.transport.abort()
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if option := getattr(socket, name, None):
                wire.setsockopt(socket.IPPROTO_TCP, option, value)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._served(reader, writer))
        self._tasks[task] = loop.time()
        task.add_done_callback(self._ended)

    def _has_room(self) -> bool:
        if len(self._tasks) < CONNECTIONS_MAX:
            return True
        quietest = min(self._tasks, key=self._tasks.__getitem__)
        if asyncio.get_running_loop().time() - self._tasks[quietest] < SILENT_S:
            return False
        del self._tasks[quietest]
        quietest.cancel()
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # NB: asyncio.wait_for of Python 3.11 (in pymodbus) swallows a cancellation that meets an answer; the flag
            # does not get lost.
            while not self._is_shut and (request := await self._request(reader)) is not None:
                header, pdu = request
                answer = await self._serve(header, pdu)
                if answer is not None:
                    writer.write(framed(header, answer))
                    async with asyncio.timeout(TAKEN_S):
                        await writer.drain()
        except (ClientDropped, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            cast(asyncio.Transport, writer.transport).abort()

    async def _request(self, reader: asyncio.StreamReader) -> tuple[Header, bytes] | None:
        """The next frame; None: what comes is none."""
        first = await reader.readexactly(1)
        async with asyncio.timeout(TAKEN_S):
            header = decode_header(first + await reader.readexactly(HEADER_BYTES - 1))
            if header is None:
                self.malformed += 1
                return None
            pdu = await reader.readexactly(header.pdu_bytes)
        task = asyncio.current_task()
        if task in self._tasks:
            self._tasks[task] = asyncio.get_running_loop().time()
        return header, pdu
