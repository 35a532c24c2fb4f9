"""Columns of samples <-> bytes, without a Python object per sample.

Grammar (little-endian, no padding; n from the frame's record count, the value type from the frame's kind):

    columns = item_id:u32[n] source_ns:i64[n] node_ns:i64[n] quality:u32[n] value
    value   = f64[n] | i64[n] | u8[n] | offsets:u32[n+1] utf8:bytes[offsets[n]]

Decoding gives views of the buffer, not copies, so the buffer lives as long as the batch does.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.frame import RECORDS_MAX
from albireo.codec.record import PRODUCER
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import ValueType

_BEHIND_IDS: Final = (("source_ns", "<i8"), ("node_ns", "<i8"), ("quality", "<u4"))
_FIXED_BYTES: Final = 4 + 8 + 8 + 4
_BEYOND_ASCII: Final = 0x80
_VALUE_DTYPE: Final = {ValueType.FLOAT64: "<f8", ValueType.INT64: "<i8", ValueType.BOOL: "u1"}


def encode(*batches: SampleBatch, before: bytes = b"", ids: NDArray[np.uint32] | None = None) -> bytes:
    """Columns of one batch with the rows of all `batches`, behind the bytes of `before`; strings are copied once.

    Args:
        batches: at least one; all of one value type.
        ids: if given, `item_id` of the batches holds indices into it.
    """
    item_id = _joined([one.item_id for one in batches], "<u4")
    parts: list[bytes | memoryview] = [before, (item_id if ids is None else ids[item_id]).data]
    for name, dtype in _BEHIND_IDS:
        parts.append(_joined([getattr(one, name) for one in batches], dtype).data)
    strings = [one.value for one in batches if isinstance(one.value, Strings)]
    if strings:
        starts = itertools.accumulate((len(one.data) for one in strings), initial=0)
        ends = [one.offsets[1:] + np.uint32(start) for one, start in zip(strings, starts, strict=False)]
        parts += [_joined([np.zeros(1, np.uint32), *ends], "<u4").data, *(one.data for one in strings)]
    else:
        values = [one.value for one in batches if not isinstance(one.value, Strings)]
        parts.append(_joined(values, _VALUE_DTYPE[batches[0].value_type]).data)
    return b"".join(parts)


def encode_body(
    producer_id: int, producer_sequence: int, *batches: SampleBatch, ids: NDArray[np.uint32] | None = None
) -> bytes:
    """The rows of all batches as the body of one frame; see `encode`."""
    return encode(*batches, before=PRODUCER.pack(producer_id, producer_sequence), ids=ids)


def decode_body(body: bytes | memoryview, kind: int, record_count: int) -> SampleBatch:
    """The sample batch of a frame of stream SAMPLES and kind 1..4."""
    try:
        value_type = ValueType(kind)
    except ValueError as error:
        raise DecodeError(0, f"kind {kind} is not a value type") from error
    return decode(memoryview(body)[PRODUCER.size :], value_type, record_count)


class SampleStretch(msgspec.Struct, frozen=True, eq=False):
    """Bodies of one kind, decoded together."""

    batch: SampleBatch
    """The rows of all bodies, one body after another."""
    producer_id: NDArray[np.uint64]
    producer_sequence: NDArray[np.uint64]
    """Both by body."""


def decode_together(bodies: Sequence[bytes | memoryview], kind: int, counts: Sequence[int]) -> SampleStretch | None:
    """Decode many small bodies at once: bodies of equal shape by the same calls of numpy.

    Args:
        counts: number of rows of each body.
    Returns:
        None: each has to be decoded by itself, for one is malformed, or has a text beyond ASCII.
    """
    shapes: dict[tuple[int, int], list[int]] = {}
    for place, (body, count) in enumerate(zip(bodies, counts, strict=True)):
        shapes.setdefault((count, len(body)), []).append(place)
    value_type, starts = ValueType(kind), np.cumsum([0, *counts])
    columns = {name: np.empty(int(starts[-1]), dtype) for name, dtype in _columns_together(value_type)}
    producers = np.empty((2, len(bodies)), np.uint64)
    for (count, size_bytes), places in shapes.items():
        layout = _layout(value_type, count, size_bytes)
        if layout is None:
            return None
        found = np.frombuffer(b"".join([bodies[place] for place in places]), layout)
        cells = _cells(found, value_type)
        if cells is None:
            return None
        at = np.array(places)
        rows = (starts[at][:, None] + np.arange(count)).ravel()
        for name, column in columns.items():
            column[rows] = (cells if name == "value" else found[name]).ravel()
        producers[:, at] = found["producer_id"], found["producer_sequence"]
    texts = None
    if value_type is ValueType.STRING:
        ends = np.cumsum(columns.pop("value"), dtype=np.uint32)
        data = b"".join([body[_texts_at(count) :] for body, count in zip(bodies, counts, strict=True)])
        texts = Strings(np.concatenate([np.zeros(1, np.uint32), ends]), data)
    value = columns.pop("value") if texts is None else texts
    return SampleStretch(SampleBatch(value_type=value_type, value=value, **columns), *producers)


def _columns_together(value_type: ValueType) -> tuple[tuple[str, str], ...]:
    """Columns of a stretch; the value of a text is its length."""
    return ("item_id", "<u4"), *_BEHIND_IDS, ("value", _VALUE_DTYPE.get(value_type, "<u4"))


def _texts_at(count: int) -> int:
    """Offset at which a body of `count` texts has the first of them."""
    return PRODUCER.size + _FIXED_BYTES * count + 4 * (count + 1)


@functools.lru_cache(1024)
def _layout(value_type: ValueType, count: int, size_bytes: int) -> np.dtype[np.void] | None:
    """A body of `count` rows as one element; None: none has this length."""
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = [("producer_id", "<u8"), ("producer_sequence", "<u8")]
    fields += [(name, dtype, (count,)) for name, dtype in (("item_id", "<u4"), *_BEHIND_IDS)]
    if value_type is ValueType.STRING:
        fields += [("ends", "<u4", (count + 1,)), ("texts", "u1", (max(0, size_bytes - _texts_at(count)),))]
    else:
        fields.append(("value", _VALUE_DTYPE[value_type], (count,)))
    layout: np.dtype[np.void] = np.dtype(fields)
    return layout if layout.itemsize == size_bytes else None


def _cells(found: NDArray[np.void], value_type: ValueType) -> NDArray[Any] | None:
    """Value column of each body, lengths of texts; None: one is malformed, or has a text beyond ASCII."""
    if value_type is not ValueType.STRING:
        value = found["value"]
        return None if value_type is ValueType.BOOL and value.max() > 1 else value
    ends, texts = found["ends"], found["texts"]
    covers = (ends[:, 0] == 0).all() and (ends[:, -1] == texts.shape[1]).all() and (ends[:, 1:] >= ends[:, :-1]).all()
    is_ascii = not texts.size or texts.max() < _BEYOND_ASCII
    return ends[:, 1:] - ends[:, :-1] if covers and is_ascii else None


def _joined(columns: Sequence[NDArray[Any]], dtype: str) -> NDArray[Any]:
    return np.concatenate(columns, dtype=dtype, casting="unsafe")


def decode(buffer: bytes | memoryview, value_type: ValueType, count: int) -> SampleBatch:
    """Batch that is encoded in the whole of `buffer`.

    Raises:
        DecodeError: the length does not fit `count`, strings overlap or are not UTF-8, a bool is neither 0 nor 1.
    """
    if not 0 < count <= RECORDS_MAX:
        raise DecodeError(0, f"{count} samples, expected 1..{RECORDS_MAX}")
    fixed = _FIXED_BYTES * count
    if len(buffer) < fixed:
        raise DecodeError(len(buffer), f"{count} samples need at least {fixed} bytes")
    item_id = np.frombuffer(buffer, "<u4", count)
    source_ns = np.frombuffer(buffer, "<i8", count, 4 * count)
    node_ns = np.frombuffer(buffer, "<i8", count, 12 * count)
    quality = np.frombuffer(buffer, "<u4", count, 20 * count)
    return SampleBatch(
        value_type=value_type,
        item_id=item_id,
        source_ns=source_ns,
        node_ns=node_ns,
        value=_decode_value(buffer, value_type, count, fixed),
        quality=quality,
    )


def _decode_value(buffer: bytes | memoryview, value_type: ValueType, count: int, offset: int) -> Column:
    if value_type is ValueType.STRING:
        return _decode_strings(buffer, count, offset)
    dtype = np.dtype(_VALUE_DTYPE[value_type])
    if len(buffer) != offset + count * dtype.itemsize:
        raise DecodeError(offset, f"{len(buffer) - offset} bytes of values, expected {count * dtype.itemsize}")
    column = np.frombuffer(buffer, dtype, count, offset)
    if value_type is ValueType.BOOL and column.max() > 1:
        raise DecodeError(offset, "a bool that is neither 0 nor 1")
    return column


def _decode_strings(buffer: bytes | memoryview, count: int, offset: int) -> Strings:
    data_at = offset + 4 * (count + 1)
    if len(buffer) < data_at:
        raise DecodeError(len(buffer), "string offsets cut short")
    offsets = np.frombuffer(buffer, "<u4", count + 1, offset)
    data = memoryview(buffer)[data_at:]
    if offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise DecodeError(offset, "string offsets do not cover the data in order")
    letters = np.frombuffer(data, "u1")
    if len(letters) == 0 or letters.max() < _BEYOND_ASCII:  # The usual case, in a tenth of the time.
        return Strings(offsets, data)
    try:
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(data_at + error.start, "not UTF-8") from error
    begins = letters[offsets[:-1][offsets[:-1] < len(data)]]
    if ((begins & 0xC0) == 0x80).any():
        raise DecodeError(offset, "a string begins inside a character")
    return Strings(offsets, data)
