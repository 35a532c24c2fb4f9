"""One run of the pipeline: history in, Delta tables and a report out.

    open ──▶ plan ──▶ pin ──▶ stage (Spark tasks write files) ──▶ commit (one entry per table, `_runs` last) ──▶ report
              └─ nothing new ─────────────────────────────────────────────────────────────────────────────────▶ │

A run that is ended anywhere leaves tables that are each whole; the next run goes on from the oldest of their
watermarks. The same input twice gives the same tables, the second time without Spark.
"""

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

import albireo
from albireo.codec.history import BELOW, MANIFEST_NAME, PREVIOUS_NAME, BelowFolder, FileKind
from albireo.pipeline import delta, pins, tables
from albireo.pipeline.commit import Change, TableFiles, check, commit, tended
from albireo.pipeline.config import SHORT_ROWS_MAX, SparkConfig, spark_config
from albireo.pipeline.delta import StagedFile, TableState, Watermark
from albireo.pipeline.errors import OutputBusy, OutputUnusable
from albireo.pipeline.plan import LateRows, WorkPlan, base_of, is_known, news, open_from_ns, plan, with_partials
from albireo.pipeline.runs import RUNS, RunsTable, RunTime, number_of, read_runs, staged_runs
from albireo.pipeline.session import spark_session
from albireo.pipeline.source import HistoryFolder, named_failures, read_manifest
from albireo.pipeline.staging import StagingWork, stage_all
from albireo.pipeline.tables import LakeTable
from albireo.pipeline.touched import is_declared_otherwise, late_rows

Progress = Callable[[int, int, str], None]
"""Called at the start of each step with steps done, steps in all, and what begins now."""

STEPS: Final = 8
REPORT_HEAD_BYTES: Final = 2_000
"""Bytes of the page in which its mark stands."""


class _Steps:
    """Counts the steps of one run and says them; two lanes of work may do so at once."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._begun = 0
        self._lock = threading.Lock()

    def begin(self, text: str) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress(self._begun, STEPS, text)
            self._begun += 1


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that are known before any work is done: the input, and the tables as they are."""

    history: HistoryFolder
    states: dict[str, TableState]
    runs: RunsTable
    run: int
    plan: WorkPlan | None
    """None: there is nothing new."""

    def has(self, table: LakeTable) -> bool:
        """Whether the table has this run already: the run before had the same input and was ended on its way."""
        return self.states[table.name].run == self.run


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
    history_dir = history_dir.absolute()
    read_manifest(history_dir)  # No output is made for a history that is not there.
    with _held_output(out_dir.absolute()) as out, _Spark(session, master, out) as spark:
        return _run(history_dir, out, spark, progress)


def _run(history_dir: Path, out: Path, spark: "_Spark", progress: Progress | None) -> dict[str, Any]:
    """Does what `run` says, in an output directory that is held."""
    began = time.monotonic()
    steps = _Steps(progress)
    pins.unpin(out / pins.FOLDER)
    try:
        begun = pins.begun(history_dir, lambda history: _begun(history, out))
        rows = _brought_up_to_date(begun, out, spark, steps)
    finally:
        pins.unpin(out / pins.FOLDER)
    report = out / "report.html"
    if begun.plan is not None or not _is_made(report, begun.run):
        steps.begin("report")
        # Drawing takes longer to load than all else here, and a run without news draws nothing.
        from albireo.pipeline.report.report import write_report

        write_report(report, out / "tables", begun.history.manifest, rows, _report_mark(begun.run))
    return {"tables": rows, "seconds": round(time.monotonic() - began, 3), "report": str(report)}


def _report_mark(run: int) -> str:
    return f"albireo {albireo.__version__}, run {run}"


def _is_made(report: Path, run: int) -> bool:
    """Whether the report is this version's page on this run."""
    try:
        with report.open("rb") as page:
            return f'content="{_report_mark(run)}"'.encode() in page.read(REPORT_HEAD_BYTES)
    except OSError:
        return False


