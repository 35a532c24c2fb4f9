"""Times and durations as a user types them.

`2026-03-01T12:00`, `-2h`, `now`; `500ms`, `10s`, `1m`, `1h`, `1d`; or a number of seconds.
"""

import math
import re
import time
from datetime import UTC, datetime
from typing import Final

import click

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
        if duration_ns <= 0:
            self.fail(f"{value!r} is no duration; examples: 500ms, 10s, 1m, 1h, 1d", param, ctx)
        return duration_ns


class TimeType(click.ParamType[int]):
    """A wall time: ISO 8601 (UTC unless it says otherwise), `now`, or a duration before now such as `-1h`; gives ns."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        if text == "now":
            return time.time_ns()
        if text.startswith("-"):
            return time.time_ns() - DurationType().convert(text[1:], param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{value!r} is no time; examples: 2026-03-01T12:00, 2026-03-01, -1h, now", param, ctx)
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
            seconds = float(found[1]) * _UNITS_NS[found[2]] / _UNITS_NS["s"] if found else float(str(value))
        except ValueError:
            seconds = math.nan
        if not self.least <= seconds <= self.most:
            limits = f"from {self.least:g} to {self.most:.0f} seconds"
            self.fail(f"{value!r} is no time {limits}; examples: 30, 1.5, 10s, 5m", param, ctx)
        return seconds


TIME: Final = TimeType()
DURATION: Final = DurationType()
