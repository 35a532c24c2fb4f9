"""`albireo hexabus` without a network: programs of the user, houses in files, simulated time, datagrams in words."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.hexabus.network import DatagramsHeard, first_adapter
from albireo.codec.hexabus.house import DeviceGroup, decode_house
from albireo.codec.hexabus.packets import RELIABLE, HexDatagram, InfoPacket, PInfoPacket, QueryPacket, encode
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.field.hexabus.survey import FoundDevice, FoundEndpoint
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.endpoints import DEFAULT
from albireo.plant.house.house import DEVICES, item_table

STAIRS = """from albireo.machine.hexabus import Machine, after, at, when
from lamps import LAMP

def stairs(number):
    made = Machine(f"stairs_{number}", state="dark")
    made.on("dark", when(f"button_{number}", "button") == 1, at(LAMP).write("relay", True), go="lit")
    made.on("lit", after(90), at(LAMP).write("relay", False), go="dark")
    return made

all_of_them = [stairs(number) for number in (1, 2)]
first = all_of_them[0]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "house.csv").write_text(item_table())
    (tmp_path / "lamps.py").write_text('LAMP = "lamp_1"\n')
    (tmp_path / "stairs.py").write_text(STAIRS)
    return tmp_path


def run(*arguments: str | Path, lines: str = "") -> tuple[int, Any]:
    result = CliRunner().invoke(cli, ["hexabus", *map(str, arguments), "--json"], input=lines)
    return result.exit_code, json.loads(result.stdout.splitlines()[-1])


def compiled(site: Path, text: str) -> tuple[int, Any]:
    (site / "own.py").write_text(f"from albireo.machine.hexabus import Machine, after, at, when\n{text}")
    return run("compile", site / "own.py", "--items", site / "house.csv")


def test_machines_at_module_level_and_in_lists_are_compiled_once_each(site: Path) -> None:
    house = site / "house.json"
    code, told = run(
        "compile", site / "stairs.py", "--items", site / "house.csv", "-o", house, "--master", "fd00::1/64"
    )
    assert code == 0 and told["machines"] == ["stairs_1", "stairs_2"]
    assert told["bytes"].keys() == {one.name for one in DEVICES}
    assert all(100 < size < 2_048 for size in told["bytes"].values())
    (conflict,) = told["conflicts"]
    assert conflict == {"device": "lamp_1", "endpoint": "relay", "machines": ["stairs_1", "stairs_2"]}
    assert len(decode_house(house.read_bytes()).devices) == len(DEVICES)
    again = run("compile", house)[1]
    assert again["bytes"] == told["bytes"], "a house in a file gives the same programs"


def test_a_listing_has_the_instructions_of_each_program(site: Path) -> None:
    arguments = ["hexabus", "compile", str(site / "stairs.py"), "--items", str(site / "house.csv"), "--listing"]
    result = CliRunner().invoke(cli, arguments)
    assert "warning: lamp_1.relay is written by stairs_1 and stairs_2" in result.stderr
    assert "lamp_1:\npacket:\n0007  LD_SOURCE_EID" in result.stdout
    assert "lamp_1\t" in result.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m = 1", "binds no Machine"),
        ("m = Machine('m', state='a')\nm.on('a', when('button_9', 'button') == 1, go='b')", "no device 'button_9'"),
        ("m = Machine('m', state='a')\nm.on('b', when('tv', 'button') == 1)", "machine 'm', state 'b': nothing leads"),
        ("m = Machine('m', state='a')\n\n1 / 0", "own.py:4: ZeroDivisionError"),
        ("m = Machine('m', state='a'", "SyntaxError"),
        ("m = Machine('m', state='a')\nm.on('a', when('tv', 'button') == 1, at('tv').write('relay', 1))", "state 'a'"),
    ],
)
def test_a_program_that_means_nothing_is_a_failure_that_says_where(site: Path, text: str, reason: str) -> None:
    code, told = compiled(site, text)
    assert code == 78 and reason in told["error"] and told["remedy"]


def test_a_wrong_item_table_is_told_with_every_mistake(site: Path) -> None:
    table = item_table().replace("fd00::11", "ff05::11").replace("room_1,fd00::1c", "room_1,fd00::1d")
    (site / "house.csv").write_text(table)
    code, told = run("compile", site / "stairs.py", "--items", site / "house.csv")
    assert code == 78
    assert [one["line"] for one in told["mistakes"] if one["line"]] == [3]
    assert any("is the address of room_1, room_2" in one["text"] for one in told["mistakes"])


def test_options_that_do_not_go_with_the_house_are_wrong_usage(site: Path) -> None:
    (site / "house.json").write_text('{"devices": {}}')
    assert run("compile", site / "stairs.py")[0] == 2
    assert run("compile", site / "nothing.py", "--items", site / "house.csv")[0] == 2
    assert run("compile", site / "stairs.py", "--items", site / "house.csv", "--master", "here")[0] == 2
    assert run("compile", site / "house.json", "--items", site / "house.csv")[0] == 2
    assert run("compile", site / "house.json")[0] == 78


