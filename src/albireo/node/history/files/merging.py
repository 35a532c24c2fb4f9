"""Merging: sorted files become one file, with a few row groups of each in memory at a time.

Rows up to the smallest of the inputs' last loaded keys are complete, whatever comes next; they are sorted, written, and
summed up as partials on the way. No row is dropped or made: their number is checked, and so is their sequence.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from albireo.codec.history import BUCKET_NS, FileEntry, FileKind, file_path, partials_path
from albireo.machine.history.aggregate import Ints, Partials, empty_partials, merge, partials_of
from albireo.machine.history.sealing import MergePlan
from albireo.node.history.errors import HistoryDamaged, MergeAbandoned
from albireo.node.history.files import parquet
from albireo.node.history.files.pieces import sorted_rows
from albireo.node.history.files.store import HistoryStore

KEYS: Final = {
    FileKind.SAMPLES: ("item_id", "source_ns", "sequence"),
    FileKind.GAPS: ("sequence",),
    FileKind.EVENTS: ("sequence",),
}
"""Columns by which the rows of a file are sorted."""


class _Input:
    """One sorted file, read row group by row group."""

    def __init__(self, store: HistoryStore, entry: FileEntry, keys: tuple[str, ...]) -> None:
        self._file = parquet.open_file(store.root, entry)
        self._path = entry.path
        self._key_names = keys
        self._next = 0
        self._keys: list[Ints] = []
        self.table: pa.Table | None = None

    @property
    def has_more(self) -> bool:
        return self._next < self._file.num_row_groups

    def fill(self) -> None:
        """Load the next row group if nothing is loaded."""
        while (self.table is None or len(self.table) == 0) and self.has_more:
            self.table = parquet.read_group(self._file, self._path, self._next)
            self._next += 1
            self._keys = [parquet.ints(self.table, name) for name in self._key_names]

    def last_key(self) -> tuple[int, ...]:
        return tuple(int(column[-1]) for column in self._keys)

    def take(self, bound: tuple[int, ...] | None) -> pa.Table | None:
        """The loaded rows up to `bound` (None: all of them)."""
        if self.table is None or len(self.table) == 0:
            return None
        count = len(self.table) if bound is None else _rows_up_to(self._keys, bound)
        taken = self.table.slice(0, count)
        self.table = self.table.slice(count)
        self._keys = [column[count:] for column in self._keys]
        return taken if count else None

    def close(self) -> None:
        self._file.close()


def _rows_up_to(keys: Sequence[Ints], bound: tuple[int, ...]) -> int:
    """Number of rows whose key is at most `bound`, in rows sorted by key."""
    low, high = 0, len(keys[0])
    for column, value in zip(keys[:-1], bound[:-1], strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return low + int(np.searchsorted(keys[-1][low:high], bound[-1], "right"))


def _sorted_blocks(inputs: Sequence[_Input], keys: tuple[str, ...]) -> Iterator[pa.Table]:
    while True:
        for one in inputs:
            one.fill()
        ends = [one.last_key() for one in inputs if one.has_more]
        bound = min(ends) if ends else None
        blocks = [block for one in inputs if (block := one.take(bound)) is not None]
        if blocks:
            table = pa.concat_tables(blocks)
            yield table if len(blocks) == 1 else sorted_rows(table, keys)
        elif not ends:
            return


class PartialsTail:
    """Partials of a stream of sorted rows; the last bucket is held back, because it may go on."""

    def __init__(self, writer: parquet.ParquetWriter) -> None:
        self._writer = writer
        self._held = empty_partials()

    def add(self, table: pa.Table) -> None:
        merged = merge([self._held, partials_of(parquet.rows_from(table), BUCKET_NS)], BUCKET_NS).partials
        self._held = merged.take(slice(len(merged) - 1, None))
        self._write(merged.take(slice(0, len(merged) - 1)))

    def finish(self) -> None:
        self._write(self._held)

    def _write(self, partials: Partials) -> None:
        if len(partials):
            self._writer.add(parquet.partials_table(partials))


def merge_files(store: HistoryStore, plan: MergePlan, generation: int, abandon: threading.Event) -> list[FileEntry]:
    """Carry out `plan`; the new files are durable and not yet listed.

    Args:
        generation: number that no other file has.
        abandon: set from another thread to give up.

    Raises:
        HistoryDamaged: an input can't be read, or differs from the manifest.
        MergeAbandoned: `abandon` was set.
        OSError: of the disk.
    """
    kind, keys = plan.kind, KEYS[plan.kind]
    node, day = plan.inputs[0].node, plan.inputs[0].day
    span = (min(one.first_sequence for one in plan.inputs), max(one.last_sequence for one in plan.inputs))
    path = file_path(kind, node, day, span, generation)
    inputs: list[_Input] = []
    writers: list[parquet.ParquetWriter] = []
    try:
        inputs.extend(_Input(store, entry, keys) for entry in plan.inputs)
        writers.append(open_writer(store, path, kind))
        if kind is FileKind.SAMPLES:
            writers.append(open_writer(store, partials_path(path), FileKind.PARTIALS))
        _copy(plan, _sorted_blocks(inputs, keys), writers, abandon)
        written = [writer.finish() for writer in writers]
    except BaseException:  # An abandoned merge too: the error goes on, half-written files do not stay.
        for writer in writers:
            writer.abandon()
        raise
    finally:
        for one in inputs:
            one.close()
    kinds = [(kind, path), (FileKind.PARTIALS, partials_path(path))][: len(written)]
    return [
        _entry(plan, kind, path, writer.rows, one)
        for (kind, path), writer, one in zip(kinds, writers, written, strict=True)
    ]


def _copy(
    plan: MergePlan, blocks: Iterator[pa.Table], writers: Sequence[parquet.ParquetWriter], abandon: threading.Event
) -> None:
    """Write the rows, and their partials to the second writer if there is one."""
    tail = PartialsTail(writers[1]) if len(writers) == 2 else None
    for block in blocks:
        if abandon.is_set():
            raise MergeAbandoned
        writers[0].add(block)
        if tail is not None:
            tail.add(block)
    if tail is not None:
        tail.finish()
    expected = sum(entry.rows for entry in plan.inputs)
    if writers[0].rows != expected:
        raise HistoryDamaged(plan.inputs[0].path, f"with its day {writers[0].rows} rows, the manifest says {expected}")


def inputs_listed(store: HistoryStore, plan: MergePlan) -> list[FileEntry]:
    """The manifest's entries that the outputs of `plan` replace: its inputs, and the partials beside them."""
    paths = {entry.path for entry in plan.inputs} | {partials_path(entry.path) for entry in plan.inputs}
    return [entry for entry in store.manifest.files if entry.path in paths]


def open_writer(store: HistoryStore, path: str, kind: FileKind) -> parquet.ParquetWriter:
    """A writer of a new file below the history's folder."""
    target = store.root / path
    store.make_folder(target)
    return parquet.ParquetWriter(store.files, target, kind)


def _entry(plan: MergePlan, kind: FileKind, path: str, rows: int, written: parquet.WrittenFile) -> FileEntry:
    return msgspec.structs.replace(
        plan.inputs[0],
        kind=kind,
        path=path,
        rows=rows,
        min_source_ns=min(one.min_source_ns for one in plan.inputs),
        max_source_ns=max(one.max_source_ns for one in plan.inputs),
        first_sequence=min(one.first_sequence for one in plan.inputs),
        last_sequence=max(one.last_sequence for one in plan.inputs),
        size_bytes=written.size_bytes,
        content_crc=written.crc,
        footer_crc=written.footer_crc,
        level=plan.level,
        sealed_ns=max(one.sealed_ns for one in plan.inputs),
    )
