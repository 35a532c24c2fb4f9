"""Columns that grow together: the shape in which a fold keeps its knowledge of many items or rules.

A subclass names its columns once, in `fields`, with type and first value. The packed form holds the rows in use and
nothing of how the columns grew, so two folds with equal rows pack to equal bytes.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError

CAPACITY_FIRST: Final = 64
ROWS_MAX: Final = 8_000_000
"""Most rows that an unpacking allocates: more than any fold here may hold."""

NEVER: Final = np.iinfo(np.int64).max
"""A time that does not come."""
OLDEST: Final = np.iinfo(np.int64).min // 2
"""A time before all others, still far enough from the end of int64 to be subtracted from; as a source time: none."""

Any1 = NDArray[np.generic]


class Field(msgspec.Struct, frozen=True):
    """One column: numpy type, value of a new row, and number of cells of a row (0: a plain column)."""

    dtype: str
    fill: float | int | bool = 0
    width: int = 0

    def empty(self, rows: int) -> Any1:
        shape = (rows, self.width) if self.width else (rows,)
        column: Any1 = np.full(shape, self.fill, self.dtype)
        return column


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Columns as bytes, in the order of `fields`."""

    count: int
    columns: list[bytes]


class GrowingColumns:
    """n rows; every column is at least n long, and holds fill above n."""

    fields: ClassVar[Mapping[str, Field]] = {}

    def __init__(self) -> None:
        self.count = 0
        self._capacity = CAPACITY_FIRST
        for name, field in self.fields.items():
            setattr(self, name, field.empty(CAPACITY_FIRST))

    def add(self, rows: int = 1) -> int:
        """Add `rows` rows of fill; the index of the first of them."""
        first = self.count
        self.count += rows
        while self.count > self._capacity:
            self._double()
        return first

    def _double(self) -> None:
        for name, field in self.fields.items():
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, field.empty(self._capacity)]))
        self._capacity *= 2

    def clear(self, row: int | NDArray[np.intp]) -> None:
        """Give `row`, or each of several rows, the values of a new row."""
        for name, field in self.fields.items():
            getattr(self, name)[row] = field.fill

    def pack(self) -> Packed:
        return Packed(self.count, [getattr(self, name)[: self.count].tobytes() for name in self.fields])

    def unpack(self, packed: Packed) -> None:
        """Take the rows of `packed` into these columns, which must be empty.

        Raises:
            DecodeError: another number of columns, or lengths that do not fit the count.
        """
        if not 0 <= packed.count <= ROWS_MAX or len(packed.columns) != len(self.fields):
            raise DecodeError(0, f"{packed.count} rows in {len(packed.columns)} columns, expected {len(self.fields)}")
        for (name, field), data in zip(self.fields.items(), packed.columns, strict=True):
            if len(data) != packed.count * max(field.width, 1) * np.dtype(field.dtype).itemsize:
                raise DecodeError(0, f"column {name}: {len(data)} bytes for {packed.count} rows")
        self.add(packed.count)
        for (name, _), data in zip(self.fields.items(), packed.columns, strict=True):
            column = getattr(self, name)
            column[: packed.count] = np.frombuffer(data, column.dtype).reshape(column[: packed.count].shape)


def time_between(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Exact differences of source times, which int64 can't hold; none of `earlier` is above `later`, or it wraps."""
    difference: NDArray[np.uint64] = later.view(np.uint64) - earlier.view(np.uint64)
    return difference
