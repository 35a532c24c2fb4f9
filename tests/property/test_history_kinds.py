"""Values of an item that is declared anew again and again: each has the type and unit of its own place in the log.

Against a plain oracle, over the hot tail, files, merges and starts, and with clocks of all kinds: times of samples and
of programs say nothing of which declaration they came behind.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albireo.codec.record import Marked, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.value import ValueType
from tests.parts.declared_anew import END, STEPS, Life, Row, value_of


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[0])  # Stable: rows of one instant stay in the order of the log.


def average(rows: list[Row], begin: int, end: int) -> tuple[float | None, str | None]:
    """Average of an interval and its unit: none of several kinds, of text, or of nothing."""
    before, inside = [row for row in rows if row[0] < begin], [row for row in rows if begin <= row[0] < end]
    is_held = bool(before) and (not inside or inside[0][0] > begin)
    parts = ([(begin, *before[-1][1:])] if is_held else []) + inside
    if not parts:
        return None, None
    if len({part[2:] for part in parts}) > 1 or parts[0][2] is ValueType.STRING:
        return None, parts[-1][3]
    ends = [*(part[0] for part in parts[1:]), end]
    held = [after - part[0] for part, after in zip(parts, ends, strict=True)]
    return sum(float(part[1]) * ns for part, ns in zip(parts, held, strict=True)) / sum(held), parts[-1][3]


@given(steps=STEPS)
def test_every_row_is_told_as_it_was_recorded(steps: list[tuple[str, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.step(*step)
        told = [(row["source_ns"], value_of(row), type(value_of(row)), row["unit"]) for row in life.answers("raw")]
        assert told == [(row[0], row[1], type(row[1]), row[3]) for row in in_order(life.rows)]


@example(
    steps=[
        ("sample", 0, 5),
        ("declare", ValueType.FLOAT64, ""),
        ("declare", ValueType.FLOAT64, "kW"),
        ("sample", 30, 5),
    ],
    only_raw=False,
)
@given(steps=STEPS, only_raw=st.booleans())
def test_no_number_is_made_of_values_of_two_kinds(steps: list[tuple[str, Any, Any]], only_raw: bool) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.step(*step)
        life.log.records(Stream.CONTROL, [Marked()], END)
        rows = in_order(life.rows)
        told = life.answers("average", only_raw=only_raw)
        lows, highs = life.answers("min", only_raw=only_raw), life.answers("max", only_raw=only_raw)
        for row, low, high in zip(told, lows, highs, strict=True):
            right, unit = average(rows, row["start_ns"], row["start_ns"] + 60 * SECOND)
            assert row["value"] == (None if right is None else pytest.approx(right))
            assert unit in (None, row["unit"])
            assert q.is_bad(row["quality"]) == (right is None)
            assert (low["value"] is None) == (high["value"] is None) == (right is None)
            if right is not None:
                assert low["value"] * (1 - 1e-9) <= right <= high["value"] * (1 + 1e-9)
