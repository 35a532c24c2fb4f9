"""Types that several threads of a process use.

msgspec (0.22) does not bear two threads that use a type for the first time at once: one of them takes it half made, and
the process dies of it. So each type is used once before they run; 600 types take 10 ms.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

import msgspec

_SETTLING: Final = threading.Lock()
_SETTLED: Final[set[type[msgspec.Struct]]] = set()


def settle_types() -> None:
    """Use every type that modules have defined so far. Called before a second thread runs, and once a module was loaded
    that an argument names."""
    with _SETTLING:
        for one in set(_types_below(msgspec.Struct)) - _SETTLED:
            _SETTLED.add(one)
            # One that holds what can't be decoded is never decoded.
            with contextlib.suppress(TypeError, NameError):
                msgspec.msgpack.Decoder(one)


def _types_below(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in base.__subclasses__():
        yield one
        yield from _types_below(one)
