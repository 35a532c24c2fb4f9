"""Messages as Parquet: tables from columns and back, and the row groups that a reader needs. Imported when first used.

Rows are sorted by topic and number, so those of a large topic stand together, and ten thousand small ones share a row
group. Statistics of topic, number and sequence choose what is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.codec.puts import Extra
from albireo.codec.served import MessageColumns
from albireo.machine.topics.tables import KeptMessages

SCHEMA: Final = pa.schema(
    [  # type: ignore[arg-type]  # The stubs want one type for all.
        ("topic_id", pa.uint64()),
        ("topic", pa.string()),
        ("number", pa.uint64()),
        ("epoch", pa.uint64()),
        ("sequence", pa.uint64()),
        ("at_ns", pa.int64()),
        ("key", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("is_deleted", pa.bool_()),
        ("body", pa.binary()),
    ]
)
GROUP_BYTES: Final = 1 << 20
"""Size of a row group: as much is read for the first message of a seek."""
GROUP_ROWS_MAX: Final = 65_536
TRAILER_BYTES: Final = 8
"""Length of the footer and the magic word, at the end of a file."""
_SORTED: Final[list[tuple[str, Literal["ascending", "descending"]]]] = [
    ("topic_id", "ascending"),
    ("number", "ascending"),
]
_STATISTICS: Final = ["topic_id", "number", "sequence"]


def table_of(columns: MessageColumns, topics: Mapping[int, str]) -> pa.Table:
    """Messages as a table, in their order.

    Args:
        topics: names by id.
    """
    count = len(columns)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(columns.lengths, out=offsets[1:])
    bodies = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(columns.bodies())]
    )
    ids, places = np.unique(columns.topic_id, return_inverse=True)
    names = pa.array([topics.get(one, "") for one in ids.tolist()], pa.string()).take(places)
    extras = [columns.extras.get(index) for index in range(count)] if columns.extras else [None] * count
    keys = pa.array([None if one is None else one.key for one in extras], pa.binary())
    headers = pa.array(
        [None if one is None or not one.headers else list(one.headers.items()) for one in extras],
        SCHEMA.field("headers").type,
    )
    deleted = pa.array([one is not None and one.is_deleted for one in extras], pa.bool_())
    wide = (columns.topic_id, columns.number, columns.epoch, columns.sequence, columns.at_ns)
    topic_id, *others = map(pa.array, wide)
    return pa.table([topic_id, names, *others, keys, headers, deleted, bodies], schema=SCHEMA)


def columns_of(table: pa.Table) -> MessageColumns:
    """A table as columns, in its order."""
    table = table.combine_chunks()
    count = len(table)
    numbers: list[Any] = [
        table.column(name).to_numpy() for name in ("topic_id", "number", "epoch", "sequence", "at_ns")
    ]
    body = table.column("body")
    array = pa.concat_arrays(body.chunks) if body.num_chunks else pa.array([], pa.binary())
    _, offsets_buffer, data = array.buffers()
    offsets = np.zeros(1, np.int32)
    if count and offsets_buffer is not None:
        offsets = np.frombuffer(memoryview(offsets_buffer), np.int32, count + 1, 4 * array.offset)
    keys, headers = table.column("key"), table.column("headers")
    extras: dict[int, Extra] = {}
    if count and (keys.null_count < count or headers.null_count < count):
        rows = zip(keys.to_pylist(), headers.to_pylist(), table.column("is_deleted").to_pylist(), strict=True)
        extras = {
            index: Extra(key, dict(said or ()), bool(is_deleted))
            for index, (key, said, is_deleted) in enumerate(rows)
            if key is not None or said
        }
    starts = offsets[:-1].astype(np.int64)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.uint32)
    topic_id, number, epoch, sequence, at_ns = numbers
    return MessageColumns(
        topic_id, number, epoch, sequence, at_ns, lengths, starts, b"" if data is None else memoryview(data), extras
    )


def sorted_table(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables as one, sorted by topic and number."""
    return pa.concat_tables(tables).sort_by(_SORTED).combine_chunks()


