"""Tables, and answers of the historian, against a walk from event to event: see tests/parts/walker.py.

Many random histories lie in one lake, because a pass of the pipeline costs the same for one. Two passes take them in,
the second one with rows that belong to days of the first.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from albireo.codec.history import DAY_NS
from albireo.pipeline import tables
from albireo.pipeline.pipeline import run
from tests.long_form import IS_LONG
from tests.parts.property_walker import NIGHTS, agree
from tests.parts.random_lives import Lives
from tests.parts.walker import Bucket, Life, buckets

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HISTORIES = 500 if IS_LONG else 24
"""Histories in one lake: 2,000 in the long form."""
LAKES = range(4 if IS_LONG else 1)
COLUMNS = (
    "item_id bucket_ns rows good_rows first_ns good_ns uncertain_ns bad_ns lost_ns integral minimum maximum "
    "minimum_i64 maximum_i64"
).split()
WIDTHS = {"rollup_1min": tables.MINUTE_NS, "rollup_1h": tables.HOUR_NS}
Row = dict[str, Any]


def rows_by_item(out: Path, name: str) -> Iterator[tuple[int, list[Row]]]:
    """Rows of a table, item by item, by time."""
    table = DeltaTable(str(out / "tables" / name)).to_pyarrow_table(columns=COLUMNS)
    table = table.sort_by([("item_id", "ascending"), ("bucket_ns", "ascending")])
    counts = pc.value_counts(table["item_id"]).to_pylist()
    begin = 0
    for one in counts:
        yield one["values"], table.slice(begin, one["counts"]).to_pylist()
        begin += one["counts"]


def same(row: Row, one: Bucket, place: Callable[[], str]) -> None:
    """`place` is only called, and an item's life spelled out, where something differs."""
    assert (row["rows"], row["good_rows"], row["first_ns"]) == (one.rows, one.good_rows, one.first_ns), place()
    found = (row["good_ns"], row["uncertain_ns"], row["bad_ns"], row["lost_ns"])
    time = one.time
    assert found == (time["good"], time["uncertain"], time["bad"] + time["lost"], time["lost"]), place()
    assert abs(row["integral"] - one.integral) <= 1e-9 * one.size, place()
    for name, of in (("minimum", min), ("maximum", max)):
        value = of(one.seen) if one.seen else None
        assert row[name] == (None if value is None else float(value)), place()
        is_large = isinstance(value, int) and abs(value) >= 2**53
        assert row[f"{name}_i64"] == (value if is_large else None), place()


def check_item(life: Life, known_to: int, rows: list[Row], width: int, name: str) -> int:
    """Every bucket of one item in one table; returns how many."""
    low = min(row.source_ns for row in life.rows) // DAY_NS * DAY_NS
    high = max([known_to, *(row.source_ns for row in life.rows)]) // DAY_NS * DAY_NS + DAY_NS
    wanted = buckets(life, known_to, [low, low + width, high])
    assert [row["bucket_ns"] for row in rows] == sorted(wanted), f"{name}: {life}"
    for row in rows:
        same(row, wanted[row["bucket_ns"]], partial("{} at {}: {}".format, name, row, life))
    return len(rows)


@pytest.mark.parametrize("lake", LAKES)
def test_tables_and_answers_say_what_a_walker_sees(spark: SparkSession, tmp_path: Path, lake: int) -> None:
    chance = random.Random(f"lake {lake}")
    begin_ns = NIGHTS[lake % len(NIGHTS)] + 20 * 3600 * tables.SECOND_NS
    lives = Lives(chance, tmp_path / "node", HISTORIES, begin_ns)
    actions = lives.actions()
    half = len(actions) * 3 // 5
    lives.record(actions[:half])
    lives.sealed()
    run(lives.store.root, tmp_path / "out", session=spark)
    lives.record(actions[half:])
    lives.end()
    if lake % 2:
        lives.copied(tmp_path / "other")
    hot = lives.reader()
    for item_id in lives.ids[::2]:
        agree(hot, lives, item_id, chance)
    if not lake % 2:
        lives.sealed()
    run(lives.store.root, tmp_path / "out", session=spark)
    stored = lives.reader()
    for item_id in lives.ids[1::2]:
        agree(stored, lives, item_id, chance)
    checked = 0
    for name, width in WIDTHS.items():
        seen = set()
        for item_id, rows in rows_by_item(tmp_path / "out", name):
            seen.add(item_id)
            checked += check_item(lives.life(item_id), lives.known_to, rows, width, name)
        assert seen == {one for one in lives.ids if lives.life(one).rows}
    for item_id, rows in rows_by_item(tmp_path / "out", "rollup_1s"):
        life, second = lives.life(item_id), tables.SECOND_NS
        assert [row["bucket_ns"] for row in rows] == sorted({one.source_ns // second * second for one in life.rows})
        for row in rows:
            at = row["bucket_ns"]
            same(row, buckets(life, lives.known_to, [at, at + second])[at], partial("second {}: {}".format, at, life))
        checked += len(rows)
    assert checked > 100 * HISTORIES
