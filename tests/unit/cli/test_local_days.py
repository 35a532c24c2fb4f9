"""Intervals by the clock of a zone."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from albireo.cli.node.local_days import HOUR_NS, Stretch, stretches
from albireo.cli.timespan import TIME
from albireo.node.history.query import INTERVALS_MAX, TimeRange

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    return TIME.convert(text, None, None)


def edges(first: str, last: str, hours: float, zone: ZoneInfo = BERLIN) -> list[str]:
    """Begins of the intervals, by the clock of the zone, and the end."""
    span = TimeRange(at(first), at(last))
    found = [
        start
        for one in stretches(span, round(hours * HOUR_NS), zone)
        for start in range(one.from_ns, one.to_ns, one.every_ns)
    ]
    return [f"{datetime.fromtimestamp(start / 1e9, zone):%m-%dT%H:%M}" for start in [*found, span.to_ns]]


def test_days_begin_at_midnight_of_the_zone_whatever_hours_they_have() -> None:
    assert edges("2026-03-28T12:00+01:00", "2026-03-31T00:00+02:00", 24) == [
        "03-28T00:00", "03-29T00:00", "03-30T00:00", "03-31T00:00",
    ]  # fmt: skip
    assert edges("2026-10-24T22:00Z", "2026-10-26T23:00Z", 24) == ["10-25T00:00", "10-26T00:00", "10-27T00:00"]
    assert edges("2026-03-29T12:00+02:00", "2026-03-30T12:00+02:00", 24)[:2] == ["03-29T00:00", "03-30T00:00"]
    (short,) = stretches(TimeRange(at("2026-03-28T23:00Z"), at("2026-03-29T22:00Z")), 24 * HOUR_NS, BERLIN)
    assert short.every_ns == 23 * HOUR_NS


def test_shifts_begin_by_the_clock_too() -> None:
    assert edges("2026-03-28T22:00+01:00", "2026-03-29T22:00+02:00", 8) == [
        "03-28T16:00", "03-29T00:00", "03-29T08:00", "03-29T16:00", "03-29T22:00",
    ]  # fmt: skip


@pytest.mark.parametrize("hours", [0.25, 1, 2])
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_no_interval_is_empty_and_none_is_left_out(day: str, hours: float) -> None:
    span = TimeRange(at(f"{day}T00:00Z"), at(f"{day}T06:00Z"))
    found = stretches(span, round(hours * HOUR_NS), BERLIN)
    assert found[0].from_ns <= span.from_ns and found[-1].to_ns == span.to_ns
    assert all(one.to_ns == other.from_ns for one, other in pairwise(found))
    assert all(one.from_ns < one.to_ns and 0 < one.every_ns <= 3 * HOUR_NS for one in found)


def test_hours_begin_on_hours_of_a_zone_with_three_quarters_of_one() -> None:
    found = edges("2026-06-01T00:20Z", "2026-06-01T02:15Z", 1, ZoneInfo("Asia/Kathmandu"))
    assert found == ["06-01T06:00", "06-01T07:00", "06-01T08:00"]


def test_in_utc_and_with_too_many_intervals_nothing_is_cut() -> None:
    span = TimeRange(at("2026-03-01T00:30"), at("2026-12-01"))
    assert stretches(span, 24 * HOUR_NS, UTC) == [Stretch(at("2026-03-01"), span.to_ns, 24 * HOUR_NS)]
    ages = TimeRange(at("1830-01-01"), at("2110-01-01"))
    assert (ages.to_ns - ages.from_ns) // (HOUR_NS + 1) > INTERVALS_MAX
    assert len(stretches(ages, HOUR_NS + 1, BERLIN)) == 1
