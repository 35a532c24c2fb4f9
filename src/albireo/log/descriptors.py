"""File descriptors of a process: as many as it may have, and some of them for what must be durable.

Connections that never finish their handshake take descriptors. A log that can't open its next segment then, or a voter
its store, would end although its disk is fine. So a process stays RESERVED below its hard limit, and the calls of the
file system that need a descriptor raise the soft limit by that many while they find none: whoever else takes one in
that moment takes few. An error of a call that opens nothing is none of this: it is the disk's.

There is no reserve against a machine whose table of open files is full (ENFILE), and a process that ends helps nobody:
its next start finds none either. The call waits then, and everybody sees a disk that hangs: a holder gives way to the
other member, producers are refused when too much waits, boot asks DEAD? of a loop that stands.
"""

import errno
import resource
import threading
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

DESCRIPTORS: Final = 65_536
"""Descriptors that a process wants. Far more would cost programs that look at each of them one by one."""
RESERVED: Final = 64
RETRY_S: Final = 0.05
"""Pause between two tries while the machine has no descriptor."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_lock: Final = threading.Lock()


def raise_limit() -> None:
    """Raise the soft limit of this process, and of those that it starts, up to the reserve below the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = max(soft, DESCRIPTORS)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, max(hard - RESERVED, hard // 2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def with_reserve(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make a call that needs a descriptor; if the process has none, with the reserve; if the machine has none, later.

    Raises:
        OSError: what the call raises; EMFILE only if the reserve is used up too, ENFILE never.
    """
    while True:
        try:
            return _with_own_reserve(call, *args, **kwargs)
        except OSError as error:
            if error.errno != errno.ENFILE:
                raise
        time.sleep(RETRY_S)


def _with_own_reserve(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    try:
        return call(*args, **kwargs)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    with _lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        more = soft + RESERVED if hard == resource.RLIM_INFINITY else min(soft + RESERVED, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        try:
            return call(*args, **kwargs)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
