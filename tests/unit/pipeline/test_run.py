"""Whole runs on a session that is there already: the tables are right, again and piece by piece."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.pipeline import tables
from albireo.pipeline.delta import day_files, read_state
from albireo.pipeline.errors import (
    OutputBusy,
    OutputUnusable,
    SchemaDiffers,
    SourceDamaged,
    SourceMissing,
    TableChanged,
)
from albireo.pipeline.pipeline import run
from tests.long_form import some
from tests.parts.rollup import kernel_partials
from tests.unit.pipeline.history_files import DAY0, LOG_ID, SECOND, HistoryWriter, Row, item, replaced, sample
from tests.unit.pipeline.plant_rows import BEGIN, ITEMS, gaps_of, samples_of
from tests.unit.pipeline.rollup_oracle import assert_same, rollup_by_duckdb, table_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KNOWN_TO = BEGIN + 1530 * SECOND
WIDTHS = {"rollup_1s": tables.SECOND_NS, "rollup_1min": tables.MINUTE_NS, "rollup_1h": tables.HOUR_NS}


class Plant:
    """A history that grows: the same rows at once or in two publications."""

    def __init__(self, directory: Path, seed: int, *, late: bool) -> None:
        self.rows = samples_of(seed, late=late)
        self.gaps = gaps_of(seed, self.rows[-1]["sequence"] + 1)
        self.writer = HistoryWriter(directory / "history")
        self.writer.items(ITEMS)

    def publish(self, rows: Sequence[Row], gaps: Sequence[Row], *, known_to_ns: int) -> None:
        """The rows as three more files with their partials, and the manifest."""
        third = -(-len(rows) // 3)
        for begin in range(0, len(rows), third):
            self.add(rows[begin : begin + third])
        if gaps:
            self.writer.add(FileKind.GAPS, gaps)
        sequence = max(entry.last_sequence for entry in self.writer.entries)
        self.writer.publish(sequence=sequence, complete_to_ns=known_to_ns)

    def add(self, rows: Sequence[Row]) -> None:
        entry = self.writer.add(FileKind.SAMPLES, rows)
        partials = kernel_partials(rows)
        self.writer.write(
            FileKind.PARTIALS, stored.partials_path(entry.path), partials, replaced(entry, kind=FileKind.PARTIALS)
        )

    def publish_all(self) -> None:
        self.publish(self.rows, self.gaps, known_to_ns=KNOWN_TO)

    def wanted(self, name: str) -> list[dict[str, Any]]:
        return rollup_by_duckdb(
            pa.Table.from_pylist(self.rows, schema=stored.SAMPLES),
            pa.Table.from_pylist(self.gaps, schema=stored.GAPS),
            pa.Table.from_pylist(ITEMS, schema=stored.ITEMS),
            width_ns=WIDTHS[name],
            known_to_ns=KNOWN_TO,
            is_sparse=name == "rollup_1s",
        )


def versions(out: Path) -> dict[str, int]:
    return {table.name: DeltaTable(str(out / "tables" / table.name)).version() for table in tables.TABLES}


@pytest.mark.parametrize(
    ("seed", "late", "cut"), some([(11, True, 0.0), (12, False, 0.2), (12, False, 0.6), (11, True, 0.6)], 4)
)
def test_tables_are_what_duckdb_computes_and_stay_so(
    spark: SparkSession, tmp_path: Path, seed: int, late: bool, cut: float
) -> None:
    """Several files, partials, gaps, late rows over a midnight, in one run or two; one more finds nothing to do.

    The second run knows only its watermark: days before stay as they are, touched ones are computed anew. While it is
    at work, all files of the history go, as merged ones do: it has them under names of its own. And brackets in a path
    are no pattern.
    """
    home = tmp_path / "no de [1]"
    plant = Plant(home, seed, late=late)
    first = int(len(plant.rows) * cut)
    early, later = plant.rows[:first], plant.rows[first:]
    out = home / "out"
    runs = 2 if early else 1
    if early:
        plant.publish(early, [], known_to_ns=max(row["node_ns"] for row in early))
        run(home / "history", out, session=spark)
    plant.publish(later, plant.gaps, known_to_ns=KNOWN_TO)

    def taken_away(_done: int, _total: int, text: str) -> None:
        if text == "starting Spark":
            (home / "history").rename(home / "elsewhere")

    answer = run(home / "history", out, session=spark, progress=taken_away)
    (home / "elsewhere").rename(home / "history")
    for name in WIDTHS:
        assert_same(table_rows(out / "tables" / name), plant.wanted(name))
        assert answer["tables"][name] == len(plant.wanted(name))
    assert answer["tables"]["gaps"] == len(plant.gaps)
    assert answer["tables"]["items"] == len(ITEMS)
    assert set(answer["tables"]) == {table.name for table in tables.TABLES}
    before, page = versions(out), Path(answer["report"]).stat().st_mtime_ns
    again = run(home / "history", out)
    assert again["tables"] == answer["tables"]
    assert versions(out) == before
    assert Path(answer["report"]).stat().st_mtime_ns == page, "nothing new is nothing to draw"
    Path(answer["report"]).write_text(Path(answer["report"]).read_text().replace(f"run {runs}", "run 0"))
    run(home / "history", out)
    assert Path(answer["report"]).stat().st_mtime_ns != page
    assert sorted(path.name for path in out.iterdir()) == [".lock", "report.html", "tables"]
    assert set(together(out)) == set(range(1, runs + 1))
    assert together(out)[runs] == before


DAY = 24 * 3600 * SECOND


def files_of_day(out: Path, day: str) -> list[Path]:
    table = out / "tables" / "rollup_1h"
    return day_files(table, read_state(table), day)


def one_sample(directory: Path, value: float, *, log_id: str = LOG_ID) -> HistoryWriter:
    """A history of one day and a minute with one sample."""
    writer = HistoryWriter(directory / "history")
    writer.items(ITEMS)
    writer.add(FileKind.SAMPLES, [sample(1, DAY0 + 3600 * SECOND, value, 5)])
    writer.publish(sequence=5, complete_to_ns=DAY0 + DAY + 60 * SECOND, log_id=log_id)
    return writer


@pytest.fixture(scope="module")
def tables_of_one_sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run makes of `one_sample` with the value 4: to be copied, then gone on with."""
    directory = tmp_path_factory.mktemp("one_sample")
    one_sample(directory, 4.0)
    run(directory / "history", directory / "out", session=spark)
    return directory / "out"


