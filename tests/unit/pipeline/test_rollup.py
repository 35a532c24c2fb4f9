"""Rollups against DuckDB, and against the kernels that the historian answers with."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.machine.history import intervals
from albireo.machine.history.trace import HOLD_NS, AggregateSettings
from albireo.model.instant import WALL_NS_MAX
from albireo.pipeline import rollup, tables
from albireo.pipeline.source import local_frame
from tests.long_form import some
from tests.parts.rollup import _or_none, kernel_partials, kernel_rows
from tests.unit.pipeline.history_files import Row
from tests.unit.pipeline.plant_rows import BEGIN, ITEMS, gaps_of, samples_of
from tests.unit.pipeline.rollup_oracle import COLUMNS, assert_same, rollup_by_duckdb

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAY_BEFORE = BEGIN - BEGIN % tables.DAY_NS
KNOWN_TO = BEGIN + 1530 * tables.SECOND_NS


def table(kind: FileKind, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=stored.SCHEMAS[kind])


def on_spark(spark: SparkSession, kind: FileKind, rows: Sequence[Row]) -> DataFrame:
    """The rows as a frame, in no particular order."""
    schema = from_arrow_schema(stored.SCHEMAS[kind])
    frame = local_frame(spark, schema, [tuple(row[name] for name in schema.names) for row in rows])
    return frame.orderBy(F.hash(*(frame.columns[:2])))


def collected(frame: DataFrame) -> list[Row]:
    rows = [row.asDict() for row in frame.select(*COLUMNS).collect()]
    return sorted(rows, key=lambda row: (row["item_id"], row["bucket_ns"]))


def held(points: DataFrame, known_to_ns: int) -> DataFrame:
    """Points of items without a stale time."""
    return rollup.held(points.withColumn("limit_ns", F.lit(HOLD_NS)), known_to_ns)


@pytest.mark.parametrize("seed", some([1, 2], 2))
@pytest.mark.parametrize(
    ("width_ns", "one", "is_dense"),
    [(tables.SECOND_NS, tables.ROLLUP_1S, False), (tables.MINUTE_NS, tables.ROLLUP_1MIN, True)],
)
def test_rollup_of_samples_is_what_duckdb_computes(
    spark: SparkSession, seed: int, width_ns: int, one: tables.LakeTable, is_dense: bool
) -> None:
    """Quality changes, gaps, late and repeated rows, not-finite values, equal times, a midnight, rows after the end."""
    rows, gaps = samples_of(seed), gaps_of(seed, 100_000)
    repeated = rows + rows[:50]
    items = on_spark(spark, FileKind.ITEMS, ITEMS)
    holes = rollup.points_of_gaps(on_spark(spark, FileKind.GAPS, gaps).withColumn("node", F.lit("root")), items)
    points = rollup.points_of_samples(on_spark(spark, FileKind.SAMPLES, repeated)).unionByName(holes)
    frame = rollup.rollup(held(points, KNOWN_TO), width_ns, one, from_ns=DAY_BEFORE, is_dense=is_dense)
    wanted = rollup_by_duckdb(
        table(FileKind.SAMPLES, rows),
        table(FileKind.GAPS, gaps),
        table(FileKind.ITEMS, ITEMS),
        width_ns=width_ns,
        known_to_ns=KNOWN_TO,
        is_sparse=not is_dense,
    )
    assert len(wanted) > 100
    assert_same(collected(frame), wanted)


def test_rollup_is_what_the_historian_answers(spark: SparkSession) -> None:
    """The numpy kernels of machine.history.intervals and Spark agree on every minute of every item."""
    rows = samples_of(3)
    points = rollup.points_of_samples(on_spark(spark, FileKind.SAMPLES, rows))
    frame = rollup.rollup(
        held(points, KNOWN_TO), tables.MINUTE_NS, tables.ROLLUP_1MIN, from_ns=DAY_BEFORE, is_dense=True
    )
    found = {(row.item_id, row.bucket_ns): row for row in frame.collect()}
    edges = np.arange(BEGIN, BEGIN + 26 * tables.MINUTE_NS, tables.MINUTE_NS, dtype=np.int64)
    checked = 0
    for item in ITEMS:
        answer = intervals.intervals_of_rows(
            kernel_rows(rows, item["item_id"]), edges, AggregateSettings(), known_to_ns=KNOWN_TO
        )
        for index, bucket_ns in enumerate(edges[:-1].tolist()):
            row = found.get((item["item_id"], bucket_ns))
            if row is None:
                assert answer.rows[index] == answer.good_ns[index] == 0
                continue
            assert (row.rows, row.good_rows) == (answer.rows[index], answer.good_rows[index])
            assert (row.good_ns, row.bad_ns) == (answer.good_ns[index], answer.bad_ns[index])
            assert row.integral == pytest.approx(float(answer.integral[index]), rel=1e-9, abs=1e-9)
            assert row.minimum == pytest.approx(_or_none(answer.minimum[index]))
            assert row.maximum == pytest.approx(_or_none(answer.maximum[index]))
            checked += 1
        status = intervals.qualities(answer, AggregateSettings(), tables.MINUTE_NS)
        for index, bucket_ns in enumerate(edges[:-1].tolist()):
            if (item["item_id"], bucket_ns) in found:
                assert found[item["item_id"], bucket_ns].quality == status[index]
    assert checked > 100


@pytest.mark.parametrize("late", [False, True])
def test_rollup_of_partials_is_that_of_samples(spark: SparkSession, late: bool) -> None:
    """Three files cut in the middle of minutes; late rows make the partials of their items useless, which is seen."""
    rows = samples_of(4, late=late)
    third = len(rows) // 3
    files = [rows[:third], rows[third : 2 * third], rows[2 * third :]]
    partials = [row for file in files for row in kernel_partials(file)]
    points = rollup.points_of_partials(on_spark(spark, FileKind.PARTIALS, partials))
    integers = on_spark(spark, FileKind.ITEMS, ITEMS).select("item_id")
    useless = {row.item_id for row in rollup.useless(points, rows[-1]["node_ns"], integers).collect()}
    assert bool(useless) == late
    usable = points.where(~F.col("item_id").isin(*useless, -1))
    wanted = rollup.points_of_samples(
        on_spark(spark, FileKind.SAMPLES, [r for r in rows if r["item_id"] not in useless])
    )
    found, exact = (
        rollup.rollup(held(one, KNOWN_TO), tables.MINUTE_NS, tables.ROLLUP_1MIN, from_ns=DAY_BEFORE, is_dense=True)
        for one in (usable, wanted)
    )
    assert_same(collected(found), collected(exact))


def test_hours_are_the_same_from_minutes_as_from_samples(spark: SparkSession) -> None:
    points = held(rollup.points_of_samples(on_spark(spark, FileKind.SAMPLES, samples_of(5))), KNOWN_TO)
    minutes = rollup.rollup(points, tables.MINUTE_NS, tables.ROLLUP_1MIN, from_ns=DAY_BEFORE, is_dense=True)
    hours = rollup.rollup(points, tables.HOUR_NS, tables.ROLLUP_1H, from_ns=DAY_BEFORE, is_dense=True)
    assert_same(collected(rollup.coarser(minutes, tables.HOUR_NS, tables.ROLLUP_1H)), collected(hours))


def test_sums_can_go_to_the_disk(spark: SparkSession) -> None:
    """Sums by hash give no memory back; the window in the same stage then fails for want of some.

    That takes a million minutes, and a test with as many takes too long, so the plan is looked at.
    """
    rows = on_spark(spark, FileKind.SAMPLES, samples_of(1)[:10])
    points = held(rollup.points_of_samples(rows), KNOWN_TO)
    frame = rollup.rollup(points, tables.MINUTE_NS, tables.ROLLUP_1MIN, from_ns=DAY_BEFORE, is_dense=True)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "SortAggregate" in plan
    assert "HashAggregate" not in plan


def test_a_wrong_clock_fills_no_table(spark: SparkSession) -> None:
    """One row in 1823, one in 2262: no overflow, and at most 31 days of minutes are held."""
    from tests.unit.pipeline.history_files import sample

    rows = [sample(1, -(2**63), 1.0, 1), sample(1, BEGIN, 2.0, 2), sample(1, 2**63 - 1, 3.0, 3)]
    points = rollup.points_of_samples(on_spark(spark, FileKind.SAMPLES, rows))
    frame = rollup.rollup(
        held(points, KNOWN_TO),
        tables.MINUTE_NS,
        tables.ROLLUP_1MIN,
        from_ns=-WALL_NS_MAX + (WALL_NS_MAX % tables.DAY_NS) - tables.DAY_NS,
        is_dense=True,
    )
    assert frame.agg(F.sum("rows")).first() == (3,)
    assert frame.count() < 45_000
