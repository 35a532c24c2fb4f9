"""A pair of real processes whose holder has pruned: an empty directory joins, and takes over after kill -9."""

import secrets
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from albireo.client import Acknowledged, NodeClient, PairProducer
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch, Strings, ValueType
from albireo.runtime.lines import LineTo
from tests.drill.test_pair_cli_drill import VOTERS, Pair, until

pytestmark = [pytest.mark.drill, pytest.mark.slow]

SETTINGS = """
[node.log]
segment_mib = 1
disk_reserve_mib = 0
bytes_max_mib = 64
snapshot_every_s = 1
keep_h = 0
[node.history]
seal_every_s = 1
"""
ROWS = 100
ITEM = DataItem(name="message", value_type=ValueType.STRING)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(SETTINGS)
    try:
        yield made
    finally:
        made.end()


def begins_at(pair: Pair, member: str) -> int:
    """First sequence that is still in the log."""
    found = (pair.data(member) / "log" / "segments").glob("*.segment")
    return min((int(one.stem) for one in found if one.stem.isdigit()), default=0)


def rows(number: int) -> SampleBatch:
    times = np.full(ROWS, 1_800_000_000 * SECOND + number, np.int64)
    return SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.zeros(ROWS, np.uint32),
        source_ns=times,
        node_ns=times,
        value=Strings.of([secrets.token_hex(300)] * ROWS),
        quality=np.zeros(ROWS, np.uint32),
    )


def members(pair: Pair) -> list[LineTo]:
    (node,) = tomllib.loads((pair.home / "plant.toml").read_text())["node"]
    return [LineTo(node[name]["client"], f"root[{name}]") for name in ("primary", "backup")]


def produce(producer: PairProducer, batches: int) -> None:
    """Until every one of them is acknowledged."""
    numbers = {producer.offer([rows(number)]) for number in range(batches)}
    ends = time.monotonic() + 60
    while numbers:
        assert time.monotonic() < ends, f"{len(numbers)} batches are not acknowledged"
        for receipt in producer.wait(1.0):
            assert isinstance(receipt, Acknowledged), receipt
            numbers = {number for number in numbers if number > receipt.batch}


def told(pair: Pair, member: str) -> dict[str, object]:
    """What its folds say of the item and of the producer's cases."""
    with NodeClient(pair.data(member)) as client:
        status = client.ask("status")
    assert isinstance(status, dict)
    return {"items": status["items"], "sequence": status["log"]["sequence"]}


def test_an_empty_directory_joins_a_holder_that_has_pruned_and_takes_over_after_its_death(pair: Pair) -> None:
    pair.start(*VOTERS, "primary")
    until(lambda: pair.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
    pair.wait_for("solo", "silent")
    with PairProducer("meter", [ITEM], members(pair), None) as producer:
        produce(producer, 80)
        until(lambda: begins_at(pair, "primary") > 1, lambda: "the primary has not pruned")
        pair.start("backup")
        pair.wait_for("active", "ready")
        assert begins_at(pair, "backup") > 1
        produce(producer, 5)
        until(lambda: told(pair, "primary") == told(pair, "backup"), lambda: "equal items")
        before = told(pair, "primary")["items"]
        pair.kill("primary")
        produce(producer, 5)
        assert told(pair, "backup")["items"] == before
        pair.start("primary")
        pair.wait_for("ready", "active")
    with NodeClient(pair.data("backup")) as client:
        client.ask("seal", of="history")  # Else it waits for the minute.
    gaps = list((pair.data("backup") / "history" / "gaps").rglob("*.parquet"))
    assert gaps, "what was pruned before it joined is a gap in its own history"