def test_a_house_is_simulated_by_lines_in_the_same_way_each_time(site: Path) -> None:
    lines = "button_1.button = 1\nwait 90\n"
    arguments = ("simulate", site / "stairs.py", "--items", site / "house.csv")
    code, told = run(*arguments, lines=lines)
    assert code == 0 and run(*arguments, lines=lines) == (code, told)
    first, second = told["events"]
    assert first["event"] == "button_1.button = 1"
    assert first["writes"] == [{"endpoint": "lamp_1.relay", "value": True, "is_refused": False}]
    assert (second["at_s"], second["states"]) == (90, [{"machine": "stairs_1", "before": "lit", "after": "dark"}])
    text = CliRunner().invoke(cli, ["hexabus", *map(str, arguments)], input=lines).stdout
    assert "stairs_1: lit -> dark" in text and "lamp_1.relay = false" in text
    (site / "script").write_text("button_1.button = 1\nbutton_1.bell = 1\n")
    code, told = run(*arguments, site / "script")
    assert code == 2 and "line 2: there is no button_1.bell" in told["error"] and len(told["events"]) == 1


def test_an_interface_that_is_not_there_is_a_failure(site: Path) -> None:
    for arguments in (["query", "nowhere0", "4"], ["info", "nowhere0"], ["listen", "nowhere0"]):
        code, told = run(*arguments)
        assert code == 2 and "nowhere0" in told["error"]
    assert run("query", "lo", "4", "here")[0] == 2


def test_datagrams_are_named_and_repeats_of_reliable_ones_are_marked() -> None:
    heard, source = DatagramsHeard(), HexAddress("fd00::10")
    value = HexValue(HexType.UINT8, 1)
    event = encode(HexDatagram(PInfoPacket(4, value, bytes(15) + b"\2"), 7, RELIABLE))
    plain = encode(HexDatagram(InfoPacket(4, value), 7))
    question = encode(HexDatagram(QueryPacket(4), 9))
    told = [heard.take(source, one, 0) for one in (event, plain, event, plain, question, question)]
    assert [one.is_repeat for one in told] == [False, False, True, False, False, True]
    assert not heard.take(HexAddress("fd00::11"), event, 0).is_repeat, "of another source"
    assert told[0].fields == {"eid": 4, "value": "1", "type": "UINT8", "origin": "::2"}
    named = encode(HexDatagram(PInfoPacket(4, value, DeviceGroup("up").id, place=1, parts=3), 8, RELIABLE))
    assert "origin ff15:75a2:88c0:d689:8c5f:7b05:4590:8400, place 1, parts 3" in str(heard.take(source, named, 0))
    assert "[fd00::10]:61616  PINFO eid 4, value 1" in str(told[2]) and str(told[2]).endswith("RELIABLE  AGAIN")
    others = [heard.take(source, data, 0) for data in (b"HX0C....", b"HX0B", b"HX0D\x63\0\0\1", b"")]
    assert [one.packet for one in others] == ["HX0C", "HX0B", "malformed", "malformed"]
    assert "48583044" in str(others[2])
    assert heard.counts == {"PINFO": 4, "INFO": 2, "QUERY": 2, "repeats": 2, "HX0C": 1, "HX0B": 1, "malformed": 2}


def test_names_of_items_are_made_of_what_devices_tell_and_are_unlike() -> None:
    plug = (
        FoundEndpoint(1, "Main Switch", HexType.BOOL, {}),
        FoundEndpoint(9, "control", HexType.UINT8, {}),
        FoundEndpoint(33, "2nd", HexType.BOOL, {DEFAULT: False}),
        FoundEndpoint(34, "2nd", HexType.BYTES16, {}),
        FoundEndpoint(35, "", HexType.FLOAT, {}),
    )
    devices = [FoundDevice("fd00:5::10", "Plug", plug), FoundDevice("fd00:5::11", "Plug", plug[:1])]
    devices.append(FoundDevice("fd00:5::12", "Plug Main", (FoundEndpoint(7, "Switch", HexType.BOOL, {}),)))
    adapter, table, count = first_adapter("eth7", devices)
    assert adapter.keys == {"interface": "eth7", "master": "fd00:5::1/64"}
    assert count == 5
    assert table.splitlines()[1:] == [
        "Plug_Main_Switch,Plug,fd00:5::10,Main_Switch,1,bool,true",
        "Plug_x_2nd,Plug,fd00:5::10,x_2nd,33,bool,true",
        "Plug_endpoint_35,Plug,fd00:5::10,endpoint_35,35,float,",
        "Plug_2_Main_Switch,Plug_2,fd00:5::11,Main_Switch,1,bool,true",
        "Plug_Main_Switch_2,Plug_Main,fd00:5::12,Switch,7,bool,",
    ]
