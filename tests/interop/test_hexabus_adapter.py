"""The adapter of Hexabus at a real node, with device processes in a network namespace."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from albireo.client import Client, ClientError, connect
from albireo.codec.hexabus.journal import JournalRecord, LeadTaken, Term, encode_record
from albireo.drill.fault.network import NetworkGround
from albireo.drill.process import Group
from albireo.field.hexabus.adapter import SNAPSHOT_EVERY
from albireo.model.command import Outcome
from albireo.model.quality import BAD_NO_COMMUNICATION, GOOD
from albireo.model.value import Value
from albireo.plant.house.device import DeviceLook
from albireo.plant.house.house import DEVICES, item_table
from albireo.runtime.errors import RuntimeFault
from tests.parts.hexabus_space import HexabusSpace, write_site
from tests.parts.waiting import awaited

OBJECTION = NetworkGround.objection()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(OBJECTION), reason=OBJECTION)]
OWN = DEVICES[:6]
"""Four buttons and two lamps."""
AHEAD, BESIDE = Term(1 << 62, 1 << 62), Term(1, 1 << 62)
"""Forged terms: one that can't be, and one that may."""
BATCH = 40
"""Events that a device is told at a time; it has room for some more."""


class Site:
    """A node at the desk of the space."""

    def __init__(self, space: HexabusSpace, directory: Path) -> None:
        names = {"name", *(one.name for one in OWN)}
        table = "".join(
            line for line in item_table().splitlines(keepends=True) if line.split(",")[1] in names | {"device"}
        )
        self.data = directory / "data"
        topology = write_site(directory / "site", table)
        arguments = ["node", "run", "--topology", str(topology), "--data", str(self.data)]
        self.node = Group("node", arguments, directory / "node.log", space.within)

    def value(self, name: str) -> tuple[Value | None, int]:
        try:
            with connect(self.data, timeout_s=5.0) as client:
                found = client.read(name)
        except (ClientError, RuntimeFault, IndexError):
            return None, -1
        return found.value, found.quality

    def client(self) -> Client:
        return connect(self.data, timeout_s=20.0)


def whole(told: tuple[Value | None, int]) -> int:
    return told[0] if isinstance(told[0], int) else 0


def all_confirmed(count: int, looks: dict[str, DeviceLook]) -> bool:
    return all(looks[one.name].confirmed == count for one in OWN[:4])


@pytest.fixture
def space() -> Iterator[HexabusSpace]:
    with HexabusSpace(OWN) as made:
        yield made


def test_endpoints_are_items_and_a_device_that_is_away_is_a_case(space: HexabusSpace, tmp_path: Path) -> None:
    site = Site(space, tmp_path)
    site.node.start()
    try:
        awaited(lambda: site.value("house/members"), lambda told: told == (len(OWN), GOOD))
        awaited(lambda: site.value("lamp_1_relay"), lambda told: told == (False, GOOD))
        space.house.tell("button_1", 4, 7)
        awaited(lambda: site.value("button_1_button"), lambda told: told == (7, GOOD))
        with site.client() as client:
            for term in (AHEAD, BESIDE):
                client.topics.put("adapters.house", encode_record(JournalRecord(term, LeadTaken())))
            awaited(lambda: site.value("house/reconnects"), lambda told: whole(told) == 1)
            awaited(lambda: site.value("house/members"), lambda told: told == (len(OWN), GOOD))
            done = client.write("lamp_1_relay", True, "test")
            assert (done.outcome, done.read_back) == (Outcome.VERIFIED, True)
            space.house.kill("lamp_1")
            awaited(lambda: site.value("lamp_1_relay"), lambda told: told[1] == BAD_NO_COMMUNICATION)
            awaited(lambda: site.value("house/lost_lamp_1"), lambda told: told == (True, GOOD))
            assert any(one.item.endswith("house/lost_lamp_1") for one in client.cases())
            assert client.write("lamp_1_relay", True, "test").outcome is Outcome.UNKNOWN
            space.house.tell("button_1", 4, 8)
            awaited(lambda: site.value("button_1_button"), lambda told: told == (8, GOOD))
            space.house.revive("lamp_1")
            awaited(lambda: site.value("house/lost_lamp_1"), lambda told: told == (False, GOOD))
            awaited(lambda: site.value("lamp_1_relay"), lambda told: told == (False, GOOD))
    finally:
        site.node.stop()


def test_a_start_reads_the_journal_from_its_last_snapshot_on(space: HexabusSpace, tmp_path: Path) -> None:
    site = Site(space, tmp_path)
    site.node.start()
    try:
        awaited(lambda: site.value("house/members"), lambda told: told == (len(OWN), GOOD))
        for told in count(BATCH, BATCH):  # A busy adapter puts what came together in one entry.
            for one in OWN[:4] * BATCH:
                space.house.tell(one.name, 4, told % 200)
            awaited(space.house.look, partial(all_confirmed, told))
            if whole(site.value("house/journal_entries")) > SNAPSHOT_EVERY + 100:
                break
            assert told < 40 * BATCH
        site.node.stop()
        site.node.start()
        fewer = SNAPSHOT_EVERY - 100
        awaited(lambda: whole(site.value("house/journal_entries")), lambda entries: 0 < entries < fewer)
        before = space.house.look()
        space.house.tell("button_2", 4, 201)
        awaited(space.house.look, lambda looks: all(looks[name].acted == one.acted + 1 for name, one in before.items()))
        assert all(one.began == before[name].began for name, one in space.house.look().items()), "nobody is reset"
    finally:
        site.node.stop()