def together(out: Path) -> dict[int, dict[str, int]]:
    """Versions of the tables that belong together, by run."""
    found: dict[int, dict[str, int]] = {}
    for row in DeltaTable(str(out / "tables" / "_runs")).to_pyarrow_table().to_pylist():
        found.setdefault(row["run"], {})[row["table"]] = row["version"]
    return found


def test_what_is_new_reads_and_replaces_no_more_than_its_days(
    spark: SparkSession, tmp_path: Path, tables_of_one_sample: Path
) -> None:
    """A sample of the next day, and in the same file one of 1970: tables as by one run over all, and no other file was
    read. The touched days' files are replaced, and what held at their midnights is carried in from the table."""
    writer = one_sample(tmp_path, 4.0)
    out = shutil.copytree(tables_of_one_sample, tmp_path / "out")
    before = files_of_day(out, "2026-03-01")
    writer.add(FileKind.SAMPLES, [sample(1, 1800 * SECOND, 7.0, 6), sample(1, DAY0 + DAY + 1800 * SECOND, 8.0, 7)])
    writer.publish(sequence=7, complete_to_ns=DAY0 + DAY + 3600 * SECOND)
    run(tmp_path / "history", tmp_path / "whole", session=spark)
    (old,) = (entry for entry in writer.entries if entry.last_sequence == 5)
    (tmp_path / "history" / old.path).write_bytes(bytes(old.size_bytes))
    processes = processes_of_spark(spark)
    run(tmp_path / "history", out, session=spark)
    assert processes_of_spark(spark) <= processes
    assert before
    assert files_of_day(out, "2026-03-01") == before
    for name in WIDTHS:
        assert_same(table_rows(out / "tables" / name), table_rows(tmp_path / "whole" / "tables" / name))
    hours = DeltaTable(str(out / "tables" / "rollup_1h")).to_pyarrow_table().to_pylist()
    assert {0, 31 * DAY} <= {row["bucket_ns"] for row in hours}
    rows = sorted((row for row in hours if row["bucket_ns"] >= DAY0), key=lambda row: row["bucket_ns"])
    assert (rows[0]["bucket_ns"], rows[-1]["bucket_ns"], len(rows)) == (DAY0 + 3600 * SECOND, DAY0 + DAY, 24)
    assert rows[-1]["average"] == pytest.approx(6.0)
    # Exactly: rounding does not carry the average of a constant beside it.
    assert [row["average"] for row in rows[:-1]] == [4.0] * 23


