"""Read-backs as readings: at once, and never taken back by a poll that had asked before."""

import math

import numpy as np
import pytest

from albireo.field.contract import PolledColumns
from albireo.field.read_backs import ReadBacks
from albireo.model.instant import Instant
from albireo.model.item import DataItem
from albireo.model.samples import Strings
from albireo.model.value import Value, ValueType


def item(value_type: ValueType) -> DataItem:
    return DataItem(name="x", value_type=value_type)


def polled(rows: list[int]) -> list[PolledColumns]:
    """Numbers of even rows, texts of odd ones; each tells its row."""
    even, odd = [one for one in rows if not one % 2], [one for one in rows if one % 2]
    return [
        PolledColumns(
            value_type=ValueType.INT64,
            rows=np.array(even, np.intp),
            value=np.array(even, np.int64),
            quality=np.zeros(len(even), np.uint32),
            source_ns=np.array(even, np.int64),
        ),
        PolledColumns(
            value_type=ValueType.STRING,
            rows=np.array(odd, np.intp),
            value=Strings.of([str(one) for one in odd]),
            quality=np.zeros(len(odd), np.uint32),
        ),
    ]


def shown(columns: PolledColumns) -> list[Value]:
    return list(columns.value.to_list() if isinstance(columns.value, Strings) else columns.value.tolist())


@pytest.mark.parametrize(
    ("value", "value_type"),
    [(77, ValueType.INT64), (1.5, ValueType.FLOAT64), (True, ValueType.BOOL), ("ab", ValueType.STRING)],
)
def test_what_was_read_back_is_a_reading(value: Value, value_type: ValueType) -> None:
    (reading,) = ReadBacks().reading(3, item(value_type), value, Instant(5))
    assert (reading.rows.tolist(), reading.quality.tolist(), shown(reading)) == ([3], [0], [value])


@pytest.mark.parametrize(
    ("value", "value_type"),
    [
        (math.nan, ValueType.FLOAT64),
        (math.inf, ValueType.FLOAT64),
        (2**63, ValueType.INT64),
        ("a\ufffd", ValueType.STRING),
    ],
)
def test_what_is_no_good_value_waits_for_the_poll_that_gives_its_quality(value: Value, value_type: ValueType) -> None:
    assert list(ReadBacks().reading(0, item(value_type), value, Instant(5))) == []


def test_a_poll_that_began_before_does_not_take_it_back_and_the_next_one_is_whole() -> None:
    known = ReadBacks()
    known.reading(2, item(ValueType.INT64), 7, Instant(5))
    known.reading(3, item(ValueType.STRING), "7", Instant(6))
    known.reading(4, item(ValueType.INT64), 7, Instant(2))
    first = known.still_news(polled([0, 1, 2, 3, 4]), Instant(3))
    assert [shown(one) for one in first] == [[0, 4], ["1"]]
    assert first[0].source_ns is not None and first[0].source_ns.tolist() == [0, 4]
    assert [shown(one) for one in known.still_news(polled([2, 3]), Instant(4))] == [[2], ["3"]]
