"""Delta tables without Delta's jars: Spark tasks write Parquet, the driver commits, delta-rs reads.

    stage     tasks write files into a folder that no table knows
    commit    they are moved and named in one entry of the table's log (pipeline.commit)

Until the commit nothing is visible; after a crash before it the files are orphans that `cleaned` takes away. Each
commit carries the number of its run as an application transaction, and the watermark of its input beside it, so that
the next run knows what it need not do again.

The tables' folder must be one file system that the driver and every task see; a rename must stay inside it.

Spec: ADR-0071, ADR-0171; Delta transaction protocol (add, remove, txn, commitInfo).
"""

import contextlib
import json
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from albireo.codec.history import Hole
from albireo.pipeline.errors import OutputUnusable

FORMAT: Final = 2
"""Grows when a table's meaning changes: an older table is then built anew from the whole history."""
APPLICATION: Final = "albireo"
"""Name under which a table's log has the number of the last run that it took in."""
WATERMARK_KEY: Final = "albireo"
COMMITS_LOOKED_AT: Final = 50
"""Newest commits searched for a watermark; what others do to a table comes without one."""
OLD_FILES_KEPT: Final = timedelta(hours=24)
"""A reader of an older version of a table has this long before its files are removed."""
CLEANED_MAX: Final = 4_096
"""Most files that go with one run."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """Extent of the history that a table has taken in."""

    log_id: str
    epoch: int
    sequence: int
    complete_to_ns: int
    filled: int = 0
    """Count in the manifest: another number says that rows from before the position were added since."""
    holes: tuple[Hole, ...] = ()
    """Holes of the history: rows from before the position that were added since lie in them."""
    format: int = FORMAT


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file written by a task, not yet of any table."""

    path: Path
    relative: str
    """Path below the staging folder, with forward slashes; the file goes into the table's folder under this name."""
    partition: dict[str, str]
    rows: int
    size_bytes: int
    modified_ms: int
    stats: str
    """Delta's JSON: numRecords, minValues, maxValues of the integer columns."""


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a table, as the table's log tells of it."""

    path: str
    """Relative, as the log spells it."""
    partition: dict[str, str]
    rows: int
    size_bytes: int
    item_ids: tuple[int, int] | None = None
    """Smallest and largest `item_id` in it; None where the log does not tell."""


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a table."""

    version: int = -1
    """-1: there is no table yet."""
    run: int | None = None
    """Number of the last run in it."""
    table_id: str = ""
    schema: str = ""
    """Delta's JSON of its columns."""
    partition_by: tuple[str, ...] = ()
    writer_version: int = 0
    files: tuple[TableFile, ...] = ()

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)


def stage(frame: DataFrame, folder: Path, partition_by: Sequence[str] = ()) -> list[StagedFile]:
    """Has Spark write `frame`; one Spark job.

    Args:
        folder: must not exist.
        partition_by: columns that become folders and leave the files, as Delta wants it.
    """
    writer = frame.write.mode("error")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(str(folder))
    return staged_files(folder)


def stage_rows(rows: pa.Table, folder: Path) -> list[StagedFile]:
    """Writes a few rows below `folder` as one file, without Spark."""
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / f"part-{uuid.uuid4()}.parquet", compression="zstd")
    return staged_files(folder)


def staged_files(folder: Path) -> list[StagedFile]:
    """The files with rows below `folder`, in the order of their names."""
    files = []
    for path in sorted(folder.rglob("*.parquet")):
        metadata = pq.read_metadata(path)
        if metadata.num_rows:
            files.append(_staged(path, folder, metadata))
    return files


def schema_json(schema: StructType) -> str:
    """Delta's JSON of a table's columns."""
    text: str = Schema.from_arrow(to_arrow_schema(schema, timezone="UTC")).to_json()
    return text


def read_state(table: Path) -> TableState:
    """The newest version of the table, from its log alone.

    Raises:
        OutputUnusable: there is something, and it is not a Delta table that can be read.
    """
    opened = opened_table(table)
    if opened is None:
        return TableState()
    metadata = opened.metadata()
    return TableState(
        version=opened.version(),
        run=opened.transaction_version(APPLICATION),
        table_id=str(metadata.id),
        schema=opened.schema().to_json(),
        partition_by=tuple(metadata.partition_columns),
        writer_version=opened.protocol().min_writer_version,
        files=_table_files(opened, metadata.partition_columns),
    )


