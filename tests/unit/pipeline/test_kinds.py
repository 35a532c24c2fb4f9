"""Tables of items that were declared with other types and units, and exports that Spark reads."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from albireo.cli.node.history import command as history
from albireo.codec import history as stored
from albireo.codec.history import FileKind
from albireo.model import quality as q
from albireo.node.history.files.store import FOLDER
from albireo.pipeline.pipeline import run
from tests.parts.rollup import kernel_partials
from tests.unit.pipeline.history_files import DAY0, SECOND, HistoryWriter, Row, item, replaced, sample

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MINUTE = 60 * SECOND
DAY = 1440 * MINUTE
INVALID = int(q.BAD_AGGREGATE_INVALID_INPUTS)
POWER = [item(1, "power", unit="kW", sequence=1), item(1, "power", unit="W", sequence=10)]
MODE = [item(2, "mode", value_type=4, sequence=2), item(2, "mode", value_type=1, sequence=11)]
OTHER = [item(3, "other", unit="l", sequence=3)]
FIRST = [
    sample(1, DAY0, 5.0, 4),
    sample(1, DAY0 + MINUTE, 6.0, 5),
    sample(2, DAY0, "12", 6),
    sample(3, DAY0, 1.0, 7),
]
LATER = [
    sample(1, DAY0 + DAY + MINUTE // 2, 5000.0, 20),
    sample(2, DAY0 + 2 * MINUTE + MINUTE // 2, 7.0, 21),  # Late data.
    sample(3, DAY0 + DAY, 2.0, 22),
]


def publish(writer: HistoryWriter, rows: Sequence[Row], items: Sequence[Row], known_to_ns: int) -> None:
    writer.items(items)
    entry = writer.add(FileKind.SAMPLES, rows)
    beside = replaced(entry, kind=FileKind.PARTIALS)
    writer.write(FileKind.PARTIALS, stored.partials_path(entry.path), kernel_partials(rows), beside)
    writer.publish(sequence=max(row["sequence"] for row in rows), complete_to_ns=known_to_ns)


def rows_of(out: Path, name: str, item_id: int) -> list[dict[str, Any]]:
    rows = DeltaTable(str(out / "tables" / name)).to_pyarrow_table().to_pylist()
    return sorted((row for row in rows if row["item_id"] == item_id), key=lambda row: row["bucket_ns"])


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The tables made in two passes, the second of which brings the other kinds, and in one."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "data" / "log" / "segments").mkdir(parents=True)
    writer = HistoryWriter(folder / "data" / FOLDER)
    publish(writer, FIRST, [POWER[0], MODE[0], *OTHER], DAY0 + 10 * MINUTE)
    run(writer.directory, folder / "twice", session=spark)
    publish(writer, LATER, [*POWER, *MODE, *OTHER], DAY0 + DAY + 10 * MINUTE)
    for name in ("twice", "once"):
        run(writer.directory, folder / name, session=spark)
    return folder, folder / "once"


def test_no_bucket_has_a_number_of_two_units(made: tuple[Path, Path]) -> None:
    _, out = made
    minutes = rows_of(out, "rollup_1min", 1)
    told = {row["bucket_ns"]: (row["average"], row["declared"], row["quality"] == INVALID) for row in minutes}
    assert told[DAY0] == (5.0, 0, False) and told[DAY0 + MINUTE] == (6.0, 0, False)
    assert told[DAY0 + DAY - MINUTE] == (6.0, 0, False), "held over, in its own unit"
    assert told[DAY0 + DAY] == (None, 10, True) and told[DAY0 + DAY + MINUTE] == (5000.0, 10, False)
    hours = {row["bucket_ns"]: row for row in rows_of(out, "rollup_1h", 1)}
    torn = hours[DAY0 + DAY]
    assert (torn["average"], torn["integral"], torn["minimum"], torn["declared"]) == (None, None, None, 10)
    assert (torn["quality"], torn["rows"], torn["good_ns"]) == (INVALID, 1, 10 * MINUTE)


def test_a_text_is_no_zero(made: tuple[Path, Path]) -> None:
    _, out = made
    minutes = rows_of(out, "rollup_1min", 2)
    assert [(row["average"], row["quality"] == INVALID) for row in minutes[:4]] == [
        (None, False),
        (None, False),
        (None, True),
        (7.0, False),
    ]


def test_one_pass_and_two_give_the_same(made: tuple[Path, Path]) -> None:
    folder, _ = made
    for name in ("rollup_1s", "rollup_1min", "rollup_1h", "availability", "items_scd"):
        one, two = (
            sorted(DeltaTable(str(folder / out / "tables" / name)).to_pyarrow_table().to_pylist(), key=str)
            for out in ("once", "twice")
        )
        assert one == two, name
    assert {row["declared"] for row in rows_of(folder / "once", "rollup_1min", 3)} == {0}


def test_the_report_draws_each_unit_by_itself(made: tuple[Path, Path]) -> None:
    _, out = made
    page = (out / "report.html").read_text()
    assert "root:power [kW]" in page and "root:power [W]" in page


def test_spark_reads_an_export(spark: SparkSession, made: tuple[Path, Path], tmp_path: Path) -> None:
    """As other tools do (tests/unit/cli/test_history_exports.py)."""
    folder, _ = made
    file = tmp_path / "x.parquet"
    span = ("--from", "2026-03-01", "--to", "2026-03-03", "--format", "parquet", "--output", str(file))
    for more, columns in (((), 5), (("--wide",), 4)):
        asked = ["power", "--aggregate", "raw", *span, *more, "--data", str(folder / "data")]
        result = CliRunner().invoke(history, asked)
        assert result.exit_code == 0, result.output
        frame = spark.read.parquet(str(file))
        assert (len(frame.columns), frame.count()) == (columns, 3)
    assert frame.schema["time"].dataType.typeName() == "timestamp"
    first = frame.selectExpr("unix_micros(time) AS us").orderBy("us").first()
    assert first is not None and datetime.fromtimestamp(first.us / 1e6, UTC) == datetime(2026, 3, 1, tzinfo=UTC)
