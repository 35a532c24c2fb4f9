"""Live: the columns of DIM, one row per item, and what a batch brings to them."""

from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.columns import NEVER, OLDEST, Field, GrowingColumns
from albireo.model import quality as q
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
    """Source time of the newest live sample that the device stamped; lateness is measured against it."""
    late_since: NDArray[np.int64]
    """Log time at which a streak of nothing but late samples began."""
    late_from: NDArray[np.int64]
    """Source time at which that streak began."""
    late_count: NDArray[np.int64]
    changed_at: NDArray[np.int64]
    """Sequence of the sample that is live; 0: none yet."""
    declared_at: NDArray[np.int64]
    """Sequence of the last declaration."""


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
