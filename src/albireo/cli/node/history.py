"""`albireo history`: stored values of items, raw or per interval; SQL over the files.

On its machine the files of a node are read, whether it runs or not; a node elsewhere is asked (far_history.py).
"""

import contextlib
import csv
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from click.core import ParameterSource

from albireo.cli.display import counted, moment_text, quality_text
from albireo.cli.node.far_history import (
    as_far_as_it_came,
    complete_to_ns,
    cut_failure,
    far_item,
    first_row_ns,
    gaps_of,
)
from albireo.cli.node.local_days import Stretch, stretches
from albireo.cli.output import ExitCode, Failure, Output, TextTable, ask_for_json, json_asked, printed, say
from albireo.cli.place import FILE
from albireo.cli.safe_text import cell_text
from albireo.cli.target import FarNode, Place, node_client, place_option, refused, seal_here
from albireo.cli.timespan import DURATION, TIME
from albireo.client import HistoryCutShort, readable
from albireo.client.history import items_of
from albireo.codec.item_kinds import ItemKinds
from albireo.codec.topology.zone import ZONE_REMEDY, zone_named
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.item import name_parts
from albireo.model.refusal import RefusalCode
from albireo.model.value import value_text
from albireo.node.history.access import HistoryAccess
from albireo.node.history.errors import HistoryError, HistoryRefused, QueryRefused
from albireo.node.history.per_interval import AGGREGATES, RAW, Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from albireo.node.history.sql import connect
from albireo.node.kept_zone import kept_zone

RAW_ROWS_MAX: Final = 1_000_000
KINDS_SAID: Final = 4
"""Most types and units of an item that one line names, the newest."""

_FILES: Final = ("csv", "parquet")


@click.command("history")
@click.argument("items", metavar="[ITEM]...", nargs=-1)
@click.option("--from", "from_ns", type=TIME, default="-1h", show_default=True, help="Start: ISO time, -2h, now.")
@click.option("--to", "to_ns", type=TIME, default="now", show_default=True, help="End (not included).")
@click.option("--every", "every_ns", type=DURATION, default="1m", show_default=True, help="Interval: 10s, 1m, 1h, 1d.")
@click.option("--zone", help="Zone in which days and hours begin, such as Europe/Vienna; else that of the node.")
@click.option("--aggregate", type=click.Choice(AGGREGATES), default="average", show_default=True)
@click.option("--format", "form", type=click.Choice(["table", "json", *_FILES]), default="table")
@click.option("--output", type=FILE, help="File to write; needed for parquet.")
@click.option("--wide", is_flag=True, help="CSV and Parquet: a row for each time, a column for each item.")
@click.option("--raw", is_flag=True, help="CSV and Parquet: nanoseconds and codes instead of times and words.")
@click.option("--uncertain-is-good", is_flag=True, help="Use uncertain values too (TreatUncertainAsBad = false).")
@click.option("--only-raw", is_flag=True, help="Compute from raw rows even where stored sums would do.")
@click.option("--sql", default=None, help="A query over samples, readings, partials, gaps, events, items (duckdb).")
@place_option
@printed
def command(items: tuple[str, ...], sql: str | None, place: Place, form: str, **options: Any) -> Output:
    """Values of each ITEM (a full name such as root:co_1, or co_1), time-weighted per interval.

    At a node above, root/north:co_1 is an item of the node root/north below it; north:co_1 will do if no other node is
    called so.

    Without --from it begins an hour ago, or with the first value ever stored if that is younger. Intervals begin on
    whole multiples of their length: minutes on the minute, days at midnight, in the zone of the node that is asked.

    Every value has a quality: with the defaults Good means that all of the interval was good, Bad that nothing was.
    Each value has the type and the unit of its own time. An average, minimum or maximum over several is none.
    """
    if form == "json":
        ask_for_json()
    if (options["wide"] or options["raw"]) and (sql is not None or form not in _FILES):
        raise Failure("--wide and --raw are of CSV and Parquet", "add --format csv or parquet", ExitCode.USAGE)
    is_chosen = click.get_current_context().get_parameter_source("from_ns") is not ParameterSource.DEFAULT
    question = {"is_chosen": is_chosen, **{name: options[name] for name in _QUESTION}}
    try:
        if sql is not None:
            answer = _asked_in_sql(place, sql)
        elif not items:
            raise Failure("which item?", "albireo history ITEM, or --sql QUERY", ExitCode.USAGE)
        else:
            zone = UTC if options["aggregate"] == RAW else _zone(place, options["zone"])
            answer = _joined(place, items, question, zone)
        return _output(answer, form, options)
    except HistoryRefused as error:
        raise refused(error.refusal) from error
    except (HistoryError, ValueError, OverflowError, pa.ArrowException) as error:
        raise Failure(str(error)) from error


