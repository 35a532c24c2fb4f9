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
from collections.abc import Coroutine

import msgspec


def say_ready(**fields: object) -> None:
    """The one line on stdout."""
    sys.stdout.write(msgspec.json.encode(fields).decode() + "\n")
    sys.stdout.flush()


async def until_told(work: Coroutine[object, object, None], *, is_child: bool) -> None:
    """Runs `work` until it ends by itself or the process is told to stop."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # A client that goes away before its answer is no error of a PLC; pymodbus would print its last twenty frames.
    logging.getLogger("pymodbus").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    if is_child:
        loop.add_reader(0, lambda: os.read(0, 64) or task.cancel())
    with contextlib.suppress(asyncio.CancelledError):
        await task
