"""One pass of the pipeline: history in, Delta tables and a report out.

    open ──▶ plan ──▶ stage (Spark tasks write files) ──▶ commit (one transaction per table) ──▶ report
              └─ nothing new ─────────────────────────────────────────────────────────────────────▶ │

A pass that is ended anywhere leaves tables that are each whole; the next pass goes on from the oldest of their
watermarks. The same input twice gives the same tables, the second time without Spark.
"""

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.model.instant import WALL_NS_MAX
from albireo.model.value import ValueType
from albireo.pipeline import delta, rollup, tables
from albireo.pipeline.config import spark_config
from albireo.pipeline.errors import OutputBusy, OutputUnusable
from albireo.pipeline.plan import WorkPlan, plan
from albireo.pipeline.report import alarms, coverage
from albireo.pipeline.report.report import write_report
from albireo.pipeline.session import spark_session
from albireo.pipeline.source import HistoryFolder, frame, literal, named_failures, open_history
from albireo.pipeline.tables import Table

Progress = Callable[[int, int, str], None]
"""Called at the start of each step with steps done, steps in all, and what begins now."""

STEPS: Final = 8
SHORT_ROWS_MAX: Final = 3_000_000
"""Samples up to which a pass counts as short: about a minute of work on two cores."""


class _Steps:
    """Counts the steps of one pass and says them; two lanes of work may do so at once."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._begun = 0
        self._lock = threading.Lock()

    def begin(self, text: str) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress(self._begun, STEPS, text)
            self._begun += 1


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that the stages of one pass share."""

    spark: SparkSession
    history: HistoryFolder
    plan: WorkPlan
    out: Path
    staging: Path


def run(
    history_dir: Path,
    out_dir: Path,
    *,
    master: str | None = None,
    progress: Progress | None = None,
    session: SparkSession | None = None,
) -> dict[str, Any]:
    """Brings the tables and the report in `out_dir` up to date with the history.

    Args:
        history_dir: a node's `history` folder; the node may be at work in it.
        out_dir: gets `tables/<name>` (Delta), `report.html`, `spark.log`.
        master: Spark's master URL; else ALBIREO_SPARK_MASTER, else all cores of this machine.
        progress: see `Progress`.
        session: one that runs already and goes on afterwards; else one is started and ended.
    Returns:
        `{"tables": {name: rows}, "seconds": s, "report": path}`.
    Raises:
        PipelineError: see albireo.pipeline.errors.
    """
    began = time.monotonic()
    steps = _Steps(progress)
    history = open_history(history_dir.absolute())
    with _held_output(out_dir.absolute()) as out:
        marks = [delta.watermark(_table_path(out, table)) for table in tables.TABLES]
        todo = plan(history.manifest, marks)
        if todo is not None:
            steps.begin("starting Spark")
            with _session(session, todo, out, master) as spark, named_failures(history, out / "spark.log"):
                _bring_up_to_date(spark, history, todo, out, steps)
        steps.begin("report")
        rows = {table.name: delta.row_count(_table_path(out, table)) for table in tables.TABLES}
        report = write_report(out / "report.html", out / "tables", history.manifest, rows)
    return {"tables": rows, "seconds": round(time.monotonic() - began, 3), "report": str(report)}


@contextlib.contextmanager
def _session(session: SparkSession | None, todo: WorkPlan, out: Path, master: str | None) -> Iterator[SparkSession]:
    if session is not None:
        yield session
        return
    config = spark_config(os.environ, master, is_short=sum(one.rows for one in todo.samples) <= SHORT_ROWS_MAX)
    with spark_session(config, out) as started:
        yield started


