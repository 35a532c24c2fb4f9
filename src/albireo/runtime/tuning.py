"""What a process of a node asks of its interpreter and of its C library, once, before anything else."""

import contextlib
import ctypes
import sys
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""A helper thread waits 5 ms for the GIL at the default, 0.7 ms so (measured)."""
KEPT_BYTES: Final = 64 << 20
"""Freed memory that a process keeps for what comes next."""
MAPPED_FROM_BYTES: Final = 32 << 20
"""Blocks from here on are mapped by themselves; the most that glibc takes."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""mallopt(3)"""


def tune_process() -> None:
    """Short waits of threads for each other; memory is kept rather than given back and taken again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with contextlib.suppress(AttributeError):  # Other C libraries than glibc have no such knob.
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
