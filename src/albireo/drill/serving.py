"""A thread of the drill's own program in which simulated devices are served: no fault of a drill is done to it."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Final, TypeVar

from albireo.drill.ground import DrillError

START_S: Final = 10.0

T = TypeVar("T")


class ServingThread(threading.Thread):
    """One event loop with devices in it; others say which."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._is_ready = threading.Event()
        self._failure = ""
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()

    async def open(self) -> None:
        """Open their ports.

        Raises:
            OSError: one can't be opened.
        """

    async def shut(self) -> None:
        """Close them."""

    def begin(self) -> None:
        """Returns when their ports are open.

        Raises:
            DrillError: they are not.
        """
        self.start()
        if not self._is_ready.wait(START_S) or self._failure:
            raise DrillError(f"the {self.name} did not start: {self._failure or 'too slow'}")

    def end(self) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self.join()

    def carry_out(self, work: Coroutine[object, object, T]) -> T:
        """Do something in the loop; returns when it is done."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self._failure = str(error)
        finally:
            self._is_ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        await self.open()
        self._is_ready.set()
        await self._end.wait()
        await self.shut()
