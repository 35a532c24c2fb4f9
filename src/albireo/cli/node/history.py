"""`albireo history`: stored values of an item, raw or per interval; SQL over the files."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from click.core import ParameterSource

from albireo.cli.display import quality_text, time_text, value_text
from albireo.cli.node.timespan import DURATION, TIME
from albireo.cli.output import ExitCode, Failure, emit, json_option, say, show_table
from albireo.cli.place import data_option, find_data
from albireo.cli.safe_text import cell_text
from albireo.model.value import Value, ValueType
from albireo.node.history.access import HistoryAccess
from albireo.node.history.errors import HistoryError, UnknownItem
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
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; needed for parquet.")
@click.option("--uncertain-is-good", is_flag=True, help="Use uncertain values too (TreatUncertainAsBad = false).")
@click.option("--only-raw", is_flag=True, help="Compute from raw rows even where stored sums would do.")
@click.option("--sql", default=None, help="A query over samples, partials, gaps, events, items (needs duckdb).")
@data_option
@json_option
def command(
    item: str | None,
    sql: str | None,
    data: Path | None,
    form: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Values of ITEM (a full name such as root:co_1, or co_1), time-weighted per interval.

    Without --from it begins an hour ago, or with the first value ever stored if that is younger.

    Every value has a quality: with the defaults Good means that all of the interval was good, Bad that nothing was.
    """
    form = "json" if as_json else form
    directory = find_data(data)
    access = HistoryAccess(directory)
    try:
        if sql is not None:
            answer = _asked_in_sql(directory, sql)
        elif item is None:
            raise Failure("which item?", "albireo history ITEM, or --sql QUERY", ExitCode.USAGE)
        else:
            is_chosen = click.get_current_context().get_parameter_source("from_ns") is not ParameterSource.DEFAULT
            answer = _asked(access, item, is_chosen=is_chosen, **{name: options[name] for name in _QUESTION})
    except UnknownItem as error:
        raise Failure(str(error), "albireo items", ExitCode.USAGE) from error
    except (HistoryError, ValueError) as error:
        raise Failure(str(error)) from error
    if not access.is_live and sql is None:
        say("the node does not run: what is stored in files is shown")
    _show(answer, form, options["output"])


_QUESTION: Final = ("from_ns", "to_ns", "every_ns", "aggregate", "uncertain_is_good", "only_raw")


class _Table:
    """An answer: columns of equal length, and what it is an answer to."""

    def __init__(self, about: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        self.about = about
        self.columns = columns

    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*self.columns.values(), strict=True))


def _asked(access: HistoryAccess, name: str, **options: Any) -> _Table:
    item: Any = access.item(name)
    reader = access.reader([item["item_id"]])
    span = TimeRange(options["from_ns"], options["to_ns"])
    if not options["is_chosen"]:
        span = _since_its_begin(reader, item["item_id"], span, options["every_ns"])
    about = {
        "item": f"{item['node']}:{item['name']}",
        "unit": item["unit"],
        "aggregate": options["aggregate"],
        "from_ns": span.from_ns,
        "to_ns": span.to_ns,
        "every_ns": options["every_ns"],
        "complete_to_ns": reader.complete_to_ns,
        "gaps": reader.gaps(span, item["item_id"]),
    }
    return _Table(about, _columns(reader, item, span, options))


def _since_its_begin(reader: StoredHistory, item_id: int, span: TimeRange, every_ns: int) -> TimeRange:
    """The range without the intervals before the item's first row, if that lies in it: nothing was bad then."""
    first_ns = reader.row_after(item_id, span.from_ns)
    if first_ns is None or first_ns >= span.to_ns or len(reader.last(item_id, span.from_ns)):
        return span
    from_ns = span.from_ns + (first_ns - span.from_ns) // every_ns * every_ns
    say(f"the first value ever stored is of {time_text(first_ns)}")
    return TimeRange(from_ns, span.to_ns)


def _columns(reader: StoredHistory, item: Any, span: TimeRange, options: dict[str, Any]) -> dict[str, list[Any]]:
    value_type = value_type_of(item)
    if options["aggregate"] == RAW:
        return _raw_columns(reader.raw([item["item_id"]], span, RAW_ROWS_MAX), value_type)
    wanted = Aggregation(
        name=options["aggregate"],
        every_ns=options["every_ns"],
        uncertain_is_good=options["uncertain_is_good"],
        only_raw=options["only_raw"],
    )
    table = interval_table(reader, item, span, wanted)
    if wanted.name == "last":
        return {"start_ns": table.column("start_ns").to_pylist(), **_raw_columns(table, value_type)}
    return table.to_pydict()


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


def _asked_in_sql(data: Path, sql: str) -> _Table:
    with connect(data) as database:
        table = database.rows(sql)
    return _Table({"sql": sql}, table)


def _show(answer: _Table, form: str, output: Path | None) -> None:
    match form:
        case "json":
            names = list(answer.columns)
            rows = [dict(zip(names, row, strict=True)) for row in answer.rows()]
            for row in rows:
                if isinstance(row.get("quality"), int):
                    row["quality_name"] = quality_text(row["quality"])
            emit(answer.about | {"rows": rows})
        case "parquet":
            if output is None:
                raise Failure("parquet is not for a terminal", "add --output FILE", ExitCode.USAGE)
            pq.write_table(pa.table(answer.columns), output, compression="zstd")
            say(f"{len(answer.rows())} rows in {output}")
        case "csv":
            with output.open("w", newline="") if output else _kept_open() as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(answer.columns)
                is_shown = output is None and sys.stdout.isatty()
                writer.writerows([cell_text(one, is_shown=is_shown) for one in row] for row in answer.rows())
        case _:
            _show_table(answer)


class _kept_open:  # Used like a function.
    """Standard output as a file that `with` does not close."""

    def __enter__(self) -> Any:
        return sys.stdout

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()


def _show_table(answer: _Table) -> None:
    unit = answer.about.get("unit", "")
    shown: dict[str, Sequence[object]] = {}
    for name, column in answer.columns.items():
        if name in ("start_ns", "source_ns"):
            shown["from (UTC)" if name == "start_ns" else "source time (UTC)"] = [time_text(one) for one in column]
        elif name == "value":
            shown["value"] = [value_text(one, unit) for one in column]
        elif name == "quality" and "aggregate" in answer.about:
            shown["quality"] = [quality_text(one) for one in column]
        elif not name.endswith("_ns") or "sql" in answer.about:
            shown[name] = column
    show_table(list(shown), list(zip(*shown.values(), strict=True)), title=str(answer.about.get("item", "")))
