"""A careful commit: files of a run become part of a table, in one entry of the table's log.

    files synced ──▶ moved to the table ──▶ folders synced ──▶ entry aside, synced ──▶ linked ──▶ log synced

So an entry names nothing that a power cut can take, and is itself there whole or not at all. The entry of version N +
1 is a link that fails where that name exists: a run replaces the version that it has read, or none. There is no retry
on a newer version, because the run has not read that one. A table that has the run already (its `txn`) is left alone.

We write the entry ourselves: delta-rs syncs nothing, and does its work again on whatever version it finds.

Spec: ADR-0171; Delta transaction protocol (commitInfo, protocol, metaData, txn, add, remove).
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from deltalake import DeltaTable

import albireo
from albireo.log.descriptors import with_reserve
from albireo.log.files import FileSystem, OsFileSystem, opened, sync_names, write_all
from albireo.pipeline.delta import (
    APPLICATION,
    WATERMARK_KEY,
    StagedFile,
    TableFile,
    TableState,
    Watermark,
    cleaned,
    opened_table,
)
from albireo.pipeline.errors import OutputUnusable, SchemaDiffers, TableChanged

LOG_FOLDER: Final = "_delta_log"
ASIDE_NAME: Final = ".albireo.tmp"
"""Name of an entry until it is linked; no reader of Delta looks at it."""
LAST_CHECKPOINT: Final = "_last_checkpoint"
CHECKPOINT_EVERY: Final = 50
"""Versions between two checkpoints: a reader reads at most so many entries."""
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2
"""Versions of Delta's protocol that our tables need and that this module can write."""


class TableFiles(OsFileSystem):
    """The real file system, for tables: who may read what is made is left to the umask, as with Spark's own files."""

    def open(self, path: Path, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        return with_reserve(os.open, path, flags, 0o666)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Change that one run makes in one table."""

    run: int
    """Number of the run."""
    mark: Watermark
    schema: str
    """Delta's JSON of the columns, partition columns included."""
    partition_by: tuple[str, ...] = ()
    files: tuple[StagedFile, ...] = ()
    replaced: Callable[[str], bool] | None = None
    """Says whether the old files of a value of the first partition column go; None: every old file goes."""

    def removed(self, before: TableState) -> list[TableFile]:
        """The old files that go."""
        if self.replaced is None:
            return list(before.files)
        return [one for one in before.files if self.replaced(one.partition[before.partition_by[0]])]

    def rows_after(self, before: TableState) -> int:
        return before.rows - sum(one.rows for one in self.removed(before)) + sum(one.rows for one in self.files)


def commit(files: FileSystem, table: Path, before: TableState, change: Change, now_ms: int) -> int:
    """Makes the files of `change` part of the table, in place of what they replace.

    Args:
        before: the table as the run has read it.
        now_ms: wall time.
    Returns:
        The version of the table that has the run: a new one, or the one read if the run is in there already.
    Raises:
        SchemaDiffers: the table has other columns, and the run has not read all that it would replace.
        TableChanged: somebody else has written the table since `before` was read.
        OutputUnusable: the table can't be written.
    """
    check(table, before, change)
    if before.run == change.run and _has_columns(before, change):
        return before.version
    try:
        added = _moved(files, table, change.files)
        return _appended(files, table, before, _entry(before, change, added, now_ms))
    except OSError as error:
        raise OutputUnusable(
            f"the table {table} can't be written ({error})", "check the disk, or use a fresh --out"
        ) from error


def check(table: Path, before: TableState, change: Change) -> None:
    """Raises what `commit` would, as far as it can be known before any work is done."""
    if before.run is not None and before.run > change.run:
        raise TableChanged(table, before.version)
    if before.version < 0:
        return
    if change.replaced is not None and not _has_columns(before, change):
        raise SchemaDiffers(table)
    if before.writer_version > WRITER_VERSION:
        raise OutputUnusable(
            f"the table {table} was changed by another program so that it needs writers of Delta's version "
            f"{before.writer_version}",
            "move it away; the next run builds it anew from the history",
        )


def _has_columns(before: TableState, change: Change) -> bool:
    return before.schema == change.schema and before.partition_by == change.partition_by


def _moved(files: FileSystem, table: Path, staged: Sequence[StagedFile]) -> list[dict[str, Any]]:
    """Moves files into the table's folder, durable before they are named there, and their names before any entry."""
    folders = {table / LOG_FOLDER, *(table / one for file in staged for one in Path(file.relative).parents)}
    for folder in sorted(folders):
        files.make_directory(folder)
    for one in staged:
        with opened(files, one.path) as handle:
            files.sync(handle)
        files.rename(one.path, table / one.relative)
    for folder in sorted(folders, reverse=True):
        files.sync_directory(folder)
    sync_names(files, table)
    return [
        {
            "path": quote(one.relative, safe="/=:"),
            "partitionValues": one.partition,
            "size": one.size_bytes,
            "modificationTime": one.modified_ms,
            "dataChange": True,
            "stats": one.stats,
        }
        for one in staged
    ]


def _entry(before: TableState, change: Change, added: Sequence[dict[str, Any]], now_ms: int) -> bytes:
    """The lines of the log's entry."""
    actions: list[dict[str, Any]] = [{"commitInfo": _info(change, now_ms)}]
    if before.version < 0:
        actions.append({"protocol": {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}})
    if before.version < 0 or not _has_columns(before, change):
        metadata = {
            "id": before.table_id or str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": change.schema,
            "partitionColumns": list(change.partition_by),
            "configuration": {},
            "createdTime": now_ms,
        }
        actions.append({"metaData": metadata})
    actions.append({"txn": {"appId": APPLICATION, "version": change.run, "lastUpdated": now_ms}})
    for old in change.removed(before):
        removed = {"path": old.path, "deletionTimestamp": now_ms, "dataChange": True}
        known = {"extendedFileMetadata": True, "partitionValues": old.partition, "size": old.size_bytes}
        actions.append({"remove": removed | known})
    actions += [{"add": one} for one in added]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in actions)


