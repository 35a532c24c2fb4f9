"""Tables of a history with everything that once gave wrong figures, made in two passes, and in the long form in one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from albireo.codec import history as stored
from albireo.codec.history import NO_ITEM, FileKind
from albireo.model import quality as q
from albireo.model.instant import WALL_NS_MAX
from albireo.pipeline.pipeline import run
from tests.long_form import IS_LONG
from tests.parts.rollup import kernel_partials
from tests.unit.pipeline.history_files import DAY0, SECOND, HistoryWriter, Row, item, replaced, sample

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOUR = 3600 * SECOND
DAY = 24 * HOUR
LARGE = 2**53 + 1
END = DAY0 + 2 * DAY + 12 * HOUR
ITEMS = [
    item(1, "late_begin"),
    item(2, "said_lost_itself"),
    item(3, "of_1823"),
    item(4, "counter", value_type=2),
    item(5, "moved", adapter="p1", valid_to_ns=DAY0 + 5 * HOUR),
    item(5, "moved", adapter="p2", valid_from_ns=DAY0 + 5 * HOUR),
    item(6, "stale_after_an_hour", stale_ns=HOUR),
    item(7, "ended_long_ago", stale_ns=HOUR, adapter="p3"),
    item(8, "came_later", adapter="p4"),
]


def gap(source: str, from_ns: int, sequence: int, *item_ids: int) -> Row:
    times = {"from_ns": from_ns, "to_ns": from_ns + SECOND, "node_ns": from_ns + SECOND}
    more = {"item_ids": list(item_ids), "lost": None, "epoch": 1, "sequence": sequence}
    return {"source": source, "reason": "device_lost", **times, **more}


FIRST = [
    sample(1, DAY0 + 10 * HOUR, 1.0, 1),
    sample(2, DAY0 + 12 * HOUR, 1.0, 2, int(q.BAD_DATA_LOST)),
    sample(3, -(2**63), 1.0, 3),
    sample(4, DAY0, LARGE, 4),
    sample(4, DAY0 + 10 * SECOND, LARGE + 2, 5),
    sample(5, DAY0, 1.0, 6),
    sample(6, DAY0, 1.0, 7),
    sample(7, DAY0, 1.0, 8),
    sample(8, DAY0, 1.0, 9),
]
SECOND_PART = [
    sample(2, DAY0 + 2 * DAY + HOUR, 1.0, 20),
    sample(6, DAY0 + 2 * DAY + HOUR, 2.0, 21),
]
GAPS = [gap("p1", DAY0 + HOUR, 10, 1, 2, 3, 4, 5, 6), gap("p4", DAY0 + HOUR, 11, NO_ITEM)]
LATER_GAPS = [gap("p2", DAY0 + 2 * DAY + 2 * HOUR, 30), gap("p3", DAY0 + 2 * DAY + 3 * HOUR, 31)]


class Source:
    def __init__(self, directory: Path) -> None:
        self.writer = HistoryWriter(directory / "history")
        self.writer.items(ITEMS)

    def publish(self, rows: Sequence[Row], gaps: Sequence[Row], known_to_ns: int) -> None:
        entry = self.writer.add(FileKind.SAMPLES, [row | {"node_ns": max(row["node_ns"], DAY0)} for row in rows])
        low = min(max(row["source_ns"], -WALL_NS_MAX) for row in rows)
        beside = replaced(entry, kind=FileKind.PARTIALS, min_source_ns=low)
        self.writer.write(FileKind.PARTIALS, stored.partials_path(entry.path), kernel_partials(rows), beside)
        self.writer.add(FileKind.GAPS, gaps)
        self.writer.publish(sequence=max(row["sequence"] for row in [*rows, *gaps]), complete_to_ns=known_to_ns)


def read(out: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(out / "tables" / name)).to_pyarrow_table().to_pylist()
    return rows


def total(rows: Sequence[dict[str, Any]], item_id: int, name: str) -> int:
    return sum(row[name] for row in rows if row["item_id"] == item_id)


def in_one_pass(spark: SparkSession, directory: Path) -> Path:
    source = Source(directory)
    source.publish([*FIRST, *SECOND_PART], [*GAPS, *LATER_GAPS], END)
    run(directory / "history", directory / "out", session=spark)
    return directory / "out"


def in_two_passes(spark: SparkSession, directory: Path) -> Path:
    """The second one knows of the days before what its tables tell."""
    source = Source(directory)
    source.publish(FIRST, GAPS, DAY0 + 2 * DAY)
    run(directory / "history", directory / "out", session=spark)
    source.publish(SECOND_PART, LATER_GAPS, END)
    run(directory / "history", directory / "out", session=spark)
    return directory / "out"


@pytest.fixture(scope="module")
def twice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_two_passes(spark, tmp_path_factory.mktemp("twice"))


if IS_LONG:

    def test_two_passes_make_the_same_tables(spark: SparkSession, tmp_path: Path, twice: Path) -> None:
        """Row by row; the figures below are counted by hand, and looked at in the tables of two passes."""
        once = in_one_pass(spark, tmp_path)
        for name in ("rollup_1s", "rollup_1min", "rollup_1h", "availability", "items", "items_scd", "gaps"):
            found, wanted = (sorted(read(out, name), key=repr) for out in (twice, once))
            assert found == wanted, name


def test_a_gap_before_the_first_sample_is_no_lost_time(twice: Path) -> None:
    hours = read(twice, "rollup_1h")
    assert (total(hours, 1, "lost_ns"), min(row["bucket_ns"] for row in hours if row["item_id"] == 1)) == (
        0,
        DAY0 + 10 * HOUR,
    )


def test_lost_data_that_a_device_tells_of_stay_its_own(twice: Path) -> None:
    """A sample with the quality BadDataLost is bad over midnights, and no gap."""
    assert total(read(twice, "availability"), 2, "bad_ns") == DAY + 13 * HOUR
    assert total(read(twice, "availability"), 2, "lost_ns") == 0


@pytest.mark.parametrize("name", ["rollup_1s", "rollup_1min", "rollup_1h", "availability"])
def test_rows_of_impossible_times_are_in_every_table(twice: Path, name: str) -> None:
    rows = [row for row in read(twice, name) if row["item_id"] == 3 and row["rows"]]
    assert sum(row["rows"] for row in rows) == 1
    assert total(read(twice, "availability"), 3, "good_ns") == 31 * DAY


@pytest.mark.parametrize("name", ["rollup_1s", "rollup_1min", "rollup_1h"])
def test_large_integers_keep_their_digits(twice: Path, name: str) -> None:
    rows = sorted((row for row in read(twice, name) if row["item_id"] == 4), key=lambda row: row["bucket_ns"])
    assert rows[0]["first_i64"] == rows[0]["minimum_i64"] == LARGE
    last = rows[1 if name == "rollup_1s" else 0]
    assert (last["end_i64"], last["maximum_i64"]) == (LARGE + 2, LARGE + 2)
    assert {row["end_i64"] for row in read(twice, name) if row["item_id"] != 4} == {None}


def test_a_gap_is_that_of_whom_its_source_had_then(twice: Path) -> None:
    """Item 5 was p1's when p1 lost its device, and is p2's now; two gaps name no items: declarations were missing."""
    hours = [row for row in read(twice, "rollup_1h") if row["item_id"] == 5]
    lost = [row["bucket_ns"] - DAY0 for row in hours if row["lost_ns"]]
    assert min(lost) == HOUR
    gaps = sorted(read(twice, "gaps"), key=lambda row: row["sequence"])
    assert [row["items"] for row in gaps] == [6, 0, 1, 1]


def test_a_gap_of_nobody_is_no_lost_time(twice: Path) -> None:
    """p4 had no item when its gap was recorded. It has one now, and this history knows nothing of before."""
    assert total(read(twice, "availability"), 8, "lost_ns") == 0
    assert total(read(twice, "availability"), 8, "good_ns") == END - DAY0


def test_what_is_held_beyond_its_stale_time_is_unknown(twice: Path) -> None:
    """An hour good, from the gap an hour later on bad until the next row, then an hour good again."""
    days = [row for row in read(twice, "availability") if row["item_id"] == 6]
    assert (sum(row["good_ns"] for row in days), sum(row["lost_ns"] for row in days)) == (2 * HOUR, 2 * DAY)
    seven = [row for row in read(twice, "availability") if row["item_id"] == 7]
    assert sum(row["good_ns"] for row in seven) == HOUR
    assert sum(row["lost_ns"] for row in seven) == END - (DAY0 + 2 * DAY + 3 * HOUR)


def test_items_have_a_row_and_versions(twice: Path) -> None:
    items = {row["item_id"]: row["adapter"] for row in read(twice, "items")}
    assert len(items) == 8
    assert items[5] == "p2"
    versions = sorted((row for row in read(twice, "items_scd") if row["item_id"] == 5), key=lambda row: row["adapter"])
    assert [(row["valid_from_ns"], row["valid_to_ns"]) for row in versions] == [
        (None, DAY0 + 5 * HOUR),
        (DAY0 + 5 * HOUR, None),
    ]
