"""Tables as the report reads them: small ones whole, rollups as far as a page can show them. Never samples."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from albireo.codec import history as stored
from albireo.model import quality as q
from albireo.pipeline import delta, tables

DAYS_MAX: Final = 31
"""Days that rollups are reported of: bounds what the driver holds to some hundred thousand rows of hours."""
TRENDS_MAX: Final = 8
POINTS_MAX: Final = 4_000
"""Rows read for one trend; a finer rollup is used as long as it stays below."""
POINTS_SHOWN: Final = 480
"""Points drawn of one trend: about one per two pixels."""
DRAWN_MAX: Final = 1e300
"""Size of a value up to which it is drawn: with larger ones the sums that drawing makes overflow."""

Row = dict[str, Any]
_HOUR_COLUMNS: Final = [
    "item_id",
    "bucket_ns",
    "rows",
    "good_rows",
    "good_ns",
    "uncertain_ns",
    "bad_ns",
    "lost_ns",
    "minimum",
    "maximum",
]


class Lake(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the report: small tables, and of rollups the hours of the reported days; never samples."""

    directory: Path
    from_day: str
    to_ns: int
    """End of what is known. What is stamped later, by a clock that is ahead, is shown nowhere."""
    ahead: int
    """Number of samples that are stamped later."""
    items: dict[int, Row]
    units: dict[tuple[int, int], str]
    """Units by item and declaration: its sequence, 0 for the first one."""
    availability: pa.Table
    hours: pa.Table
    gaps: list[Row]
    cases: list[Row]
    rates: list[Row]
    floods: list[Row]
    actors: list[Row]
    standing: list[Row]
    chatter: list[Row]

    def unit(self, item_id: int, declared: int) -> str:
        return self.units.get((item_id, declared), "")

    def name(self, item_id: int) -> str:
        known = self.items.get(item_id)
        return f"item {item_id}" if known is None else f"{known['node']}:{known['name']}"


def opened_lake(directory: Path, complete_to_ns: int) -> Lake:
    """The tables in `directory`, as far as the report goes back, up to the end of what is known.

    Raises:
        OutputUnusable: a table can't be read.
    """
    from_day = stored.day_of(complete_to_ns - (DAYS_MAX - 1) * tables.DAY_NS)
    from_ns = stored.day_start_ns(from_day)

    def whole(table: tables.LakeTable, columns: list[str] | None = None) -> pa.Table:
        since = [("day", ">=", from_day)] if table.partition_by else None
        return _read(directory, table, columns, since)

    def rows(table: tables.LakeTable, by: str, *, last_first: bool = False) -> list[Row]:
        found: list[Row] = whole(table).to_pylist()
        return sorted(found, key=lambda row: row[by], reverse=last_first)

    def in_time(table: tables.LakeTable, by: str) -> list[Row]:
        return [row for row in rows(table, by) if from_ns <= row[by] <= complete_to_ns]

    hours = whole(tables.ROLLUP_1H, _HOUR_COLUMNS)
    known = hours.filter(pc.less_equal(hours["bucket_ns"], pa.scalar(complete_to_ns)))
    versions = rows(tables.ITEMS_SCD, "sequence")
    units = {(row["item_id"], row["sequence"]): row["unit"] for row in versions}
    units |= {(row["item_id"], 0): row["unit"] for row in reversed(versions)}
    return Lake(
        directory=directory,
        from_day=from_day,
        to_ns=complete_to_ns,
        ahead=(pc.sum(hours["rows"]).as_py() or 0) - (pc.sum(known["rows"]).as_py() or 0),
        items={row["item_id"]: row for row in rows(tables.ITEMS, "item_id")},
        units=units,
        availability=whole(tables.AVAILABILITY),
        hours=known,
        gaps=rows(tables.GAPS, "from_ns", last_first=True),
        cases=rows(tables.ALARM_CASES, "case_id"),
        rates=in_time(tables.ALARM_RATE, "window_ns"),
        floods=in_time(tables.ALARM_FLOODS, "start_ns"),
        actors=rows(tables.ALARM_ACTORS, "rank"),
        standing=rows(tables.ALARM_STANDING, "standing_ns", last_first=True),
        chatter=rows(tables.ALARM_CHATTER, "activations", last_first=True),
    )


