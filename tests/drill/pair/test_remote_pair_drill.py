"""The everyday commands at a pair with keys, from a network namespace of their own, across takeovers.

One pair and one PLC for all of it. The acting member is killed between two commands, in the middle of a live view, and
in the middle of a long history answer.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from albireo.client import Client, NodeRefused, connect
from albireo.drill.plcs import STAMP_ADDRESS, Plcs
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.far_desk import FarDesk, Said
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ANNA = "anna@desk"
TABLE = "name,kind,address,type,writable,minimum,maximum,hi,severity"
ROWS: Final = 40_000
"""Three pieces."""
BATCH: Final = 4_000
PLACES = {name: f"root[{name}]" for name in MEMBERS}


class FarPair:
    """A pair, and the desk from which it is asked."""

    def __init__(self, home: Path, desk: FarDesk, plc_port: int) -> None:
        self.desk = desk
        (home / "out.csv").write_text(f"{TABLE}\nout,holding,{STAMP_ADDRESS},uint16,true,0,100,50,700\n")
        adapters = f"""
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{plc_port}"
  items = "out.csv"
  poll_ms = 200
  guard = "stamp"
"""
        self.pair = Pair(home, has_keys=True, address=desk.address, programs=(ANNA,), adapters=adapters)
        self.keys = home / "keys" / ANNA

    def start(self) -> None:
        self.pair.start(*VOTERS, *MEMBERS)
        until(lambda: all(self.pair.is_voting(one) for one in VOTERS), lambda: "voters")
        self.pair.wait_for("joining", "joining")
        self.pair.done("pair", "init", member="primary")
        self.pair.wait_for("active", "ready")

    @property
    def place(self) -> list[str]:
        return ["--at", ",".join(self.pair.doors), "--keys", str(self.keys)]

    def run(self, *arguments: str) -> Said:
        return self.desk.run(*arguments, *self.place)

    def done(self, *arguments: str) -> Any:
        found = self.run(*arguments)
        assert found.code == 0, found
        return found.answer

    def lose_acting(self) -> tuple[str, str]:
        """Kill the member that leads, and let the other one take over; both names."""
        lost = self.pair.lose_acting()
        return lost, other_of(lost)

    def back(self, member: str) -> None:
        self.pair.start(member)
        self.pair.acting()

    def values(self) -> list[int]:
        return [row["value"] for row in self.done("history", "out", "--aggregate", "raw")["rows"]]

    def is_polled(self) -> bool:
        found = self.run("items", "out")
        return found.code == 0 and bool(found.answer["items"]) and found.answer["items"][0]["quality_name"] == "Good"


def other_of(member: str) -> str:
    return MEMBERS[1 - MEMBERS.index(member)]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarPair]:
    if objection := FarDesk.objection():
        pytest.skip(objection)
    home = tmp_path_factory.mktemp("pair")
    plcs = Plcs("127.0.0.1")
    plcs.begin()
    try:
        with FarDesk(home / "desk") as desk:
            made = FarPair(home, desk, plcs.ports["p2"])
            try:
                made.start()
                until(made.is_polled, lambda: str(made.run("items", "out")))
                yield made
            finally:
                made.pair.end()
    finally:
        plcs.end()


def check_everything(plant: FarPair, value: int) -> None:
    """Each command, once; the write is verified, and comes to the history and the journal."""
    assert plant.done("status")["node"] == "root"
    receipt = plant.done("write", "out", str(value))
    assert (receipt["outcome"], receipt["read_back"]) == ("verified", value)
    until(lambda: plant.done("items", "out")["items"][0]["value"] == value, lambda: "the value is read")
    assert {one["item"]: one["value"] for one in plant.done("watch")["items"]}["root:out"] == value
    until(lambda: "root:out" in {one["item"] for one in plant.done("cases", "list")["cases"]}, lambda: "no case")
    until(lambda: value in plant.values(), lambda: str(plant.values()))
    until(lambda: f"{value} [" in str(plant.done("events", "--kind", "audit")), lambda: "the order is on record")


def test_every_command_goes_on_at_the_other_member_once_the_first_was_killed(plant: FarPair) -> None:
    check_everything(plant, 60)
    lost, survivor = plant.lose_acting()
    until(plant.is_polled, lambda: str(plant.run("items", "out")))
    assert plant.done("status")["pair"]["place"] == PLACES[survivor]
    by_topology = ["--topology", str(plant.pair.topology), "--id", "root", "--keys", str(plant.keys)]
    assert plant.desk.run("status", *by_topology).answer["pair"]["place"] == PLACES[survivor]
    check_everything(plant, 70)
    values = plant.values()
    assert values.index(60) < values.index(70), "the history of both tenures, in one answer"
    assert {"60", "70"} <= {
        str(one["detail"]).partition(" ")[0] for one in plant.done("events")["events"] if one["action"] == "write"
    }
    plant.back(lost)


def read(stream: Any, lines: "queue.Queue[str]") -> None:
    for one in stream:
        lines.put(one)


def test_a_live_view_goes_on_with_the_other_member(plant: FarPair) -> None:
    lines: queue.Queue[str] = queue.Queue()

    def comes(*words: str) -> None:
        """A line with all of this."""
        ends = time.monotonic() + PATIENCE_S
        said = ""
        while time.monotonic() < ends:
            with contextlib.suppress(queue.Empty):
                said = lines.get(timeout=1.0)
                if all(one in said for one in words):
                    return
        raise AssertionError(f"{words}: last line {said}")

    with plant.desk.begin("watch", "--for", str(PATIENCE_S * 4), *plant.place) as view:
        reader = threading.Thread(target=read, args=(view.stdout, lines), daemon=True)
        reader.start()
        try:
            comes("root:out", "Good")
            lost, _ = plant.lose_acting()
            assert plant.done("write", "out", "80")["read_back"] == 80
            comes("root:out", "\t80\t", "Good")
        finally:
            view.terminate()
            reader.join(PATIENCE_S)
    plant.back(lost)


def fill(client: Client) -> None:
    item = DataItem(name="number", value_type=ValueType.INT64)
    begin = wall_ns()
    with client.producer("meter", [item]) as producer:
        for first in range(0, ROWS, BATCH):
            value = np.arange(first, first + BATCH)
            batch = SampleBatch(
                value_type=ValueType.INT64,
                item_id=np.zeros(BATCH, np.uint32),
                source_ns=begin + value,
                node_ns=np.full(BATCH, begin),
                value=value,
                quality=np.zeros(BATCH, np.uint32),
            )
            producer.offer([batch])
        assert producer.flush(PATIENCE_S)


def has_all(client: Client, member: int) -> bool:
    """The history of this member has every row."""
    asked: dict[str, Any] = {"names": ["number"], "from_ns": 0, "to_ns": wall_ns() + 10**12}
    asked |= {"aggregate": "count", "bucket_ns": 2**62}
    with contextlib.suppress(NodeRefused):
        (part,) = client.ask_parts("history_piece", of="history", member=member, **asked).raw
        counts: list[Any] = pa.ipc.open_stream(pa.py_buffer(part)).read_all().column("rows").to_pylist()
        return bool(sum(counts) == ROWS)
    return False


def test_a_long_history_answer_goes_on_at_the_door_of_the_other_member(plant: FarPair) -> None:
    """Killed behind the first piece: each row comes once."""
    with connect(",".join(plant.pair.doors), keys=plant.keys, timeout_s=PATIENCE_S) as client:
        fill(client)
        for member in (0, 1):
            until(partial(has_all, client, member), lambda: "a history is behind")
        lost = plant.pair.acting()
        heard: list[int] = []

        def told(rows: int) -> None:
            heard.append(rows)
            if len(heard) == 1:
                plant.pair.kill(lost)

        table = client.history("number", 0, wall_ns() + 10**12, told=told)
        assert table.column("value").to_pylist() == list(range(ROWS))
        assert len(heard) >= 3 and heard[0] < ROWS
        assert client.acting == MEMBERS.index(other_of(lost))
    asked = ["history", "number", "--from", "2020-01-01", "--aggregate", "raw"]
    assert [row["value"] for row in plant.done(*asked)["rows"]] == list(range(ROWS))
