"""Outputs that a PLC wrote, for whoever judges a rehearsal: one line of JSON each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec


class CarriedOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output was written."""

    way: Literal["mailbox", "register", "plain"]
    """A mailbox; a set point's own `register`; `plain` registers of the pair's area, without meaning to the plant."""
    name: str
    """Item; for `plain` the first address."""
    value: float = 0.0
    """Engineering units."""
    words: tuple[int, ...] = ()
    """Words as written, for `plain`."""
    member: int | None = None
    epoch: int = 0
    at: int = 0
    """Boot clock, ns."""


OnCarried = Callable[[CarriedOrder], None]


@contextmanager
def order_file(path: Path) -> Iterator[OnCarried]:
    """Each call appends one line to the file at `path`."""
    with path.open("ab", buffering=0) as file:

        def note(carried: CarriedOrder) -> None:
            line = msgspec.structs.replace(carried, at=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
            file.write(msgspec.json.encode(line) + b"\n")

        yield note
