"""`albireo history`: stored values of an item, raw or per interval; SQL over the files.

On its machine the files of a node are read, whether it runs or not; a node elsewhere is asked (far_history.py).
"""

import contextlib
import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from click.core import ParameterSource

from albireo.cli.display import counted, moment_text, quality_text, value_text
from albireo.cli.node.far_history import (
    as_far_as_it_came,
    complete_to_ns,
    cut_failure,
    far_item,
    first_row_ns,
    gaps_of,
)
from albireo.cli.output import ExitCode, Failure, Output, TextTable, ask_for_json, json_asked, printed, say
from albireo.cli.place import FILE
from albireo.cli.safe_text import cell_text
from albireo.cli.target import FarNode, Place, node_client, place_option, refused, seal_here
from albireo.cli.timespan import DURATION, TIME
from albireo.client import HistoryCutShort
from albireo.model.instant import SECOND
from albireo.model.value import Value, ValueType
from albireo.node.history.access import HistoryAccess
from albireo.node.history.errors import HistoryError, HistoryRefused, QueryRefused
from albireo.node.history.per_interval import AGGREGATES, RAW, Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from albireo.node.history.rows import value_type_of
from albireo.node.history.sql import connect

RAW_ROWS_MAX: Final = 1_000_000


@click.command("history")
@click.argument("item", required=False)
@click.option("--from", "from_ns", type=TIME, default="-1h", show_default=True, help="Start: ISO time, -2h, now.")
@click.option("--to", "to_ns", type=TIME, default="now", show_default=True, help="End (not included).")
@click.option("--every", "every_ns", type=DURATION, default="1m", show_default=True, help="Interval: 10s, 1m, 1h, 1d.")
@click.option("--aggregate", type=click.Choice(AGGREGATES), default="average", show_default=True)
@click.option("--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), default="table")
@click.option("--output", type=FILE, help="File to write; needed for parquet.")
@click.option("--uncertain-is-good", is_flag=True, help="Use uncertain values too (TreatUncertainAsBad = false).")
@click.option("--only-raw", is_flag=True, help="Compute from raw rows even where stored sums would do.")
@click.option("--sql", default=None, help="A query over samples, partials, gaps, events, items (needs duckdb).")
@place_option
@printed
def command(
    item: str | None,
    sql: str | None,
    place: Place,
    form: str,
    **options: Any,
) -> Output:
    """Values of ITEM (a full name such as root:co_1, or co_1), time-weighted per interval.

    At a node above, root/north:co_1 is an item of the node root/north below it; north:co_1 will do if no other node is
    called so.

    Without --from it begins an hour ago, or with the first value ever stored if that is younger. Intervals begin on
    whole multiples of their length, UTC: minutes on the minute, days at midnight.

    Every value has a quality: with the defaults Good means that all of the interval was good, Bad that nothing was.
    """
    if form == "json":
        ask_for_json()
    is_chosen = click.get_current_context().get_parameter_source("from_ns") is not ParameterSource.DEFAULT
    question = {"is_chosen": is_chosen, **{name: options[name] for name in _QUESTION}}
    if question["aggregate"] != RAW:
        question["from_ns"] -= question["from_ns"] % question["every_ns"]
    try:
        if sql is not None:
            answer = _asked_in_sql(place, sql)
        elif item is None:
            raise Failure("which item?", "albireo history ITEM, or --sql QUERY", ExitCode.USAGE)
        elif isinstance(place, FarNode):
            answer = _asked_far(place, item, **question)
        else:
            answer = _asked_here(place, item, **question)
    except HistoryRefused as error:
        raise refused(error.refusal) from error
    except (HistoryError, ValueError) as error:
        raise Failure(str(error)) from error
    return _output(answer, form, options["output"])


_QUESTION: Final = ("from_ns", "to_ns", "every_ns", "aggregate", "uncertain_is_good", "only_raw")


class _Table:
    """An answer: columns of equal length, and what it is an answer to."""

    def __init__(
        self, about: dict[str, Any], columns: dict[str, list[Any]], cut: HistoryCutShort | None = None
    ) -> None:
        """`cut`: why it ended before its end."""
        self.about = about
        self.columns = columns
        self.cut = cut

    def goes_on_ns(self) -> int:
        """Time from which on rows are missing, if it was cut."""
        if starts := self.columns.get("start_ns"):
            return int(starts[-1] + self.about["every_ns"])
        times = self.columns.get("source_ns") or [self.about["from_ns"]]
        return int(times[-1])

    def plain(self) -> dict[str, Any]:
        """The answer as JSON has it."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows()]
        for row in rows:
            if isinstance(row.get("quality"), int):
                row["quality_name"] = quality_text(row["quality"])
        return self.about | {"rows": rows}

    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*self.columns.values(), strict=True))


def _asked_here(data: Path, name: str, **options: Any) -> _Table:
    access = HistoryAccess(data, name.rpartition(":")[0])
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
    answer = _Table(about, _columns(_stored_table(reader, item, span, options), value_type_of(item), options))
    if not access.is_live:
        say("the node does not run: what is stored in files is shown")
    return answer


def _asked_far(place: FarNode, name: str, **options: Any) -> _Table:
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
            ),
        )
    if len(table) > RAW_ROWS_MAX:
        raise QueryRefused(f"more than {RAW_ROWS_MAX} rows; ask for a shorter range")
    about = _about(item.name, item.unit, span, options)
    about |= {"complete_to_ns": complete_to_ns(table), "gaps": _of_item(gaps, item.item_id)}
    return _Table(about, _columns(table, item.value_type, options), cut)


def _about(item: str, unit: str, span: TimeRange, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "item": item,
        "unit": {"count": "", "duration": "s"}.get(options["aggregate"], unit),
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


def _columns(table: pa.Table, value_type: ValueType, options: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns that are shown."""
    match options["aggregate"]:
        case "raw":
            return _raw_columns(table, value_type)
        case "last":
            return {"start_ns": table.column("start_ns").to_pylist(), **_raw_columns(table, value_type)}
        case _:
            return table.select([name for name in table.column_names if name != "item_id"]).to_pydict()


def _raw_columns(table: pa.Table, value_type: ValueType) -> dict[str, list[Any]]:
    return {
        "source_ns": table.column("source_ns").to_pylist(),
        "value": [_value(row, value_type) for row in table.select(["value_f64", "value_i64", "value_str"]).to_pylist()],
        "quality": table.column("quality").to_pylist(),
        "sequence": table.column("sequence").to_pylist(),
    }


def _value(row: dict[str, Any], value_type: ValueType) -> Value | None:
    value: Value | None = next((one for one in row.values() if one is not None), None)
    return bool(value) if value_type is ValueType.BOOL and value is not None else value


def _asked_in_sql(place: Place, sql: str) -> _Table:
    if isinstance(place, FarNode):
        remedy = "run it there with --data DIR; or fetch values: albireo history ITEM --format parquet --output FILE"
        raise Failure("--sql reads the files of a node, so it runs on its machine only", remedy, ExitCode.USAGE)
    seal_here(place)
    with connect(place) as database:
        table = database.rows(sql)
    return _Table({"sql": sql}, table)


def _output(answer: _Table, form: str, file: Path | None) -> Output:
    value: dict[str, Any] = {}
    text: TextTable | tuple[()] = ()
    if json_asked():
        value = answer.plain()  # Costly, so for nobody else.
    elif form == "table":
        text = _text_table(answer)
    else:
        _write(answer, form, file)
    failure = None if answer.cut is None else cut_failure(answer.cut, answer.goes_on_ns(), value)
    return Output(value, text, failure=failure)


def _write(answer: _Table, form: str, file: Path | None) -> None:
    """Write it as CSV, to standard output if no file is named, or as Parquet."""
    if form == "csv":
        with file.open("w", newline="", encoding="utf-8") if file else contextlib.nullcontext(sys.stdout) as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(answer.columns)
            is_shown = file is None and sys.stdout.isatty()
            writer.writerows([cell_text(one, is_shown=is_shown) for one in row] for row in answer.rows())
    elif file is None:
        raise Failure("parquet is not for a terminal", "add --output FILE", ExitCode.USAGE)
    else:
        pq.write_table(pa.table(answer.columns), file, compression="zstd")
        say(f"{counted(len(answer.rows()), 'row')} in {file}")


def _text_table(answer: _Table) -> TextTable:
    unit = answer.about.get("unit", "")
    shown: dict[str, Sequence[object]] = {}
    for name, column in answer.columns.items():
        if name in ("start_ns", "source_ns"):
            shown["from (UTC)" if name == "start_ns" else "source time (UTC)"] = [moment_text(one) for one in column]
        elif name == "value":
            shown["value"] = [value_text(one, unit) for one in column]
        elif name == "quality" and "aggregate" in answer.about:
            shown["quality"] = [quality_text(one) for one in column]
        elif not name.endswith("_ns") or "sql" in answer.about:
            shown[name] = column
    return TextTable(list(shown), zip(*shown.values(), strict=True), title=str(answer.about.get("item", "")))