def _begun(history: HistoryFolder, out: Path) -> _Begun:
    """Reads the tables, plans, and pins what will be read."""
    states = {table.name: delta.read_state(_table_path(out, table)) for table in tables.TABLES}
    runs = read_runs(_table_path(out, RUNS))
    marks = {name: _mark(out, name, state, runs) for name, state in states.items()}
    manifest = history.manifest
    begun = _Begun(history=history, states=states, runs=runs, run=runs.newest, plan=None)
    if is_known(manifest, marks.values()) and {one.run for one in states.values()} == {runs.newest}:
        return begun
    base, late, folder = base_of(manifest, marks.values()), LateRows(), out / pins.FOLDER
    if base is not None:
        found = news(manifest, base)
        read = with_partials(manifest, [one.entry for one in found])
        read += [*manifest.of_kind(FileKind.ITEMS), *manifest.of_kind(FileKind.GAPS)]
        history = pins.pin(history, read, folder)
        if is_declared_otherwise(history, out / "tables", open_from_ns(base)):
            base = None
        else:
            late = late_rows(history, found, open_from_ns(base), _table_path(out, tables.AVAILABILITY))
    todo = plan(manifest, base, late)
    others = [one for one in manifest.files if one.kind not in (FileKind.SAMPLES, FileKind.PARTIALS)]
    return msgspec.structs.replace(
        begun,
        history=pins.pin(history, [*todo.files, *others], folder),
        run=number_of(runs, states, marks, todo.mark),
        plan=todo,
    )


def _mark(out: Path, name: str, state: TableState, runs: RunsTable) -> Watermark | None:
    """The watermark of a table; a run that is not in `_runs` has it in the table's own log only."""
    if state.run is None:
        return None
    return runs.mark(state.run) or delta.watermark(out / "tables" / name)