def watermark(table: Path) -> Watermark | None:
    """Watermark in the table's newest commit of ours; None where there is none, or one of another format."""
    opened = opened_table(table)
    if opened is None:
        return None
    for commit in opened.history(COMMITS_LOOKED_AT):
        text = commit.get(WATERMARK_KEY)
        if isinstance(text, str):
            try:
                return msgspec.json.decode(text, type=Watermark)
            except msgspec.DecodeError:
                return None
    return None


def opened_table(table: Path) -> Any | None:
    """The table as delta-rs sees it, None where there is none.

    Raises:
        OutputUnusable: there is something, and it is not a Delta table that can be read.
    """
    try:
        return DeltaTable(str(table)) if DeltaTable.is_deltatable(str(table)) else None
    except (DeltaError, OSError, ValueError) as error:
        raise OutputUnusable(
            f"the table {table} can't be read ({error})", "remove it; the next run builds it anew from the history"
        ) from error


def day_files(table: Path, state: TableState, day: str) -> list[Path]:
    """Paths of the files of one day of a table that is partitioned by `day`."""
    return [table / unquote(one.path) for one in state.files if one.partition.get("day") == day]


def cleaned(table: Path) -> None:
    """Removes files that no version of the last 24 hours has, orphans of a crash included."""
    opened = opened_table(table)
    if opened is None:
        return
    hours = int(OLD_FILES_KEPT.total_seconds() // 3600)
    # Only asked: delta-rs would note in the log what it removes, and not sync that.
    for old in opened.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)[:CLEANED_MAX]:
        with contextlib.suppress(OSError):  # The next run finds it again; this one has done its work.
            (table / unquote(old)).unlink()


def _table_files(opened: Any, partition_by: Sequence[str]) -> tuple[TableFile, ...]:
    actions = opened.get_add_actions(flatten=True)
    if not actions.num_rows:
        return ()
    known = set(actions.schema.names)
    wanted = ["path", "size_bytes", "num_records", *(f"partition.{name}" for name in partition_by)]
    columns = {name: [one.as_py() for one in actions[name]] for name in wanted}
    bounds: list[tuple[int, int] | None] = [None] * len(columns["path"])
    if {"min.item_id", "max.item_id"} <= known:
        pairs = zip(actions["min.item_id"], actions["max.item_id"], strict=True)
        bounds = [None if low.as_py() is None else (low.as_py(), high.as_py()) for low, high in pairs]
    return tuple(
        TableFile(
            path=columns["path"][index],
            partition={name: str(columns[f"partition.{name}"][index]) for name in partition_by},
            rows=columns["num_records"][index] or 0,
            size_bytes=columns["size_bytes"][index],
            item_ids=bounds[index],
        )
        for index in range(len(columns["path"]))
    )


def _staged(path: Path, folder: Path, metadata: Any) -> StagedFile:
    relative = path.relative_to(folder)
    pairs = [part.partition("=") for part in relative.parts[:-1]]
    known = path.stat()
    return StagedFile(
        path=path,
        relative=relative.as_posix(),
        partition={unquote(name): unquote(value) for name, _, value in pairs},
        rows=metadata.num_rows,
        size_bytes=known.st_size,
        modified_ms=known.st_mtime_ns // 1_000_000,
        stats=_stats(metadata),
    )


def _stats(metadata: Any) -> str:
    """Smallest and largest of each integer column, so that readers skip files; the rest is of little use to them."""
    lows: dict[str, int] = {}
    highs: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            known = column.statistics
            if column.physical_type != "INT64" or known is None or not known.has_min_max:
                continue
            if isinstance(known.min, int):
                name = column.path_in_schema
                lows[name] = min(lows.get(name, known.min), known.min)
                highs[name] = max(highs.get(name, known.max), known.max)
    return json.dumps({"numRecords": metadata.num_rows, "minValues": lows, "maxValues": highs})
