"""Writes small histories as the historian lays them out: the same schemas, the same manifest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from albireo.codec import history as stored
from albireo.codec.crc import crc32c
from albireo.codec.history import FileEntry, FileKind, Manifest
from albireo.model.position import Position

Row = dict[str, Any]
LOG_ID = "5f" * 16
DAY0 = stored.day_start_ns("2026-03-01")
"""A midnight; generated histories begin here."""
SECOND = 1_000_000_000

_TIMES = {
    FileKind.SAMPLES: ("source_ns", "source_ns"),
    FileKind.PARTIALS: ("first_ns", "last_ns"),
    FileKind.GAPS: ("from_ns", "to_ns"),
    FileKind.EVENTS: ("at_ns", "at_ns"),
}


class HistoryWriter:
    """Grows a history file by file; `publish` writes the manifest."""

    def __init__(self, directory: Path, node: str = "root") -> None:
        self.directory = directory
        self.node = node
        self.entries: list[FileEntry] = []
        self.generation = 0
        directory.mkdir(parents=True, exist_ok=True)

    def items(self, rows: Sequence[Row]) -> None:
        self.entries = [entry for entry in self.entries if entry.kind is not FileKind.ITEMS]
        self.generation += 1
        self._write(FileKind.ITEMS, stored.items_path(self.generation), rows, ("", 0, 0, 0, 0))

    def add(self, kind: FileKind, rows: Sequence[Row]) -> FileEntry:
        """One file of `rows`; node_ns, epoch and sequence are given by each row."""
        self.generation += 1
        low, high = _TIMES[kind]
        sequences = [row["sequence"] for row in rows]
        span = (min(sequences), max(sequences))
        day = stored.day_of(max(row["node_ns"] for row in rows))
        path = stored.file_path(kind, self.node, day, span, self.generation)
        times = (min(row[low] for row in rows), max(row[high] for row in rows))
        return self._write(kind, path, rows, (day, *times, *span))

    def write(self, kind: FileKind, path: str, rows: Sequence[Row], like: FileEntry) -> None:
        """A file beside another: its entry has the other's day, times and sequences."""
        self._write(
            kind,
            path,
            rows,
            (like.day, like.min_source_ns, like.max_source_ns, like.first_sequence, like.last_sequence),
        )

    def publish(self, *, sequence: int, complete_to_ns: int, epoch: int = 1, log_id: str = LOG_ID) -> None:
        manifest = Manifest(
            node=self.node,
            log_id=log_id,
            generation=self.generation,
            position=Position(epoch, sequence),
            complete_to_ns=complete_to_ns,
            files=tuple(self.entries),
        )
        (self.directory / stored.MANIFEST_NAME).write_bytes(stored.encode_manifest(manifest))

    def _write(self, kind: FileKind, path: str, rows: Sequence[Row], span: tuple[str, int, int, int, int]) -> FileEntry:
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(list(rows), schema=stored.SCHEMAS[kind])
        pq.write_table(table, target, compression="zstd", write_page_checksum=True)
        entry = FileEntry(
            kind=kind,
            path=path,
            node=self.node,
            day=span[0],
            rows=len(rows),
            min_source_ns=span[1],
            max_source_ns=span[2],
            first_sequence=span[3],
            last_sequence=span[4],
            size_bytes=target.stat().st_size,
            content_crc=crc32c(target.read_bytes()),
            footer_crc=0,  # Spark looks at the whole.
            log_id=LOG_ID,
        )
        self.entries.append(entry)
        return entry


def item(item_id: int, name: str, value_type: int = 1, **more: Any) -> Row:
    plain: Row = {"node": "root", "unit": "", "description": "", "adapter": "p1", "states": ""}
    plain |= dict.fromkeys(("stale_ns", "valid_from_ns", "valid_to_ns"))
    return {"item_id": item_id, "name": name, "value_type": value_type, "sequence": 0, **plain, **more}


def sample(item_id: int, source_ns: int, value: float | int | str, sequence: int, quality: int = 0) -> Row:
    column = {float: "value_f64", int: "value_i64", str: "value_str"}[type(value)]
    empty = {"value_f64": None, "value_i64": None, "value_str": None}
    times = {"item_id": item_id, "source_ns": source_ns, "node_ns": source_ns}
    return {**times, **empty, column: value, "quality": quality, "epoch": 1, "sequence": sequence}


def replaced(entry: FileEntry, **changes: Any) -> FileEntry:
    return msgspec.structs.replace(entry, **changes)
