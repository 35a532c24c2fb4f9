"""`albireo history` and `albireo events` over stored files, without a running node."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from albireo.cli.node.events import command as events
from albireo.cli.node.history import command as history
from albireo.codec.record import Audited, CaseChanged, GapFound, ItemDeclared, Stream
from albireo.model import quality as q
from albireo.model.case import Case, Cause
from albireo.model.instant import SECOND
from albireo.model.item import Condition, DataItem
from albireo.model.item_states import states_of
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.store import HistoryStore
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

RANGE = ["--from", "2023-11-15T00:00", "--to", "2023-11-15T00:05"]
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("node")
    (data / "log" / "segments").mkdir(parents=True)
    log = MemoryLog()
    for item_id, name, kind in ((1, "co", ValueType.FLOAT64), (2, "mode", ValueType.STRING), (3, "on", ValueType.BOOL)):
        item = DataItem(name=name, value_type=kind, adapter="p1", unit="ppm" if item_id == 1 else "")
        log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(item_id), node="root", item=item)], DAY_ZERO)
    log.samples([(1, DAY_ZERO + i * 10 * SECOND, float(i), 0) for i in range(24)], DAY_ZERO + 240 * SECOND)
    log.samples(
        [(2, DAY_ZERO, "auto", 0), (2, DAY_ZERO + 70 * SECOND, "hand", 0)], DAY_ZERO + 240 * SECOND, ValueType.STRING
    )
    log.samples([(3, DAY_ZERO, True, 0)], DAY_ZERO + 240 * SECOND, ValueType.BOOL)
    gap = GapFound(source="p1", reason="device_lost", from_ns=DAY_ZERO + 230 * SECOND, to_ns=DAY_ZERO + 300 * SECOND)
    log.records(Stream.SAMPLES, [gap], DAY_ZERO + 300 * SECOND)
    log.records(
        Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="eva", action="write", subject="root:co")], DAY_ZERO + 300 * SECOND
    )
    store, _ = HistoryStore.open(data, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return data


def asked(command: Any, data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--data", str(data)])


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout.splitlines()[-1])
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def test_average_with_quality_and_the_gap_in_it(data: Path) -> None:
    result = asked(history, data, "co", *RANGE, "--json")
    rows = rows_of(result)
    assert [row["value"] for row in rows] == [2.5, 8.5, 14.5, 20.0, None]
    assert [row["quality_name"] for row in rows][:3] == ["Good"] * 3
    assert rows[3]["quality"] & 0xFFFF_0000 == q.UNCERTAIN_DATA_SUB_NORMAL
    assert q.is_bad(rows[4]["quality"])
    assert json.loads(result.stdout.splitlines()[-1])["gaps"][0]["reason"] == "device_lost"
    assert rows_of(asked(history, data, "root:co", *RANGE, "--json", "--only-raw")) == rows


def test_without_a_begin_it_begins_with_the_first_value_ever_stored(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of bad rows before a node's first start would say that something was wrong."""
    monkeypatch.setattr("time.time_ns", lambda: DAY_ZERO + 600 * SECOND)
    result = asked(history, data, "co", "--json")
    rows = rows_of(result)
    assert (rows[0]["start_ns"], rows[0]["value"]) == (DAY_ZERO, 2.5)
    assert "the first value ever stored is of" in result.stderr
    assert rows_of(asked(history, data, "co", "--from", "-1h", "--json"))[0]["value"] is None, "as it was asked for"


@pytest.mark.parametrize(
    ("aggregate", "values"),
    [
        ("min", [0.0, 6.0, 12.0, 18.0, None]),
        ("max", [5.0, 11.0, 17.0, 23.0, None]),
        ("count", [6, 6, 6, 6, 0]),
        ("duration", [60.0, 60.0, 60.0, 50.0, 0.0]),
        ("interpolated", [0.0, 6.0, 12.0, 18.0, None]),
        ("last", [5.0, 11.0, 17.0]),
    ],
)
def test_every_aggregate(data: Path, aggregate: str, values: list[float | None]) -> None:
    assert [
        row["value"] for row in rows_of(asked(history, data, "co", *RANGE, "--json", "--aggregate", aggregate))
    ] == values


@pytest.mark.parametrize(("aggregate", "shown"), [("count", "6"), ("duration", "60 s"), ("max", "5 ppm")])
def test_a_unit_is_that_of_what_is_shown(data: Path, aggregate: str, shown: str) -> None:
    """A count has none, a duration has seconds, and only what is a value of the item has the item's."""
    lines = asked(history, data, "co", "--aggregate", aggregate, *RANGE).output.splitlines()
    assert lines[2].split("\t")[1] == shown