def interesting_items(lake: Lake) -> list[int]:
    """Up to 8 items: first those that alarmed most, then those that moved most for their size."""
    if not lake.hours.num_rows:
        return []
    summed = lake.hours.group_by("item_id").aggregate([("minimum", "min"), ("maximum", "max"), ("good_rows", "sum")])
    moved = {}
    for row in summed.to_pylist():
        low, high = row["minimum_min"], row["maximum_max"]
        known = lake.items.get(row["item_id"], {})
        if low is not None and high > low and known.get("value_type") in (1, 2) and "/" not in known.get("name", ""):
            largest = max(abs(high), abs(low))  # By which all are divided first: a sum of two may overflow.
            low, high = low / largest, high / largest
            moved[row["item_id"]] = (high - low) / (abs(high) + abs(low))
    alarming = [row["item_id"] for row in lake.actors if row["item_id"] in moved]
    by_movement = sorted(moved, key=lambda item_id: (-moved[item_id], item_id))
    return list(dict.fromkeys([*alarming[: TRENDS_MAX // 2], *by_movement]))[:TRENDS_MAX]


def trend_rows(lake: Lake, item_ids: Sequence[int]) -> tuple[str, dict[tuple[int, int], list[Row]]]:
    """Rows of the finest rollup that is not too fine, by item and declaration.

    The hours, which are here already, say how many rows the finer ones have at most: what is too fine is not read.
    """
    columns = ["item_id", "bucket_ns", "average", "minimum", "maximum", "quality", "declared"]
    wanted = [("item_id", "in", list(item_ids)), ("day", ">=", lake.from_day), ("bucket_ns", "<=", lake.to_ns)]
    said, found = "per hour", None
    for table, words, count in _candidates(lake, item_ids):
        said = words
        if count <= POINTS_MAX * len(item_ids) or table is tables.ROLLUP_1H:
            found = _read(lake.directory, table, columns, wanted) if item_ids else None
        if found is not None and found.num_rows:
            break
    rows: dict[tuple[int, int], list[Row]] = {}
    last: dict[int, int] = {}
    known = [] if found is None else found.to_pylist()
    for row in sorted(known, key=lambda one: one["bucket_ns"])[-POINTS_MAX * len(item_ids) :]:
        item_id = row["item_id"]
        last[item_id] = last.get(item_id, 0) if row["declared"] is None else row["declared"]
        rows.setdefault((item_id, last[item_id]), []).append(_drawable(row) | {"is_good": q.is_good(row["quality"])})
    return said, {kind: thinned(one) for kind, one in rows.items()}


def _drawable(row: Row) -> Row:
    """The row without the values that can't be drawn; `is_whole`: it had none."""
    huge = [key for key in ("average", "minimum", "maximum") if row[key] is not None and abs(row[key]) > DRAWN_MAX]
    return row | dict.fromkeys(huge) | {"is_whole": not huge}


def _candidates(lake: Lake, item_ids: Sequence[int]) -> list[tuple[tables.LakeTable, str, int]]:
    """The rollups from the finest on, with the most rows that these items can have in each."""
    hours = lake.hours.filter(pc.is_in(lake.hours["item_id"], pa.array(item_ids, pa.int64())))
    seconds = pc.sum(pc.min_element_wise(hours["rows"], 3600)).as_py() or 0
    return [
        (tables.ROLLUP_1S, "per second", seconds),
        (tables.ROLLUP_1MIN, "per minute", 60 * hours.num_rows),
        (tables.ROLLUP_1H, "per hour", hours.num_rows),
    ]


def thinned(rows: Sequence[Row]) -> list[Row]:
    """The same curve in at most `POINTS_SHOWN` rows: neighbours as one, extremes kept, not good if one was not."""
    size = -(-len(rows) // POINTS_SHOWN)
    if size <= 1:
        return list(rows)
    return [_joined(rows[index : index + size]) for index in range(0, len(rows), size)]


def _joined(rows: Sequence[Row]) -> Row:
    known = {key: [row[key] for row in rows if row[key] is not None] for key in ("average", "minimum", "maximum")}
    return rows[0] | {
        "average": statistics.fmean(known["average"]) if known["average"] else None,
        "minimum": min(known["minimum"], default=None),
        "maximum": max(known["maximum"], default=None),
        "is_good": all(row["is_good"] for row in rows),
        "is_whole": all(row["is_whole"] for row in rows),
    }


def _read(directory: Path, table: tables.LakeTable, columns: list[str] | None, filters: Any) -> pa.Table:
    opened = delta.opened_table(directory / table.name)
    found: pa.Table
    if opened is None:
        found = to_arrow_schema(table.schema, timezone="UTC").empty_table()
        return found.select(columns) if columns else found
    found = opened.to_pyarrow_table(columns=columns, filters=filters)
    return found
