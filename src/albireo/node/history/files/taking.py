"""Taking: a file of another history is read and judged, and its rows within a hole become files of our own.

The file itself is not kept. So its name and its layout do not matter, the partials are ours, and rows that are here
already, before and behind the hole, stay out. Of a file of declared items the versions are taken.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from albireo.codec.crc import crc32c
from albireo.codec.history import ITEMS, SCHEMAS, FileEntry, FileKind, Hole, Manifest, file_path, is_node, partials_path
from albireo.machine.history.aggregate import Ints
from albireo.machine.history.declared import VERSIONS_MAX, DeclaredItems
from albireo.model.position import EpochHistory
from albireo.node.history.errors import FileRefused, HistoryDamaged, MergeAbandoned
from albireo.node.history.files import parquet
from albireo.node.history.files.branches import living_rows
from albireo.node.history.files.entries import TIMES
from albireo.node.history.files.merging import KEYS, PartialsTail, open_writer
from albireo.node.history.files.store import HistoryStore

READ_BYTES: Final = 1 << 20
GROUP_BYTES_MAX: Final = 256 << 20
"""Largest row group, unpacked, by the word of its file: ours have some 3 MB."""
ITEM_ROWS_MAX: Final = 2_000_000
"""Most rows of a file of declared items."""
LEVELS: Final = (0, 1, 2, 9)
"""Levels that a file may have (machine.history.sealing)."""


def take(store: HistoryStore, aside: Path, entry: FileEntry, hole: Hole, abandon: threading.Event) -> list[FileEntry]:
    """Files with the rows of `aside` that lie in `hole`, durable and not yet listed; none if there are no such rows.

    Args:
        aside: the fetched file.
        entry: line of the other manifest for it; judged already, as far as possible without the file.

    Raises:
        FileRefused: the file has a fault.
        MergeAbandoned: `abandon` was set from another thread.
        OSError: of the disk.
    """
    _check_bytes(aside, entry)
    taker = _Taker(store, entry, hole, _new_path(store, entry, hole))
    try:
        with _opened(aside, entry) as file:
            for block in _blocks(file, entry):
                _unless(abandon)
                taker.add(block)
        return taker.finish()
    except HistoryDamaged as error:
        taker.abandon()
        raise FileRefused("unreadable_file") from error
    except BaseException:  # The error goes on; the half-written files do not stay.
        taker.abandon()
        raise


class _Taker:
    """Writer of the files; it begins none before there is a row for it."""

    def __init__(self, store: HistoryStore, entry: FileEntry, hole: Hole, path: str) -> None:
        self._path = path
        self._store = store
        self._entry = entry
        self._hole = hole
        self._writers: list[parquet.ParquetWriter] = []
        self._tail: PartialsTail | None = None
        self._times: list[tuple[int, int]] = []
        self._sequences: list[tuple[int, int]] = []

    def add(self, block: pa.Table) -> None:
        sequence = parquet.ints(block, "sequence")
        is_within = (sequence >= self._hole.first_sequence) & (sequence <= self._hole.last_sequence)
        is_within &= _of_this_branch(self._store.manifest, self._hole, parquet.ints(block, "epoch"), sequence)
        if not is_within.any():
            return
        if not is_within.all():
            block, sequence = block.filter(pa.array(is_within)), sequence[is_within]
        begin, end = (parquet.ints(block, name) for name in TIMES[self._entry.kind])
        self._times.append((int(begin.min()), int(end.max())))
        self._sequences.append((int(sequence.min()), int(sequence.max())))
        if not self._writers:
            self._begin()
        self._writers[0].add(block)
        if self._tail is not None:
            self._tail.add(block)

    def _begin(self) -> None:
        self._writers.append(open_writer(self._store, self._path, self._entry.kind))
        if self._entry.kind is FileKind.SAMPLES:
            self._writers.append(open_writer(self._store, partials_path(self._path), FileKind.PARTIALS))
            self._tail = PartialsTail(self._writers[1])

    def finish(self) -> list[FileEntry]:
        if self._tail is not None:
            self._tail.finish()
        kinds = (self._entry.kind, FileKind.PARTIALS)
        paths = (self._path, partials_path(self._path))
        return [
            self._listed(kind, path, writer.rows, writer.finish())
            for kind, path, writer in zip(kinds, paths, self._writers, strict=False)
        ]

    def _listed(self, kind: FileKind, path: str, rows: int, written: parquet.WrittenFile) -> FileEntry:
        level = self._entry.level
        return msgspec.structs.replace(
            self._entry,
            kind=kind,
            path=path,
            rows=rows,
            min_source_ns=min(first for first, _ in self._times),
            max_source_ns=max(last for _, last in self._times),
            first_sequence=min(first for first, _ in self._sequences),
            last_sequence=max(last for _, last in self._sequences),
            size_bytes=written.size_bytes,
            content_crc=written.crc,
            footer_crc=written.footer_crc,
            level=level if level in LEVELS else 0,
        )

    def abandon(self) -> None:
        for writer in self._writers:
            writer.abandon()


def _of_this_branch(manifest: Manifest, hole: Hole, epoch: Ints, sequence: Ints) -> NDArray[np.bool_]:
    """Rows that the log of this history can have had: the other one may not know yet that its log left a branch.

    Of the log of a node below the epochs that began within the hole are not known, but those around it.
    """
    if manifest.enclosed is None:
        return living_rows(manifest.history, epoch, sequence)
    before = EpochHistory(manifest.history).epoch_of(hole.first_sequence - 1)
    is_between: NDArray[np.bool_] = (epoch >= before) & (epoch <= hole.behind.epoch)
    return is_between


def take_items(aside: Path, entry: FileEntry) -> DeclaredItems:
    """The versions of the items of `entry.node` in a fetched file of declared items.

    Raises:
        FileRefused: the file has a fault.
    """
    _check_bytes(aside, entry)
    try:
        with parquet.open_file(aside.parent, msgspec.structs.replace(entry, path=aside.name)) as file:
            if file.metadata.num_rows > ITEM_ROWS_MAX:
                raise FileRefused("too_many_items")
            table = file.read(use_threads=False)
        if not table.schema.equals(ITEMS):
            raise FileRefused("foreign_schema")
        _validate(table)
    except HistoryDamaged as error:
        raise FileRefused("unreadable_file") from error
    except (pa.ArrowException, OSError) as error:
        raise FileRefused("unreadable_file") from error
    rows = [row for row in table.to_pylist() if row["node"] == entry.node]
    if any(row["item_id"] <= 0 or not is_node(row["node"]) for row in rows):
        raise FileRefused("wrong_items")
    if any(many > VERSIONS_MAX for many in Counter(row["item_id"] for row in rows).values()):
        raise FileRefused("too_many_versions")  # Before they are joined, which takes the square of their number.
    return DeclaredItems.of_rows(rows)


def _unless(abandon: threading.Event) -> None:
    if abandon.is_set():
        raise MergeAbandoned


def _new_path(store: HistoryStore, entry: FileEntry, hole: Hole) -> str:
    """A path for the rows of this group and span."""
    span = (max(entry.first_sequence, hole.first_sequence), min(entry.last_sequence, hole.last_sequence))
    return file_path(entry.kind, entry.node, entry.day, span, next(store.numbers))


def _check_bytes(aside: Path, entry: FileEntry) -> None:
    size_bytes = crc = 0
    with aside.open("rb") as file:
        while data := file.read(READ_BYTES):
            size_bytes += len(data)
            crc = crc32c(data, crc)
    if size_bytes != entry.size_bytes:
        raise FileRefused("wrong_size")
    if crc != entry.content_crc:
        raise FileRefused("wrong_crc")


def _opened(aside: Path, entry: FileEntry) -> pq.ParquetFile:
    file = parquet.open_file(aside.parent, msgspec.structs.replace(entry, path=aside.name))
    fault = _shape_fault(file, entry)
    if fault:
        file.close()
        raise FileRefused(fault)
    return file


def _shape_fault(file: pq.ParquetFile, entry: FileEntry) -> str:
    """Fault of the footer; empty: none."""
    metadata = file.metadata
    if not file.schema_arrow.equals(SCHEMAS[entry.kind]):
        return "foreign_schema"
    if metadata.num_rows != entry.rows:
        return "wrong_rows"
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    is_large = any(one.num_rows > parquet.ROW_GROUP_ROWS or one.total_byte_size > GROUP_BYTES_MAX for one in groups)
    return "large_row_group" if is_large else ""


def _blocks(file: pq.ParquetFile, entry: FileEntry) -> Iterator[pa.Table]:
    """The rows, checked to be sorted and within the range that the manifest says."""
    before: tuple[int, ...] | None = None
    for index in range(file.num_row_groups):
        block = parquet.read_group(file, entry.path, index)
        if len(block) == 0:
            continue
        _validate(block)
        keys = [parquet.ints(block, name) for name in KEYS[entry.kind]]
        first, last = (tuple(int(column[at]) for column in keys) for at in (0, -1))
        if (before is not None and first < before) or not _is_sorted(keys):
            raise FileRefused("unsorted")
        sequence = keys[-1]
        if sequence.min() < entry.first_sequence or sequence.max() > entry.last_sequence:
            raise FileRefused("wrong_sequences")
        before = last
        yield block


def _validate(block: pa.Table) -> None:
    """Refuse texts that are not UTF-8 now: else they would only show when somebody asks for them."""
    try:
        block.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FileRefused("invalid_rows") from error


def _is_sorted(keys: list[Ints]) -> bool:
    return bool(np.array_equal(np.lexsort(list(reversed(keys))), np.arange(len(keys[0]))))
