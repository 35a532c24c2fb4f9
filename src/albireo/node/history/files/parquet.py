"""Parquet files: written aside, synced and renamed; read in parts. The only module that knows pyarrow's readers.

The layout serves one reader above all: one item over a long time. Rows are sorted by item, so an item's rows stand
together; row groups are small, so little else is read with them; times are delta-encoded, because sorted they hardly
differ; everything is zstd.
"""

import bisect
import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from albireo.codec.crc import crc32c
from albireo.codec.history import EVENTS, PARTIALS, SCHEMAS, FileEntry, FileKind
from albireo.log.files import FileSystem
from albireo.machine.history.aggregate import (
    PARTIAL_COLUMNS,
    Floats,
    Ints,
    Partials,
    Rows,
    partials_of_columns,
    rows_of,
)
from albireo.node.history.errors import HistoryDamaged
from albireo.node.history.files.intact import check_file
from albireo.node.history.files.telling import telling_of

Result = TypeVar("Result")
READ_THREADS: Final = 2
ROW_GROUP_ROWS: Final = 32_768
BLOCK_ROWS: Final = 4 * ROW_GROUP_ROWS
WRITE_BYTES: Final = 1 << 20
COMPRESSION_LEVEL: Final = 1
"""Level of zstd; higher levels gain a few per cent and cost a multiple (ADR-0060)."""
_DELTA: Final = (
    "source_ns",
    "node_ns",
    "sequence",
    "bucket_ns",
    "first_ns",
    "last_ns",
    "minimum_ns",
    "maximum_ns",
    "sequence_max",
)
_STATISTICS: Final = ("item_id", "source_ns", "bucket_ns", "first_ns", "last_ns", "from_ns", "at_ns", "sequence")
"""Columns by which readers choose row groups; more would only make the footers longer."""


class WrittenFile(msgspec.Struct, frozen=True):
    """Size and checksums of a finished file."""

    size_bytes: int
    crc: int
    footer_crc: int


class _Sink(io.RawIOBase):
    """A file being written, with the interface that pyarrow wants. Small writes are gathered."""

    def __init__(self, files: FileSystem, handle: int) -> None:
        super().__init__()
        self._files = files
        self._handle = handle
        self._waiting = bytearray()
        self._written = 0
        self.crc = 0
        self.footer_crc: int | None = None
        """Checksum of what was written since `begin_footer`."""
        self.is_abandoned = False
        """True: no byte is written any more. Pyarrow closes a forgotten writer, and the handle may be another file's
        by then."""

    @property
    def size_bytes(self) -> int:
        return self._written + len(self._waiting)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # pyarrow hands over bytes or a buffer
        self._waiting += view
        if len(self._waiting) >= WRITE_BYTES:
            self.flush()
        return view.nbytes

    def flush(self) -> None:
        if self.is_abandoned:
            self._waiting.clear()
        taken = 0
        with memoryview(self._waiting) as view:
            while taken < len(view):
                taken += self._files.pwritev(self._handle, [view[taken:]], self._written + taken)
        self.crc = crc32c(self._waiting, self.crc)
        if self.footer_crc is not None:
            self.footer_crc = crc32c(self._waiting, self.footer_crc)
        self._written += taken
        self._waiting.clear()

    def begin_footer(self) -> None:
        self.flush()
        self.footer_crc = 0

    def tell(self) -> int:
        return self.size_bytes


