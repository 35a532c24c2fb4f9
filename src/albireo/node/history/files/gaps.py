"""The gaps of a history, and which items each of them is about.

A row names its items, as they were when it was written, or NO_ITEM alone if its source had none. One that names
nothing is about every item of the node, or, written while declarations were missing, about the items that its source
had then (declared.py).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from albireo.codec.history import GAPS
from albireo.machine.history.aggregate import Ints
from albireo.machine.history.declared import DeclaredItems, Row
from albireo.node.history.files import parquet


class GapIndex:
    """Gap rows by start, with a look-up by item that makes no object per row."""

    def __init__(self, stored: pa.Table, newest: Sequence[Row], declared: DeclaredItems) -> None:
        """`newest`: rows that are in no file."""
        rows = pa.concat_tables([stored, pa.Table.from_pylist(list(newest), schema=GAPS)])
        self._rows = rows.take(np.argsort(parquet.ints(rows, "from_ns"), kind="stable")).combine_chunks()
        self._declared = declared
        self._from_ns = parquet.ints(self._rows, "from_ns")
        named = self._rows.column("item_ids")
        self._named_row: Ints = pc.list_parent_indices(named).to_numpy()
        self._named_id: Ints = pc.list_flatten(named).to_numpy()
        self._unnamed = np.flatnonzero(pc.list_value_length(named).to_numpy() == 0)

    def holes(self, item_id: int, before_ns: int) -> Ints:
        """Starts of the gaps that touch an item, up to a time."""
        starts = self._from_ns[self._touching(item_id)]
        return starts[starts < before_ns]

    def rows(self, from_ns: int, to_ns: int, item_id: int | None) -> list[Row]:
        """Rows that touch the range (and the item), by start."""
        is_within = (self._from_ns < to_ns) & (parquet.ints(self._rows, "to_ns") > from_ns)
        if item_id is not None:
            is_mine = np.zeros(len(is_within), np.bool_)
            is_mine[self._touching(item_id)] = True
            is_within &= is_mine
        found: list[Row] = self._rows.take(np.flatnonzero(is_within)).to_pylist()
        return found

    def _touching(self, item_id: int) -> NDArray[np.intp]:
        """Indices of the rows about an item, rising."""
        named = self._named_row[self._named_id == item_id]
        rows: list[Row] = self._rows.take(self._unnamed).to_pylist()
        mine = [self._declared.touches(row, item_id) for row in rows]
        return np.unique(np.concatenate([named, self._unnamed[np.array(mine, np.bool_)]])).astype(np.intp)