def test_text_and_states(data: Path) -> None:
    rows = rows_of(asked(history, data, "mode", *RANGE, "--json", "--aggregate", "last"))
    assert [row["value"] for row in rows] == ["auto", "hand", "hand"]
    refused = asked(history, data, "mode", *RANGE)
    assert (refused.exit_code, "holds text" in refused.stderr) == (1, True)
    assert rows_of(asked(history, data, "on", *RANGE, "--json", "--aggregate", "raw"))[0]["value"] is True


def test_formats(data: Path, tmp_path: Path) -> None:
    table = asked(history, data, "co", *RANGE)
    assert table.stdout.splitlines()[1].split("\t") == ["2023-11-15 00:00:00.000", "2.5 ppm", "Good", "6"]
    read = list(csv.DictReader(io.StringIO(asked(history, data, "co", *RANGE, "--format", "csv").stdout)))
    assert [row["value"] for row in read] == ["2.5", "8.5", "14.5", "20.0", ""]
    target = tmp_path / "co.parquet"
    assert asked(history, data, "co", *RANGE, "--format", "parquet", "--output", str(target)).exit_code == 0
    assert pq.read_table(target).column("value").to_pylist()[:2] == [2.5, 8.5]
    assert asked(history, data, "co", *RANGE, "--format", "parquet").exit_code == 2
    assert rows_of(asked(history, data, "co", *RANGE, "--format", "json"))[0]["value"] == 2.5
    refused = asked(history, data, "nothing", "--format", "json")
    told = json.loads(refused.stdout)
    assert (refused.exit_code, told["code"]) == (2, "unknown_item")
    assert told["remedy"] == "`albireo items` lists the names"


def test_sql_sees_the_same_rows(data: Path) -> None:
    question = "SELECT name, count(*) AS n FROM samples JOIN items USING (item_id) GROUP BY name ORDER BY name"
    assert rows_of(asked(history, data, "--sql", question, "--json")) == [
        {"name": "co", "n": 24},
        {"name": "mode", "n": 2},
        {"name": "on", "n": 1},
    ]
    assert asked(history, data, "--sql", "SELECT nonsense").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nothing"], 2),
        ([], 2),
        (["co", "--every", "0s"], 2),
        (["co", "--every", "5 minutes"], 2),
        (["co", "--from", "yesterday"], 2),
        (["co", "--from", "2023-11-16", "--to", "2023-11-15"], 1),
        (["co", "--from", "1900-01-01", "--every", "1ms"], 1),
    ],
)
def test_wrong_questions_end_with_a_reason(data: Path, arguments: list[str], code: int) -> None:
    result = asked(history, data, *arguments)
    assert result.exit_code == code, result.output
    assert result.stderr


def test_events(data: Path) -> None:
    result = asked(events, data, "--from", "2023-11-15", "--to", "2023-11-16", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])["events"]
    assert [(one["kind"], one["user"], one["action"]) for one in found] == [("audit", "eva", "write")]
    shown = asked(events, data, "--from", "2023-11-15", "--to", "2023-11-16", "--kind", "audit")
    assert "root:co" in shown.stdout


def test_the_journal_says_the_word_that_a_value_had_when_it_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    log = MemoryLog()
    lives: list[tuple[ValueType, str, float | bool]] = [
        (ValueType.BOOL, "0=shut;1=open", True),
        (ValueType.BOOL, "0=shut;1=ajar", True),
        (ValueType.BOOL, "", False),
        (ValueType.INT64, "3=service", 3),
        (ValueType.INT64, "3=service", 4),
        (ValueType.FLOAT64, "", 3.5),
        (ValueType.INT64, "1=on", 1),
    ]
    for number, (kind, words, value) in enumerate(lives):
        at = DAY_ZERO + number * SECOND
        item = DataItem(name="door", value_type=kind, states=states_of(words, kind))
        log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], at)
        case = Case(item_id=1, case_id=7, condition=Condition.OFF_NORMAL, severity=700, changed_ns=at, value=value)
        log.records(Stream.CASES, [CaseChanged(case=case, cause=Cause.ACTIVATED)], at)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    details = [line.split("\t")[4] for line in asked(events, tmp_path, *RANGE).stdout.splitlines()[1:]]
    assert details == ["open (true)", "ajar (true)", "false", "service (3)", "4", "3.5", "on (1)"]
    rows = json.loads(asked(events, tmp_path, *RANGE, "--json").stdout.splitlines()[-1])["events"]
    assert [row["value_f64"] for row in rows] == [1, 1, 0, 3, 4, 3.5, 1]
    assert not {"shown", "word"} & set(rows[0]), "JSON has the bare value"


