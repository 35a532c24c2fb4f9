"""A pair of real processes whose samples are not replicated: each history has what its own member took, and no more."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from albireo.client import Acknowledged, SampleProducer
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.node.history.sql import connect
from tests.parts.process_pair import VOTERS, Pair, until
from tests.parts.producing import producing
from tests.parts.snapshot_drill import history, members
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

SETTINGS = """
[node.replication]
samples = "configuration"
[node.history]
seal_every_s = 1
"""
ITEM = DataItem(name="message", value_type=ValueType.INT64)
_sampled = count(1_800_000_000)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(SETTINGS)
    try:
        yield made
    finally:
        made.end()


def batch(value: int) -> SampleBatch:
    times = np.full(1, next(_sampled) * SECOND, np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array([value], np.int64),
        quality=np.zeros(1, np.uint32),
    )


def produce(producer: SampleProducer, first: int, last: int) -> list[Acknowledged]:
    """Receipts, the last of which covers all of them."""
    number = max(producer.offer([batch(value)]) for value in range(first, last + 1))
    ends, receipts = time.monotonic() + PATIENCE_S, list[Acknowledged]()
    while not receipts or receipts[-1].batch < number:
        assert time.monotonic() < ends, f"{number} is not acknowledged"
        for one in producer.wait(1.0):
            assert isinstance(one, Acknowledged), one
            receipts.append(one)
    return receipts


def recorded(pair: Pair, member: str) -> tuple[list[int], int]:
    """Values of the item in its stored history, in the order of their sequences, and samples that the other has.

    0 is no value: the node says so of an item whose program is silent.
    """
    history(pair, member, "seal")
    with connect(pair.data(member)) as found:
        values = found.rows(
            "SELECT value_i64 FROM samples WHERE item_id IN (SELECT item_id FROM items WHERE name = 'message')"
            " AND value_i64 > 0 ORDER BY epoch, sequence"
        )
        gaps = found.rows("SELECT sum(lost) AS lost FROM gaps WHERE reason = 'not_replicated'")
    return values.to_pydict()["value_i64"], int(gaps.to_pydict()["lost"][0] or 0)


def test_each_history_has_what_its_member_took(pair: Pair) -> None:
    pair.start(*VOTERS, "primary")
    until(lambda: pair.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
    pair.wait_for("solo", "silent")
    pair.start("backup")
    pair.wait_for("active", "ready")
    with producing("meter", [ITEM], members(pair), None) as producer:
        receipts = produce(producer, 1, 20)
        assert {(one.durability, one.members) for one in receipts} == {("local", (0,))}
        until(lambda: recorded(pair, "primary")[0] == list(range(1, 21)), lambda: str(recorded(pair, "primary")))
        until(lambda: recorded(pair, "backup")[1] >= 20, lambda: str(recorded(pair, "backup")))
        assert recorded(pair, "backup")[0] == []

        pair.lose("primary")
        receipts = produce(producer, 21, 40)
        assert {one.members for one in receipts} == {(1,)}
        pair.start("primary")
        pair.wait_for("ready", "active")
        until(lambda: recorded(pair, "backup")[0] == list(range(21, 41)), lambda: str(recorded(pair, "backup")))
        until(lambda: recorded(pair, "primary")[1] >= 20, lambda: str(recorded(pair, "primary")))
        assert recorded(pair, "primary")[0] == list(range(1, 21)), "what it took before is still there"

    _, status = pair.run("status", member="primary")
    assert status["replication"]["samples"] == "configuration"
