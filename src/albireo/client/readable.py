"""Answers of the history as people and other tools read them: names, times with a zone, words, the declared types.

    time [, sampled], item, value, unit, quality [, rows, good_s, uncertain_s, bad_s]
    time, item, min, max, first, last, average, count, unit, quality, rows, good_s, uncertain_s, bad_s (of a band)

Columns and their types follow from the question and the declarations of the items, never from the rows. Where items
were declared with several types each type has a column: value_float, value_int, value_bool, value_text.

Spec: ADR-0264; docs/client.md, History.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from albireo.codec.item_kinds import ItemKinds
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.value import ValueType

TIME: Final = pa.timestamp("us", tz="UTC")
"""Type of a time: Spark, Delta and DuckDB know no finer one with a zone."""
_COLUMNS: Final[dict[ValueType, tuple[str, str, pa.DataType]]] = {
    ValueType.FLOAT64: ("float", "value_f64", pa.float64()),
    ValueType.INT64: ("int", "value_i64", pa.int64()),
    ValueType.BOOL: ("bool", "value_i64", pa.bool_()),
    ValueType.STRING: ("text", "value_str", pa.string()),
}
"""Word of each type, where its values are stored, and as what they are told."""
_TIMES: Final = ("start_ns", "source_ns")
_DURATIONS: Final = ("good_ns", "uncertain_ns", "bad_ns")
BAND: Final = ("min", "max", "first", "last")
"""Values of a band that are of the item's own type, beside its average and count."""
_BAND_COLUMNS: Final = (*BAND, "first_text", "last_text", "average", "count")
UNITS: Final = {"count": "", "duration": "s"}
"""Units of aggregates that are no value of the item."""


def typed(table: pa.Table, kinds: Sequence[ItemKinds], aggregate: str) -> pa.Table:
    """An answer with names, units and typed values. Times are still in ns, and qualities numbers.

    Args:
        table: rows as a history gives them (docs/node-protocol.md).
        kinds: items of the rows, rising by id.
    Raises:
        ValueError: a row is of none of the items.
    """
    number = _kind_of_rows(table, kinds)
    listed = [(one.name, UNITS.get(aggregate, unit)) for one in kinds for unit in one.units]
    names, units = (pa.array([row[at] for row in listed], pa.string()).take(number) for at in (0, 1))
    there = [name for name in table.column_names if name in _TIMES]
    rest = [name for name in table.column_names if name in ("quality", "sequence", "rows", *_DURATIONS)]
    types = np.array([one for each in kinds for one in each.types], np.int64)
    is_stored = aggregate in ("", "raw", "last")
    if aggregate == "band":
        values = _banded(table, types)
    else:
        values = _stored(table, types, number) if is_stored else _computed(table, types, aggregate)
    columns = {name: table[name] for name in there} | {"item": names} | values | {"unit": units}
    return pa.table(columns | {name: table[name] for name in rest})


def _kind_of_rows(table: pa.Table, kinds: Sequence[ItemKinds]) -> NDArray[np.intp]:
    """Number of the kind of each row, counted over all items."""
    ids = np.array([one.item_id for one in kinds], np.int64)
    offsets = np.append(0, np.cumsum([len(one.types) for one in kinds]))[:-1]
    item_id = table["item_id"].to_numpy()
    place = np.minimum(np.searchsorted(ids, item_id), len(ids) - 1)
    if len(table) and (not kinds or (ids[place] != item_id).any()):
        raise ValueError("a row of an item that the answer does not name")
    number: NDArray[np.intp] = offsets[place] if len(table) else np.zeros(0, np.intp)
    sequence = table["sequence"].to_numpy() if "sequence" in table.column_names else table["declared"].to_numpy() + 1
    for one in kinds:
        if len(one.types) > 1:
            rows = np.flatnonzero(item_id == one.item_id)
            number[rows] += one.at(sequence[rows])
    return number