HOSTILE = "a\x1b[2J\x9b31m\u202ebackwards\r\nCLEARED\tby nobody"
"""Text that clears the screen, turns itself around and forges a line."""
SHOWN = r"a\x1b[2J\x9b31m\u202ebackwards\r\nCLEARED\tby nobody"


def test_no_text_of_others_steers_the_terminal_or_a_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    log = MemoryLog()
    item = DataItem(name="mode", value_type=ValueType.STRING, adapter="p1")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], DAY_ZERO)
    audited = Audited(at_ns=DAY_ZERO, user=HOSTILE, action="write", subject="root:mode", detail=HOSTILE)
    log.records(Stream.AUDIT, [audited], DAY_ZERO)
    texts = [HOSTILE, "=1+1", "+1", "-1", "@SUM(A1)", "plain"]
    rows = [(1, DAY_ZERO + number, text, 0) for number, text in enumerate(texts)]
    log.samples(rows, DAY_ZERO + 240 * SECOND, ValueType.STRING)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)

    told = asked(events, tmp_path, *RANGE).stdout
    assert told.splitlines()[1].split("\t")[3:] == [SHOWN, SHOWN]
    table = asked(history, tmp_path, "mode", "--aggregate", "raw", *RANGE).stdout
    assert [line.split("\t")[1] for line in table.splitlines()[1:]] == [SHOWN, *texts[1:]]
    for printed in (told, table):
        assert not set(printed) & {"\x1b", "\x9b", "\u202e", "\r"}
    file = tmp_path / "out.csv"
    asked(history, tmp_path, "mode", "--aggregate", "raw", "--format", "csv", "--output", str(file), *RANGE)
    written = [row[2] for row in csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))][1:]
    assert written == [HOSTILE, "'=1+1", "'+1", "'-1", "'@SUM(A1)", "plain"]
    answered = rows_of(asked(history, tmp_path, "mode", "--aggregate", "raw", *RANGE, "--json"))
    assert [row["value"] for row in answered] == texts
    numbers = asked(history, tmp_path, "--sql", "SELECT -1 AS a, '-1' AS b", "--format", "csv").stdout
    assert numbers.splitlines()[-1] == "-1,'-1"


def test_intervals_begin_on_whole_multiples_of_their_length(data: Path) -> None:
    rows = rows_of(asked(history, data, "co", "--from", "2023-11-15T00:00:07", "--to", "2023-11-15T00:03", "--json"))
    assert [row["start_ns"] % (60 * SECOND) for row in rows] == [0, 0, 0]
    (day,) = rows_of(
        asked(history, data, "co", "--from", "2023-11-15T00:02", "--to", "2023-11-15T00:04", "--every", "1d", "--json")
    )
    assert day["start_ns"] == DAY_ZERO


def test_a_band_of_numbers_bools_and_texts(data: Path) -> None:
    result = asked(history, data, "co", "on", "mode", *RANGE, "--aggregate", "band", "--json")
    rows = rows_of(result)
    first = {row["item"]: row for row in rows if row["start_ns"] == DAY_ZERO}
    wanted = {
        "co": (0.0, 5.0, 0.0, 5.0, 2.5, 6, None, None),
        "on": (1.0, 1.0, 1.0, 1.0, 1.0, 1, None, None),
        "mode": (None, None, None, None, None, 1, "auto", "auto"),
    }
    names = ("min", "max", "first", "last", "average", "count", "first_text", "last_text")
    assert {name: tuple(first[f"root:{name}"][one] for one in names) for name in wanted} == wanted
    second = next(row for row in rows if (row["item"], row["start_ns"]) == ("root:mode", DAY_ZERO + 60 * SECOND))
    assert (second["first_text"], second["last_text"]) == ("auto", "hand")
    shown = asked(history, data, "co", *RANGE, "--aggregate", "band")
    assert "5.0 ppm" in shown.output or "5 ppm" in shown.output
    wide = asked(history, data, "co", "mode", *RANGE, "--aggregate", "band", "--format", "csv", "--wide")
    assert {"root:co[ppm]:min", "root:co:quality", "root:mode:first_text"} <= set(
        wide.stdout.splitlines()[0].split(",")
    )