def _zone(place: Place, chosen: str | None) -> tzinfo:
    """The zone in which intervals begin: the chosen one, else that of the node."""
    name = chosen or (kept_zone(place) if isinstance(place, Path) else "")
    if not name and isinstance(place, FarNode):
        with node_client(place) as client:
            name = client.status().zone
    if name not in (chosen, "UTC"):
        say(f"days and hours begin by {name}, the zone of the node")
    try:
        return zone_named(name)
    except ValueError as error:
        raise Failure(str(error), ZONE_REMEDY, ExitCode.USAGE) from error


_QUESTION: Final = ("from_ns", "to_ns", "every_ns", "aggregate", "uncertain_is_good", "only_raw")


class _ItemAnswer(msgspec.Struct, frozen=True, eq=False):
    """An answer about one item."""

    about: dict[str, Any]
    table: pa.Table
    """Rows as a history gives them."""
    kinds: ItemKinds
    cut: HistoryCutShort | None = None
    """Why it ended before its end."""

    @property
    def goes_on_ns(self) -> int:
        """Time from which on rows are missing, if it was cut."""
        name = "start_ns" if "start_ns" in self.table.column_names else "source_ns"
        if not len(self.table):
            return int(self.about["from_ns"])
        last: int = self.table[name][-1].as_py()
        return last + (self.about["every_ns"] if name == "start_ns" else 0)


class _Table(msgspec.Struct, frozen=True, eq=False):
    """An answer: its rows, and what it is an answer to."""

    about: dict[str, Any]
    table: pa.Table
    """Typed rows (client.readable), or those of a query."""
    kinds: Sequence[ItemKinds] = ()
    cut: _ItemAnswer | None = None

    def columns(self) -> dict[str, list[Any]]:
        """The columns in Python's objects. A value of whatever type stands in `value`."""
        found = {name: _objects(self.table[name]) for name in self.table.column_names}
        typed = [
            found.pop(name) for name in list(found) if self.kinds and name.startswith("value_") and name[6:] in _WORDS
        ]
        if typed:
            found["value"] = [next((one for one in row if one is not None), None) for row in zip(*typed, strict=True)]
        if len(self.kinds) == 1:
            del found["item"]
        first = [name for name in ("start_ns", "source_ns", "item", "value") if self.kinds and name in found]
        return {name: found[name] for name in dict.fromkeys([*first, *found])}

    def plain(self) -> dict[str, Any]:
        """The answer as JSON has it."""
        columns = self.columns()
        if self.kinds:
            columns["quality_name"] = [quality_text(one) for one in columns["quality"]]
        return self.about | {
            "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        }


_WORDS: Final = ("float", "int", "bool", "text")
_SHOWN_WITH_UNIT: Final = ("value", *readable.BAND, "average")


def _objects(column: "pa.ChunkedArray[Any]") -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):  # Arrow would look the zone up in a list that not every machine has; it is UTC.
        moments: list[Any] = column.cast(pa.timestamp("us"), safe=False).to_pylist()
        return [one and one.replace(tzinfo=UTC) for one in moments] if kind.tz else moments
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if one is None else int(one) for one in column.to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


def _asked(place: Place, name: str, question: dict[str, Any], zone: tzinfo) -> _ItemAnswer:
    """The answer about one item, up to where it was cut short."""
    span, every_ns = TimeRange(question["from_ns"], question["to_ns"]), question["every_ns"]
    is_raw = question["aggregate"] == RAW
    cuts = [Stretch(span.from_ns, span.to_ns, every_ns)] if is_raw else stretches(span, every_ns, zone)
    parts: list[_ItemAnswer] = []
    for one in cuts:
        part = {**question, **msgspec.structs.asdict(one), "is_chosen": question["is_chosen"] or bool(parts)}
        parts.append(
            _asked_far(place, name, **part) if isinstance(place, FarNode) else _asked_here(place, name, **part)
        )
        if parts[-1].cut is not None:
            break
    last = parts[-1]
    about = parts[0].about | {
        "every_ns": every_ns,
        "zone": str(zone),
        "to_ns": last.about["to_ns"],
        "complete_to_ns": last.about["complete_to_ns"],
        "gaps": list({msgspec.json.encode(gap): gap for one in parts for gap in one.about["gaps"]}.values()),
    }
    return _ItemAnswer(about, pa.concat_tables([one.table for one in parts]), last.kinds, last.cut)


