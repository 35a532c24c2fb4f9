"""The clocks, which no other module reads. Everything else is told `now`.

`boot_ns` decides (deadlines, delays); `wall_ns` is data (it is stamped and stored). Suspend counts in both.

A drill may move the wall clock of one process while it runs: the environment names a file of eight bytes that is added
to it (ADR-0116). Without that variable nothing is looked at.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

from albireo.model.instant import Instant, WallTime

SHIFT_VARIABLE: Final = "ALBIREO_WALL_SHIFT"
"""Environment variable that names a file made by `write_shift`. For drills only."""
_SHIFT: Final = struct.Struct("<q")


def boot_ns() -> Instant:
    """Nanoseconds of CLOCK_BOOTTIME: goes on during suspend, never set back."""
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def wall_ns() -> WallTime:
    """Unix nanoseconds, UTC. May jump; never compared with a deadline."""
    if _shift is not None:
        return WallTime(time.time_ns() + int(_SHIFT.unpack_from(_shift)[0]))
    return WallTime(time.time_ns())


def process_cpu_ns() -> int:
    """CPU time of this process, user and system."""
    return time.process_time_ns()


def thread_cpu_ns() -> int:
    """CPU time of the calling thread, user and system."""
    return time.thread_time_ns()


def write_shift(file: Path, shift_ns: int) -> None:
    """Move the wall clock of every process that was started with SHIFT_VARIABLE naming this file, at once."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(handle, _SHIFT.pack(shift_ns), 0)
    finally:
        os.close(handle)


def _mapped(file: str | None) -> mmap.mmap | None:
    """Memory map of the shift, so that the file is never opened again."""
    if file is None:
        return None
    with Path(file).open("rb") as opened:
        return mmap.mmap(opened.fileno(), _SHIFT.size, access=mmap.ACCESS_READ)


_shift: Final = _mapped(os.environ.get(SHIFT_VARIABLE))