def encoded(table: pa.Table) -> memoryview:
    """A sorted table as the bytes of a file."""
    sink = pa.BufferOutputStream()
    rows = max(1, min(GROUP_ROWS_MAX, GROUP_BYTES * len(table) // max(1, table.nbytes)))
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=["topic"],  # type: ignore[arg-type]  # The stubs lack lists.
        write_statistics=_STATISTICS,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table, row_group_size=rows)
    return memoryview(sink.getvalue())


def lasts_of_table(table: pa.Table) -> dict[int, int]:
    """Number of the last message of each topic of a sorted table."""
    topics, places = np.unique(table.column("topic_id").to_numpy()[::-1], return_index=True)
    numbers = table.column("number").to_numpy()[::-1][places]
    return dict(zip(topics.tolist(), numbers.tolist(), strict=True))


class RowGroup(msgspec.Struct, frozen=True):
    """Bounds of a row group."""

    index: int
    topics: tuple[int, int]
    numbers: tuple[int, int]
    sequences: tuple[int, int]


class OpenFile:
    """A file whose footer was read; it may be removed meanwhile."""

    def __init__(self, source: pa.NativeFile, size_bytes: int, crc: int) -> None:
        """
        Args:
            size_bytes, crc: size of the file, and checksum of its footer, as they were written.
        Raises:
            DecodeError: it is damaged.
        """
        try:
            if source.size() != size_bytes or footer_crc(source) != crc:
                raise DecodeError(0, "its size or its footer is another one than was written")
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:  # Pyarrow says OSError of bytes that it can't read, too.
            raise DecodeError(0, str(error)) from error
        metadata = self._file.metadata
        names = [metadata.schema.column(one).path for one in range(metadata.num_columns)]
        places = [names.index(name) for name in ("topic_id", "number", "sequence")]
        self.groups: list[RowGroup] = []
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            found: list[Any] = [group.column(place).statistics for place in places]
            topics, numbers, sequences = ((int(one.min), int(one.max)) for one in found)
            self.groups.append(RowGroup(index, topics, numbers, sequences))

    def read(self, group: RowGroup) -> pa.Table:
        """Raises DecodeError: it is damaged."""
        try:
            return self._file.read_row_group(group.index)
        except (pa.ArrowException, OSError) as error:
            raise DecodeError(0, str(error)) from error


def groups_with(file: OpenFile, wanted: Mapping[int, int], after: int) -> list[RowGroup]:
    """Row groups that may have wanted messages behind a record, by their first sequence."""
    ids = np.array(sorted(wanted), np.uint64)
    found = []
    for one in file.groups:
        first, last = np.searchsorted(ids, one.topics[0]), np.searchsorted(ids, one.topics[1], "right")
        if first == last or one.sequences[1] <= after:
            continue
        if one.topics[0] == one.topics[1] and one.numbers[1] <= wanted[one.topics[0]]:
            continue
        found.append(one)
    return sorted(found, key=lambda one: one.sequences[0])


def is_alone(groups: Sequence[RowGroup]) -> bool:
    """True: the first row group is of one topic, and the log has none of the others' messages between its own."""
    first = groups[0]
    return first.topics[0] == first.topics[1] and (len(groups) == 1 or groups[1].sequences[0] > first.sequences[1])


def chosen(table: pa.Table, wanted: Mapping[int, int], after: int, up_to: int) -> pa.Table:
    """Rows of these topics behind their numbers, between two records, in the order of the log."""
    ids = np.array(sorted(wanted), np.uint64)
    lows = np.array([wanted[one] for one in ids.tolist()], np.uint64)
    topic_id, sequence = table.column("topic_id").to_numpy(), table.column("sequence").to_numpy()
    places = np.minimum(np.searchsorted(ids, topic_id), len(ids) - 1)
    mask: NDArray[np.bool_] = (ids[places] == topic_id) & (table.column("number").to_numpy() > lows[places])
    mask &= (sequence > after) & (sequence <= up_to)
    kept = table.filter(pa.array(mask))
    return kept.take(pc.sort_indices(kept, [("sequence", "ascending")]))


def without(table: pa.Table, kept: KeptMessages, last_sequence: int) -> pa.Table:
    """Rows that are kept, and not behind a record."""
    floors = kept.floors
    ids = np.array(sorted(floors), np.uint64)
    if not len(ids):
        return table.slice(0, 0)
    lows = np.array([floors[one] for one in ids.tolist()], np.uint64)
    topic_id = table.column("topic_id").to_numpy()
    places = np.minimum(np.searchsorted(ids, topic_id), len(ids) - 1)
    number = table.column("number").to_numpy()
    mask = (ids[places] == topic_id) & (number > lows[places])
    for one, lasts in kept.lasts.items():
        mask &= (topic_id != one) | np.isin(number, lasts)
    mask &= table.column("sequence").to_numpy() <= last_sequence
    return table if mask.all() else table.filter(pa.array(mask))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables)


def footer_crc(source: pa.NativeFile) -> int:
    """Checksum of the footer of a file, which pages have by themselves; of one that is too short, 0."""
    size = source.size()
    source.seek(max(0, size - TRAILER_BYTES))
    length = int.from_bytes(source.read(TRAILER_BYTES)[:4], "little") + TRAILER_BYTES
    if length > size:
        return 0
    source.seek(size - length)
    found: int = crc32c(source.read(length))
    return found
