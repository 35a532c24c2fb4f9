"""Exports of `albireo history`: types of the declaration, names, zoned times and words; read by other tools."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from albireo.cli.node.history import command as history
from albireo.codec.record import ItemDeclared, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.sql import connect
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, Sample, fill, hot_of

RANGE = ("--from", "2023-11-15T00:00", "--to", "2023-11-15T00:05")
NIGHT = ("--from", "2023-11-13T00:00", "--to", "2023-11-13T00:05")
"""Before anything was."""
EXACT = 2**60 + 1
pytestmark = [pytest.mark.slow]


def declared(log: MemoryLog, item_id: int, name: str, value_type: ValueType, unit: str = "") -> None:
    item = DataItem(name=name, value_type=value_type, unit=unit, description=f"{name} in {unit}")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(item_id), node="root", item=item)], DAY_ZERO + log.end)


def sealed(data: Path, log: MemoryLog, node: str = "root") -> Path:
    (data / "log" / "segments").mkdir(parents=True)
    store, _ = HistoryStore.open(data, node)
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return data


def plant() -> MemoryLog:
    """`power` was kW and became W, `mode` a text and became a number; `count` has integers that no double has."""
    log = MemoryLog()

    def rows(item_id: int, value_type: ValueType, *rows: tuple[int, Any]) -> None:
        found: Sequence[Sample] = [(item_id, DAY_ZERO + at * SECOND, value, int(q.GOOD)) for at, value in rows]
        log.samples(found, DAY_ZERO + 300 * SECOND, value_type)

    declared(log, 1, "power", ValueType.FLOAT64, "kW")
    declared(log, 2, "mode", ValueType.STRING)
    declared(log, 3, "count", ValueType.INT64)
    declared(log, 4, "on", ValueType.BOOL)
    rows(1, ValueType.FLOAT64, (0, 5.0), (60, 6.0))
    rows(2, ValueType.STRING, (0, "12"))
    rows(3, ValueType.INT64, (0, EXACT), (60, 3))
    rows(4, ValueType.BOOL, (0, True))
    declared(log, 1, "power", ValueType.FLOAT64, "W")
    declared(log, 2, "mode", ValueType.FLOAT64)
    rows(1, ValueType.FLOAT64, (150, 5000.0))
    rows(2, ValueType.FLOAT64, (150, 7.0), (200, 9.0))
    return log


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sealed(tmp_path_factory.mktemp("plant") / "node", plant())


def asked(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(history, [*arguments, "--data", str(data)])


def exported(data: Path, file: Path, *arguments: str) -> pa.Table:
    result = asked(data, *arguments, "--format", "parquet", "--output", str(file))
    assert result.exit_code == 0, result.output
    return pq.read_table(file)


def told(data: Path, *arguments: str) -> Any:
    result = asked(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("aggregate", ["raw", "average", "min", "max", "count", "duration", "interpolated", "last"])
@pytest.mark.parametrize("more", [(), ("--raw",), ("--wide",), ("--wide", "--raw")])
def test_the_declaration_says_the_types_and_not_what_there_is(
    data: Path, tmp_path: Path, aggregate: str, more: tuple[str, ...]
) -> None:
    question = ("power", "count", "on", "--aggregate", aggregate, *more)
    day, night = (exported(data, tmp_path / "x.parquet", *question, *span) for span in (RANGE, NIGHT))
    assert len(day) > 0
    assert day.schema.equals(night.schema), (day.schema, night.schema)
    assert not any(pa.types.is_null(one.type) for one in day.schema)


def test_names_zoned_times_and_words_or_codes_and_nanoseconds(data: Path, tmp_path: Path) -> None:
    rows = exported(data, tmp_path / "x.parquet", "power", "--aggregate", "raw", *RANGE)
    assert rows.schema.field("time").type == pa.timestamp("us", tz="UTC")
    assert rows.to_pylist()[0] == {
        "time": datetime(2023, 11, 15, tzinfo=UTC),
        "item": "root:power",
        "value": 5.0,
        "unit": "kW",
        "quality": "Good",
    }
    assert rows["unit"].to_pylist() == ["kW", "kW", "W"]
    coded = exported(data, tmp_path / "x.parquet", "power", "--aggregate", "raw", "--raw", *RANGE).to_pylist()
    assert (coded[0]["source_ns"], coded[0]["quality"], coded[0]["sequence"]) == (DAY_ZERO, 0, 5)
    text = asked(data, "power", "--aggregate", "raw", "--format", "csv", *RANGE).stdout
    assert next(csv.DictReader(io.StringIO(text)))["time"] == "2023-11-15T00:00:00.000000+00:00"
    assert asked(data, "power", "--wide", *RANGE).exit_code == 2, "a table for people is long"


def test_values_of_several_types_have_a_column_each_and_integers_are_exact(data: Path, tmp_path: Path) -> None:
    rows = exported(data, tmp_path / "x.parquet", "mode", "count", "on", "--aggregate", "raw", *RANGE).to_pylist()
    values = [{name: row[f"value_{name}"] for name in ("float", "int", "bool", "text")} for row in rows]
    assert [{name: one for name, one in row.items() if one is not None} for row in values] == [
        {"text": "12"},
        {"float": 7.0},
        {"float": 9.0},
        {"int": EXACT},
        {"int": 3},
        {"bool": True},
    ]
    biggest = exported(data, tmp_path / "x.parquet", "count", "--aggregate", "max", *RANGE)
    assert biggest["value"].to_pylist() == [EXACT, 3, 3, 3, 3] and pa.types.is_int64(biggest["value"].type)
    assert told(data, "mode", "count", "--aggregate", "raw", *RANGE)["rows"][-2]["value"] == EXACT


def test_wide_has_a_column_for_each_item_and_unit(data: Path, tmp_path: Path) -> None:
    table = exported(data, tmp_path / "x.parquet", "power", "mode", "--wide", "--aggregate", "raw", *RANGE)
    assert table.column_names == [
        "time",
        "root:power[kW]",
        "root:power[W]",
        "root:power:quality",
        "root:mode:float",
        "root:mode:text",
        "root:mode:quality",
    ]
    assert [tuple(row.values())[1:] for row in table.to_pylist()] == [
        (5.0, None, "Good", None, "12", "Good"),
        (6.0, None, "Good", None, None, None),
        (None, 5000.0, "Good", 7.0, None, "Good"),
        (None, None, None, 9.0, None, "Good"),
    ]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_that_cannot_be_written_is_told_in_a_line(data: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "absent" / "x"
    result = asked(data, "power", *RANGE, "--format", form, "--output", str(file))
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True), result.output
    assert f"{file} can't be written: No such file or directory" in result.stderr


def as_pandas(file: Path) -> tuple[Any, list[float], list[str]]:
    frame = pd.read_parquet(file)
    return frame["time"].iloc[0].to_pydatetime(), frame["value"].tolist(), frame["quality"].tolist()


def as_polars(file: Path) -> tuple[Any, list[float], list[str]]:
    frame = pl.read_parquet(file)
    return frame["time"][0], frame["value"].to_list(), frame["quality"].to_list()


def as_duckdb(file: Path) -> tuple[Any, list[float], list[str]]:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.sql(f"SELECT epoch_us(time), value, quality FROM read_parquet('{file}')").fetchall()
    moment = datetime.fromtimestamp(found[0][0] / 1e6, UTC)
    return moment, [row[1] for row in found], [row[2] for row in found]


def as_delta(file: Path) -> tuple[Any, list[float], list[str]]:
    deltalake.write_deltalake(file.with_suffix(".delta"), pq.read_table(file))
    table = deltalake.DeltaTable(file.with_suffix(".delta")).to_pyarrow_table()
    return table["time"][0].as_py(), table["value"].to_pylist(), table["quality"].to_pylist()


@pytest.mark.parametrize("read", [as_pandas, as_polars, as_duckdb, as_delta])
def test_other_tools_read_it(data: Path, tmp_path: Path, read: Callable[[Path], Any]) -> None:
    """Spark too: tests/unit/pipeline/test_kinds.py."""
    file = tmp_path / "x.parquet"
    exported(data, file, "power", "--aggregate", "raw", *RANGE)
    assert read(file) == (datetime(2023, 11, 15, tzinfo=UTC), [5.0, 6.0, 5000.0], ["Good"] * 3)


def test_days_of_an_export_go_together(data: Path, tmp_path: Path) -> None:
    for name, span in (("day", RANGE), ("night", NIGHT)):
        table = exported(data, tmp_path / name, "power", "--aggregate", "last", *span)
        deltalake.write_deltalake(tmp_path / "delta", table, mode="append")
    assert len(deltalake.DeltaTable(tmp_path / "delta").to_pyarrow_table()) == 5


def test_no_average_of_two_units_and_no_zero_of_a_text(data: Path) -> None:
    result = asked(data, "power", *RANGE)
    cells = [line.split("\t")[1:3] for line in result.stdout.splitlines()[1:]]
    assert cells[1:4] == [["6 kW", "Good"], ["-", "BadAggregateInvalidInputs"], ["5000 W", "Good"]]
    assert "root:power was float [kW], then float [W]" in result.stderr
    assert "was float" not in asked(data, "power", *RANGE[:3], "2023-11-15T00:02").stderr, "no word of it before"
    modes = told(data, "mode", *RANGE)["rows"]
    assert [(row["value"], row["quality_name"]) for row in modes[:3]] == [(None, "BadAggregateInvalidInputs")] * 3
    assert modes[3]["value"] == pytest.approx(7 + 2 * 40 / 60), "what held before in the same minute counts"


SQL_MISTAKES = [
    ("select name from items where regexp_matches(name, '(')", "missing )"),
    ("select * from read_csv('/nowhere/tags.csv')", "No files found"),
    ("select strptime(day::varchar, '%d.%m.%Y') from samples", "Could not parse"),
    ("select nonsense from samples", "nonsense"),
    ("selec", "syntax error"),
    ("select * from read_parquet('/proc/self/status')", "parquet"),
    ("select cast(name as integer) from items", "Could not convert"),
    ("select * from sql", "does not exist"),
]


@pytest.mark.parametrize(("sql", "words"), SQL_MISTAKES)
def test_a_mistake_in_sql_is_told_in_duckdbs_words(data: Path, sql: str, words: str) -> None:
    result = asked(data, "--sql", sql)
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True), result.output
    assert words.lower() in result.stderr.lower()
    assert "copy" not in result.stderr and "/proc/self/fd" not in result.stderr


def test_columns_of_one_name_are_all_there_and_every_type_is_written(data: Path, tmp_path: Path) -> None:
    sql = "select 1 a, 2 a, 'x' A, 1000000 * sum(source_ns) s, to_timestamp(1.5) t, null n from samples"
    row = told(data, "--sql", sql)["rows"][0]
    assert [row[name] for name in ("a", "a_1", "A_2")] == [1, 2, "x"] and row["s"] > 2**64
    assert row["t"] == "1970-01-01T00:00:01.500000Z"
    table = exported(data, tmp_path / "x.parquet", "--sql", sql)
    assert table.num_rows == 1 and not any(pa.types.is_null(one.type) for one in table.schema)
    assert (
        asked(data, "--sql", "select i from range(3) t(i) order by i desc", "--format", "csv").stdout == "i\n2\n1\n0\n"
    )
    refused = asked(data, "--sql", "select interval 3 days i", "--format", "parquet", "--output", str(tmp_path / "y"))
    assert (refused.exit_code, isinstance(refused.exception, SystemExit)) == (1, True), "no traceback"


@pytest.mark.parametrize(
    "name", ["a=b", "day=2020-01-01", "item_id=7", "x*", "[1]", "q?", "{a,b}", "it's", 'say "x"', "b\\c"]
)
def test_the_name_of_a_data_directory_is_no_pattern_and_no_partition(tmp_path: Path, name: str) -> None:
    log = MemoryLog()
    declared(log, 1, "power", ValueType.FLOAT64)
    log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    sealed(tmp_path / "xylophone", plant())  # What the pattern would find as well.
    data = sealed(tmp_path / name, log)
    found = told(data, "--sql", "select count(*) n, min(item_id) i, min(node) node, min(day)::varchar d from samples")
    assert found["rows"] == [{"n": 1, "i": 1, "node": "root", "d": "2023-11-15"}]


@pytest.mark.parametrize("node", ["epoch", "infinity", "root/1970-01-01"])
def test_the_name_of_a_node_is_no_time(tmp_path: Path, node: str) -> None:
    data = sealed(tmp_path, plant(), node)
    found = told(data, "--sql", "select distinct node, day::varchar d from samples order by d limit 1")
    assert found["rows"] == [{"node": node, "d": "2023-11-15"}]


def test_sql_of_a_node_without_a_history_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    assert told(tmp_path, "--sql", "select count(day) n from readings")["rows"] == [{"n": 0}]


def test_readings_have_the_unit_and_the_description_of_their_time(data: Path) -> None:
    with connect(data) as database:
        rows = database.rows(
            "SELECT name, value_f64, unit, description FROM readings WHERE item_id = 1 ORDER BY sequence"
        )
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("power", 5.0, "kW", "power in kW"),
        ("power", 6.0, "kW", "power in kW"),
        ("power", 5000.0, "W", "power in W"),
    ]


def test_the_extra_sql_is_complete(data: Path) -> None:
    """Neither pandas nor a list of time zones comes with it."""
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytz", "pandas", "tzdata", "dateutil"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import zoneinfo
zoneinfo.reset_tzpath(())
from albireo.cli import main
sys.exit(main())
"""
    sql = "select to_timestamp(source_ns / 1e9) t, timestamptz '2026-07-01 12:00+02' u, day from samples limit 1"
    for form in ("table", "json", "csv"):
        command = [sys.executable, "-c", program, "history", "--sql", sql, "--data", str(data), "--format", form]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "2026-07-01" in done.stdout and "10:00:00" in done.stdout