def _brought_up_to_date(begun: _Begun, out: Path, spark: "_Spark", steps: _Steps) -> dict[str, int]:
    """Does the work; returns the rows of each table."""
    todo = begun.plan
    if todo is None:
        return {name: state.rows for name, state in begun.states.items()}
    for table in tables.TABLES:  # Before Spark starts: a table that can't be written is told at once.
        check(_table_path(out, table), begun.states[table.name], _change(begun, todo, table, []))
    staging = out / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staged: dict[str, list[StagedFile]] = {}
        if not all(map(begun.has, tables.TABLES)):
            steps.begin("starting Spark")
            session = spark.session(todo.sample_rows)
            with named_failures(begun.history, spark.log):
                work = StagingWork(
                    spark=session,
                    history=begun.history,
                    plan=todo,
                    run=begun.run,
                    states=begun.states,
                    tables=out / "tables",
                    staging=staging,
                )
                staged = stage_all(work, steps.begin)
        steps.begin("commit")
        return _committed(begun, todo, out, staged)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _committed(begun: _Begun, todo: WorkPlan, out: Path, staged: dict[str, list[StagedFile]]) -> dict[str, int]:
    """Commits each table, and at last which of their versions belong together; returns the rows of each."""
    files, now = TableFiles(), RunTime.now()
    committed: dict[str, tuple[int, int]] = {}
    for table in tables.TABLES:
        path, before = _table_path(out, table), begun.states[table.name]
        change = _change(begun, todo, table, staged.get(table.name, []))
        version = commit(files, path, before, change, now.wall_ns // 1_000_000)
        committed[table.name] = (version, before.rows if version == before.version else change.rows_after(before))
    rows = staged_runs(
        out / "staging" / RUNS.name,
        begun.runs,
        begun.run,
        committed,
        todo.mark,
        now,
        is_everything=todo.is_everything,
    )
    change = msgspec.structs.replace(_change(begun, todo, RUNS, rows), replaced=None)
    commit(files, _table_path(out, RUNS), begun.runs.state, change, now.wall_ns // 1_000_000)
    for table in (*tables.TABLES, RUNS):
        tended(files, _table_path(out, table), out / "staging" / "tended", lets_go=now.tells_age(begun.runs.rows))
    return {name: count for name, (_, count) in committed.items()}


def _change(begun: _Begun, todo: WorkPlan, table: LakeTable, staged: Sequence[StagedFile]) -> Change:
    return Change(
        run=begun.run,
        mark=todo.mark,
        schema=delta.schema_json(table.schema),
        partition_by=table.partition_by,
        files=tuple(staged),
        replaced=None if todo.is_everything or not table.partition_by else todo.is_touched,
    )


class _Spark(contextlib.ExitStack):
    """Spark, started when it is first needed, and ended with this block."""

    def __init__(self, given: SparkSession | None, master: str | None, directory: Path) -> None:
        """
        Args:
            given: a session that runs already, and goes on afterwards; None: one is started.
            directory: where one that is started writes; it has to be held by this process.
        """
        super().__init__()
        self.log = directory / "spark.log"
        self._given = given
        self._master = master
        self._directory = directory
        self._started: tuple[SparkSession, SparkConfig] | None = None

    def session(self, sample_rows: int) -> SparkSession:
        """The session for a run over so many samples; one that was started for short work is ended for long work, which
        it would do slowly."""
        if self._given is not None:
            return self._given
        is_short = sample_rows <= SHORT_ROWS_MAX
        if self._started is not None and self._started[1].is_short and not is_short:
            self.end()
        if self._started is None:
            config = spark_config(os.environ, self._master, is_short=is_short)
            self._started = self.enter_context(spark_session(config, self._directory)), config
        session, config = self._started
        if config.is_local:  # Elsewhere Spark fits the tasks of each query to what it finds.
            session.conf.set("spark.sql.shuffle.partitions", str(config.shuffle_tasks(sample_rows)))
        return session

    def end(self) -> None:
        """End what was started; the next work starts anew."""
        self._started = None
        self.close()


def _table_path(out: Path, table: LakeTable) -> Path:
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


def nodes_below(data: Path) -> list[BelowFolder]:
    """Histories of nodes below in a data directory, by name; those that never had a manifest hold nothing yet."""
    names = {path.parent.name for name in (MANIFEST_NAME, PREVIOUS_NAME) for path in (data / BELOW).glob(f"*/{name}")}
    found = map(BelowFolder.of_name, sorted(names))
    return [one for one in found if one is not None]


def run_all(
    data: Path,
    out: Path,
    *,
    master: str | None = None,
    progress: Progress | None = None,
    session: SparkSession | None = None,
) -> dict[str, Any]:
    """Brings up to date what `out` has of a node and, in a folder for each, of all logs of nodes below it.

    Items are numbered by each log for itself, so each has tables of its own. Whatever stops the work on one of them,
    the node's own included, stops no other.

    Args: as `run`; `data`: a node's data directory.
    Returns:
        As `run`, of the node itself; with histories of nodes below also `below`: their answers with `node`, `log_id`.
    Raises:
        PipelineError: the first one, when all have had their turn.
    """
    data, out = data.absolute(), out.absolute()
    nodes = nodes_below(data)
    if not nodes:
        read_manifest(data / "history")  # No output is made for a history that is not there.
    answer: dict[str, Any] = {}
    below: list[dict[str, Any]] = []
    failures: list[Exception] = []
    with _held_output(out), _Spark(session, master, out) as spark:
        for one in (None, *nodes):
            try:
                if one is None:
                    answer = _run(data / "history", out, spark, progress)
                else:
                    read_manifest(data / one.path)
                    with _held_output(out / "below" / one.name) as held:
                        found = _run(data / one.path, held, spark, progress)
                    below.append({"node": one.node, "log_id": one.log_id.hex(), **found})
            except Exception as error:  # noqa: BLE001  # Raised below: even a bug, met with one node's data, waits.
                spark.end()  # It may be what failed.
                failures.append(error)
    if failures:
        raise failures[0]
    return {**answer, "below": below} if below else answer
