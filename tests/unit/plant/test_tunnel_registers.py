"""The register map: 400 items, every kind and type, no two in one place, and words that say what was meant."""

import csv
import struct
import tomllib
from pathlib import Path

import numpy as np
import pytest

from albireo.cli.topology_file import read_topology
from albireo.field.modbus.config import ModbusConfig
from albireo.field.modbus.items import RegisterType, TableKind
from albireo.model.settings import Placement
from albireo.model.topology import Guard
from albireo.plant.tunnel import site
from albireo.plant.tunnel.physics import channels, physics
from albireo.plant.tunnel.plc.pair_area import VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import MOMENTARY, PLCS
from albireo.plant.tunnel.plc.registers import (
    EXACT_MAX,
    ItemGroup,
    Register,
    RegisterMap,
    value_of,
    words_of,
    words_of_text,
)
from albireo.plant.tunnel.tree_site import PlantNode, write_tree

EVERY = [one for plc in PLCS.values() for one in plc.registers]


def register(type_: RegisterType, *, scale: float = 1.0, word_order: str = "big") -> Register:
    row = ItemGroup(name="one", channel="one", kind=TableKind.INPUT, type=type_, scale=scale, word_order=word_order)
    return RegisterMap((row,)).registers[0]


def test_there_are_400_items_with_names_of_their_own() -> None:
    assert len(EVERY) == 400
    assert len({one.name for one in EVERY}) == 400


def test_every_kind_and_type_appears() -> None:
    assert {one.row.kind for one in EVERY} == set(TableKind)
    assert {one.row.type for one in EVERY} == set(RegisterType)
    assert {one.row.word_order for one in EVERY} == {"big", "little"}
    assert any(one.bit is not None for one in EVERY)


@pytest.mark.parametrize("plc", PLCS)
def test_no_two_items_share_a_place(plc: str) -> None:
    taken: set[tuple[TableKind, int, int | None]] = set()
    for one in PLCS[plc].registers:
        for word in range(one.words):
            place = (one.row.kind, one.address + word, one.bit)
            assert place not in taken, one.name
            taken.add(place)


def test_suppressing_items_exist_and_are_switches() -> None:
    switches = {one.name for one in EVERY if one.row.type is RegisterType.BOOL}
    suppressing = {one.alarm.suppressed_by for one in EVERY if one.alarm is not None}
    assert suppressing - {""} <= switches


def test_momentary_coils_exist() -> None:
    assert MOMENTARY <= {one.name for one in EVERY if one.row.kind is TableKind.COIL and one.row.is_writable}


@pytest.mark.parametrize(
    ("type_", "value", "packed"),
    [
        (RegisterType.INT16, -2, struct.pack(">h", -2)),
        (RegisterType.UINT16, 65_535, struct.pack(">H", 65_535)),
        (RegisterType.INT32, -70_000, struct.pack(">i", -70_000)),
        (RegisterType.UINT32, 4_000_000_000, struct.pack(">I", 4_000_000_000)),
        (RegisterType.INT64, -(2**40), struct.pack(">q", -(2**40))),
        (RegisterType.UINT64, 2**45, struct.pack(">Q", 2**45)),
        (RegisterType.FLOAT32, 1.5, struct.pack(">f", 1.5)),
        (RegisterType.FLOAT64, -0.1, struct.pack(">d", -0.1)),
    ],
)
@pytest.mark.parametrize("word_order", ["big", "little"])
def test_words_are_big_endian_and_come_back(type_: RegisterType, value: float, packed: bytes, word_order: str) -> None:
    one = register(type_, word_order=word_order)
    image = RegisterMap((one.row,)).encode(np.array([float(value)]))[TableKind.INPUT]
    expected = list(struct.unpack(f">{len(packed) // 2}H", packed))
    assert image.tolist() == (expected if word_order == "big" else expected[::-1])
    assert value_of(image.tolist(), one) == value


def test_integers_are_rounded_and_held_at_their_ends() -> None:
    words = words_of(np.array([-5.0, 70_000.0, 1.6]), RegisterType.UINT16)
    assert words[:, 0].tolist() == [0, 65_535, 2]
    assert (
        value_of(words_of(np.array([1e300]), RegisterType.UINT64)[0].tolist(), register(RegisterType.UINT64))
        == EXACT_MAX
    )


def test_scale_makes_raw_values() -> None:
    one = register(RegisterType.UINT16, scale=0.1)
    assert RegisterMap((one.row,)).encode(np.array([12.34]))[TableKind.INPUT].tolist() == [123]