def gap(item_id: int, from_ns: int, sequence: int) -> Row:
    times = {"from_ns": from_ns, "to_ns": from_ns + SECOND, "node_ns": DAY0}
    return {
        "source": "p1",
        "reason": "lost",
        **times,
        "item_ids": [item_id],
        "lost": 1,
        "epoch": 1,
        "sequence": sequence,
    }


def test_gaps_count_from_an_items_first_sample_on_if_that_comes_late(spark: SparkSession, tmp_path: Path) -> None:
    """Items 1 and 4 had their first sample weeks ago, item 2 today, item 3 none: each behind gaps that said nothing.

    Now each has a sample of 50 days ago, so these gaps are lost time: one that holds beyond the days of the late
    sample, others behind them, and today.
    """
    writer = one_sample(tmp_path, 4.0)
    writer.items([row | {"stale_ns": tables.MINUTE_NS} for row in ITEMS])
    today = DAY0 + DAY
    begins = {1: DAY0 - 17 * DAY, 2: today + 50 * SECOND, 4: DAY0 - 9 * DAY}
    firsts = [sample(item_id, ns, 2.0, item_id + 5) for item_id, ns in begins.items()]
    writer.add(FileKind.SAMPLES, [row | {"node_ns": today} for row in firsts])
    gaps = [(1, DAY0 - 19 * DAY), (4, DAY0 - 10 * DAY), (2, today + 20 * SECOND), (3, DAY0 + 20 * SECOND)]
    writer.add(FileKind.GAPS, [gap(*one, sequence) for sequence, one in enumerate(gaps, 10)])
    writer.publish(sequence=13, complete_to_ns=today + 60 * SECOND)
    run(tmp_path / "history", tmp_path / "out", session=spark)
    assert {row["lost_ns"] for row in table_rows(tmp_path / "out" / "tables" / "rollup_1h")} == {0}
    late = [sample(item_id, DAY0 - 50 * DAY, 7.0, 20 + item_id) | {"node_ns": today} for item_id in (1, 2, 3, 4)]
    writer.add(FileKind.SAMPLES, late)
    writer.publish(sequence=24, complete_to_ns=today + 90 * SECOND)
    run(tmp_path / "history", tmp_path / "out", session=spark)
    run(tmp_path / "history", tmp_path / "whole", session=spark)
    for name in WIDTHS:
        assert_same(table_rows(tmp_path / "out" / "tables" / name), table_rows(tmp_path / "whole" / "tables" / name))
    lost = dict.fromkeys((1, 2, 3, 4), 0)
    for row in table_rows(tmp_path / "out" / "tables" / "rollup_1min"):
        lost[row["item_id"]] += row["lost_ns"]
    assert lost == {1: 2 * DAY, 2: 30 * SECOND, 3: DAY + 70 * SECOND, 4: DAY}


def test_a_history_that_knows_other_declarations_of_old_days_starts_from_nothing(
    spark: SparkSession, tmp_path: Path, tables_of_one_sample: Path
) -> None:
    """A member that began later takes the stale time that it knows for all times before: the old day holds less.

    What is declared from today on changes no day before.
    """
    writer = one_sample(tmp_path, 4.0)
    out, today = shutil.copytree(tables_of_one_sample, tmp_path / "out"), DAY0 + DAY
    stale, others = ITEMS[0] | {"stale_ns": 2 * tables.MINUTE_NS}, ITEMS[1:]
    writer.items([ITEMS[0] | {"valid_to_ns": today + SECOND}, stale | {"valid_from_ns": today + SECOND}, *others])
    writer.publish(sequence=6, complete_to_ns=today + 300 * SECOND)
    before = files_of_day(out, "2026-03-01")
    run(tmp_path / "history", out, session=spark)
    assert files_of_day(out, "2026-03-01") == before
    writer.items([stale, *others])
    writer.publish(sequence=7, complete_to_ns=today + 600 * SECOND)
    run(tmp_path / "history", out, session=spark)
    assert sum(row["good_ns"] for row in table_rows(out / "tables" / "rollup_1h")) == 2 * tables.MINUTE_NS