def _joined(place: Place, names: Sequence[str], question: dict[str, Any], zone: tzinfo) -> _Table:
    """The answers about several items as one, up to the first that was cut short."""
    parts: dict[str, _ItemAnswer] = {}
    rows = 0
    for name in dict.fromkeys(names):
        part = _asked(place, name, question, zone)
        parts[part.kinds.name] = part
        rows += len(part.table)
        if rows > RAW_ROWS_MAX:
            raise QueryRefused(f"more than {RAW_ROWS_MAX} rows", "ask for a shorter range", RefusalCode.TOO_MUCH)
        if part.cut is not None:
            break
    # Ids are a node's own, and the items may be of several.
    kinds = [msgspec.structs.replace(one.kinds, item_id=at) for at, one in enumerate(parts.values())]
    tables = [
        one.table.set_column(one.table.column_names.index("item_id"), "item_id", pa.array(np.full(len(one.table), at)))
        for at, one in enumerate(parts.values())
    ]
    about = [one.about for one in parts.values()]
    typed = readable.typed(pa.concat_tables(tables), kinds, question["aggregate"])
    cut = next((one for one in parts.values() if one.cut is not None), None)
    _say_kinds(typed, kinds)
    return _Table(about[0] if len(about) == 1 else {"items": about}, typed, kinds, cut)


def _say_kinds(table: pa.Table, kinds: Sequence[ItemKinds]) -> None:
    """Say of which items the answer has values of several kinds."""
    for one in kinds:
        if len(one.types) > 1:
            rows = table.filter(pc.equal(table["item"], pa.scalar(one.name)))
            is_torn = quality.BAD_AGGREGATE_INVALID_INPUTS in rows["quality"].unique().to_pylist()
            if is_torn or len(rows["unit"].unique()) > 1:
                told = ", then ".join(
                    f"{readable.word(kind)} [{unit}]"
                    for kind, unit in list(zip(one.types, one.units, strict=True))[-KINDS_SAID:]
                )
                say(f"{one.name} was {told}: values are told as they were then, and no number is made of both")


def _asked_here(data: Path, name: str, **options: Any) -> _ItemAnswer:
    access = HistoryAccess(data, name_parts(name)[0])
    item: Any = access.item(name)
    reader = access.reader([item["item_id"]])
    span = TimeRange(options["from_ns"], options["to_ns"])
    if not options["is_chosen"]:
        span = _since_its_begin(reader, item["item_id"], span, options["every_ns"])
    about = _about(f"{item['node']}:{item['name']}", item["unit"], span, options)
    about |= {
        "complete_to_ns": reader.complete_to_ns,
        "gaps": _of_item(reader.gaps(span, item["item_id"]), item["item_id"]),
    }
    table = _stored_table(reader, item, span, options)
    if access.lacks:
        say(access.lacks)
    return _ItemAnswer(about, table, reader.declared().kinds(item["item_id"]))


def _asked_far(place: FarNode, name: str, **options: Any) -> _ItemAnswer:
    span = TimeRange(options["from_ns"], options["to_ns"])
    every_ns = options["every_ns"]
    if options["aggregate"] != RAW:
        span.edges(every_ns)  # It refuses too many intervals.
    with node_client(place) as client:
        item = far_item(client, name)
        first_ns = None if options["is_chosen"] else first_row_ns(client, item, span)
        span = span if first_ns is None else _begun(span, first_ns, every_ns)
        gaps = gaps_of(client, item, span)
        table, cut = as_far_as_it_came(
            f"history of {item.name}",
            lambda told: client.history(
                item.item_id,
                span.from_ns,
                span.to_ns,
                aggregate=options["aggregate"],
                every_s=every_ns / SECOND,
                uncertain_is_good=options["uncertain_is_good"],
                only_raw=options["only_raw"],
                limit=RAW_ROWS_MAX + 1 if options["aggregate"] == RAW else None,
                told=told,
                node=item.node,
                raw=True,
            ),
        )
    about = _about(item.name, item.unit, span, options)
    about |= {"complete_to_ns": complete_to_ns(table), "gaps": _of_item(gaps, item.item_id)}
    (kinds,) = items_of(table)
    return _ItemAnswer(about, table, kinds, cut)


def _about(item: str, unit: str, span: TimeRange, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "item": item,
        "unit": readable.UNITS.get(options["aggregate"], unit),
        "aggregate": options["aggregate"],
        "from_ns": span.from_ns,
        "to_ns": span.to_ns,
        "every_ns": options["every_ns"],
    }


