"""The pipeline at a node above others: tables for each log, whatever ids they share."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from albireo.codec.history import MANIFEST_NAME, PREVIOUS_NAME, FileKind
from albireo.codec.record import ItemDeclared, Stream
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.pipeline.errors import PipelineError, SourceDamaged, SourceMissing
from albireo.pipeline.pipeline import run, run_all
from albireo.pipeline.report import report
from albireo.pipeline.source import read_manifest
from tests.parts.history import DAY_ZERO, MemoryLog
from tests.parts.history_below import Historian, Site, damage_newest, rows, sites
from tests.unit.pipeline.rollup_oracle import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def declares(log: MemoryLog, node: str) -> None:
    item = DataItem(name="co", value_type=ValueType.FLOAT64, unit="ppm")
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node=node, item=item)], DAY_ZERO)


def filled(data: Path) -> list[Site]:
    """Histories of a node and of two below it; the item 1 of each is called `co`."""
    log, below = sites()
    declares(log, "root")
    log.samples(rows(4, 900), DAY_ZERO)
    for number, site in enumerate(below, 1):
        declares(site.log, site.folder.node)
        site.log.samples(rows(5 * number, 100 * number), DAY_ZERO)
        site.send(log, site.pending())
    life = Historian(data)
    life.take(log)
    life.seal()
    return below


def summed(out: Path) -> list[tuple[Any, ...]]:
    return [
        (one["item_id"], one["rows"], one["minimum"], one["maximum"]) for one in table_rows(out / "tables/rollup_1h")
    ]


def test_two_nodes_with_equal_ids_have_tables_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    north, south = filled(data)
    answer = run_all(data, out, session=spark)
    assert [(one["node"], one["log_id"]) for one in answer["below"]] == [
        ("root/north", north.log.log_id.hex()),
        ("root/south", south.log.log_id.hex()),
    ]
    assert summed(out) == [(1, 4, 900.0, 903.0)]
    for site, wanted in ((north, (1, 5, 100.0, 104.0)), (south, (1, 10, 200.0, 209.0))):
        folder = out / "below" / site.folder.name
        assert summed(folder) == [wanted]
        (item,) = DeltaTable(str(folder / "tables/items")).to_pyarrow_table().to_pylist()
        assert f"{item['node']}:{item['name']}" == f"{site.folder.node}:co"
        assert f"{site.folder.node}:co" in (folder / "report.html").read_text()
    again = run_all(data, out)  # Nothing is new, so no Spark is needed.
    assert [one["tables"] for one in again["below"]] == [one["tables"] for one in answer["below"]]
    assert damage_newest(data, north)
    with pytest.raises(PipelineError, match="manifest"):
        run_all(data, out)


def test_a_node_without_any_below_gives_what_it_gave(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    filled(data)
    shutil.rmtree(data / "history-below")
    both = [run(data / "history", tmp_path / "one", session=spark), run_all(data, tmp_path / "two", session=spark)]
    assert both[0].keys() == both[1].keys()
    assert both[0]["tables"] == both[1]["tables"]
    assert summed(tmp_path / "one") == summed(tmp_path / "two")
    names = [sorted(path.name for path in (tmp_path / one).iterdir()) for one in ("one", "two")]
    assert names[0] == names[1]


def test_whatever_stops_one_node_stops_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's own history is damaged, that of a node below has lost its manifest: the other one has all of its own.

    Then the page of the node itself can't be made, for a reason that nobody thought of.
    """
    data, out = tmp_path / "data", tmp_path / "out"
    north, south = filled(data)
    own = next(one for one in read_manifest(data / "history").of_kind(FileKind.SAMPLES))
    intact = (data / "history" / own.path).read_bytes()
    (data / "history" / own.path).write_bytes(bytes(own.size_bytes))
    folder = data / north.folder.path
    (folder / MANIFEST_NAME).rename(folder / PREVIOUS_NAME)
    with pytest.raises(SourceDamaged, match=own.path):
        run_all(data, out, session=spark)
    assert summed(out / "below" / south.folder.name) == [(1, 10, 200.0, 209.0)]
    assert not (out / "below" / north.folder.name / "report.html").exists()
    (data / "history" / own.path).write_bytes(intact)
    with pytest.raises(SourceMissing, match=north.folder.name):
        run_all(data, out, session=spark)
    assert summed(out) == [(1, 4, 900.0, 903.0)]
    (folder / PREVIOUS_NAME).rename(folder / MANIFEST_NAME)
    write = report.write_report

    def written(path: Path, *more: Any) -> Path:
        if path.parent == out:
            raise OverflowError("cannot convert float infinity to integer")
        return write(path, *more)

    monkeypatch.setattr(report, "write_report", written)
    (out / "report.html").unlink()
    with pytest.raises(OverflowError):
        run_all(data, out, session=spark)
    assert (out / "below" / north.folder.name / "report.html").exists()