class ParquetWriter:
    """One file, written aside until `finish` makes it appear; all or nothing.

    Every method but `abandon` may raise OSError; the file is then gone (or `HistoryStore.open` finds the leftover).
    """

    def __init__(self, files: FileSystem, path: Path, kind: FileKind) -> None:
        self.rows = 0
        self._files = files
        self._path = path
        self._aside = path.with_name(path.name + ".tmp")
        self._handle = files.open(self._aside, create=True)
        self._sink = _Sink(files, self._handle)
        self._is_open = True
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        with self._cleanly():
            self._writer = _writer(self._sink, kind)

    def add(self, table: pa.Table) -> None:
        """Append rows; row groups come out full whatever the tables' lengths are."""
        self._waiting.append(table)
        self._waiting_rows += len(table)
        self.rows += len(table)
        if self._waiting_rows >= ROW_GROUP_ROWS:
            table = pa.concat_tables(self._waiting)
            full = len(table) // ROW_GROUP_ROWS * ROW_GROUP_ROWS
            with self._cleanly():
                self._writer.write_table(table.slice(0, full), row_group_size=ROW_GROUP_ROWS)
            self._waiting = [table.slice(full)]
            self._waiting_rows = len(table) - full

    def finish(self) -> WrittenFile:
        """Sync the file, rename it and sync its directory."""
        with self._cleanly():
            if self._waiting_rows:
                self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP_ROWS)
            self._sink.begin_footer()
            self._writer.close()
            self._sink.flush()
            self._files.sync(self._handle)
            self._is_open = False
            self._files.close(self._handle)
            self._files.rename(self._aside, self._path)
            self._files.sync_directory(self._path.parent)
        return WrittenFile(self._sink.size_bytes, self._sink.crc, self._sink.footer_crc or 0)

    def abandon(self) -> None:
        """Remove the file, finished or not. It must not be listed yet."""
        self._sink.is_abandoned = True
        if self._is_open:
            self._is_open = False
            self._files.close(self._handle)
        for path in (self._aside, self._path):
            with contextlib.suppress(OSError):  # The next start removes files that are not listed.
                self._files.unlink(path)

    @contextlib.contextmanager
    def _cleanly(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # The error goes on; the half-written file does not stay.
            self.abandon()
            raise


def write(files: FileSystem, path: Path, kind: FileKind, table: pa.Table) -> WrittenFile:
    """Write one whole file.

    Raises:
        OSError: of the disk; nothing is left behind.
    """
    writer = ParquetWriter(files, path, kind)
    writer.add(table)
    return writer.finish()


def _writer(sink: _Sink, kind: FileKind) -> pq.ParquetWriter:
    names = [field.name for field in SCHEMAS[kind]]
    delta = [name for name in names if name in _DELTA]
    return pq.ParquetWriter(
        pa.PythonFile(sink, "w"),
        SCHEMAS[kind],
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=[name for name in names if name not in delta],  # type: ignore[arg-type]  # the stubs lack lists
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
        write_statistics=[name for name in names if name in _STATISTICS],
        write_page_checksum=True,
    )


class Wanted(msgspec.Struct, frozen=True):
    """Wanted rows of sorted files: of these items, with `time` within `from_ns` (included) .. `to_ns` (not)."""

    item_ids: tuple[int, ...]
    """Ids of the items, rising."""
    time: str
    """Column by which the rows of an item are sorted."""
    from_ns: int
    to_ns: int


def read(root: Path, entries: Sequence[FileEntry], columns: Sequence[str]) -> pa.Table:
    """All rows of several files of one kind, one file after the other.

    Raises:
        HistoryDamaged: a file is missing or unreadable.
    """
    return pa.concat_tables(_in_threads(lambda entry: _whole(root, entry, columns), entries))


def read_items(root: Path, entries: Sequence[FileEntry], columns: Sequence[str], wanted: Wanted) -> list[pa.Table]:
    """The wanted rows of several files sorted by item, as pieces: per file and item, in the order of `entries`.

    Only the row groups that may hold such rows are read.

    Raises:
        HistoryDamaged: a file is missing or unreadable.
    """
    keys = list(dict.fromkeys(("item_id", wanted.time, *columns)))
    found = _in_threads(lambda entry: _pieces(root, entry, keys, wanted), entries)
    return [piece.select(list(columns)) for pieces in found for piece in pieces]


def item_groups(root: Path, entry: FileEntry, columns: Sequence[str], wanted: Wanted) -> Iterator[pa.Table]:
    """The wanted rows of one item in one file sorted by item, row group by row group; tables may be empty.

    Raises:
        HistoryDamaged: the file is missing or unreadable.
    """
    telling = telling_of(entry)
    wanted = msgspec.structs.replace(wanted, item_ids=telling.own(wanted.item_ids))
    with open_file(root, entry) as file:
        for group in _groups(file.metadata, wanted):
            (item_id,) = wanted.item_ids
            yield telling.table(_of_item(_read_groups(file, entry.path, [group], columns), item_id, wanted))


def event_groups(root: Path, entry: FileEntry, sequence: int, *, is_back: bool = False) -> Iterator[pa.Table]:
    """The row groups of a file of events that may have this sequence or a later one; back: or an earlier one.

    Raises:
        HistoryDamaged: the file is missing or unreadable.
    """
    telling, value = telling_of(entry), sequence - telling_of(entry).shift
    with open_file(root, entry) as file:
        index = file.metadata.schema.names.index("sequence")
        for group in range(file.metadata.num_row_groups)[:: -1 if is_back else 1]:
            low, high = _bounds(file.metadata, group, index)
            if low <= value if is_back else high >= value:
                yield telling.table(_read_groups(file, entry.path, [group], EVENTS.names))


def open_file(root: Path, entry: FileEntry) -> pq.ParquetFile:
    """A file for reading row group by row group, each page checked, and what stands around the pages before.

    Raises:
        HistoryDamaged: it is missing or unreadable, or is not as it was written.
    """
    path = root / entry.path
    with _blaming(entry.path):
        check_file(path, entry)
        return pq.ParquetFile(path, page_checksum_verification=True)


def read_group(file: pq.ParquetFile, path: str, index: int) -> pa.Table:
    """One row group of an open file.

    Raises:
        HistoryDamaged: it is unreadable.
    """
    with _blaming(path):
        return file.read_row_group(index)


def _in_threads(work: Callable[[FileEntry], Result], entries: Sequence[FileEntry]) -> list[Result]:
    """`work` for each file; the decoder leaves the GIL alone, so two are nearly twice as fast as one."""
    if len(entries) <= 1:
        return [work(entry) for entry in entries]
    with ThreadPoolExecutor(READ_THREADS) as pool:
        return list(pool.map(work, entries))


def _whole(root: Path, entry: FileEntry, columns: Sequence[str]) -> pa.Table:
    with open_file(root, entry) as file, _blaming(entry.path):
        return telling_of(entry).table(file.read(columns=list(columns), use_threads=False))


def _pieces(root: Path, entry: FileEntry, columns: Sequence[str], wanted: Wanted) -> list[pa.Table]:
    telling = telling_of(entry)
    wanted = msgspec.structs.replace(wanted, item_ids=telling.own(wanted.item_ids))
    with open_file(root, entry) as file:
        groups = _groups(file.metadata, wanted)
        if not groups:
            return []
        table = _read_groups(file, entry.path, groups, columns)
    pieces = (_of_item(table, one, wanted) for one in wanted.item_ids)
    return [telling.table(piece) for piece in pieces if len(piece)]


def _read_groups(file: pq.ParquetFile, path: str, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
    with _blaming(path):
        return file.read_row_groups(list(groups), columns=list(columns), use_threads=False)


def _of_item(table: pa.Table, item_id: int, wanted: Wanted) -> pa.Table:
    """The wanted rows of one item in a table sorted by item and time."""
    first, end = np.searchsorted(ints(table, "item_id"), (item_id, item_id + 1)).tolist()
    times = ints(table, wanted.time)[first:end]
    low, high = np.searchsorted(times, (wanted.from_ns, wanted.to_ns)).tolist()
    return table.slice(first + low, high - low)


def _groups(metadata: pq.FileMetaData, wanted: Wanted) -> list[int]:
    """Row groups that may hold wanted rows, by their statistics."""
    names = metadata.schema.names
    item_column, time_column = names.index("item_id"), names.index(wanted.time)
    groups: list[int] = []
    for one in wanted.item_ids:
        index = _first_group(metadata, item_column, one)
        while index < metadata.num_row_groups and _bounds(metadata, index, item_column)[0] <= one:
            low, high = _bounds(metadata, index, time_column)
            if high >= wanted.from_ns and low < wanted.to_ns and (not groups or groups[-1] < index):
                groups.append(index)
            index += 1
    return groups


def _first_group(metadata: pq.FileMetaData, column: int, item_id: int) -> int:
    """The first row group whose last item is not before `item_id`."""
    return bisect.bisect_left(
        range(metadata.num_row_groups), item_id, key=lambda index: _bounds(metadata, index, column)[1]
    )


def _bounds(metadata: pq.FileMetaData, group: int, column: int) -> tuple[int, int]:
    """Smallest and largest value of a column in a row group; everything where the file does not say."""
    statistics = metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return -(2**63), 2**63 - 1
    low, high = statistics.min, statistics.max
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


@contextlib.contextmanager
def _blaming(path: str) -> Iterator[None]:
    """Turn errors of reading into `HistoryDamaged` of this file."""
    try:
        yield
    except FileNotFoundError as error:
        raise HistoryDamaged(path, "is missing") from error
    except (pa.ArrowException, OSError) as error:
        raise HistoryDamaged(path, str(error).splitlines()[0]) from error


def array(column: NDArray[Any]) -> "pa.Array[Any]":
    """Numbers as a column without nulls, as they are: `pa.array` would copy them."""
    buffer = pa.py_buffer(np.ascontiguousarray(column).data)
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [None, buffer])


def ints(table: pa.Table, name: str) -> Ints:
    """A column without nulls as a numpy array."""
    column: Ints = table.column(name).to_numpy()
    return column


def span(table: pa.Table, name: str) -> tuple[int, int]:
    """The smallest and the largest number of a column of integers."""
    ends: dict[str, int] = pc.min_max(table.column(name)).as_py()  # type: ignore[assignment]  # the scalar is a struct
    return ends["min"], ends["max"]


def blocks(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces: a computation over one piece stays in the processor's cache, and needs little new memory."""
    return (table.slice(at, BLOCK_ROWS) for at in range(0, len(table), BLOCK_ROWS))


def rows_from(table: pa.Table, item_id: int | None = None) -> Rows:
    """The numbers of a samples table, sorted as it is.

    Args:
        item_id: that of all rows, if known; the table then needs no ids, and no sequence (0) if nobody merges.
    """
    value, is_text = numbers(table)
    one, none = np.int64(0 if item_id is None else item_id), np.int64(0)
    has_sequence = "sequence" in table.column_names
    return rows_of(
        item_id=ints(table, "item_id") if item_id is None else np.broadcast_to(one, len(table)),
        source_ns=ints(table, "source_ns"),
        value=value,
        is_text=is_text,
        quality=ints(table, "quality"),
        sequence=ints(table, "sequence") if has_sequence else np.broadcast_to(none, len(table)),
    )


def numbers(table: pa.Table) -> tuple[Floats, NDArray[np.bool_] | bool]:
    """The value of each row as float64, and which rows are strings."""
    floats = table.column("value_f64")
    if floats.null_count == 0:
        value: Floats = floats.to_numpy()
        return value, False
    integers = table.column("value_i64")
    value = np.zeros(len(table))
    if floats.null_count == integers.null_count == len(table):
        return value, True
    is_float = floats.is_valid().to_numpy()
    value[is_float] = floats.drop_null().to_numpy()
    is_integer = integers.is_valid().to_numpy()
    value[is_integer] = integers.drop_null().to_numpy()
    return value, ~(is_float | is_integer)


def partials_table(partials: Partials) -> pa.Table:
    """Partials as they are stored: NaN becomes null where the schema has nulls."""
    arrays = [
        pa.array(column, from_pandas=PARTIALS.field(name).nullable) for name, column in partials.columns().items()
    ]
    return pa.Table.from_arrays(arrays, schema=PARTIALS)


def partials_from(table: pa.Table) -> Partials:
    """Stored partials, with NaN for null; columns that were not read are zero."""
    nothing = np.zeros(len(table), np.int64)
    there = set(table.column_names)
    return partials_of_columns(
        {name: table.column(name).to_numpy() if name in there else nothing for name in PARTIAL_COLUMNS}
    )


assert set(PARTIAL_COLUMNS) == {field.name for field in PARTIALS}, "kernel and file must have the same columns"
