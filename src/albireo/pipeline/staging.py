"""Staging: Spark writes the rows of a run into files that no table knows yet, in lanes that need nothing of each other.

    samples ──▶ seconds
    partials ──▶ minutes ──▶ hours ──▶ days
    events, gaps, items ──▶ the small tables

A part of the plan is a run of touched days. Holds are cut where it ends: what they reach behind it stays as it is.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import reduce
from itertools import pairwise
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.codec.item_kinds import ItemKinds
from albireo.machine.history.declared import DeclaredItems
from albireo.machine.history.trace import HOLD_NS
from albireo.model.instant import WALL_NS_MAX
from albireo.model.value import ValueType
from albireo.pipeline import declared_points, delta, rollup, tables
from albireo.pipeline.delta import StagedFile, TableState
from albireo.pipeline.plan import WorkPart, WorkPlan
from albireo.pipeline.report import alarms, coverage
from albireo.pipeline.source import HistoryFolder, frame, items_of, literal, local_frame
from albireo.pipeline.tables import LakeTable
from albireo.pipeline.touched import hold_steps


class StagingWork(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that the lanes of one run share."""

    spark: SparkSession
    history: HistoryFolder
    plan: WorkPlan
    run: int
    """Number of the run."""
    states: dict[str, TableState]
    """The tables as they were before."""
    tables: Path
    """Folder of the tables."""
    staging: Path

    def has(self, table: LakeTable) -> bool:
        """Whether the table has this run already."""
        return self.states[table.name].run == self.run


def stage_all(work: StagingWork, begin: Callable[[str], None]) -> dict[str, list[StagedFile]]:
    """Lanes that need nothing of each other: planning one query leaves a core free for the work of another."""
    lanes = (stage_seconds, stage_minutes, stage_whole)
    staged: dict[str, list[StagedFile]] = {}
    with ThreadPoolExecutor(len(lanes), "lane") as pool:
        futures = [pool.submit(lane, work, begin) for lane in lanes]
        try:
            for future in as_completed(futures):
                staged |= future.result()
        except BaseException:  # Ctrl-C too: it goes on, and the other lanes end at once instead of when they are done.
            with contextlib.suppress(Exception):
                work.spark.sparkContext.cancelAllJobs()
            raise
    return staged


def stage_seconds(work: StagingWork, begin: Callable[[str], None]) -> dict[str, list[StagedFile]]:
    begin("seconds")
    if work.has(tables.ROLLUP_1S):
        return {}
    frames = [
        rollup.rollup(
            _held(work, part, _joined([_sample_points(work, part), *_around(work, part)])),
            tables.SECOND_NS,
            tables.ROLLUP_1S,
            from_ns=part.from_ns,
            is_dense=False,
        )
        for part in work.plan.parts
    ]
    return {"rollup_1s": _stage(work, _joined(frames), tables.ROLLUP_1S)}


def stage_minutes(work: StagingWork, begin: Callable[[str], None]) -> dict[str, list[StagedFile]]:
    """Minutes from stored partials, hours from minutes, days from hours."""
    begin("minutes")
    if all(map(work.has, (tables.ROLLUP_1MIN, tables.ROLLUP_1H, tables.AVAILABILITY))):
        return {}
    frames = [
        rollup.rollup(
            _held(work, part, _minute_points(work, part)),
            tables.MINUTE_NS,
            tables.ROLLUP_1MIN,
            from_ns=part.from_ns,
            is_dense=True,
        )
        for part in work.plan.parts
    ]
    staged = {"rollup_1min": _stage(work, _joined(frames), tables.ROLLUP_1MIN)}
    begin("hours")
    hours = rollup.coarser(_staged_frame(work, tables.ROLLUP_1MIN), tables.HOUR_NS, tables.ROLLUP_1H)
    staged["rollup_1h"] = _stage(work, hours, tables.ROLLUP_1H)
    begin("availability")
    days = coverage.availability(_staged_frame(work, tables.ROLLUP_1H))
    return staged | {"availability": _stage(work, days, tables.AVAILABILITY)}


def stage_whole(work: StagingWork, begin: Callable[[str], None]) -> dict[str, list[StagedFile]]:
    """The small tables, each as a whole. One of which there is nothing on record is empty without a job."""
    begin("gaps and alarms")
    items = items_of(work.history)
    written = {tables.ITEMS: coverage.item_table(items), tables.ITEMS_SCD: coverage.item_versions(items)}
    staged = {
        table.name: delta.stage_rows(rows, work.staging / table.name)
        for table, rows in written.items()
        if not work.has(table)
    }
    frames = _gap_frames(work) | _alarm_frames(work)
    missing = {table: one for table, one in frames.items() if not work.has(table)}
    return staged | {table.name: _stage(work, one.coalesce(1), table) for table, one in missing.items()}


