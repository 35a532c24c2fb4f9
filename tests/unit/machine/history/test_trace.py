"""Interpolation and holes, value by value (OPC UA Part 13, 3.1.5 to 3.1.8 and 5.4.3.4)."""

import math

import numpy as np
import pytest

from albireo.machine.history.trace import AggregateSettings, Trace, interpolated, with_holes
from albireo.model import quality as q

SETTINGS = AggregateSettings()
UNCERTAIN = int(q.UNCERTAIN_DATA_SUB_NORMAL) | q.INTERPOLATED
GOOD = int(q.GOOD) | q.INTERPOLATED
NO_DATA = int(q.BAD_NO_DATA)


def trace(*rows: tuple[int, float, int]) -> Trace:
    return Trace(
        ns=np.array([row[0] for row in rows], np.int64),
        value=np.array([row[1] for row in rows], np.float64),
        classes=np.array([row[2] for row in rows], np.uint8),
        quality=np.array([(0, int(q.UNCERTAIN), int(q.BAD_TIMEOUT))[row[2]] for row in rows], np.int64),
    )


ROWS = trace((10, 1.0, 0), (20, 3.0, 0), (30, 9.0, 2), (40, 7.0, 0))


@pytest.mark.parametrize(
    ("at", "sloped", "stepped"),
    [
        (9, (None, NO_DATA), (None, NO_DATA)),
        (10, (1.0, 0), (1.0, 0)),
        (15, (2.0, GOOD), (1.0, GOOD)),
        (20, (3.0, 0), (3.0, 0)),
        (25, (4.0, UNCERTAIN), (3.0, GOOD)),
        (30, (5.0, UNCERTAIN), (3.0, UNCERTAIN)),
        (35, (6.0, UNCERTAIN), (3.0, UNCERTAIN)),
        (40, (7.0, 0), (7.0, 0)),
        (45, (7.0, UNCERTAIN), (7.0, GOOD)),
    ],
)
def test_between_usable_rows(at: int, sloped: tuple[float | None, int], stepped: tuple[float | None, int]) -> None:
    for is_stepped, (value, quality) in ((False, sloped), (True, stepped)):
        found, qualities = interpolated(ROWS, np.array([at], np.int64), SETTINGS, is_stepped=is_stepped)
        assert qualities[0] == quality
        assert math.isnan(found[0]) if value is None else found[0] == value


def test_a_hole_is_never_bridged() -> None:
    """A row at the instant of the hole counts; from then to the next row nothing is known."""
    holed = with_holes(trace((10, 1.0, 0), (20, 3.0, 0), (40, 7.0, 0)), [20, 45], 50)
    times = np.array([15, 20, 21, 39, 40, 44, 45, 60], np.int64)
    for is_stepped in (False, True):
        found, qualities = interpolated(holed, times, SETTINGS, is_stepped=is_stepped)
        assert [one == NO_DATA for one in qualities.tolist()] == [False, False, True, True, False, False, True, True]
        assert found[4] == 7.0
        assert np.isnan(found[[2, 3, 6, 7]]).all()


def test_uncertain_rows_are_used_when_asked() -> None:
    rows = trace((10, 1.0, 1), (20, 3.0, 0))
    found, qualities = interpolated(
        rows, np.array([15], np.int64), AggregateSettings(treat_uncertain_as_bad=False), is_stepped=False
    )
    assert (found[0], qualities[0]) == (2.0, UNCERTAIN)
    found, qualities = interpolated(rows, np.array([15], np.int64), SETTINGS, is_stepped=False)
    assert (math.isnan(found[0]), qualities[0]) == (True, NO_DATA)


@pytest.mark.parametrize(("bad", "good"), [(101, 100), (100, -1), (50, 40)])
def test_settings_that_contradict_each_other_are_refused(bad: int, good: int) -> None:
    with pytest.raises(ValueError, match="percent"):
        AggregateSettings(percent_data_bad=bad, percent_data_good=good)
