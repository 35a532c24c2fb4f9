"""The table `_runs`: which versions of the tables belong together. Written last, so its newest run is whole.

Each table is committed by itself, so a reader of two of them could see one a run older. Who wants them together takes
the versions of one run from here. A run that is not here was ended between two commits: the next one has the same
input and its number, and leaves alone what that one committed, or it has another input and a number of its own.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from albireo.pipeline import delta
from albireo.pipeline.delta import StagedFile, TableState, Watermark
from albireo.pipeline.errors import OutputUnusable
from albireo.pipeline.tables import LakeTable
from albireo.runtime.clock import boot_ns

RUNS: Final = LakeTable(
    name="_runs",
    columns="""
        run bigint, table string, version bigint, rows bigint, is_everything boolean, epoch bigint, sequence bigint,
        complete_to_ns bigint, committed_ns bigint, boot_ns bigint, boot string, start timestamp, mark string
    """,
)
"""One table in one run. version: the one that belongs to the run; rows: of it; start: `committed_ns`, wall time;
boot_ns, boot: boot clock at it, and id of that start of the machine; epoch, sequence, complete_to_ns: how far the
history was taken in; mark: all that is remembered of it, JSON."""
RUNS_KEPT: Final = 100
"""Runs told of; files of old versions stay for a day, so older runs are a chronicle only."""

AGE_NS: Final = 86_400 * 10**9
"""Time for which the wall clock has to go as the boot clock does before it tells the age of a file."""
JUMP_NS: Final = 60 * 10**9

Row = dict[str, Any]


class RunTime(msgspec.Struct, frozen=True):
    """When a run is committed, by both clocks."""

    wall_ns: int
    boot_ns: int
    boot: str

    @classmethod
    def now(cls) -> "RunTime":
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return cls(time.time_ns(), boot_ns(), boot)

    def tells_age(self, rows: Sequence[Row]) -> bool:
        """False: the wall clock jumped since one of these runs, within the last day."""
        mine = [row for row in rows if row["boot"] == self.boot and self.boot_ns - row["boot_ns"] <= AGE_NS]
        offset = self.wall_ns - self.boot_ns
        return all(abs(row["committed_ns"] - row["boot_ns"] - offset) < JUMP_NS for row in mine)


class RunsTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table as it was read."""

    state: TableState
    rows: list[Row]

    @property
    def newest(self) -> int:
        """Number of the last whole run, 0 before the first."""
        return max((row["run"] for row in self.rows), default=0)

    def mark(self, run: int | None) -> Watermark | None:
        """Watermark of a run; None for one that is not here, or of another format."""
        for row in self.rows:
            if row["run"] == run:
                try:
                    return msgspec.json.decode(row["mark"], type=Watermark)
                except msgspec.DecodeError:
                    return None
        return None


def read_runs(path: Path) -> RunsTable:
    """The table `_runs`.

    Raises:
        OutputUnusable: it can't be read.
    """
    opened = delta.opened_table(path)
    if opened is None:
        return RunsTable(state=TableState(), rows=[])
    try:
        rows = opened.to_pyarrow_table().to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise OutputUnusable(
            f"the table {path} can't be read ({error})", "move it away; the next run builds all tables anew"
        ) from error
    return RunsTable(state=delta.read_state(path), rows=rows)


def number_of(
    runs: RunsTable, states: Mapping[str, TableState], marks: Mapping[str, Watermark | None], mark: Watermark
) -> int:
    """Number of a run with this input: that of one that was ended between two commits, or the next.

    Args:
        marks: watermark of each table.
    """
    newest = max([runs.newest, *(one.run or 0 for one in states.values())])
    begun = [name for name, one in states.items() if one.run == newest]
    is_same = newest > runs.newest and all(marks[name] == mark for name in begun)
    return newest if is_same else newest + 1


def staged_runs(
    folder: Path,
    before: RunsTable,
    run: int,
    committed: Mapping[str, tuple[int, int]],
    mark: Watermark,
    now: RunTime,
    *,
    is_everything: bool,
) -> list[StagedFile]:
    """A file with the rows of the table after this run.

    Args:
        committed: version and rows of each table.
    """
    known = {
        "run": run,
        "is_everything": is_everything,
        "epoch": mark.epoch,
        "sequence": mark.sequence,
        "complete_to_ns": mark.complete_to_ns,
        "committed_ns": now.wall_ns,
        "boot_ns": now.boot_ns,
        "boot": now.boot,
        "start": now.wall_ns // 1000,
        "mark": msgspec.json.encode(mark).decode(),
    }
    new = [known | {"table": name, "version": version, "rows": rows} for name, (version, rows) in committed.items()]
    kept = [row for row in before.rows if run - RUNS_KEPT < row["run"] < run]
    schema = to_arrow_schema(RUNS.schema, timezone="UTC")
    rows: Sequence[Row] = sorted([*kept, *new], key=lambda row: (row["run"], row["table"]))
    return delta.stage_rows(pa.Table.from_pylist(list(rows), schema=schema), folder)
