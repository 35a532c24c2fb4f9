"""A relay of TCP connections in the drill's own program: the cable between a site and its parent, which can be cut.

Cut, it carries nothing and closes nothing: neither end learns it but by silence, as with a cable. Mended, it drops the
connections of before, and carries new ones.
"""

import asyncio
import contextlib
from typing import Final

from albireo.drill.serving import ServingThread

CHUNK_BYTES: Final = 1 << 16


class Relay(ServingThread):
    """One port that leads to another one of this machine."""

    def __init__(self, port: int, to: int, address: str = "127.0.0.1") -> None:
        super().__init__("relay")
        self._port = port
        self._address = address
        self._to = to
        self._server: asyncio.Server
        self._carrying = asyncio.Event()
        self._carrying.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, self._address, self._port)

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
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(reader, far_writer))
                    both.create_task(self._carry(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass  # One end is gone, or the cable was mended.
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._carrying.wait()
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError  # The other direction ends too.