def _of_item(gaps: Sequence[Mapping[str, Any]], item_id: int) -> list[dict[str, Any]]:
    """The gaps without the other items that miss something then: there may be very many."""
    return [{**row, "item_ids": [item_id] if row["item_ids"] else []} for row in gaps]


def _since_its_begin(reader: StoredHistory, item_id: int, span: TimeRange, every_ns: int) -> TimeRange:
    """The range without the intervals before the item's first row, if that lies in it: nothing was bad then."""
    first_ns = reader.row_after(item_id, span.from_ns)
    if first_ns is None or first_ns >= span.to_ns or len(reader.last(item_id, span.from_ns)):
        return span
    return _begun(span, first_ns, every_ns)


def _begun(span: TimeRange, first_ns: int, every_ns: int) -> TimeRange:
    from_ns = span.from_ns + (first_ns - span.from_ns) // every_ns * every_ns
    say(f"the first value ever stored is of {moment_text(first_ns)}")
    return TimeRange(from_ns, span.to_ns)


def _stored_table(reader: StoredHistory, item: Any, span: TimeRange, options: dict[str, Any]) -> pa.Table:
    if options["aggregate"] == RAW:
        return reader.raw([item["item_id"]], span, RAW_ROWS_MAX)
    wanted = Aggregation(
        name=options["aggregate"],
        every_ns=options["every_ns"],
        uncertain_is_good=options["uncertain_is_good"],
        only_raw=options["only_raw"],
    )
    return interval_table(reader, item, span, wanted)


def _asked_in_sql(place: Place, sql: str) -> _Table:
    if isinstance(place, FarNode):
        remedy = "run it there with --data DIR; or fetch values: albireo history ITEM --format parquet --output FILE"
        raise Failure("--sql reads the files of a node, so it runs on its machine only", remedy, ExitCode.USAGE)
    seal_here(place)
    with connect(place) as database:
        return _Table({"sql": sql}, database.rows(sql))


def _output(answer: _Table, form: str, options: dict[str, Any]) -> Output:
    value: dict[str, Any] = {}
    text: TextTable | tuple[()] = ()
    if json_asked():
        value = answer.plain()  # Costly, so for nobody else.
    elif form == "table":
        text = _text_table(answer)
    else:
        try:
            _write(answer, form, options)
        except OSError as error:
            if options["output"] is None or error.errno is None:
                raise
            what = f"{options['output']} can't be written: {os.strerror(error.errno)}"
            raise Failure(what, "name a file in a directory that you may write, with room for it") from error
    cut = answer.cut
    failure = None if cut is None or cut.cut is None else cut_failure(cut.cut, cut.goes_on_ns, value)
    return Output(value, text, failure=failure)


def _write(answer: _Table, form: str, options: dict[str, Any]) -> None:
    """Write it as CSV, to standard output if no file is named, or as Parquet."""
    file: Path | None = options["output"]
    table = readable.wide(answer.table, answer.kinds, options["aggregate"]) if options["wide"] else answer.table
    if answer.kinds and not options["raw"]:
        table = readable.readable(table)
    if form == "csv":
        with file.open("w", newline="", encoding="utf-8") if file else contextlib.nullcontext(sys.stdout) as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(table.column_names)
            is_shown = file is None and sys.stdout.isatty()
            rows = zip(*(_objects(column) for column in table.columns), strict=True)
            writer.writerows([_csv_cell(one, is_shown=is_shown) for one in row] for row in rows)
    elif file is None:
        raise Failure("parquet is not for a terminal", "add --output FILE", ExitCode.USAGE)
    else:
        pq.write_table(table, file, compression="zstd")
        say(f"{counted(len(table), 'row')} in {file}")


def _csv_cell(value: object, *, is_shown: bool) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return cell_text(value, is_shown=is_shown)


def _text_table(answer: _Table) -> TextTable:
    shown: dict[str, Sequence[object]] = {}
    columns = answer.columns()
    if not answer.kinds:
        return TextTable(list(columns), zip(*columns.values(), strict=True))
    for name, column in columns.items():
        if name in ("start_ns", "source_ns"):
            shown["from (UTC)" if name == "start_ns" else "source time (UTC)"] = [moment_text(one) for one in column]
        elif name in _SHOWN_WITH_UNIT:
            shown[name] = [value_text(one, unit) for one, unit in zip(column, columns["unit"], strict=True)]
        elif name == "quality":
            shown[name] = [quality_text(one) for one in column]
        elif name != "unit" and not name.endswith("_ns"):
            shown[name] = column
    return TextTable(list(shown), zip(*shown.values(), strict=True), title=answer.about.get("item", ""))
