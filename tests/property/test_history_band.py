"""Bands: minimum, maximum, first, last, average and count at once are what the questions for one of them give.

Over random histories as the walker's, and over items that are declared anew again and again; the first value, for which
there is no other question, against a walk from event to event.
"""

import math
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albireo.codec.history import BUCKET_NS, DAY_NS
from albireo.codec.record import Marked, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.value import ValueType
from albireo.node.history.per_interval import Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from tests.long_form import IS_LONG
from tests.parts.declared_anew import END, STEPS, Life, value_of
from tests.parts.property_walker import NIGHTS
from tests.parts.random_lives import Lives
from tests.parts.walker import Number, kind_of, moment, stretches

WIDTHS = ((BUCKET_NS, 0), (15 * BUCKET_NS, 0), (3600 * SECOND, 17 * SECOND), (20 * SECOND, 1), (DAY_NS, 0))
SINGLE = ("average", "min", "max", "count")
SHARED = ("quality", "rows", "good_ns", "uncertain_ns", "bad_ns", "declared")


def usable(row: dict[str, Any], *, uncertain_is_good: bool) -> Any:
    """The value of a row of the aggregate `last`, as far as it may be used."""
    value: Any = next((row[one] for one in ("value_f64", "value_i64", "value_str") if row[one] is not None), None)
    is_used = row["quality"] >> 30 <= uncertain_is_good
    return value if is_used and not (isinstance(value, float) and not math.isfinite(value)) else None


def told(row: dict[str, Any], name: str) -> Any:
    """A value of a band: the text, the exact integer, or the number."""
    exact = row[f"{name}_i64"]
    text = row.get(f"{name}_str")
    return text if text is not None else row[name] if exact is None else exact


class Walked:
    """The usable values with which intervals of an item begin."""

    def __init__(self, lives: Lives, item_id: int, kinds: tuple[str, ...]) -> None:
        life = lives.life(item_id)
        self._kinds = kinds
        self._stretches = list(stretches(life, lives.known_to))
        self._rows = sorted(life.rows, key=lambda row: (moment(row.source_ns), row.sequence))

    def first(self, start: int, end: int) -> Number | None:
        for one in self._stretches:
            if one.begin < start < one.end and one.kind in self._kinds:
                return one.value
        first = next((row for row in self._rows if start <= moment(row.source_ns) < end), None)
        return None if first is None or kind_of(first) not in self._kinds else first.value


def asked(reader: StoredHistory, item: Any, span: TimeRange, **wanted: Any) -> list[dict[str, Any]]:
    table: pa.Table = interval_table(reader, item, span, Aggregation(**wanted))
    return table.to_pylist()


@pytest.mark.slow
@settings(deadline=None, max_examples=400 if IS_LONG else 12, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_a_band_is_what_the_questions_for_one_value_give(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    lives = Lives(chance, tmp_path_factory.mktemp("lives"), 3, chance.choice(NIGHTS) + 20 * 3600 * SECOND)
    lives.record(lives.actions())
    lives.end()
    reader = lives.reader()
    for item_id in lives.ids:
        times = [row.source_ns for row in lives.life(item_id).rows] or [lives.known_to]
        every, shift = chance.choice(WIDTHS)
        begin = min(times) // DAY_NS * DAY_NS + shift if every > SECOND * 20 else min(times) - 1
        span = TimeRange(begin, begin + max(4 * every, min(DAY_NS, 200 * every)) - chance.choice((0, 1, every // 3)))
        same_way = {
            "every_ns": every,
            "uncertain_is_good": chance.random() < 0.3,
            "only_raw": chance.random() < 0.3,
        }
        agree(reader, lives, item_id, span, same_way)


def agree(reader: StoredHistory, lives: Lives, item_id: int, span: TimeRange, same_way: dict[str, Any]) -> None:
    item = {"item_id": item_id, "name": f"i_{item_id}", "node": "root"}
    kinds = ("good", "uncertain") if same_way["uncertain_is_good"] else ("good",)
    is_text = (
        bool(reader.declared().kinds(item_id).is_of(ValueType.STRING).all()) if item_id in reader.items() else False
    )
    names = ("count",) if is_text else SINGLE
    walked = Walked(lives, item_id, kinds)
    band = asked(reader, item, span, name="band", **same_way)
    single = {name: asked(reader, item, span, name=name, **same_way) for name in names}
    last = {row["start_ns"]: row for row in asked(reader, item, span, name="last", **same_way)}
    for index, row in enumerate(band):
        place = f"item {item_id} {span} {same_way} interval {index}"
        for name in names:
            one = single[name][index]
            assert {key: row[key] for key in SHARED} == {key: one[key] for key in SHARED}, place
            value = one["value_i64"] if one.get("value_i64") is not None else one["value"]
            assert (told(row, name) if name in ("min", "max") else row[name]) == value, f"{name}, {place}"
        end = last.get(row["start_ns"])
        wanted = None if end is None else usable(end, uncertain_is_good=same_way["uncertain_is_good"])
        assert told(row, "last") == wanted, f"last, {place}"
        if not is_text:
            end_ns = min(row["start_ns"] + same_way["every_ns"], span.to_ns)
            assert told(row, "first") == walked.first(row["start_ns"], end_ns), f"first, {place}"


@settings(deadline=None)
@given(steps=STEPS, only_raw=st.booleans())
def test_a_band_has_no_number_of_two_kinds_and_the_ends_of_texts(
    steps: list[tuple[str, Any, Any]], only_raw: bool
) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.step(*step)
        life.log.records(Stream.CONTROL, [Marked()], END)
        names = ("average", "min", "max", "count")
        single = {name: life.answers(name, only_raw=only_raw) for name in names}
        last = {row["start_ns"]: row for row in life.answers("last")}
        for index, row in enumerate(life.answers("band", only_raw=only_raw)):
            assert row["unit"] == single["average"][index]["unit"]
            for name in names:
                one = single[name][index]
                exact = one.get("value_i64")
                assert row[name] == (one["value"] if exact is None else pytest.approx(exact)), name
            end = last.get(row["start_ns"])
            wanted = None if end is None else value_of(end)
            shown = row.get("last_text") if isinstance(wanted, str) else row["last"]
            # An integer is told as a float where the item had other types.
            assert shown == (float(wanted) if isinstance(wanted, int) else wanted), (row, end)
            is_torn = single["average"][index]["quality"] == q.BAD_AGGREGATE_INVALID_INPUTS
            assert row["quality"] == single["average"][index]["quality"] or isinstance(wanted, str)
            if is_torn and row["quality"] == q.BAD_AGGREGATE_INVALID_INPUTS:
                assert row["first"] is None and row.get("first_text") is None, "it has another type or unit"
