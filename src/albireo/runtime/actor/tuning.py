"""Settings of the interpreter and of the C library that a process of a node makes once, before anything else."""

import contextlib
import ctypes
import os
import sys
from typing import Final

from albireo.log.descriptors import raise_limit

SWITCH_INTERVAL_S: Final = 0.0005
"""A helper thread waits 5 ms for the GIL at the default, 0.7 ms so (measured)."""
KEPT_BYTES: Final = 256 << 20
"""Freed memory that a process keeps for later, as much as the tail of a history needs until it is sealed."""
MAPPED_FROM_BYTES: Final = 32 << 20
"""Size from which blocks are mapped by themselves; the largest that glibc takes."""
LEARNT_BYTES: Final = 8 << 20
"""Size of some messages of a producer together with their parts."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""mallopt(3)"""


def tune_process() -> None:
    """Short waits of threads for each other; memory is kept, not given back and taken again; many descriptors."""
    raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # Arrow's allocator, once it is loaded: no giving back either.
    with contextlib.suppress(AttributeError):  # Other C libraries than glibc have no such knob.
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)  # What one thread frees is another's next; further arenas keep nothing.
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def end_of_start() -> None:
    """Give memory back to the kernel that only the start needed: read module files, the launch, parsed topologies."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def show_large_block() -> None:
    """Show glibc a large block that is freed, in a program whose C library is not ours to set.

    From then on glibc maps no block below that size by itself, and gives back to the kernel only memory that is free
    beyond twice the size (mallopt(3), M_MMAP_THRESHOLD). The block is never written, so it takes no memory.
    """
    bytes(LEARNT_BYTES)
