"""Live: the columns of DIM, one row per item, and what a batch brings to them."""

from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, OLDEST, Field, GrowingColumns
from albireo.model import quality as q
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType

Rows = NDArray[np.intp]

VACANT: Final = 0
"""Value type of a row whose item was forgotten: the next new item takes the row."""


class Live(GrowingColumns):
    """Current values by dense item index."""

    fields: ClassVar = {
        "value_type": Field("u1"),
        "number": Field("<f8"),
        "integer": Field("<i8"),
        "has_value": Field("?"),
        "quality": Field("<u4", int(q.BAD_WAITING_FOR_INITIAL_DATA)),
        "source_ns": Field("<i8"),
        "node_ns": Field("<i8"),
        "device_ns": Field("<i8", OLDEST),
        "late_since": Field("<i8", NEVER),
        "late_from": Field("<i8"),
        "late_count": Field("<i8"),
        "changed_at": Field("<i8"),
        "declared_at": Field("<i8"),
    }
    value_type: NDArray[np.uint8]
    number: NDArray[np.float64]
    """Last usable value, as a float; 0 for strings and before the first."""
    integer: NDArray[np.int64]
    """Last usable value of int64 and bool items, exact."""
    has_value: NDArray[np.bool_]
    """A usable value was seen: without one the value is unknown, not zero."""
    quality: NDArray[np.uint32]
    source_ns: NDArray[np.int64]
    node_ns: NDArray[np.int64]
    device_ns: NDArray[np.int64]
    """Source time of the newest live sample but those about a device out of reach; lateness is measured against it."""
    late_since: NDArray[np.int64]
    """Log time at which a streak of nothing but late samples began."""
    late_from: NDArray[np.int64]
    """Source time at which that streak began."""
    late_count: NDArray[np.int64]
    changed_at: NDArray[np.int64]
    """Sequence of the sample that is live; 0: none yet."""
    declared_at: NDArray[np.int64]
    """Sequence of the last declaration."""

    def has_node_time(self, index: Rows) -> NDArray[np.bool_]:
        """Mark items whose live sample has the node's own time, with which none of a device is compared."""
        source_ns = self.source_ns[index]
        marked: NDArray[np.bool_] = (source_ns == self.node_ns[index]) & (source_ns == self.device_ns[index])
        return marked

    def go_on_from(self, source: int, target: int, sequence: int) -> None:
        """Make the sample of one row that of another, and measure lateness there against the same device time."""
        for name in self.fields.keys() - {"value_type", "declared_at", "late_count"}:
            column = getattr(self, name)
            column[target] = column[source]
        self.changed_at[target] = sequence


class Fresh(msgspec.Struct, frozen=True, eq=False):
    """Rows of a batch that became live, one per item."""

    value_type: ValueType
    index: Rows
    """Dense item indexes, each once."""
    number: NDArray[np.float64]
    """Value as a float (bool: 0 or 1; string: 0)."""
    is_usable: NDArray[np.bool_]
    """The quality is not bad."""
    source_ns: NDArray[np.int64]
    all_usable: bool
    earlier: "EarlierRows | None" = None
    """Older rows of the same items in the same batch; None: there are none."""

    def chained(
        self, is_asked: NDArray[np.bool_], is_usable: NDArray[np.bool_]
    ) -> tuple[Rows, NDArray[np.float64], NDArray[np.int64], Rows | None]:
        """Index, number and source time of the usable rows of these, each behind the older usable ones of its item.

        Last the places at which each item begins; None: there is one row of each.
        """
        older = self.earlier.of(self.index[is_asked]) if self.earlier is not None and is_asked.any() else None
        is_asked = is_asked & is_usable
        index, number, source_ns = self.index[is_asked], self.number[is_asked], self.source_ns[is_asked]
        if older is None or not len(older[0]):
            return index, number, source_ns, None
        index, number, source_ns = (
            np.concatenate([old, new]) for old, new in zip(older, (index, number, source_ns), strict=True)
        )
        order = np.argsort(index, kind="stable")
        index = index[order]
        starts = np.flatnonzero(np.append(True, index[1:] != index[:-1]))
        return index, number[order], source_ns[order], starts


class EarlierRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of a batch that has several of an item; looked at only if a rule asks for the older ones."""

    batch: SampleBatch
    places: Rows
    """Rows of known items."""
    index: Rows
    """Item of each."""
    device_ns: NDArray[np.int64]
    """Newest device time of each item before this batch."""
    newest: Rows
    """Rows that became live."""

    def of(self, asked: Rows) -> tuple[Rows, NDArray[np.float64], NDArray[np.int64]]:
        """Index, number and source time of usable numbers of these items, neither live nor late, by their times."""
        batch = self.batch
        kept = np.isin(self.index, asked)
        kept[kept] = ~np.isin(self.places[kept], self.newest)
        places, index = self.places[kept], self.index[kept]
        if not len(places) or isinstance(batch.value, Strings):
            return index[:0], np.zeros(0), np.zeros(0, np.int64)
        number, source_ns = batch.value[places].astype(np.float64), batch.source_ns[places]
        is_own = source_ns == batch.node_ns[places]
        usable = (batch.quality[places] < q.BAD) & ~np.isnan(number) & (is_own | (source_ns >= self.device_ns[kept]))
        count = len(places)
        order = np.arange(count)
        if not (source_ns[1:] >= source_ns[:-1]).all():
            order[np.argsort(source_ns, kind="stable")] = np.arange(count)
            order = np.argsort(np.where(is_own, np.arange(count), order), kind="stable")
        order = order[usable[order]]
        return index[order], number[order], source_ns[order]


def has_node_time(batch: SampleBatch) -> NDArray[np.bool_]:
    """Mark rows with the node's own time."""
    marked: NDArray[np.bool_] = q.is_from_node(batch.quality) | (batch.source_ns == batch.node_ns)
    return marked


class DimCounters(msgspec.Struct):
    """Counts of samples and declarations that the fold could not use."""

    unknown: int = 0
    """Samples of ids that no record declared."""
    mistyped: int = 0
    """Samples of another type than the item's."""
    late: int = 0
    """Samples that are history only."""
    refused_items: int = 0
    """Declarations beyond ITEMS_MAX or ITEM_ID_MAX."""