def _stored(table: pa.Table, types: NDArray[np.int64], number: NDArray[np.intp]) -> dict[str, Any]:
    """Values as they were recorded. The stored column says the type, but for a bool: that is told from an integer by
    its declaration."""
    is_float, is_text = (table[name].is_valid().to_numpy() for name in ("value_f64", "value_str"))
    whole = np.where(types == ValueType.BOOL, ValueType.BOOL, ValueType.INT64)[number]
    of_row = np.where(is_float, ValueType.FLOAT64, np.where(is_text, ValueType.STRING, whole))
    shown = [ValueType(one) for one in np.union1d(types, of_row).tolist()]
    columns: dict[str, Any] = {}
    for one in shown:
        word, name, kind = _COLUMNS[one]
        column = table[name].cast(kind)
        if len(shown) == 1:
            return {"value": column}
        columns[f"value_{word}"] = pc.if_else(pa.array(of_row == one), column, pa.scalar(None, kind))
    return columns


def _computed(table: pa.Table, types: NDArray[np.int64], aggregate: str) -> dict[str, Any]:
    value = table["value"]
    if aggregate not in ("min", "max"):
        return {"value": value}
    if (types == ValueType.INT64).all():
        value = pc.coalesce(table["value_i64"], pc.cast(value, pa.int64(), safe=False))
    return {"value": value, "value_i64": table["value_i64"]}


def _banded(table: pa.Table, types: NDArray[np.int64]) -> dict[str, Any]:
    """Values of a band; numbers are integers if all items have always been. Text has columns of its own."""
    values = {name: table[name] for name in BAND}
    if (types == ValueType.INT64).all():
        for name, value in values.items():
            values[name] = pc.coalesce(table[f"{name}_i64"], pc.cast(value, pa.int64(), safe=False))
    if (types == ValueType.STRING).any():
        values |= {"first_text": table["first_str"], "last_text": table["last_str"]}
    return values | {"average": table["average"], "count": table["count"]}


def word(kind: ValueType) -> str:
    """Word for a type, as in the names of columns."""
    return _COLUMNS[kind][0]


def wide(table: pa.Table, kinds: Sequence[ItemKinds], aggregate: str) -> pa.Table:
    """A typed answer with a row for each time and a column for each item and unit, `NAME[UNIT]`, beside its quality,
    `NAME:quality`; of a band one for each of its values, `NAME[UNIT]:min`. Of several rows of one item and time there
    is the last."""
    time = next(name for name in _TIMES if name in table.column_names)
    times, place = np.unique(table[time].to_numpy(), return_inverse=True)
    columns: dict[str, Any] = {time: times}

    def spread(name: str, rows: NDArray[np.intp]) -> Any:
        found = np.full(len(times), -1)
        found[place[rows]] = rows
        return table[name].take(pa.array(found, mask=found < 0))

    values = [
        name
        for name in table.column_names
        if name in _BAND_COLUMNS or (name.split("_")[0] == "value" and name != "value_i64")
    ]
    for one in kinds:
        is_item = pc.equal(table["item"], pa.scalar(one.name)).to_numpy()
        units = [UNITS.get(aggregate, unit) for unit in one.units]
        for unit in dict.fromkeys(units):
            rows = np.flatnonzero(is_item & pc.equal(table["unit"], pa.scalar(unit)).to_numpy())
            label = f"{one.name}[{unit}]" if unit else one.name
            words = {word(kind) for kind, its in zip(one.types, units, strict=True) if its == unit}
            for name in values:
                of = name.partition("_")[2]
                if name in _BAND_COLUMNS:
                    columns[f"{label}:{name}"] = spread(name, rows)
                elif not of or of in words:
                    columns[f"{label}:{of}" if len(words) > 1 and of else label] = spread(name, rows)
        columns[f"{one.name}:quality"] = spread("quality", np.flatnonzero(is_item))
    return pa.table(columns)


def readable(table: pa.Table) -> pa.Table:
    """A typed answer, wide or not, with times in UTC, durations in seconds, and qualities in words."""
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in _TIMES:
            columns["sampled" if "time" in columns else "time"] = pa.array(column.to_numpy() // 1000, TIME)
        elif name in _DURATIONS:
            columns[name.replace("_ns", "_s")] = pa.array(column.to_numpy() / SECOND)
        elif name.rpartition(":")[2] == "quality":
            codes = column.unique()
            words = [None if code is None else quality.name(code) for code in codes.to_pylist()]
            columns[name] = pa.array(words, pa.string()).take(pc.index_in(column, codes))
        elif name != "sequence":
            columns[name] = column
    return pa.table(columns)
