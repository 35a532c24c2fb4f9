"""Inspection of arrivals: what a device told that can't be right is named or left out, and counted; nothing ends of it.

    does not fit    columns of unequal length or another type, a row that is no item's, a type that is not its item's,
                    text that is no UTF-8                                       left out: `refused`
    out of range    a value beyond the item's `minimum` and `maximum`           UncertainEngineeringUnitsExceeded
                    a bool that is neither 0 nor 1                              BadOutOfRange
    impossible      a source time more than an hour ahead of the node, or       the node's time, and Uncertain
                    before 1970
    out of order    a source time before an earlier one of the item             kept: it may well be right, and CORE has
                                                                                a rule for samples that are late

A quality that says less than good already stays as it is. Columns in, columns out.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.contract import Arrivals
from albireo.model.instant import SECOND, WallTime
from albireo.model.item import DataItem
from albireo.model.quality import BAD, BAD_OUT_OF_RANGE, GOOD, UNCERTAIN, UNCERTAIN_ENGINEERING_UNITS_EXCEEDED
from albireo.model.samples import Strings
from albireo.model.value import ValueType

AHEAD_NS_MAX: Final = 3_600 * SECOND
"""Longest time by which a device's clock may lead the node's: beyond it, right values would be late for hours."""
ROWS_MAX: Final = 65_536
"""Rows of one column; a longer one does not fit."""
_NEVER: Final = np.iinfo(np.int64).min
_DTYPES: Final = {ValueType.FLOAT64: np.float64, ValueType.INT64: np.int64, ValueType.BOOL: np.uint8}


class Inspected(msgspec.Struct, frozen=True, eq=False):
    """Arrivals that fit, at least one."""

    arrivals: Arrivals
    is_late: NDArray[np.bool_]
    """By row: its source time is before an earlier one of the item."""


class Inspection:
    """Inspection for one adapter; knows the newest source time of each item."""

    def __init__(self, items: Sequence[DataItem]) -> None:
        self._types = np.array([one.value_type for one in items], np.uint8)
        self._minimum = np.array([-np.inf if one.minimum is None else one.minimum for one in items])
        self._maximum = np.array([np.inf if one.maximum is None else one.maximum for one in items])
        self._newest_ns = np.full(len(items), _NEVER, np.int64)
        self._counts = dict.fromkeys(("arrived", "refused", "out_of_range", "impossible_times", "out_of_order"), 0)

    def counters(self) -> Mapping[str, int]:
        """Rows since the start, of each sort."""
        return self._counts

    @property
    def refused(self) -> int:
        return self._counts["refused"]

    def inspect(self, arrivals: Arrivals, node_ns: WallTime) -> Inspected | None:
        """The rows that fit, as they may go on record; None: none does."""
        if not _is_whole(arrivals):
            self._counts["refused"] += len(arrivals.rows) if isinstance(arrivals.rows, np.ndarray) else 1
            return None
        rows = arrivals.rows
        self._counts["arrived"] += len(rows)
        fits = (rows >= 0) & (rows < len(self._types))
        fits[fits] = self._types[rows[fits]] == arrivals.value_type
        if not fits.all():
            self._counts["refused"] += int(len(fits) - fits.sum())
            arrivals = _taken(arrivals, np.flatnonzero(fits))
        if not len(arrivals.rows):
            return None
        quality = self._ranged(arrivals)
        source_ns = arrivals.source_ns
        is_odd = (source_ns > node_ns + AHEAD_NS_MAX) | (source_ns <= 0)
        if is_odd.any():
            self._counts["impossible_times"] += int(is_odd.sum())
            source_ns = np.where(is_odd, node_ns, source_ns)
            quality = np.where(is_odd & (quality == GOOD), np.uint32(UNCERTAIN), quality)
        is_late = self._late(arrivals.rows, source_ns) & ~is_odd
        self._counts["out_of_order"] += int(is_late.sum())
        on_time = ~is_late & ~is_odd
        np.maximum.at(self._newest_ns, arrivals.rows[on_time], source_ns[on_time])
        return Inspected(msgspec.structs.replace(arrivals, quality=quality, source_ns=source_ns), is_late)

    def _ranged(self, arrivals: Arrivals) -> NDArray[np.uint32]:
        """Quality of each row, by its value."""
        value, quality = arrivals.value, arrivals.quality
        if isinstance(value, Strings):
            return quality
        if arrivals.value_type is ValueType.BOOL:
            is_beyond = (quality < BAD) & (value > 1)
            named = np.uint32(BAD_OUT_OF_RANGE)
        else:
            rows = arrivals.rows
            is_beyond = (quality == GOOD) & ((value < self._minimum[rows]) | (value > self._maximum[rows]))
            named = np.uint32(UNCERTAIN_ENGINEERING_UNITS_EXCEEDED)
        if not is_beyond.any():
            return quality
        self._counts["out_of_range"] += int(is_beyond.sum())
        return np.where(is_beyond, named, quality)

    def _late(self, rows: NDArray[np.intp], source_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark rows before an earlier one of their item, in these columns or before them."""
        is_late: NDArray[np.bool_] = source_ns < self._newest_ns[rows]
        if (source_ns[1:] >= source_ns[:-1]).all():
            return is_late
        # The rank of each time, raised by the place of its item, rises from item to item: one running maximum over all
        # of them is that of each.
        order = np.argsort(rows, kind="stable")
        times, ranks = np.unique(source_ns[order], return_inverse=True)
        begins = np.append(True, rows[order][1:] != rows[order][:-1])
        raised = ranks + np.cumsum(begins) * len(times)
        newest_before = np.append(0, np.maximum.accumulate(raised)[:-1])
        is_late[order] |= (raised < newest_before) & ~begins
        return is_late


def _is_whole(arrivals: Arrivals) -> bool:
    """The columns are of one length, at most ROWS_MAX, and of the types that they should be."""
    rows, value = arrivals.rows, arrivals.value
    if not _is_column(rows) or rows.dtype.kind != "i" or len(rows) > ROWS_MAX:
        return False
    if isinstance(value, Strings):
        is_typed = arrivals.value_type is ValueType.STRING and _is_text(value)
    else:
        is_typed = _is_column(value) and value.dtype == _DTYPES.get(arrivals.value_type)
    times, quality = arrivals.source_ns, arrivals.quality
    is_typed &= _is_column(times) and times.dtype == np.int64 and _is_column(quality) and quality.dtype == np.uint32
    return is_typed and len(value) == len(times) == len(quality) == len(rows)


def _is_column(one: object) -> bool:
    return isinstance(one, np.ndarray) and one.ndim == 1


def _is_text(value: Strings) -> bool:
    offsets = value.offsets
    if not _is_column(offsets) or offsets.dtype != np.uint32 or not len(offsets) or int(offsets[0]) != 0:
        return False
    if (offsets[1:] < offsets[:-1]).any() or int(offsets[-1]) != len(value.data):
        return False
    try:
        value.to_list()
    except UnicodeDecodeError:
        return False
    return True


def _taken(arrivals: Arrivals, places: NDArray[np.intp]) -> Arrivals:
    value = arrivals.value
    return Arrivals(
        value_type=arrivals.value_type,
        rows=arrivals.rows[places],
        value=value.take(places) if isinstance(value, Strings) else value[places],
        quality=arrivals.quality[places],
        source_ns=arrivals.source_ns[places],
    )
