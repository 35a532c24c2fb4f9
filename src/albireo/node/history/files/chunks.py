"""Chunks: samples of the hot tail, frame by frame, and the table that they become."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albireo.codec.history import SAMPLES
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.node.history.files import parquet
from albireo.node.history.files.pieces import sorted_rows

NULLS_AT_ONCE: Final = 32_768
TEXTS_MIN: Final = 1024
"""Mean number of strings in a chunk from which each chunk stays a piece: pieces cost readers and senders time."""


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """The samples of one frame."""

    batch: SampleBatch
    epoch: int
    first_sequence: int
    day: str

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + len(self.batch) - 1


def behind(sequence: int, chunk: Chunk) -> Chunk:
    """The rows of a chunk behind a sequence."""
    first = max(0, sequence + 1 - chunk.first_sequence)
    batch = chunk.batch.take(np.arange(first, len(chunk.batch)))
    return msgspec.structs.replace(chunk, batch=batch, first_sequence=chunk.first_sequence + first)


class _Part(msgspec.Struct, frozen=True, eq=False):
    """The wanted rows of one chunk."""

    epoch: int
    batch: SampleBatch
    sequence: NDArray[np.int64]


def samples_table(chunks: Iterable[Chunk], item_ids: Sequence[int] | None = None) -> pa.Table:
    """The rows of `chunks` as they are stored: sorted by item, source time, sequence.

    Args:
        item_ids: only these items.
    """
    groups: dict[ValueType, list[_Part]] = {}
    for chunk in sorted((one for one in chunks if len(one.batch)), key=_begin):  # Rows of an item stand together then.
        batch = chunk.batch
        sequence = np.arange(chunk.first_sequence, chunk.first_sequence + len(batch))
        if item_ids is not None:
            rows = np.flatnonzero(np.isin(batch.item_id, item_ids))
            if len(rows) == 0:
                continue
            batch, sequence = batch.take(rows), sequence[rows]
        groups.setdefault(batch.value_type, []).append(_Part(chunk.epoch, batch, sequence))
    if not groups:
        return SAMPLES.empty_table()
    tables = [_typed_table(value_type, group) for value_type, group in groups.items()]
    return sorted_rows(pa.concat_tables(tables), ("item_id", "source_ns", "sequence"))


def _begin(chunk: Chunk) -> tuple[int, int, int]:
    return int(chunk.batch.item_id[0]), int(chunk.batch.source_ns[0]), chunk.first_sequence


def _typed_table(value_type: ValueType, group: Sequence[_Part]) -> pa.Table:
    batches = [part.batch for part in group]
    count = sum(len(batch) for batch in batches)
    values: dict[str, Any] = {
        name: _nulls(count, SAMPLES.field(name).type) for name in ("value_f64", "value_i64", "value_str")
    }
    if value_type is ValueType.STRING:
        parts = [_strings(batch.value) for batch in batches if isinstance(batch.value, Strings)]
        are_long = count >= TEXTS_MIN * len(parts)
        values["value_str"] = pa.chunked_array(parts) if are_long else pa.concat_arrays(parts)
    else:
        is_float = value_type is ValueType.FLOAT64
        column = np.concatenate([batch.value for batch in batches if not isinstance(batch.value, Strings)])
        values["value_f64" if is_float else "value_i64"] = parquet.array(
            column.astype(np.float64 if is_float else np.int64, copy=False)
        )

    def joined(name: str) -> "pa.Array[Any]":
        return parquet.array(np.concatenate([getattr(batch, name) for batch in batches], dtype=np.int64))

    return pa.table(
        {
            "item_id": joined("item_id"),
            "source_ns": joined("source_ns"),
            "node_ns": joined("node_ns"),
            **values,
            "quality": joined("quality"),
            "epoch": parquet.array(np.repeat([part.epoch for part in group], [len(batch) for batch in batches])),
            "sequence": parquet.array(np.concatenate([part.sequence for part in group])),
        },
        schema=SAMPLES,
    )


def _nulls(count: int, kind: pa.DataType) -> "pa.ChunkedArray[Any]":
    """`count` nulls as one piece over and over, which takes no memory."""
    whole, rest = divmod(count, NULLS_AT_ONCE)
    piece: pa.Array[Any] = pa.nulls(NULLS_AT_ONCE if whole else rest, kind)  # type: ignore[call-overload]  # by class
    return pa.chunked_array([*(piece for _ in range(whole)), piece.slice(0, rest)])


def _strings(column: Strings) -> pa.StringArray:
    offsets = pa.py_buffer(column.offsets.astype(np.int32).tobytes())
    return pa.StringArray.from_buffers(len(column), offsets, pa.py_buffer(column.data))
