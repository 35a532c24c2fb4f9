"""Life of a process of the tunnel: it says one line when it is ready, and ends with its parent.

Ready is one JSON object on stdout. The end is SIGTERM, or the end of stdin: a parent that was killed leaves nobody
behind.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine

import msgspec

Work = Callable[[asyncio.Event], Coroutine[object, object, None]]
"""Sets the event that it is handed when it is ready."""


async def until_told(work: Work, ready: Callable[[], dict[str, object]], *, is_child: bool) -> None:
    """Runs `work` until it ends by itself or the process is told to stop; says `ready` once it sets its event."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # A client that goes away before its answer is no error of a PLC; pymodbus would print its last twenty frames.
    logging.getLogger("pymodbus").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()
    task = loop.create_task(_served(work, ready))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    if is_child:
        loop.add_reader(0, lambda: os.read(0, 64) or task.cancel())
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _served(work: Work, ready: Callable[[], dict[str, object]]) -> None:
    is_ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(work(is_ready))
        await is_ready.wait()
        sys.stdout.write(msgspec.json.encode(ready()).decode() + "\n")
        sys.stdout.flush()