def _bring_up_to_date(spark: SparkSession, history: HistoryFolder, todo: WorkPlan, out: Path, steps: _Steps) -> None:
    staging = out / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    work = _Work(spark=spark, history=history, plan=todo, out=out, staging=staging)
    try:
        staged = _stage_all(work, steps)
        steps.begin("commit")
        for table in tables.TABLES:
            path = _table_path(out, table)
            since = None if todo.is_everything or not table.partition_by else todo.from_day
            delta.commit(
                path, table.schema, staged[table.name], todo.mark, partition_by=table.partition_by, replaced_from=since
            )
            delta.vacuumed(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _stage_all(work: _Work, steps: _Steps) -> dict[str, list[delta.StagedFile]]:
    """Lanes that need nothing of each other: planning one query leaves a core free for the work of another."""
    lanes = (_stage_seconds, _stage_minutes, _stage_whole)
    staged: dict[str, list[delta.StagedFile]] = {}
    with ThreadPoolExecutor(len(lanes), "lane") as pool:
        futures = [pool.submit(lane, work, steps) for lane in lanes]
        try:
            for future in as_completed(futures):
                staged |= future.result()
        except BaseException:  # Ctrl-C too: it goes on, and the other lanes end at once instead of when they are done.
            with contextlib.suppress(Exception):
                work.spark.sparkContext.cancelAllJobs()
            raise
    return staged


def _stage_seconds(work: _Work, steps: _Steps) -> dict[str, list[delta.StagedFile]]:
    steps.begin("seconds")
    points = _sample_points(work).unionByName(_around(work))
    seconds = rollup.rollup(
        _held(work, points),
        tables.SECOND_NS,
        tables.ROLLUP_1S,
        from_ns=work.plan.from_ns,
        is_dense=False,
    )
    return {"rollup_1s": _stage(work, seconds, tables.ROLLUP_1S)}


def _stage_minutes(work: _Work, steps: _Steps) -> dict[str, list[delta.StagedFile]]:
    """Minutes from stored partials, hours from minutes, days from hours."""
    steps.begin("minutes")
    minutes = rollup.rollup(
        _held(work, _minute_points(work)),
        tables.MINUTE_NS,
        tables.ROLLUP_1MIN,
        from_ns=work.plan.from_ns,
        is_dense=True,
    )
    staged = {"rollup_1min": _stage(work, minutes, tables.ROLLUP_1MIN)}
    steps.begin("hours")
    hours = rollup.coarser(_staged_frame(work, tables.ROLLUP_1MIN), tables.HOUR_NS, tables.ROLLUP_1H)
    staged["rollup_1h"] = _stage(work, hours, tables.ROLLUP_1H)
    steps.begin("availability")
    days = coverage.availability(_staged_frame(work, tables.ROLLUP_1H))
    return staged | {"availability": _stage(work, days, tables.AVAILABILITY)}


def _stage_whole(work: _Work, steps: _Steps) -> dict[str, list[delta.StagedFile]]:
    """The small tables, each as a whole."""
    steps.begin("gaps and alarms")
    items, gaps = frame(work.spark, work.history, FileKind.ITEMS), _gaps(work)
    changes = alarms.transitions(frame(work.spark, work.history, FileKind.EVENTS)).persist()
    known_to_ns = work.plan.known_to_ns
    cases = alarms.cases(changes, known_to_ns).persist()
    rates = alarms.rate(changes, _first_known_ns(work), known_to_ns).persist()
    frames = {
        tables.ITEMS: coverage.item_table(items),
        tables.ITEMS_SCD: coverage.item_versions(items),
        tables.GAPS: coverage.gap_table(gaps, items),
        tables.ALARM_CASES: cases,
        tables.ALARM_RATE: rates,
        tables.ALARM_FLOODS: alarms.floods(rates),
        tables.ALARM_ACTORS: alarms.actors(cases),
        tables.ALARM_STANDING: alarms.standing(cases, known_to_ns),
        tables.ALARM_CHATTER: alarms.chatter(changes),
    }
    return {table.name: _stage(work, one.coalesce(1), table) for table, one in frames.items()}


def _held(work: _Work, points: DataFrame) -> DataFrame:
    limited = rollup.with_limits(points, frame(work.spark, work.history, FileKind.ITEMS))
    return rollup.held(limited, work.plan.known_to_ns)


def _around(work: _Work) -> DataFrame:
    """Points that are no rows: holes where gaps begin, and what held at the midnight before."""
    items = frame(work.spark, work.history, FileKind.ITEMS)
    holes = rollup.points_of_gaps(_gaps(work), items)
    path = _table_path(work.out, tables.ROLLUP_1H)
    if work.plan.is_everything:
        return holes
    day_before = stored.day_of(work.plan.from_ns - tables.DAY_NS)
    hours = _table_frame(work, path, tables.ROLLUP_1H, day_before)
    return holes.unionByName(rollup.points_of_rollup(hours, _begun(work), work.plan.from_ns))


def _begun(work: _Work) -> DataFrame:
    """Ids of the items that had a row before the days of this pass."""
    days = delta.opened_table(_table_path(work.out, tables.AVAILABILITY))
    earlier = [("day", "<", work.plan.from_day)]
    found = [] if days is None else days.to_pyarrow_table(columns=["item_id"], filters=earlier)["item_id"].unique()
    return work.spark.createDataFrame([(int(one.as_py()),) for one in found], "item_id bigint")


def _sample_points(work: _Work) -> DataFrame:
    rows = frame(work.spark, work.history, FileKind.SAMPLES, work.plan.samples)
    # Times beyond the bounds are moved to them: then nothing is before the first midnight.
    is_all = work.plan.from_ns <= -WALL_NS_MAX
    return rollup.points_of_samples(rows if is_all else rows.where(F.col("source_ns") >= work.plan.from_ns))


def _minute_points(work: _Work) -> DataFrame:
    """Stored partials, and samples of those items whose partials can't be used."""
    samples, around = _sample_points(work), _around(work)
    if work.plan.partials is None:
        return samples.unionByName(around)
    stored_rows = frame(work.spark, work.history, FileKind.PARTIALS, work.plan.partials)
    partials = rollup.points_of_partials(stored_rows.where(F.col("first_ns") >= work.plan.from_ns))
    whole = partials.unionByName(rollup.with_inside(around))
    integers = frame(work.spark, work.history, FileKind.ITEMS).where(F.col("value_type") == int(ValueType.INT64))
    # Item ids, never samples: at most as many as there are items.
    found = rollup.useless(whole, work.plan.known_to_ns, integers.select("item_id").distinct())
    late = [row.item_id for row in found.collect()]
    if not late:
        return whole
    # A literal list of thousands makes a slow plan; a small broadcast join does not.
    names = work.spark.createDataFrame([(one,) for one in late], "item_id bigint")
    exact = rollup.with_inside(samples.join(F.broadcast(names), "item_id", "left_semi"))
    usable = partials.join(F.broadcast(names), "item_id", "left_anti")
    return usable.unionByName(exact).unionByName(rollup.with_inside(around))


def _gaps(work: _Work) -> DataFrame:
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


def _first_known_ns(work: _Work) -> int:
    """Begin of the record: the first sample, but not before the day on which the node began to append."""
    entries = work.history.entries(FileKind.SAMPLES)
    if not entries:
        return work.plan.known_to_ns
    first = max(min(one.min_source_ns for one in entries), stored.day_start_ns(min(one.day for one in entries)))
    return min(first, work.plan.known_to_ns)


def _stage(work: _Work, rows: DataFrame, table: Table) -> list[delta.StagedFile]:
    return delta.stage(rows, work.staging / table.name, table.partition_by)


def _staged_frame(work: _Work, table: Table) -> DataFrame:
    """Rows that this pass has staged for `table`."""
    folder = work.staging / table.name
    if not any(folder.rglob("*.parquet")):
        return work.spark.createDataFrame([], table.schema)
    return work.spark.read.schema(table.schema).parquet(literal(folder))


def _table_frame(work: _Work, path: Path, table: Table, day: str) -> DataFrame:
    """Rows of one day of a committed table."""
    files = delta.day_files(path, day)
    if not files:
        return work.spark.createDataFrame([], table.schema)
    return work.spark.read.schema(table.schema).parquet(*map(literal, files)).withColumn("day", F.lit(day))


def _table_path(out: Path, table: Table) -> Path:
    return out / "tables" / table.name


@contextlib.contextmanager
def _held_output(out: Path) -> Iterator[Path]:
    """The output directory, ours alone while the block runs."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise OutputUnusable(
            f"{out} can't be written ({error.strerror})", "name another directory with --out"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputBusy(
                f"another pipeline is at work in {out}", "wait for it, or name another with --out"
            ) from error
        yield out
