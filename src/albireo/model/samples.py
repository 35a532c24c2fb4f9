"""Samples as columns: the one shape in which values travel, are stored and are folded.

A batch holds rows of one value type; a device with mixed types gives one batch per type. Nothing here ever holds a
Python object per sample.
"""

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.model.value import EXACT, Value, ValueType


class Strings(msgspec.Struct, frozen=True, eq=False):
    """A column of n strings, as Arrow lays them out."""

    offsets: NDArray[np.uint32]
    """Byte positions in `data`, n + 1 of them, not falling, the first 0."""
    data: bytes | memoryview
    """All strings in UTF-8, one after another; may be a view of the bytes that it came in."""

    @classmethod
    def of(cls, values: Sequence[str]) -> "Strings":
        encoded = [value.encode() for value in values]
        offsets = np.zeros(len(encoded) + 1, np.uint32)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        return cls(offsets, b"".join(encoded))

    def to_list(self) -> list[str]:
        ends = self.offsets.tolist()
        return [str(self.data[a:b], "utf-8") for a, b in itertools.pairwise(ends)]

    def take(self, rows: NDArray[np.intp]) -> "Strings":
        ends = self.offsets
        parts = [self.data[ends[row] : ends[row + 1]] for row in rows.tolist()]
        offsets = np.zeros(len(parts) + 1, np.uint32)
        np.cumsum([len(one) for one in parts], out=offsets[1:])
        return Strings(offsets, b"".join(parts))

    def __len__(self) -> int:
        return len(self.offsets) - 1


Column = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint8] | Strings


_DTYPES: Final = {ValueType.FLOAT64: np.float64, ValueType.INT64: np.int64, ValueType.BOOL: np.uint8}


def column_of(values: Sequence[Value], value_type: ValueType) -> Column:
    """A column of a few values, all of the type."""
    if value_type is ValueType.STRING:
        return Strings.of([str(one) for one in values])
    return np.array(values, _DTYPES[value_type])


def narrowed(edge: NDArray[np.float64], towards: float) -> NDArray[np.float64]:
    """Edges of intervals, moved inward where an integer beyond an edge may be the edge itself as a float."""
    is_inexact = (np.abs(edge) >= EXACT) & np.isfinite(edge)
    return np.where(is_inexact, np.nextafter(edge, towards), edge)


class SampleBatch(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """n samples of one value type, in the order of acquisition.

    Values are in engineering units. Per item, order of rows is order of acquisition; `source_ns` may go backwards
    (a device's clock is data).
    """

    value_type: ValueType
    item_id: NDArray[np.uint32]
    source_ns: NDArray[np.int64]
    """Wall time of the device, or of the poll where the device gives none."""
    node_ns: NDArray[np.int64]
    """Wall time of the node when the value arrived. Equal to `source_ns`: no other clock has stamped the value, so it
    counts in the order of arrival."""
    value: Column
    """Values as float64, int64, bool as u8 (0 or 1), or strings. Under a bad quality a value means nothing: it is the
    last known one, or 0."""
    quality: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.item_id)

    def take(self, rows: NDArray[np.intp]) -> "SampleBatch":
        """The given rows, in the given order."""
        value = self.value.take(rows) if isinstance(self.value, Strings) else self.value[rows]
        return SampleBatch(
            value_type=self.value_type,
            item_id=self.item_id[rows],
            source_ns=self.source_ns[rows],
            node_ns=self.node_ns[rows],
            value=value,
            quality=self.quality[rows],
        )

    def values(self) -> list[Value]:
        """The values as Python objects, for an edge: a table, JSON, a test."""
        if isinstance(self.value, Strings):
            return list[Value](self.value.to_list())
        plain = self.value.tolist()
        return [bool(one) for one in plain] if self.value_type is ValueType.BOOL else plain
