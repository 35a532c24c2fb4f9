"""Hours of the week, as people write them: `mon-fri 08:00-17:00; sat,sun 10:00-12:00`. Empty means always.

A pattern becomes a number with one bit for each minute of the week, Monday 00:00 first, so that two of them overlap
exactly if they have a bit in common. A span that ends before it begins goes on over midnight.
"""

import re
from datetime import datetime, timedelta
from typing import Final

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 1_440
WEEK_MINUTES: Final = 7 * DAY_MINUTES
ALWAYS: Final = (1 << WEEK_MINUTES) - 1
PATTERN_CHARS_MAX: Final = 500
_SPAN: Final = re.compile(r"(?:([a-z,\- ]+?)\s+)?(\d\d):(\d\d)\s*-\s*(\d\d):(\d\d)")


class HoursRefused(ValueError):
    """A pattern that can't be read."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        self.remedy = remedy


def week_mask(pattern: str) -> int:
    """Minutes of the week that a pattern means.

    Raises:
        HoursRefused: it can't be read, or a span of it is empty; the remedy says what is to be written.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise HoursRefused(f"it has {len(pattern)} characters", f"write {PATTERN_CHARS_MAX} at most")
    if not pattern.strip():
        return ALWAYS
    mask = 0
    for part in pattern.lower().split(";"):
        found = _SPAN.fullmatch(part.strip())
        if found is None:
            raise HoursRefused(f"{part.strip()!r} are no hours", "write such as mon-fri 08:00-17:00; sat 10:00-12:00")
        begin, end = (int(found[n]) * 60 + int(found[n + 1]) for n in (2, 4))
        if int(found[3]) > 59 or int(found[5]) > 59 or begin >= DAY_MINUTES or end > DAY_MINUTES:
            raise HoursRefused(f"{part.strip()!r} has a time that no day has", "write 00:00 to 24:00")
        if begin == end:
            raise HoursRefused(f"{part.strip()!r} ends as it begins", "for a whole day write 00:00-24:00")
        length = (end - begin) % DAY_MINUTES or DAY_MINUTES
        for day in _days(found[1] or "mon-sun"):
            mask |= _span_mask(day * DAY_MINUTES + begin, length)
    return mask


def _days(text: str) -> set[int]:
    found: set[int] = set()
    for one in re.split(r"[,\s]+", text.strip()):
        first, dash, last = one.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise HoursRefused(f"{one!r} is no day", f"write {', '.join(DAYS)}, or such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found |= {day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0))}
    return found


def _span_mask(begin: int, length: int) -> int:
    """A span of minutes of the week, its end carried over to Monday."""
    bits = ((1 << length) - 1) << begin
    return (bits & ALWAYS) | (bits >> WEEK_MINUTES)


def minute_mask(local: datetime) -> int:
    """The minute of the week at a time of the clock on the wall."""
    return 1 << (local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute)


def between_mask(begin: datetime, end: datetime) -> int:
    """Minutes of the week that there are between two times."""
    minutes = -(-(end - begin) // timedelta(minutes=1))
    if minutes >= WEEK_MINUTES:
        return ALWAYS
    return 0 if minutes <= 0 else _span_mask(begin.weekday() * DAY_MINUTES + begin.hour * 60 + begin.minute, minutes)
