"""Inspection of arrivals: whatever a device tells is named, left out or right, never an exception."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from albireo.field.contract import Arrivals
from albireo.field.inspection import AHEAD_NS_MAX, ROWS_MAX, Inspected, Inspection
from albireo.model.instant import WallTime
from albireo.model.item import DataItem
from albireo.model.quality import (
    BAD_OUT_OF_RANGE,
    BAD_SENSOR_FAILURE,
    GOOD,
    UNCERTAIN,
    UNCERTAIN_ENGINEERING_UNITS_EXCEEDED,
)
from albireo.model.samples import Column, Strings
from albireo.model.value import ValueType

F, I, B, S = ValueType.FLOAT64, ValueType.INT64, ValueType.BOOL, ValueType.STRING  # noqa: E741  # Of a table.
ITEMS = (
    DataItem(name="real", value_type=F, minimum=0, maximum=100),
    DataItem(name="other", value_type=F),
    DataItem(name="whole", value_type=I, maximum=10),
    DataItem(name="bit", value_type=B),
    DataItem(name="text", value_type=S),
)
NODE = WallTime(10**18)


def arrivals(value_type: ValueType, rows: list[int], value: Column, times: list[int] | None = None) -> Arrivals:
    return Arrivals(
        value_type=value_type,
        rows=np.array(rows, np.intp),
        value=value,
        quality=np.zeros(len(rows), np.uint32),
        source_ns=np.array(times or [NODE] * len(rows), np.int64),
    )


def reals(*values: float, rows: list[int] | None = None, times: list[int] | None = None) -> Arrivals:
    return arrivals(F, rows or [0] * len(values), np.array(values), times)


def passed(one: Arrivals, by: Inspection | None = None) -> Inspected:
    found = (by or Inspection(ITEMS)).inspect(one, NODE)
    assert found is not None
    return found


def counts(one: Inspection) -> dict[str, int]:
    return {name: count for name, count in one.counters().items() if count}


def test_what_is_right_passes_as_it_is() -> None:
    inspection = Inspection(ITEMS)
    given = reals(1.0, 1.0, 2.0, times=[NODE, NODE, NODE + 1])
    found = passed(given, inspection)
    assert found.arrivals.value is given.value
    assert found.arrivals.quality.tolist() == [GOOD] * 3
    assert not found.is_late.any()
    assert counts(inspection) == {"arrived": 3}


def test_rows_that_fit_no_item_or_another_type_are_left_out() -> None:
    inspection = Inspection(ITEMS)
    found = passed(reals(1.0, 2.0, 3.0, 4.0, rows=[-1, 0, 2, 5]), inspection)
    assert found.arrivals.rows.tolist() == [0]
    assert np.asarray(found.arrivals.value).tolist() == [2.0]
    assert counts(inspection) == {"arrived": 4, "refused": 3}
    assert inspection.inspect(reals(1.0, rows=[99]), NODE) is None


@pytest.mark.parametrize(
    ("one", "quality"),
    [
        (reals(-0.1, 0.0, 100.0, 100.1, np.nan), [UNCERTAIN_ENGINEERING_UNITS_EXCEEDED, 0, 0,
                                                  UNCERTAIN_ENGINEERING_UNITS_EXCEEDED, 0]),
        (arrivals(I, [2, 2], np.array([10, 11])), [0, UNCERTAIN_ENGINEERING_UNITS_EXCEEDED]),
        (arrivals(B, [3, 3, 3], np.array([0, 1, 2], np.uint8)), [0, 0, BAD_OUT_OF_RANGE]),
        (arrivals(S, [4], Strings.of(["anything"])), [0]),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(one: Arrivals, quality: list[int]) -> None:
    inspection = Inspection(ITEMS)
    assert passed(one, inspection).arrivals.quality.tolist() == quality
    assert counts(inspection).get("out_of_range", 0) == sum(code != GOOD for code in quality)


def test_a_quality_that_says_less_than_good_stays() -> None:
    bad = msgspec.structs.replace(reals(999.0, times=[-1]), quality=np.array([BAD_SENSOR_FAILURE], np.uint32))
    assert passed(bad).arrivals.quality.tolist() == [BAD_SENSOR_FAILURE]


def test_impossible_source_times_are_those_of_the_node() -> None:
    inspection = Inspection(ITEMS)
    times = [0, -5, NODE + AHEAD_NS_MAX, NODE + AHEAD_NS_MAX + 1]
    found = passed(reals(1.0, 2.0, 3.0, 4.0, rows=[0, 1, 0, 1], times=times), inspection)
    assert found.arrivals.source_ns.tolist() == [NODE, NODE, NODE + AHEAD_NS_MAX, NODE]
    assert found.arrivals.quality.tolist() == [UNCERTAIN, UNCERTAIN, GOOD, UNCERTAIN]
    assert counts(inspection) == {"arrived": 4, "impossible_times": 3}


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=1, max_size=12), min_size=1, max_size=4)
)
def test_late_rows_are_those_that_a_loop_finds(given_: list[list[tuple[int, int]]]) -> None:
    inspection, newest = Inspection(ITEMS), {0: 0, 1: 0}
    for rows in given_:
        wanted = []
        for row, at in rows:
            wanted.append(at < newest[row])
            newest[row] = max(newest[row], at)
        one = reals(*[1.0] * len(rows), rows=[row for row, _ in rows], times=[at for _, at in rows])
        assert passed(one, inspection).is_late.tolist() == wanted


def _with(**changed: object) -> Arrivals:
    return msgspec.structs.replace(reals(1.0, 2.0), **changed)


TWO: NDArray[np.float64] = np.zeros(2)


@pytest.mark.parametrize(
    "one",
    [
        _with(rows=np.zeros(3, np.intp)),
        _with(rows=np.zeros((2, 1), np.intp)),
        _with(rows=TWO),
        _with(rows=[0, 0]),
        _with(value=np.zeros(1)),
        _with(value=np.zeros(2, np.int64)),
        _with(value=[1.0, 2.0]),
        _with(value=Strings.of(["a", "b"])),
        _with(quality=TWO),
        _with(quality=None),
        _with(source_ns=TWO),
        _with(source_ns=np.zeros(1, np.int64)),
        _with(value_type=77),
        _with(value_type=S),
        reals(*[1.0] * (ROWS_MAX + 1)),
        arrivals(S, [4], Strings(np.array([0, 1], np.uint32), b"\xff")),
        arrivals(S, [4], Strings(np.array([0, 9], np.uint32), b"a")),
        arrivals(S, [4, 4], Strings(np.array([0, 2, 1], np.uint32), b"a")),
        arrivals(S, [4], Strings(np.zeros(0, np.uint32), b"")),
    ],
)
def test_columns_that_are_none_are_refused_whole(one: Arrivals) -> None:
    inspection = Inspection(ITEMS)
    assert inspection.inspect(one, NODE) is None
    assert inspection.refused > 0
    assert passed(reals(1.0), inspection), "the next is taken"


def test_no_rows_are_no_news() -> None:
    inspection = Inspection(ITEMS)
    assert inspection.inspect(reals(rows=[]), NODE) is None
    assert counts(inspection) == {}
