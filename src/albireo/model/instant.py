"""The two kinds of time, kept apart by their types.

Decisions use `Instant`s of the boot clock, handed in as `now`. Wall time is data: it is stamped and stored, never
compared with a deadline.
"""

from typing import Final, NewType, TypeVar

import msgspec

Instant = NewType("Instant", int)
"""Nanoseconds of the boot clock (CLOCK_BOOTTIME); meaningless on another machine or after a reboot."""

Duration = NewType("Duration", int)
"""Nanoseconds."""

WallTime = NewType("WallTime", int)
"""Nanoseconds since 1970-01-01T00:00:00Z, UTC, leap seconds not counted."""

LogTime = NewType("LogTime", int)
"""Nanoseconds of log time: the sum of the frames' elapsed times. Every fold runs its delays on it (whole ms)."""

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
WALL_NS_MAX: Final = 2**62 - 1
"""Farthest wall time from 1970, either way (1823..2116): no difference of two times overflows 64 bits."""

Time = TypeVar("Time", Instant, LogTime)


class TimePassed(msgspec.Struct, frozen=True):
    """Event of every machine with a deadline: the instant that its `deadline` named has come."""


def soonest(*due: Time | None) -> Time | None:
    """First of several deadlines, each of which may be None; None: all are."""
    found = None
    for one in due:
        if one is not None and (found is None or one < found):
            found = one
    return found
