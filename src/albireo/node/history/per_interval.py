"""Aggregates of an item per interval as a table, for commands and for answers to programs alike."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albireo.machine.history.declared import Row
from albireo.machine.history.intervals import Intervals, averages, qualities
from albireo.machine.history.trace import AggregateSettings
from albireo.model.quality import SEVERITY_SHIFT
from albireo.model.value import EXACT, ValueType
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files import parquet
from albireo.node.history.query import StoredHistory, TimeRange
from albireo.node.history.rows import value_type_of

Column = NDArray[Any]

RAW: Final = "raw"
_EXTREMES: Final = ("min", "max")
_VALUES: Final[dict[str, Callable[[Intervals, AggregateSettings], Column]]] = {
    "average": averages,
    "min": lambda found, _: found.minimum,
    "max": lambda found, _: found.maximum,
    "count": lambda found, _: found.good_rows,
    "duration": lambda found, _: found.good_ns / 1e9,
}
AGGREGATES: Final = (*_VALUES, "last", "interpolated", RAW)


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """Way in which rows are summed up."""

    name: str
    """One of AGGREGATES."""
    every_ns: int
    """Length of an interval."""
    uncertain_is_good: bool = False
    """True: uncertain values are used too (TreatUncertainAsBad = false)."""
    only_raw: bool = False
    """True: stored partials are not used."""

    @property
    def settings(self) -> AggregateSettings:
        return AggregateSettings(treat_uncertain_as_bad=not self.uncertain_is_good)


def interval_table(reader: StoredHistory, item: Row, span: TimeRange, wanted: Aggregation) -> pa.Table:
    """One row per interval: `start_ns`, `value` (null: none), `quality`, and of most aggregates what it was made of.
    `min` and `max` have `value_i64` beside it: the value of an integer item from 2^53 on, exactly; null below.

    The aggregate `last` gives the rows of codec.history.SAMPLES that hold at the intervals' ends, with `start_ns`.

    Raises:
        QueryRefused: too much, or the aggregate makes no sense for text.
        HistoryDamaged: a file is missing or unreadable.
    """
    item_id, value_type = item["item_id"], value_type_of(item)
    assert isinstance(item_id, int)
    if value_type is ValueType.STRING and wanted.name not in ("last", "count"):
        raise QueryRefused(f"{item['name']} holds text: raw, last and count are all that makes sense")
    match wanted.name:
        case "last":
            starts, table = reader.last_rows(item_id, span, wanted.every_ns)
            return table.add_column(0, "start_ns", pa.array(starts))
        case "interpolated":
            is_stepped = value_type is not ValueType.FLOAT64
            times, value, quality = reader.at(item_id, span, wanted.every_ns, wanted.settings, is_stepped=is_stepped)
            numbers = {"start_ns": parquet.array(times), "value": _finite(value), "quality": parquet.array(quality)}
            return pa.table(numbers)
        case name:
            return _summed(reader, item, span, name, wanted)


def _exact(
    reader: StoredHistory, item: Row, found: Intervals, name: str, settings: AggregateSettings
) -> "pa.Array[Any]":
    """Smallest or largest value of each interval that no double can be trusted with; null elsewhere."""
    doubles = found.minimum if name == "min" else found.maximum
    exact: list[int | None] = [None] * len(doubles)
    large = np.flatnonzero(np.abs(doubles) >= EXACT)
    item_id = item["item_id"]
    if value_type_of(item) is ValueType.INT64 and len(large) and isinstance(item_id, int):
        span = TimeRange(int(found.edges[large[0]]), int(found.edges[large[-1] + 1]))
        table = reader.raw_around(item_id, span)
        times, values = parquet.ints(table, "source_ns"), parquet.ints(table, "value_i64")
        is_usable = parquet.ints(table, "quality") >> SEVERITY_SHIFT <= settings.usable_max
        at = np.searchsorted(times, found.edges, side="left")
        of = min if name == "min" else max
        for index in large.tolist():
            first, end = int(at[index]), int(at[index + 1])
            held = [] if np.isnan(found.start_value[index]) else [int(values[first - 1])]
            exact[index] = of(held + values[first:end][is_usable[first:end]].tolist())
    return pa.array(exact, pa.int64())


def _summed(reader: StoredHistory, item: Row, span: TimeRange, name: str, wanted: Aggregation) -> pa.Table:
    item_id = item["item_id"]
    assert isinstance(item_id, int)
    found = reader.intervals(
        item_id,
        span,
        wanted.every_ns,
        wanted.settings,
        only_raw=wanted.only_raw,
        with_extremes=name in _EXTREMES,
    )
    value = _VALUES[name](found, wanted.settings)
    exact = {"value_i64": _exact(reader, item, found, name, wanted.settings)} if name in _EXTREMES else {}
    return pa.table(
        {
            "start_ns": parquet.array(found.edges[:-1]),
            "value": _finite(value),
            **exact,
            "quality": parquet.array(qualities(found, wanted.settings, wanted.every_ns)),
            "rows": parquet.array(found.rows),
            "good_ns": parquet.array(found.good_ns),
            "uncertain_ns": parquet.array(found.uncertain_ns),
            "bad_ns": parquet.array(found.bad_ns),
        }
    )


def _finite(values: Column) -> "pa.Array[Any]":
    """NaN and infinity as null, so that no format has to spell them."""
    return pa.array(values, mask=~np.isfinite(values))