def test_switches_share_a_status_word() -> None:
    row = ItemGroup(name="door_{n}", channel="door", count=18, kind=TableKind.INPUT, type=RegisterType.BOOL)
    table = RegisterMap((row, ItemGroup(name="next", channel="next", kind=TableKind.INPUT, type=RegisterType.UINT16)))
    values = np.zeros(19)
    values[[0, 3, 17, 18]] = [1, 1, 1, 7]
    assert table.encode(values)[TableKind.INPUT].tolist() == [0b1001, 0b10, 7]
    assert [one.address for one in table.registers] == [0] * 16 + [1, 1, 2]


def test_text_is_cut_and_padded() -> None:
    assert words_of_text("AB") == [0x4142] + [0] * 7
    assert len(words_of_text("x" * 99)) == 8
    assert words_of_text("ä")[0] == 0x3F00, "what is no ASCII becomes a question mark"


@pytest.mark.parametrize("plc", PLCS)
def test_an_image_holds_what_the_channels_show(plc: str) -> None:
    table = PLCS[plc]
    shown = channels.read(physics.initial(seed=1))
    image = table.encode(table.gathered(shown))
    for one in table.live:
        words = image[one.row.kind][one.address : one.address + one.words].tolist()
        if one.bit is not None:
            words = [words[0] >> one.bit & 1]
        resolution = one.row.scale if one.row.type not in (RegisterType.FLOAT32, RegisterType.FLOAT64) else 1e-3
        expected = float(shown[one.row.channel][one.index])
        assert value_of(words, one) == pytest.approx(expected, abs=resolution, rel=1e-6), one.name


def test_the_site_is_good_for_a_node(tmp_path: Path) -> None:
    """The checker of topologies takes it as it is, without a warning, and finds 400 items."""
    path = site.write_site(tmp_path / "site", {"p1": 15_020, "p2": 15_021})
    loaded = read_topology(path)
    assert loaded.warnings == ()
    assert sum(len(one["items"]) for adapters in loaded.arguments.values() for one in adapters) == 400
    assert [one.url for one in loaded.topology.node[0].adapter] == [
        "tcp://127.0.0.1:15020",
        "tcp://127.0.0.1:15021",
        "",
    ]
    assert tomllib.loads(path.read_text())["cluster"] == str(site.CLUSTER)


def test_a_tree_of_tunnels_is_good_for_its_nodes(tmp_path: Path) -> None:
    """The checker takes it without a warning. PLCs vote, and have mailboxes, where a pair polls them."""
    at = [f"tcp://127.0.0.1:{port}" for port in range(15_100, 15_110)]
    voters = ("plc:p1", "plc:p2", "witness:w1")
    nodes = [
        PlantNode(id="root", label="Centre", clients=(at[0], at[1]), peers=(at[2], at[3]), voters=("witness:w1",)),
        PlantNode(id="root/north", label="North", clients=(at[4],), ports={"p1": 1, "p2": 2}, dial=(at[8], at[9])),
        PlantNode(
            id="root/south",
            label="South",
            clients=(at[5], at[6]),
            peers=(at[7], "tcp://127.0.0.1:15110"),
            voters=voters,
            ports={"p1": 3, "p2": 4},
            guard=Guard.PLC,
            placement=Placement.THREAD,
        ),
    ]
    loaded = read_topology(write_tree(tmp_path, nodes, "tcp://127.0.0.1:15111"))
    assert loaded.warnings == ()
    root, north, south = loaded.topology.node
    assert [one.url for one in south.adapter] == ["tcp://127.0.0.1:3", "tcp://127.0.0.1:4", ""]
    modbus = [one for one in (*north.adapter, *south.adapter) if isinstance(one, ModbusConfig)]
    assert [one.voter_address for one in modbus] == [None, None, *[VOTER_ADDRESS] * 2]
    assert (south.runtime.placement, root.runtime.placement) == (Placement.THREAD, Placement.PROCESS)
    assert north.uplink.dial == (at[8], at[9])


def test_a_row_says_what_its_register_is(tmp_path: Path) -> None:
    site.write_site(tmp_path, {"p1": 1, "p2": 2})
    with (tmp_path / "p1.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    trip = rows["fan_3_trip"]
    assert (trip["kind"], trip["off_normal"], trip["latched"], trip["severity"]) == ("discrete", "true", "true", "700")
    assert rows["fan_3_vibration"]["suppressed_by"] == "fan_3_off"
    assert rows["co_setpoint"]["writable"] == "true" and rows["co_setpoint"]["maximum"] == "100"
    assert rows["sign_text"]["length"] == "16"