def _info(change: Change, now_ms: int) -> dict[str, Any]:
    return {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite"},
        "engineInfo": f"albireo:{albireo.__version__}",
        WATERMARK_KEY: msgspec.json.encode(change.mark).decode(),
    }


def _appended(files: FileSystem, table: Path, before: TableState, entry: bytes) -> int:
    """Puts the entry behind the version that was read; returns the new version."""
    log, version = table / LOG_FOLDER, before.version + 1
    aside, target = log / ASIDE_NAME, log / f"{version:020d}.json"
    handle = files.open(aside, create=True)
    try:
        write_all(files, handle, [entry], 0)
        files.sync(handle)
    finally:
        files.close(handle)
    try:
        files.link(aside, target)
    except FileExistsError as error:
        raise TableChanged(table, before.version) from error
    finally:
        with contextlib.suppress(OSError):
            files.unlink(aside)
    files.sync_directory(log)
    return version


def tended(files: FileSystem, table: Path, work: Path, *, lets_go: bool) -> None:
    """Removes files of the table that nobody needs any more, and from time to time shortens its log.

    Args:
        work: a folder on the table's file system, which is made and removed.
        lets_go: the wall clock tells how old a file is.
    """
    opened_now = opened_table(table)
    if opened_now is not None and opened_now.version() % CHECKPOINT_EVERY == 0 and opened_now.version():
        _checkpointed(files, table, work)
    if lets_go:
        cleaned(table)


def _checkpointed(files: FileSystem, table: Path, work: Path) -> None:
    """Has delta-rs write the checkpoint on a copy of the log, and takes it over durable: it syncs nothing itself."""
    log, copy = table / LOG_FOLDER, work / LOG_FOLDER
    shutil.rmtree(work, ignore_errors=True)
    copy.mkdir(parents=True)
    for path in log.iterdir():
        if path.suffix in (".json", ".parquet") and path.name != LAST_CHECKPOINT:
            os.link(path, copy / path.name)
    DeltaTable(str(work)).create_checkpoint()
    made = sorted(path for path in copy.iterdir() if path.suffix == ".parquet" and not (log / path.name).exists())
    for path in (*made, copy / LAST_CHECKPOINT):
        with opened(files, path) as handle:
            files.sync(handle)
        files.rename(path, log / path.name)
        files.sync_directory(log)
    shutil.rmtree(work)
