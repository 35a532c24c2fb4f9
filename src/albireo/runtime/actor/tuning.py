"""What a process of a node asks of its interpreter and of its C library, once, before anything else."""

import contextlib
import ctypes
import os
import sys
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""A helper thread waits 5 ms for the GIL at the default, 0.7 ms so (measured)."""
KEPT_BYTES: Final = 256 << 20
"""Freed memory that a process keeps for what comes next: the tail of a history, as long as it is not sealed."""
MAPPED_FROM_BYTES: Final = 32 << 20
"""Blocks from here on are mapped by themselves; the most that glibc takes."""
LEARNT_BYTES: Final = 8 << 20
"""Some messages of a producer, with what they were made of."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""mallopt(3)"""


def tune_process() -> None:
    """Short waits of threads for each other; memory is kept rather than given back and taken again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # Arrow's allocator, once it is loaded: no giving back either.
    with contextlib.suppress(AttributeError):  # Other C libraries than glibc have no such knob.
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)  # What one thread frees is another's next; further arenas keep nothing.
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def end_of_start() -> None:
    """What only the start needed goes back to the kernel, once: read module files, the launch, parsed topologies."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def show_large_block() -> None:
    """For a program, whose C library is not ours to set: glibc learns from a large block that is freed that such blocks
    come and go. From then on it maps none below that size by itself, and gives back to the kernel only what is free
    beyond twice the size (mallopt(3), M_MMAP_THRESHOLD). The block is never written, so it takes no memory."""
    bytes(LEARNT_BYTES)
