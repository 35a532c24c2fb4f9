"""Aggregates of an item per interval as a table, for commands and for answers to programs alike."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from albireo.codec.history import BUCKET_NS, FileKind
from albireo.codec.item_kinds import ItemKinds
from albireo.machine.history.aggregate import TIME_LIMIT_NS, Ints
from albireo.machine.history.declared import Row
from albireo.machine.history.intervals import Intervals, averages, kinds_of, qualities
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.quality import SEVERITY_SHIFT
from albireo.model.value import EXACT, ValueType
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files import parquet
from albireo.node.history.query import StoredHistory, TimeRange

Column = NDArray[Any]

RAW: Final = "raw"
_EXTREMES: Final = ("min", "max")
_OF_NUMBERS: Final = ("average", *_EXTREMES)
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
    """One row per interval: `item_id`, `start_ns`, `value` (null: none), `quality`, of most aggregates what it was made
    of. `min` and `max` have `value_i64` beside it: the value of an integer item from 2^53 on, exactly; null below.
    `declared` is the sequence of the declaration that says type and unit of the value (ItemKinds).

    The aggregate `last` gives the rows of codec.history.SAMPLES that hold at the intervals' ends, with `start_ns`.

    No number stands for values of several kinds, nor for text (ADR-0264).

    Raises:
        QueryRefused: too much, or the aggregate makes no sense for text.
        HistoryDamaged: a file is missing or unreadable.
    """
    item_id = item["item_id"]
    assert isinstance(item_id, int)
    kinds = reader.declared().kinds(item_id)
    if kinds.is_of(ValueType.STRING).all() and wanted.name not in ("last", "count"):
        raise QueryRefused(f"{item['name']} holds text: raw, last and count are all that makes sense")
    match wanted.name:
        case "last":
            starts, table = reader.last_rows(item_id, span, wanted.every_ns)
            return table.add_column(0, "start_ns", pa.array(starts))
        case "interpolated":
            times, value, quality, kind = reader.at(item_id, span, wanted.every_ns, wanted.settings)
            value, quality = _of_numbers(value, quality, kinds.is_of(ValueType.STRING)[kind])
            columns = {"start_ns": times, "value": value, "quality": quality}
        case name:
            columns, kind = _summed(reader, kinds, span, name, wanted)
    of_item = {"item_id": np.full(len(kind), item_id, np.int64)}
    columns = of_item | columns | {"declared": np.array(kinds.declared, np.int64)[kind]}
    return pa.table({name: _column(name, column) for name, column in columns.items()})


def _of_numbers(value: Column, quality: Ints, is_none: NDArray[np.bool_]) -> tuple[Column, Ints]:
    """Values and qualities without those that are no number of one kind."""
    invalid = np.where(is_none & (quality != q.BAD_NO_DATA), int(q.BAD_AGGREGATE_INVALID_INPUTS), quality)
    return np.where(is_none, np.nan, value), invalid


def _kinds_of(
    reader: StoredHistory, kinds: ItemKinds, span: TimeRange, found: Intervals, settings: AggregateSettings
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """As `intervals.kinds_of`. Mostly the files of the range are of one kind, and no row is read for it."""
    count, one = len(found), 0
    if len(kinds.types) > 1:
        first = max(span.from_ns // BUCKET_NS * BUCKET_NS, -TIME_LIMIT_NS)
        entries = reader.manifest.overlapping(FileKind.PARTIALS, first, span.to_ns)
        rows = [reader.last(kinds.item_id, first), reader.hot_samples([kinds.item_id], TimeRange(first, span.to_ns))]
        ends = [end for entry in entries for end in (entry.first_sequence, entry.last_sequence)]
        seen = np.unique(kinds.at(np.concatenate([ends, *(parquet.ints(some, "sequence") for some in rows)])))
        if len(seen) > 1:
            around = parquet.rows_from(reader.raw_around(kinds.item_id, span), kinds.item_id)
            return kinds_of(around, kinds.at(around.sequence), found, settings)
        one = int(seen[0]) if len(seen) else 0
    return np.full(count, one, np.intp), np.zeros(count, np.bool_)


def _exact(
    reader: StoredHistory, item_id: int, found: Intervals, large: NDArray[np.intp], of: Any, usable_max: int
) -> "pa.Array[Any]":
    """Smallest or largest value of each interval in `large`, where no double can be trusted with it; null elsewhere."""
    exact: list[int | None] = [None] * len(found)
    if len(large):
        span = TimeRange(int(found.edges[large[0]]), int(found.edges[large[-1] + 1]))
        table = reader.raw_around(item_id, span)
        times, whole = parquet.ints(table, "source_ns"), table.column("value_i64")
        values = pc.if_else(whole.is_valid(), whole, pa.scalar(0)).to_numpy()
        is_usable = parquet.ints(table, "quality") >> SEVERITY_SHIFT <= usable_max
        at = np.searchsorted(times, found.edges, side="left")
        for index in large.tolist():
            first, end = int(at[index]), int(at[index + 1])
            held = [int(values[first - 1])] if found.is_held[index] else []
            exact[index] = of(held + values[first:end][is_usable[first:end]].tolist())
    return pa.array(exact, pa.int64())


def _summed(
    reader: StoredHistory, kinds: ItemKinds, span: TimeRange, name: str, wanted: Aggregation
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """The columns, and the kind of each row."""
    settings = wanted.settings
    found = reader.intervals(
        kinds.item_id,
        span,
        wanted.every_ns,
        settings,
        only_raw=wanted.only_raw,
        with_extremes=name in _EXTREMES,
    )
    kind, is_mixed = _kinds_of(reader, kinds, span, found, settings)
    value, quality = _VALUES[name](found, settings), qualities(found, settings, wanted.every_ns)
    if name in _OF_NUMBERS:
        value, quality = _of_numbers(value, quality, is_mixed | kinds.is_of(ValueType.STRING)[kind])
    columns: dict[str, Any] = {"start_ns": found.edges[:-1], "value": value}
    if name in _EXTREMES:
        large = np.flatnonzero((np.abs(value) >= EXACT) & kinds.is_of(ValueType.INT64)[kind])
        of = min if name == "min" else max
        columns["value_i64"] = _exact(reader, kinds.item_id, found, large, of, settings.usable_max)
    durations = {name: getattr(found, name) for name in ("rows", "good_ns", "uncertain_ns", "bad_ns")}
    return columns | {"quality": quality} | durations, kind


def _column(name: str, values: Any) -> "pa.Array[Any]":
    """NaN and infinity as null, so that no format has to spell them."""
    if isinstance(values, pa.Array):
        return values
    return pa.array(values, mask=~np.isfinite(values)) if name == "value" else parquet.array(values)
