"""Delta tables without Delta's jars: Spark tasks write Parquet, the driver commits with delta-rs.

    stage     tasks write files into a folder that no table knows
    move      the driver renames them into the table's folder (same file system)
    commit    one transaction adds them and removes the files of the partitions they replace

Until the commit nothing is visible; after a crash before it the files are orphans that `vacuumed` takes away. Each
commit carries the watermark of its input (log, position, complete-to), in the transaction's metadata and as an
application transaction, so that the next pass knows what it need not do again.

The tables' folder must be one file system that the driver and every task see; a rename must stay inside it.

Spec: ADR-0071; Delta transaction protocol (add, remove, txn, commitInfo).
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from albireo.pipeline.errors import OutputUnusable

FORMAT: Final = 2
"""Grows when a table's meaning changes: an older table is then built anew from the whole history."""
WATERMARK_KEY: Final = "albireo"
COMMITS_LOOKED_AT: Final = 50
"""Newest commits searched for a watermark; vacuum and compaction write commits without one."""
OLD_FILES_KEPT: Final = timedelta(hours=24)
"""A reader of an older version of a table has this long before its files are removed."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """Extent of the history that a table has taken in."""

    log_id: str
    epoch: int
    sequence: int
    complete_to_ns: int
    filled: int = 0
    """Count in the manifest: another number says that rows from before the position were added since."""
    format: int = FORMAT


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file written by a task, not yet of any table."""

    path: Path
    relative: str
    """Path below the staging folder, with forward slashes; the file goes into the table's folder under this name."""
    partition: dict[str, str]
    rows: int
    size_bytes: int
    stats: str
    """Delta's JSON: numRecords, minValues, maxValues of the integer columns."""


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


def staged_files(folder: Path) -> list[StagedFile]:
    """The files with rows below `folder`, in the order of their names."""
    files = []
    for path in sorted(folder.rglob("*.parquet")):
        metadata = pq.read_metadata(path)
        if metadata.num_rows:
            files.append(_staged(path, folder, metadata))
    return files


def watermark(table: Path) -> Watermark | None:
    """Watermark in the table's newest commit of ours; None where there is no table or it is of another format."""
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


def commit(
    table: Path,
    schema: StructType,
    files: Sequence[StagedFile],
    mark: Watermark,
    *,
    partition_by: Sequence[str] = (),
    replaced_from: str | None = None,
) -> None:
    """Makes `files` part of the table, in place of what they replace, in one transaction.

    Args:
        schema: of the table, partition columns included.
        replaced_from: old files go whose first partition value is this or a later one; None: every old file goes.
    Raises:
        OutputUnusable: the table can't be written.
    """
    added = [_moved(file, table) for file in files]
    properties = CommitProperties(
        custom_metadata={WATERMARK_KEY: msgspec.json.encode(mark).decode()},
        app_transactions=[Transaction(f"albireo/{mark.log_id}", mark.sequence)],
    )
    delta_schema = Schema.from_arrow(to_arrow_schema(schema, timezone="UTC"))
    try:
        opened = opened_table(table)
        if opened is None:
            create_table_with_add_actions(
                str(table), delta_schema, added, "error", list(partition_by), commit_properties=properties
            )
        elif opened.schema() != delta_schema:
            opened.create_write_transaction(
                added, "overwrite", delta_schema, list(partition_by), commit_properties=properties
            )
        else:
            gone = _removed(opened, replaced_from, partition_by)
            opened.create_write_transaction(
                [*added, *gone], "append", delta_schema, list(partition_by), commit_properties=properties
            )
    except (DeltaError, OSError) as error:
        raise OutputUnusable(
            f"the table {table} can't be written ({error})", "check the disk, or use a fresh --out"
        ) from error


def opened_table(table: Path) -> Any | None:
    """The table as delta-rs sees it, None where there is none.

    Raises:
        OutputUnusable: there is something, and it is not a Delta table that can be read.
    """
    try:
        return DeltaTable(str(table)) if DeltaTable.is_deltatable(str(table)) else None
    except (DeltaError, OSError, ValueError) as error:
        raise OutputUnusable(
            f"the table {table} can't be read ({error})", "remove it; the next pass builds it anew from the history"
        ) from error


def row_count(table: Path) -> int:
    """Rows of the table's newest version, from its log alone."""
    opened = opened_table(table)
    if opened is None:
        return 0
    return sum(int(count.as_py()) for count in opened.get_add_actions(flatten=True)["num_records"])


def day_files(table: Path, day: str) -> list[Path]:
    """Paths of the files of one day of a table that is partitioned by `day`."""
    opened = opened_table(table)
    if opened is None:
        return []
    actions = opened.get_add_actions(flatten=True)
    known = zip(actions["path"], actions["partition.day"], strict=True)
    return [table / unquote(path.as_py()) for path, its_day in known if its_day.as_py() == day]


def vacuumed(table: Path) -> None:
    """Removes files that no version of the last 24 hours has, orphans of a crash included."""
    opened = opened_table(table)
    if opened is not None:
        hours = int(OLD_FILES_KEPT.total_seconds() // 3600)
        opened.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)


def _staged(path: Path, folder: Path, metadata: Any) -> StagedFile:
    relative = path.relative_to(folder)
    pairs = [part.partition("=") for part in relative.parts[:-1]]
    return StagedFile(
        path=path,
        relative=relative.as_posix(),
        partition={unquote(name): unquote(value) for name, _, value in pairs},
        rows=metadata.num_rows,
        size_bytes=path.stat().st_size,
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


def _moved(file: StagedFile, table: Path) -> AddAction:
    target = table / file.relative
    target.parent.mkdir(parents=True, exist_ok=True)
    file.path.rename(target)
    return AddAction(
        path=quote(file.relative, safe="/=:"),
        size=file.size_bytes,
        partition_values=dict(file.partition),
        modification_time=target.stat().st_mtime_ns // 1_000_000,
        data_change=True,
        stats=file.stats,
    )


def _removed(opened: Any, replaced_from: str | None, partition_by: Sequence[str]) -> list[Any]:
    """Remove actions for the old files of the replaced partitions."""
    actions = opened.get_add_actions(flatten=True)
    paths = [path.as_py() for path in actions["path"]]
    if partition_by:
        values = [[value.as_py() for value in actions[f"partition.{name}"]] for name in partition_by]
    else:
        values = []
    newest_ms = max((int(one.as_py()) for one in actions["modification_time"]), default=0)
    gone = []
    for index, path in enumerate(paths):
        partition = {name: str(column[index]) for name, column in zip(partition_by, values, strict=True)}
        if replaced_from is None or partition[partition_by[0]] >= replaced_from:
            gone.append(RemoveAction(path, True, newest_ms, None, partition))
    return gone