def test_a_run_that_was_ended_is_gone_on_with(spark: SparkSession, tmp_path: Path, tables_of_one_sample: Path) -> None:
    """By Ctrl-C at work, which calls all lanes back; then between two commits, because somebody else has written a
    table meanwhile: no retry on what was not read. What is in already stays as it is."""
    writer = one_sample(tmp_path, 4.0)
    out = shutil.copytree(tables_of_one_sample, tmp_path / "out")
    writer.add(FileKind.SAMPLES, [sample(1, DAY0 + DAY + 1800 * SECOND, 8.0, 6)])
    writer.publish(sequence=6, complete_to_ns=DAY0 + DAY + 3600 * SECOND)
    before = versions(out)

    def interrupted(_done: int, _total: int, text: str) -> None:
        if text == "seconds":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "history", out, session=spark, progress=interrupted)
    assert versions(out) == before
    assert sorted(path.name for path in out.iterdir()) == [".lock", "report.html", "tables"]
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()

    foreign = out / "tables" / "gaps" / "_delta_log" / f"{1:020d}.json"
    steps = []

    def written_to(_done: int, _total: int, text: str) -> None:
        steps.append(text)
        if text == "commit" and "commit" not in steps[:-1]:
            foreign.write_text('{"commitInfo": {"operation": "OPTIMIZE"}}')

    with pytest.raises(TableChanged, match="written by somebody else"):
        run(tmp_path / "history", out, session=spark, progress=written_to)
    committed = versions(out)
    assert committed["rollup_1h"] == 1
    assert committed["alarm_cases"] == 0
    assert set(together(out)) == {1}
    run(tmp_path / "history", out, session=spark, progress=written_to)
    done = versions(out)
    assert {name: done[name] for name in tables_before("gaps")} == dict.fromkeys(tables_before("gaps"), 1)
    assert done["gaps"] == 2
    assert together(out)[2] == done
    assert "seconds" in steps
    hours = table_rows(out / "tables" / "rollup_1h")
    assert (len(hours), hours[-1]["end_value"]) == (24, 8.0)


def tables_before(name: str) -> list[str]:
    """Tables that are committed before this one."""
    names = [table.name for table in tables.TABLES]
    return names[: names.index(name)]


def test_a_part_of_a_table_with_other_columns_is_not_replaced(tmp_path: Path, tables_of_one_sample: Path) -> None:
    """It is told before Spark starts, and nothing is written. Once the table is away, it is built anew."""
    writer = one_sample(tmp_path, 4.0)
    out = shutil.copytree(tables_of_one_sample, tmp_path / "out")
    writer.publish(sequence=6, complete_to_ns=DAY0 + DAY + 3600 * SECOND)
    entry = out / "tables" / "rollup_1h" / "_delta_log" / f"{0:020d}.json"
    entry.write_text(entry.read_text().replace("uncertain_ns", "doubtful_ns"))
    before = versions(out)
    with pytest.raises(SchemaDiffers, match="rollup_1h has other columns"):
        run(tmp_path / "history", out)
    assert versions(out) == before
    assert not (out / "spark.log").exists()


def test_another_log_starts_from_nothing(spark: SparkSession, tmp_path: Path, tables_of_one_sample: Path) -> None:
    """A history of another log, or one that went back, is never mixed with the tables of the old one."""
    out = shutil.copytree(tables_of_one_sample, tmp_path / "out")
    one_sample(tmp_path, 2.0, log_id="bb" * 16)
    run(tmp_path / "history", out, session=spark)
    rows = DeltaTable(str(out / "tables" / "rollup_1s")).to_pyarrow_table().to_pylist()
    assert [row["average"] for row in rows] == [2.0]


def test_an_empty_history_gives_tables_and_a_report(spark: SparkSession, tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "history").publish(sequence=0, complete_to_ns=0, epoch=0)
    processes = processes_of_spark(spark)
    answer = run(tmp_path / "history", tmp_path / "out", session=spark)
    assert processes_of_spark(spark) <= processes
    assert set(answer["tables"].values()) == {0}
    assert set(answer["tables"]) == {table.name for table in tables.TABLES}
    assert "Nothing is recorded yet" in Path(answer["report"]).read_text()


def processes_of_spark(spark: SparkSession) -> set[tuple[int, str]]:
    """Processes that Java has started; it would for rows that come as a list of Python."""
    context = spark.sparkContext
    assert context._gateway is not None
    return {(one.pid, one.name()) for one in psutil.Process(context._gateway.proc.pid).children(recursive=True)}


ODD: dict[int, Sequence[float | int | str]] = {
    1: [1e308, -1.7976931348623157e308, 5e-324, float("inf"), float("nan"), 20.0],
    2: [2**63 - 1, -(2**63), 0],
    3: ["\x00 = \u202e", "x" * 10_000],
}
FAR = stored.day_start_ns("2099-01-01")


