"""Aggregates of an item per interval as a table, for commands and for answers to programs alike."""

from collections.abc import Callable, Mapping
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
from albireo.machine.history.intervals import Extent, Intervals, averages, kinds_of, qualities
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.quality import SEVERITY_SHIFT
from albireo.model.value import EXACT, ValueType
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files import parquet
from albireo.node.history.query import StoredHistory, TimeRange

Column = NDArray[Any]

RAW: Final = "raw"
BAND: Final = "band"
_EXTREMES: Final = ("min", "max")
_OF_NUMBERS: Final = ("average", *_EXTREMES)
_VALUES: Final[dict[str, Callable[[Intervals, AggregateSettings], Column]]] = {
    "average": averages,
    "min": lambda found, _: found.minimum,
    "max": lambda found, _: found.maximum,
    "count": lambda found, _: found.good_rows,
    "duration": lambda found, _: found.good_ns / 1e9,
}
AGGREGATES: Final = (*_VALUES, BAND, "last", "interpolated", RAW)
_ENDS: Final[dict[str, tuple[Callable[[Intervals], Column], Callable[[list[int]], int]]]] = {
    "min": (lambda found: found.minimum, min),
    "max": (lambda found: found.maximum, max),
    "first": (lambda found: found.first, lambda values: values[0]),
    "last": (lambda found: found.last, lambda values: values[-1]),
}
"""Values of a band that stand for a row, and how each is found among the usable ones of an interval."""
_DURATIONS: Final = ("rows", "good_ns", "uncertain_ns", "bad_ns")


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

    The aggregate `band` has `min`, `max`, `first`, `last`, `average` and `count` in the place of `value`: the first
    four with an exact integer as above beside each, and `first_str`, `last_str` for text. Its quality is that of `min`;
    of text, which has no numbers, that of `count`. Where values of several kinds take part only `last` and `count` are
    told.

    The aggregate `last` gives the rows of codec.history.SAMPLES that hold at the intervals' ends, with `start_ns`.

    No number stands for values of several kinds, nor for text (ADR-0264).

    Raises:
        QueryRefused: too much, or the aggregate makes no sense for text.
        HistoryDamaged: a file is missing or unreadable.
    """
    item_id = item["item_id"]
    assert isinstance(item_id, int)
    kinds = reader.declared().kinds(item_id)
    if kinds.is_of(ValueType.STRING).all() and wanted.name not in ("last", "count", BAND):
        raise QueryRefused(f"{item['name']} holds text: raw, last, count and band are all that makes sense")
    match wanted.name:
        case "last":
            starts, table = reader.last_rows(item_id, span, wanted.every_ns)
            return table.add_column(0, "start_ns", pa.array(starts))
        case "interpolated":
            times, value, quality, kind = reader.at(item_id, span, wanted.every_ns, wanted.settings)
            value, quality = _of_numbers(value, quality, kinds.is_of(ValueType.STRING)[kind])
            columns = {"start_ns": times, "value": value, "quality": quality}
        case "band":
            columns, kind = _band(reader, kinds, span, wanted)
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
    reader: StoredHistory,
    item_id: int,
    found: Intervals,
    values: Mapping[str, Column],
    of: NDArray[np.bool_],
    settings: AggregateSettings,
) -> dict[str, "pa.Array[Any]"]:
    """The exact integers of those `values` (of `_ENDS`) that no double can be trusted with; null elsewhere.

    Args:
        of: intervals of integers.
    """
    large = {name: np.flatnonzero((np.abs(value) >= EXACT) & of) for name, value in values.items()}
    exact: dict[str, list[int | None]] = {name: [None] * len(found) for name in values}
    wanted = np.unique(np.concatenate(list(large.values())))
    if len(wanted) == 0:
        return {f"{name}_i64": pa.nulls(len(found), pa.int64()) for name in values}
    span = TimeRange(int(found.edges[wanted[0]]), int(found.edges[wanted[-1] + 1]))
    table = reader.raw_around(item_id, span)
    times, whole = parquet.ints(table, "source_ns"), table.column("value_i64")
    numbers = pc.if_else(whole.is_valid(), whole, pa.scalar(0)).to_numpy()
    is_usable = parquet.ints(table, "quality") >> SEVERITY_SHIFT <= settings.usable_max
    at = np.searchsorted(times, found.edges, side="left")
    for index in wanted.tolist():
        first, end = int(at[index]), int(at[index + 1])
        held = [int(numbers[first - 1])] if found.is_held[index] else []
        usable = held + numbers[first:end][is_usable[first:end]].tolist()
        for name in values:
            if index in large[name]:
                exact[name][index] = _ENDS[name][1](usable)
    return {f"{name}_i64": pa.array(one, pa.int64()) for name, one in exact.items()}


def _found(
    reader: StoredHistory, kinds: ItemKinds, span: TimeRange, wanted: Aggregation, extent: Extent
) -> tuple[Intervals, NDArray[np.intp], NDArray[np.bool_]]:
    """The intervals, the kind of each, and which have values of several."""
    found = reader.intervals(
        kinds.item_id, span, wanted.every_ns, wanted.settings, only_raw=wanted.only_raw, extent=extent
    )
    return found, *_kinds_of(reader, kinds, span, found, wanted.settings)


def _summed(
    reader: StoredHistory, kinds: ItemKinds, span: TimeRange, name: str, wanted: Aggregation
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """The columns, and the kind of each row."""
    settings, extent = wanted.settings, Extent.EXTREMES if name in _EXTREMES else Extent.SUMS
    found, kind, is_mixed = _found(reader, kinds, span, wanted, extent)
    value, quality = _VALUES[name](found, settings), qualities(found, settings, wanted.every_ns)
    if name in _OF_NUMBERS:
        value, quality = _of_numbers(value, quality, is_mixed | kinds.is_of(ValueType.STRING)[kind])
    columns: dict[str, Any] = {"start_ns": found.edges[:-1], "value": value}
    if name in _EXTREMES:
        exact = _exact(reader, kinds.item_id, found, {name: value}, kinds.is_of(ValueType.INT64)[kind], settings)
        columns["value_i64"] = exact[f"{name}_i64"]
    return columns | {"quality": quality} | {name: getattr(found, name) for name in _DURATIONS}, kind


def _band(
    reader: StoredHistory, kinds: ItemKinds, span: TimeRange, wanted: Aggregation
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """The columns of a band, and the kind of each row, which is that of `last`."""
    settings = wanted.settings
    found, kind, is_mixed = _found(reader, kinds, span, wanted, Extent.BAND)
    is_text = kinds.is_of(ValueType.STRING)[kind]
    average, quality = _of_numbers(averages(found, settings), qualities(found, settings, wanted.every_ns), is_mixed)
    values = {name: of(found) for name, (of, _) in _ENDS.items()}
    for name in ("min", "max", "first"):
        values[name] = np.where(is_mixed, np.nan, values[name])
    exact = _exact(reader, kinds.item_id, found, values, kinds.is_of(ValueType.INT64)[kind], settings)
    texts = _texts(reader, kinds.item_id, span, found, is_text, is_mixed)
    counted = {"average": np.where(is_text, np.nan, average), "count": found.good_rows, "quality": quality}
    columns = {"start_ns": found.edges[:-1]} | values | counted | exact | texts
    return columns | {name: getattr(found, name) for name in _DURATIONS}, kind


def _texts(
    reader: StoredHistory,
    item_id: int,
    span: TimeRange,
    found: Intervals,
    is_text: NDArray[np.bool_],
    is_mixed: NDArray[np.bool_],
) -> dict[str, Any]:
    """First and last of the intervals of texts, from their rows; null elsewhere."""
    if not is_text.any():
        return {name: pa.nulls(len(found), pa.string()) for name in ("first_str", "last_str")}
    table = reader.raw_around(item_id, span)
    at = np.searchsorted(parquet.ints(table, "source_ns"), found.edges, side="left")
    places = {
        "first_str": (at[:-1] - found.is_held, found.has_first & is_text & ~is_mixed),
        "last_str": (at[1:] - 1, found.has_last & is_text),
    }
    text = table.column("value_str")
    return {name: text.take(pa.array(row, pa.int64(), mask=~is_there)) for name, (row, is_there) in places.items()}


def _column(name: str, values: Any) -> Any:
    """NaN and infinity as null, so that no format has to spell them."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    is_value = name == "value" or name == "average" or name in _ENDS
    return pa.array(values, mask=~np.isfinite(values)) if is_value else parquet.array(values)
