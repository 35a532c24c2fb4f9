"""Times, durations and counts as a user types them.

`2026-03-01T12:00`, `-2h`, `now`; `500ms`, `10s`, `1m`, `1h`, `1d`; or a number of seconds.
"""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from albireo.model.bounded import INT64_MAX
from albireo.model.typed_number import number_of, shortened, whole_of

_UNITS_NS: Final = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
SECONDS_MAX: Final = 366 * 86_400.0
"""Longest time in seconds that a command takes, if nothing below it allows less: a year."""
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


class DurationType(click.ParamType[int]):
    """A duration above 0; gives nanoseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _DURATION.fullmatch(str(value))
        duration_ns = round(float(found[1]) * _UNITS_NS[found[2]]) if found else 0
        if not 0 < duration_ns <= INT64_MAX:
            self.fail(f"{shortened(str(value))} is no duration; examples: 500ms, 10s, 1m, 1h, 1d", param, ctx)
        return duration_ns


class TimeType(click.ParamType[int]):
    """A wall time: ISO 8601 (UTC unless it says otherwise), `now`, or a duration before now such as `-1h`; gives ns."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        if text.startswith("-"):
            return time.time_ns() - DurationType().convert(text[1:], param, ctx)
        try:
            time_ns = time.time_ns() if text == "now" else _wall_ns(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            time_ns = INT64_MAX + 1
        if abs(time_ns) > INT64_MAX:
            told = "is no time from 1678 to 2262; examples: 2026-03-01T12:00, 2026-03-01, -1h, now"
            self.fail(f"{shortened(text)} {told}", param, ctx)
        return time_ns


def _wall_ns(moment: datetime) -> int:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * _UNITS_NS["s"] + moment.microsecond * 1000


class SecondsType(click.ParamType[float]):
    """A time within bounds as a number of seconds, or with its unit as a duration has it: 90, 1.5m.

    Click's own type for a range lets `nan` pass, of which no bound is true.
    """

    name = "seconds"

    def __init__(self, most: float = SECONDS_MAX, least: float = 0.001) -> None:
        self.least, self.most = least, most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _DURATION.fullmatch(str(value))
        try:
            seconds = float(found[1]) * _UNITS_NS[found[2]] / _UNITS_NS["s"] if found else number_of(str(value))
        except ValueError:
            seconds = -1.0
        if not self.least <= seconds <= self.most:
            limits = f"from {self.least:g} to {self.most:.0f} seconds"
            self.fail(f"{shortened(str(value))} is no time {limits}; examples: 30, 1.5, 10s, 5m", param, ctx)
        return seconds


class WholeNumber(click.IntRange):
    """A whole number within bounds. `int`, by which click reads, takes more."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(super().convert(_typed(self, value, whole_of, param, ctx), param, ctx))


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return float(super().convert(_typed(self, value, number_of, param, ctx), param, ctx))


def _typed(
    kind: click.ParamType[Any],
    value: object,
    read: Callable[[str], float],
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    try:
        return read(value) if isinstance(value, str) else value
    except ValueError as error:
        kind.fail(str(error), param, ctx)


TIME: Final = TimeType()
DURATION: Final = DurationType()
