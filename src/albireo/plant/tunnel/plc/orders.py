"""What a PLC carried out, for whoever judges a rehearsal: one line of JSON per written output."""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec


class CarriedOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One output was written."""

    way: Literal["mailbox", "register", "plain"]
    """Through a mailbox; a set point's own registers; registers of the pair's area, which mean nothing to the plant."""
    name: str
    """Item; for `plain` the first address."""
    value: float = 0.0
    """Engineering units."""
    words: tuple[int, ...] = ()
    """As written, for `plain`."""
    member: int | None = None
    epoch: int = 0
    at: int = 0
    """Boot clock, ns."""


OnCarried = Callable[[CarriedOrder], None]


class OrderFile:
    """Appends lines to a file; without a path it does nothing."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("ab", buffering=0) if path else None

    def note(self, carried: CarriedOrder) -> None:
        if self._file is not None:
            line = msgspec.structs.replace(carried, at=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
            self._file.write(msgspec.json.encode(line) + b"\n")

    def __enter__(self) -> "OrderFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
