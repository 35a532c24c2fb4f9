"""Times of day in the order of events: the master tells of each that is reached, once for each day.

    event     endpoint 254 of the master, UINT32: 255 << 24 | number of the time << 16 | day

Of a time is told whatever the states are, and the event names the day, so the order says what was told, whoever leads.
A clock that jumps past a time by an hour at most tells of it late; by more, not at all. One that jumps back tells of
nothing again: the last days are remembered.

Not done here: the local time, which the caller knows.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from albireo.codec.hexabus.house import ClockCondition, House
from albireo.machine.hexabus.meaning import CompileError
from albireo.model.instant import SECOND, Instant

LocalTime = Callable[[Instant], int]
"""Local time at this instant, seconds since 1970."""
CLOCK: Final = 255
"""Stands where an event of time in a state has the number of a machine."""
CLOCKS_MAX: Final = 256
LATE_S_MAX: Final = 3_600
DAYS_KEPT: Final = 8
_DAY_S: Final = 86_400
_THURSDAY: Final = 3
"""The first day of 1970; Monday is 0."""


def clocks_of(house: House) -> list[ClockCondition]:
    """Times of day that some machine waits for, each once; their places are their numbers.

    Raises:
        CompileError: they are too many.
    """
    conditions = [one.condition for machine in house.machines for one in machine.transitions]
    found = list(dict.fromkeys(one for one in conditions if isinstance(one, ClockCondition)))
    if len(found) > CLOCKS_MAX:
        raise CompileError(f"{len(found)} times of day are more than {CLOCKS_MAX}")
    return found


class HouseClocks:
    """Times of day of a house, and on which days was told of them."""

    def __init__(self, house: House, local: LocalTime | None, now: Instant) -> None:
        """Raises ValueError: nobody knows the local time, and a machine waits for it."""
        self._clocks = clocks_of(house)
        if self._clocks and local is None:
            raise ValueError("machines wait for times of day, and nobody tells the local time")
        self._local: LocalTime = local or (lambda _: 0)
        self._told = [deque[int](maxlen=DAYS_KEPT) for _ in self._clocks]
        self._due = now

    def deadline(self) -> Instant | None:
        """Begin of the next minute, as the local time was last; None: no machine waits for a time of day."""
        return self._due if self._clocks else None

    def due(self, now: Instant) -> list[int]:
        """Values of the events that are to be told of now, the oldest first, until they are in the order."""
        local_s = self._local(now)
        self._due = Instant(now + (60 - local_s % 60) * SECOND)
        found = []
        today = local_s // _DAY_S
        for number, one in enumerate(self._clocks):
            for day in (today - 1, today):
                late_s = local_s - day * _DAY_S - one.minute * 60
                is_named = one.days >> (day + _THURSDAY) % 7 & 1
                if is_named and 0 <= late_s <= LATE_S_MAX and day & 0xFFFF not in self._told[number]:
                    found.append((-late_s, CLOCK << 24 | number << 16 | day & 0xFFFF))
        return [value for _, value in sorted(found)]

    def kept(self) -> tuple[tuple[int, ...], ...]:
        """Days on which was told of each time."""
        return tuple(tuple(days) for days in self._told)

    def restore(self, kept: tuple[tuple[int, ...], ...]) -> None:
        for days, told in zip(self._told, kept, strict=False):
            days.extend(told)

    def took(self, value: int) -> None:
        """An event of time is in the order."""
        number, day = value >> 16 & 0xFF, value & 0xFFFF
        if value >> 24 == CLOCK and number < len(self._told) and day not in self._told[number]:
            self._told[number].append(day)
