"""A relay of TCP connections in the drill's own program: the cable between a site and its parent, which can be cut.

Cut, it carries nothing and closes nothing: neither end learns it but by silence, as with a cable. Mended, it drops the
connections of before, and carries new ones. It may be as far and as slow as a satellite: each byte comes later, and all
connections together carry so many a second each way.
"""

import asyncio
import contextlib
import socket
from typing import Final

import msgspec

from albireo.drill.serving import ServingThread

CHUNK_BYTES: Final = 1 << 16
PACKET_BYTES: Final = 1400
"""Bytes that a slow cable carries at once, of one connection after the other."""
BUFFER_BYTES: Final = 16_384
"""Bytes of one connection that a slow cable holds, so that its sender feels how slow it is."""


class CableSpec(msgspec.Struct, frozen=True):
    """Length and width of a cable."""

    delay_s: float = 0.0
    """Time that each byte takes, each way."""
    bytes_per_s: int = 0
    """Bytes each way, of all connections together; 0: whatever comes."""


class Relay(ServingThread):
    """One port that leads to another one of this machine."""

    def __init__(self, port: int, to: int, address: str = "127.0.0.1", way: CableSpec | None = None) -> None:
        super().__init__("relay")
        self.way = way or CableSpec()
        self.carried_bytes = [0, 0]
        """Bytes that went to the other port, and back."""
        self._free_at = [0.0, 0.0]
        """When the next byte may leave, each way."""
        self._port = port
        self._address = address
        self._to = to
        self._server: asyncio.Server
        self._carrying = asyncio.Event()
        self._carrying.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        limit = BUFFER_BYTES if self.way.bytes_per_s else CHUNK_BYTES
        self._server = await asyncio.start_server(self._connected, self._address, self._port, limit=limit)

    async def shut(self) -> None:
        self._server.close()
        await self._drop()

    async def cut(self) -> None:
        self._carrying.clear()

    async def mend(self) -> None:
        await self._drop()
        self._carrying.set()

    async def _drop(self) -> None:
        """End every connection there is."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carrying.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
            for one in (writer, far_writer) if self.way.bytes_per_s else ():
                one.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(reader, far_writer, 0))
                    both.create_task(self._carry(far_reader, writer, 1))
            finally:
                far_writer.close()
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass  # One end is gone, or the cable was mended.
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: int) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await reader.read(PACKET_BYTES if self.way.bytes_per_s else CHUNK_BYTES):
                await self._carrying.wait()
                await self._leave(len(data), direction)
                self.carried_bytes[direction] += len(data)
                if self.way.delay_s:
                    loop.call_later(self.way.delay_s, writer.write, data)
                else:
                    writer.write(data)
                    await writer.drain()
        raise ConnectionResetError  # The other direction ends too.

    async def _leave(self, count: int, direction: int) -> None:
        """Wait until so many bytes have left, behind those of other connections."""
        if self.way.bytes_per_s:
            loop = asyncio.get_running_loop()
            at = max(self._free_at[direction], loop.time()) + count / self.way.bytes_per_s
            self._free_at[direction] = at
            await asyncio.sleep(at - loop.time())