def test_odd_values_and_times_stop_neither_tables_nor_report(spark: SparkSession, tmp_path: Path) -> None:
    """The largest numbers and the smallest, no numbers, long texts; of each item also rows of 2099 and of before 1970,
    of one item no others."""
    writer = HistoryWriter(tmp_path / "history")
    units = {1: "$\x1b[0m", 2: "x" * 10_000, 3: "立方米", 4: "<b>"}
    writer.items([item(one, f"odd_{one}", {1: 1, 2: 2, 3: 4, 4: 1}[one], unit=unit) for one, unit in units.items()])
    times = [(one, DAY0 + at * SECOND, value) for one, values in ODD.items() for at, value in enumerate(values)]
    times += [(one, ns, values[-1]) for one, values in ODD.items() for ns in (-(2**63), -SECOND, FAR, 2**63 - 1)]
    times += [(4, ns, 1.0) for ns in (-(2**62), FAR)]
    rows = [sample(*row, number) | {"node_ns": DAY0} for number, row in enumerate(times, 1)]
    entry = writer.add(FileKind.SAMPLES, rows)
    writer.write(
        FileKind.PARTIALS,
        stored.partials_path(entry.path),
        kernel_partials(rows),
        replaced(entry, kind=FileKind.PARTIALS),
    )
    writer.publish(sequence=len(rows), complete_to_ns=DAY0 + 600 * SECOND)
    answer = run(tmp_path / "history", tmp_path / "out", session=spark)
    minutes = table_rows(tmp_path / "out" / "tables" / "rollup_1min")
    assert sum(row["rows"] for row in minutes) == len(rows)
    (first,) = [row for row in minutes if (row["item_id"], row["bucket_ns"]) == (1, DAY0)]
    assert (first["minimum"], first["maximum"]) == (-1.7976931348623157e308, 1e308)
    page = Path(answer["report"]).read_text()
    assert "be drawn" not in page
    assert [year for year in ("1823", "1969", "2099", "2116") if year in page] == []
    assert page.count("<svg") == 2 + 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    plant = Plant(tmp_path, 1, late=False)
    plant.publish_all()
    gone = tmp_path / "history" / plant.writer.entries[1].path
    gone.unlink()
    with pytest.raises(SourceMissing) as caught:
        run(tmp_path / "history", tmp_path / "out")
    assert caught.value.path == gone
    assert "restore" in caught.value.remedy


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    plant = Plant(tmp_path, 1, late=False)
    plant.publish_all()
    cut = tmp_path / "history" / plant.writer.entries[1].path
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(SourceDamaged, match="the manifest says"):
        run(tmp_path / "history", tmp_path / "out")


@pytest.mark.parametrize("damage", some(["tail", "body"], 2))
def test_a_file_of_other_bytes_is_named(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    """The size is right, the content is not: Spark finds it, and the tables stay as they were."""
    plant = Plant(tmp_path, 1, late=False)
    plant.publish_all()
    bad = tmp_path / "history" / plant.writer.entries[1].path
    content = bytearray(bad.read_bytes())
    spot = slice(-len(content), None) if damage == "tail" else slice(4, len(content) // 2)
    content[spot] = bytes(255 for _ in range(*spot.indices(len(content))))
    bad.write_bytes(content)
    with pytest.raises(SourceDamaged) as caught:
        run(tmp_path / "history", tmp_path / "out", session=spark)
    assert caught.value.path == bad
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_no_history_and_a_torn_manifest_are_told(tmp_path: Path) -> None:
    with pytest.raises(SourceMissing, match="no history here"):
        run(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / stored.MANIFEST_NAME).write_bytes(b'{"version": 1, "no')
    with pytest.raises(SourceDamaged, match="manifest"):
        run(tmp_path / "history", tmp_path / "out")


def test_a_second_run_on_the_same_output_is_refused(tmp_path: Path) -> None:
    import fcntl

    HistoryWriter(tmp_path / "history").publish(sequence=0, complete_to_ns=0)
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputBusy):
            run(tmp_path / "history", tmp_path / "out")


def test_an_output_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "history").publish(sequence=0, complete_to_ns=0)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputUnusable, match="can't be written"):
        run(tmp_path / "history", tmp_path / "out")


def test_a_table_that_is_no_table_is_told(spark: SparkSession, tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "history").publish(sequence=0, complete_to_ns=0)
    log = tmp_path / "out" / "tables" / "gaps" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{torn")
    with pytest.raises(OutputUnusable, match="remove it"):
        run(tmp_path / "history", tmp_path / "out", session=spark)