def _gap_frames(work: StagingWork) -> dict[LakeTable, DataFrame]:
    if not work.history.entries(FileKind.GAPS):
        return {}
    return {tables.GAPS: coverage.gap_table(_gaps(work), frame(work.spark, work.history, FileKind.ITEMS))}


def _alarm_frames(work: StagingWork) -> dict[LakeTable, DataFrame]:
    changes = alarms.transitions(frame(work.spark, work.history, FileKind.EVENTS))
    known_to_ns, first_ns = work.plan.known_to_ns, _first_known_ns(work)
    if not work.history.entries(FileKind.EVENTS):  # The rate has rows of times without an alarm, too.
        return {tables.ALARM_RATE: alarms.rate(changes, first_ns, known_to_ns)}
    changes = changes.persist()
    rates, cases = alarms.rate(changes, first_ns, known_to_ns).persist(), alarms.cases(changes, known_to_ns).persist()
    return {
        tables.ALARM_CASES: cases,
        tables.ALARM_RATE: rates,
        tables.ALARM_FLOODS: alarms.floods(rates),
        tables.ALARM_ACTORS: alarms.actors(cases),
        tables.ALARM_STANDING: alarms.standing(cases, known_to_ns),
        tables.ALARM_CHATTER: alarms.chatter(changes),
    }


