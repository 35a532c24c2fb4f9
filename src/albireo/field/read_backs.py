"""Read-backs: what a device holds behind a write is a reading of it at once, and not only in the next poll.

A poll may have asked for the item before the write, and be answered behind it: that answer is left out.
"""

import math
from collections.abc import Sequence

import numpy as np

from albireo.field.contract import PolledColumns
from albireo.model.instant import Instant
from albireo.model.item import DataItem
from albireo.model.quality import GOOD
from albireo.model.samples import Strings, column_of
from albireo.model.value import Value


class ReadBacks:
    """Read-backs of one adapter since its last poll."""

    def __init__(self) -> None:
        self._at: dict[int, Instant] = {}
        """By row."""

    def reading(self, row: int, item: DataItem, value: Value, now: Instant) -> Sequence[PolledColumns]:
        """The reading that `value` is; none if it is no good one: that gets its quality in the next poll."""
        if not _is_plain(value):
            return ()
        self._at[row] = now
        rows, quality = np.array([row], np.intp), np.array([GOOD], np.uint32)
        column = column_of([value], item.value_type)
        return (PolledColumns(value_type=item.value_type, rows=rows, value=column, quality=quality),)

    def still_news(self, polled: Sequence[PolledColumns], began: Instant) -> Sequence[PolledColumns]:
        """A poll that began then, without what was read back since."""
        newer = [row for row, at in self._at.items() if at >= began]
        self._at.clear()
        return [_without(newer, one) for one in polled] if newer else polled


def _without(rows: Sequence[int], polled: PolledColumns) -> PolledColumns:
    kept = np.flatnonzero(~np.isin(polled.rows, rows))
    return PolledColumns(
        value_type=polled.value_type,
        rows=polled.rows[kept],
        value=polled.value.take(kept) if isinstance(polled.value, Strings) else polled.value[kept],
        quality=polled.quality[kept],
        source_ns=None if polled.source_ns is None else polled.source_ns[kept],
    )


def _is_plain(value: Value) -> bool:
    if isinstance(value, str):
        return "\ufffd" not in value
    return math.isfinite(value) and (isinstance(value, float) or value <= np.iinfo(np.int64).max)
