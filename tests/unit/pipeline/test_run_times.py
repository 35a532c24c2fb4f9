"""Whether the wall clock tells how old a file of the tables is: it may have jumped since a run of the last day."""

from typing import Any

import pytest

from albireo.model.instant import SECOND
from albireo.pipeline.runs import AGE_NS, RunTime

HOUR = 3_600 * SECOND
YEAR = 366 * 24 * HOUR
NOW = RunTime(1_800_000_000 * SECOND, 48 * HOUR, "this")


def run_at(ago_ns: int, ahead_ns: int = 0, boot: str = "this") -> dict[str, Any]:
    """Row of a run so long ago, committed while the wall clock was so far ahead of what it is now."""
    return {"committed_ns": NOW.wall_ns - ago_ns + ahead_ns, "boot_ns": NOW.boot_ns - ago_ns, "boot": boot}


@pytest.mark.parametrize(
    ("rows", "tells"),
    [
        ([], True),
        ([run_at(HOUR), run_at(2 * HOUR, SECOND)], True),
        ([run_at(HOUR, -YEAR)], False),
        ([run_at(HOUR), run_at(2 * HOUR, -YEAR)], False),
        ([run_at(HOUR, YEAR)], False),
        ([run_at(AGE_NS + 1, -YEAR)], True),
        ([run_at(HOUR, -YEAR, "before")], True),
    ],
    ids=["first", "as ever", "ahead since", "ahead before the last run", "back since", "a day ago", "other start"],
)
def test_the_wall_clock_tells_ages_if_it_went_as_the_boot_clock_for_a_day(
    rows: list[dict[str, Any]], *, tells: bool
) -> None:
    assert NOW.tells_age(rows) is tells


def test_now_is_by_both_clocks() -> None:
    first, second = RunTime.now(), RunTime.now()
    assert first.boot == second.boot and first.boot_ns <= second.boot_ns