def _joined(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _held(work: StagingWork, part: WorkPart, points: DataFrame) -> DataFrame:
    limited = declared_points.with_limits(declared_points.with_kinds(points, _kinds(work)), _limits(work))
    return rollup.held(limited, _known_to_ns(work, part))


def _changed(work: StagingWork) -> list[ItemKinds]:
    """Items that were declared with several types or units."""
    declared = DeclaredItems.of_rows(items_of(work.history).to_pylist())
    return [one for one in map(declared.kinds, declared.versions) if len(one.types) > 1]


def _kinds(work: StagingWork) -> DataFrame | None:
    """Kinds of these items, as `declared_points.with_kinds` wants them."""
    rows = [
        (one.item_id, after, upto, after or 0)
        for one in _changed(work)
        for after, upto in pairwise([None, *one.declared[1:], None])
    ]
    return _small_frame(work, ("kind_of", "after", "upto", "kind"), rows) if rows else None


def _limits(work: StagingWork) -> DataFrame | None:
    """How long items that declare a stale time may hold, as `declared_points.with_limits` wants it."""
    rows = [
        (item_id, begins_ns, ends_ns, limit_ns)
        for item_id, steps in hold_steps(items_of(work.history)).items()
        for (begins_ns, limit_ns), (ends_ns, _) in pairwise([*steps, (None, HOLD_NS)])
        if steps != [(None, HOLD_NS)]
    ]
    return _small_frame(work, ("limited_id", "begins_ns", "ends_ns", "stale_limit_ns"), rows) if rows else None


def _integers(work: StagingWork) -> DataFrame | None:
    """Ids of the items whose values are integers."""
    rows = items_of(work.history).select(["item_id", "value_type"]).to_pylist()
    found = {(row["item_id"],) for row in rows if row["value_type"] == ValueType.INT64}
    return _small_frame(work, ("item_id",), sorted(found)) if found else None


def _small_frame(work: StagingWork, names: Sequence[str], rows: Sequence[tuple[int | None, ...]]) -> DataFrame:
    """Rows of integers within the plan itself: a join with them costs no job that reads, sorts and compiles."""
    return local_frame(work.spark, StructType([StructField(name, LongType()) for name in names]), rows)


def _known_to_ns(work: StagingWork, part: WorkPart) -> int:
    """End of what is known within a part: a hold goes on behind it, in days that stay as they are."""
    return work.plan.known_to_ns if part.to_ns is None else min(part.to_ns, work.plan.known_to_ns)


def _around(work: StagingWork, part: WorkPart) -> list[DataFrame]:
    """Points that are no rows: holes where gaps begin, and what held at the midnight before."""
    found = []
    if work.history.entries(FileKind.GAPS):
        items = frame(work.spark, work.history, FileKind.ITEMS)
        found.append(_within(rollup.points_of_gaps(_gaps(work), items), "first_ns", part))
    if not work.plan.is_everything:
        day_before = stored.day_of(part.from_ns - tables.DAY_NS)
        hours = _table_frame(work, tables.ROLLUP_1H, day_before)
        found.append(rollup.points_of_rollup(hours, _items_begun(work, part), part.from_ns))
    return found


def _items_begun(work: StagingWork, part: WorkPart) -> DataFrame:
    """Ids of the items that had a row before the part."""
    days = delta.opened_table(work.tables / tables.AVAILABILITY.name)
    earlier = [("day", "<", part.from_day)]
    found = [] if days is None else days.to_pyarrow_table(columns=["item_id"], filters=earlier)["item_id"].unique()
    begun = {int(one.as_py()) for one in found}
    begun.update(item_id for item_id, ns in work.plan.begun.items() if ns < part.from_ns)
    return _small_frame(work, ("item_id",), [(item_id,) for item_id in sorted(begun)])


def _sample_points(work: StagingWork, part: WorkPart) -> DataFrame:
    rows = frame(work.spark, work.history, FileKind.SAMPLES, part.samples)
    # Times beyond the bounds are moved to them: then nothing is before the first midnight.
    is_all = part.from_ns <= -WALL_NS_MAX
    begun = rows if is_all else rows.where(F.col("source_ns") >= part.from_ns)
    return rollup.points_of_samples(_within(begun, "source_ns", part))


def _within(rows: DataFrame, name: str, part: WorkPart) -> DataFrame:
    """Rows before the end of the part."""
    return rows if part.to_ns is None else rows.where(F.col(name) < part.to_ns)


def _minute_points(work: StagingWork, part: WorkPart) -> DataFrame:
    """Stored partials, and samples of those items whose partials can't be used."""
    samples, around = _sample_points(work, part), _around(work, part)
    if part.partials is None:
        return _joined([samples, *around])
    stored_rows = frame(work.spark, work.history, FileKind.PARTIALS, part.partials)
    wanted = _within(stored_rows.where(F.col("first_ns") >= part.from_ns), "first_ns", part)
    partials = rollup.points_of_partials(wanted)
    around = [rollup.with_inside(one) for one in around]
    whole = _joined([partials, *around])
    # Item ids, never samples: at most as many as there are items.
    late = [(row.item_id,) for row in rollup.useless(whole, _known_to_ns(work, part), _integers(work)).collect()]
    late += [(one.item_id,) for one in _changed(work)]  # A minute of two kinds can't be told from its sums.
    if not late:
        return whole
    # A literal list of thousands makes a slow plan; a small broadcast join does not.
    names = _small_frame(work, ("item_id",), sorted(set(late)))
    exact = rollup.with_inside(samples.join(F.broadcast(names), "item_id", "left_semi"))
    usable = partials.join(F.broadcast(names), "item_id", "left_anti")
    return _joined([usable, exact, *around])


def _gaps(work: StagingWork) -> DataFrame:
    """Gap records with the node whose log they stand in."""
    entries = work.history.entries(FileKind.GAPS)
    nodes = sorted({entry.node for entry in entries}) or [work.history.manifest.node]
    frames = [
        frame(work.spark, work.history, FileKind.GAPS, [one for one in entries if one.node == node]).withColumn(
            "node", F.lit(node)
        )
        for node in nodes
    ]
    joined = frames[0]
    for one in frames[1:]:
        joined = joined.unionByName(one)
    return joined


def _first_known_ns(work: StagingWork) -> int:
    """Begin of the record: the first sample, but not before the day on which the node began to append."""
    entries = work.history.entries(FileKind.SAMPLES)
    if not entries:
        return work.plan.known_to_ns
    first = max(min(one.min_source_ns for one in entries), stored.day_start_ns(min(one.day for one in entries)))
    return min(first, work.plan.known_to_ns)


def _stage(work: StagingWork, rows: DataFrame, table: LakeTable) -> list[StagedFile]:
    return delta.stage(rows, work.staging / table.name, table.partition_by)


def _staged_frame(work: StagingWork, table: LakeTable) -> DataFrame:
    """Rows that this run has staged for `table`."""
    folder = work.staging / table.name
    if not any(folder.rglob("*.parquet")):
        return local_frame(work.spark, table.schema)
    return work.spark.read.schema(table.schema).parquet(literal(folder))


def _table_frame(work: StagingWork, table: LakeTable, day: str) -> DataFrame:
    """Rows of one day of a table as it was before the run."""
    files = delta.day_files(work.tables / table.name, work.states[table.name], day)
    if not files:
        return local_frame(work.spark, table.schema)
    return work.spark.read.schema(table.schema).parquet(*map(literal, files)).withColumn("day", F.lit(day))
