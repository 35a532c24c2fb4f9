"""`albireo hexabus` against processes of simulated devices in a network namespace, which lose datagrams."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.cli.hexabus.houses import devices_of
from albireo.codec.hexabus.house import House, encode_house
from albireo.codec.hexabus.packets import HexDatagram, InfoPacket, encode
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.drill.fault.network import NetworkGround
from albireo.drill.process import Group
from albireo.plant.house.device import DeviceLook
from albireo.plant.house.house import DEVICES, item_table
from albireo.plant.house.house import house as house_of
from tests.parts.hexabus_space import INTERFACE, HexabusSpace, ended, write_site
from tests.parts.waiting import awaited

OBJECTION = NetworkGround.objection()
pytestmark = [pytest.mark.crowd, pytest.mark.slow, pytest.mark.skipif(bool(OBJECTION), reason=OBJECTION)]
RESET = "reset: all machines begin anew"
LOSS = 0.2
"""Each way: a question and its answer come through 64 times of 100."""


@pytest.fixture
def space() -> Iterator[HexabusSpace]:
    with HexabusSpace(DEVICES, LOSS) as made:
        yield made


def test_every_endpoint_is_found_although_datagrams_are_lost(space: HexabusSpace, tmp_path: Path) -> None:
    hosts = {one.host: one for one in DEVICES}
    code, told = space.run("hexabus", "query", INTERFACE, "0", *hosts, "fd00::99")
    values = {one["host"]: one["value"] for one in told["answers"]}
    assert code == 1 and values.pop("fd00::99") == "", "an answer is missing"
    assert values == {host: one.name for host, one in hosts.items()}

    code, told = space.run("hexabus", "query", INTERFACE, "4")
    with_button = {host for host, one in hosts.items() if one.endpoints[0].eid == 4}
    answered = [one["host"] for one in told["answers"]]
    assert code == 0 and set(answered) <= with_button and len(answered) == len(set(answered))
    (unknown,) = space.run("hexabus", "query", INTERFACE, "77", DEVICES[0].host)[1]["answers"]
    assert unknown["type"] == "UNKNOWN_EID"

    code, told = space.run("hexabus", "info", INTERFACE, DEVICES[0].host)
    assert code == 0
    (button,) = told["devices"]
    assert [one["eid"] for one in button["endpoints"]] == [4, 9, 10, 12, 129, 252]
    assert button["endpoints"][0] == {"eid": 4, "name": "button", "type": "UINT8", "properties": {"name": "button"}}

    code, told = space.run("topology", "new", "--hexabus", INTERFACE, "--out", str(tmp_path / "site"))
    assert code == 0 and told["complete"]
    (tmp_path / "house.csv").write_text(item_table().replace("remotes", ""))  # Of its groups no device tells.
    found, real = (rows(path) for path in (tmp_path / "site" / "hexabus.csv", tmp_path / "house.csv"))
    # Who loses all nine questions to the group, or the answers, is not found: one device of 10,000.
    assert found == real
    assert devices_of(tmp_path / "site" / "hexabus.csv") == devices_of(tmp_path / "house.csv")
    assert space.run("topology", "check", str(tmp_path / "site" / "topology.toml"))[0] == 0


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        found = [{name: cell for name, cell in row.items() if name != "groups"} for row in csv.DictReader(file)]
        return sorted(found, key=lambda row: row["name"])


def test_a_house_is_uploaded_traced_and_reset_through_the_node(space: HexabusSpace, tmp_path: Path) -> None:
    topology, data, file = write_site(tmp_path / "site", item_table()), tmp_path / "data", tmp_path / "house.json"
    file.write_bytes(encode_house(house_of()))
    arguments = ["node", "run", "--topology", str(topology), "--data", str(data)]
    node = Group("node", arguments, tmp_path / "node.log", space.within)
    node.start()
    try:
        where = ("--adapter", "house", "--data", str(data))
        awaited(lambda: space.run("items", "house/members", "--data", str(data))[0], lambda code: code == 0)
        heard, traced = tmp_path / "heard", tmp_path / "traced"
        listening = space.begin(heard, "hexabus", "listen", INTERFACE)
        tracing = space.begin(traced, "hexabus", "trace", str(file), INTERFACE)
        awaited(space.members, lambda count: count == 3)
        code, told = space.run("hexabus", "upload", str(file), *where, "--wait", "80")
        assert code == 0 and told == {"adapter": "house", "devices": len(DEVICES), "missing": []}
        assert "" not in {one.memory for one in space.house.look().values()}, "all have a program"
        assert space.run("hexabus", "reset", *where, "--reason", "rehearsal")[0] == 0
        awaited(traced.read_text, lambda text: RESET in text)
        awaited(lambda: press(space))
        awaited(traced.read_text, lambda text: "stairs_1: 3 s in lit" in text)
        check_trace(ended(tracing, traced)[0])
        check_heard(*ended(listening, heard))

        strange = House({"attic": house_of().devices["lamp_1"]}, [], house_of().master)
        file.write_bytes(encode_house(strange))
        code, told = space.run("hexabus", "upload", str(file), *where)
        assert code == 1 and "house has no attic" in told["error"]
        code, told = space.run("hexabus", "reset", "--adapter", "host", "--data", str(data))
        assert code == 2 and "no adapter of kind hexabus" in told["error"]
        space.house.kill("tv")
        file.write_bytes(encode_house(house_of()))
        code, told = space.run("hexabus", "upload", str(file), *where, "--wait", "20")
        assert code == 1 and "tv" in told["missing"], "who has no power is named"
    finally:
        node.stop()


def press(space: HexabusSpace) -> bool:
    """Press the button; False: it began anew before the master had this on record, and flushed it."""

    def button() -> DeviceLook:
        return space.house.look()["button_1"]

    before = button()
    space.house.tell("button_1", 4, 1)
    after = awaited(button, lambda now: (now.confirmed, now.began) != (before.confirmed, before.began))
    return after.confirmed > before.confirmed


def check_trace(answers: list[Any]) -> None:
    events = [one["event"] for one in answers]
    (press,) = [one for one in answers if one["event"] == "button_1.button = 1"]
    assert press["states"] == [{"machine": "stairs_1", "before": "dark", "after": "lit"}] and press["is_sure"]
    numbers = [one["number"] for one in answers[events.index(RESET) :]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "each item once, in its order"


def check_heard(answers: list[Any], talk: str) -> None:
    told = [one for one in answers if one["source"] == "fd00::10" and "RELIABLE" in one.get("flags", ())]
    presses: dict[int, list[bool]] = {}
    for one in told:
        if one["fields"]["eid"] == 4:
            presses.setdefault(one["number"], []).append(one.get("is_repeat", False))
    assert presses, "the press itself was heard"
    for copies in presses.values():
        assert copies == [False, *[True] * (len(copies) - 1)], "copies are marked, and not hidden"
    assert {"INFO", "PINFO", "WRITE"} <= {one["packet"] for one in answers}
    assert "PINFO" in talk


def test_what_no_device_of_this_wire_says_is_named(space: HexabusSpace, tmp_path: Path) -> None:
    """Foreign datagrams are sent at the desk itself: the group has its members there, too."""
    program = (
        "import socket,sys,time\n"
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex('eth0'))\n"
        "for data in sys.argv[1:]: s.sendto(bytes.fromhex(data), ('ff05::205', 61616))\n"
    )
    info = encode(HexDatagram(InfoPacket(4, HexValue(HexType.UINT8, 1)), 7)).hex()
    heard = tmp_path / "heard"
    listening = space.begin(heard, "hexabus", "listen", INTERFACE)
    awaited(space.members, lambda count: count == 1)
    space.python(program, b"HX0C0000".hex(), b"HX0B".hex(), "00", info)
    awaited(heard.read_text, lambda text: '"INFO"' in text)
    answers, talk = ended(listening, heard)
    told = [one["packet"] for one in answers if one["source"] == "fd00::2"]
    assert told == ["HX0C", "HX0B", "malformed", "INFO"]
    assert "HX0B 1, HX0C 1" in talk and "malformed 1" in talk
