"""Sweep: the next rows of several sorted files and of the hot tail in one order, a row group at a time.

    sources, each sorted --take from the one that has come least far--> rows before all of them are complete --> a piece

A file is opened when the sweep comes to its first row, and closed at its end. So a piece holds a row group of each file
that overlaps, however many rows lie behind it.

Not done here: which files may have rows (query, paging).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albireo.model.bounded import INT64_MAX
from albireo.node.history.files import parquet

Place = tuple[int, ...]
"""Values of the columns that rows are sorted by, the first of them at least; a place is compared as tuples are."""
LOWEST: Final = -INT64_MAX
"""Below every sequence and epoch, also where they stand below zero, so that the newest rows come first."""
TAKES_MAX: Final = 96
"""Most row groups that one piece reads before it ends with what it has; some 0.3 s."""


class Streak:
    """Rows of one source that have not been taken yet, as tables that follow each other."""

    def __init__(self, begin: Place, tables: Iterator[pa.Table], keys: Sequence[str]) -> None:
        """`begin`: no row has a lower place."""
        self.at: Place | None = begin
        """Lowest place that a row not taken yet can have; None: there is none."""
        self._tables = tables
        self._keys = keys

    def take(self) -> pa.Table | None:
        table = next(self._tables, None)
        if table is None:
            self.at = None
        elif len(table):
            self.at = tuple(int(parquet.ints(table, key)[-1]) for key in self._keys)
        return table


class Swept(msgspec.Struct, frozen=True, eq=False):
    """Rows of one piece."""

    table: pa.Table
    next: Place | None
    """Place behind which to go on; None: there are no more rows."""
    takes: int
    """Number of tables that were taken."""


def sweep(
    streaks: Sequence[Streak], keys: Sequence[str], after: Place, empty: pa.Table, rows_max: int, takes_max: int
) -> Swept:
    """The first rows behind a place, by `keys`, of which together no two rows have the same values.

    Args:
        after: a value for each key.
        empty: a table without rows.
        takes_max: tables after which it ends, once it has come any further.
    """
    taken: list[pa.Table] = [empty]
    count, takes = 0, 0
    while True:
        live = [one for one in streaks if one.at is not None]
        safe = min((one.at for one in live if one.at is not None), default=None)
        is_over = takes >= takes_max and safe is not None and safe > after
        if safe is None or is_over or (count > rows_max and _complete(taken, keys, after, safe) > rows_max):
            break
        table = min(live, key=lambda one: one.at or ()).take()
        if table is not None:
            takes += 1
            taken.append(table)
            count += len(table)
    found = _wanted(pa.concat_tables(taken), keys, after, safe)
    piece = found.slice(0, rows_max)
    if len(found) > rows_max or (safe is not None and len(found) == rows_max):
        return Swept(piece, place_of(piece, len(piece) - 1, keys), takes)
    return Swept(piece, None if safe is None else _before(safe, len(keys)), takes)


def place_of(table: pa.Table, row: int, keys: Sequence[str]) -> Place:
    return tuple(int(table.column(key)[row].as_py()) for key in keys)


def _before(place: Place, length: int) -> Place:
    """The last place before all rows at `place`."""
    return (*place, *[LOWEST] * (length - len(place)))


def _complete(taken: Sequence[pa.Table], keys: Sequence[str], after: Place, safe: Place) -> int:
    return sum(int(_between(table, keys, after, safe).sum()) for table in taken)


def _wanted(table: pa.Table, keys: Sequence[str], after: Place, safe: Place | None) -> pa.Table:
    """Rows behind `after` and before `safe`, in order."""
    rows = np.flatnonzero(_between(table, keys, after, safe))
    columns = [parquet.ints(table, key)[rows] for key in reversed(keys)]
    order = rows[np.lexsort(columns)]
    if len(order) and order[-1] - order[0] == len(order) - 1 and bool((np.diff(order) == 1).all()):
        return table.slice(int(order[0]), len(order))
    return table.take(order)


def _between(table: pa.Table, keys: Sequence[str], after: Place, safe: Place | None) -> NDArray[np.bool_]:
    within = ~_is_before(table, keys, after, or_at=True)
    return within if safe is None else within & _is_before(table, keys, safe, or_at=False)


def _is_before(table: pa.Table, keys: Sequence[str], place: Place, *, or_at: bool) -> NDArray[np.bool_]:
    before, equal = np.zeros(len(table), np.bool_), np.ones(len(table), np.bool_)
    for key, value in zip(keys, place, strict=False):
        column = parquet.ints(table, key)
        before |= equal & (column < value)
        equal &= column == value
    return before | equal if or_at else before
