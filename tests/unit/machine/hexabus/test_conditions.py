"""Conditions: patterns and groups, several endpoints, events in a row; mistakes in words."""

from collections.abc import Callable
from typing import Final

import pytest

from albireo.codec.hexabus.house import AllOf, AnyOf, EventCondition, House, HouseDevice
from albireo.machine.hexabus import Machine, after, at, clock, group, when
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.meaning import CompileError, WriteConflict, conflicts_of
from tests.parts.compiled_house import ENDPOINTS, MASTER, CompiledHouse, Writes, devices_of

KINDS: Final = {
    "button_1": "button",
    "button_2": "button",
    "room": "temperature",
    "plug": "power relay",
    "lamp_1": "relay",
    "lamp_2": "relay",
}
GROUPS: Final = {"button_1": "up", "lamp_1": "up night", "lamp_2": "night"}
HEATS: Final[Writes] = [("plug", "relay", True)]


def house_of(*conditions: EventCondition | AllOf | AnyOf) -> CompiledHouse:
    """The plug goes on with each condition, and stays in its state."""
    machine = Machine("one", state="a")
    for one in conditions:
        machine.on("a", one, at("plug").write("relay", True))
    return CompiledHouse(KINDS, [machine], GROUPS)


def test_a_pattern_or_a_group_means_all_of_its_devices() -> None:
    machine = Machine("stairs", state="dark")
    machine.on("dark", when("button_*", "button") == 1, at(group("night")).write("relay", True), go="lit")
    machine.on("lit", when(group("up"), "relay") == 1, go="dark")
    machine.on("lit", when("button_?", "button") == 2, at("lamp_[2]").write("relay", False), go="dark")
    with pytest.raises(CompileError, match="state 'lit': button_1 has no endpoint 'relay'; it has button"):
        CompiledHouse(KINDS, [machine], GROUPS)
    del machine.transitions[1]
    house = CompiledHouse(KINDS, [machine], GROUPS)
    lit = [("lamp_1", "relay", True), ("lamp_2", "relay", True)]
    assert house.tell("button_2", "button", 1) == lit
    assert house.tell("button_1", "button", 2) == [("lamp_2", "relay", False)]
    assert house.tell("button_1", "button", 1) == lit


def test_a_pattern_means_endpoints_of_several_datatypes() -> None:
    devices = devices_of({"m_1": "power", "m_2": "temperature", "plug": "relay"})
    warm = HouseDevice(devices["m_2"].origin, {"power": ENDPOINTS["temperature"]})
    machine = Machine("one", state="a")
    machine.on("a", when("m_*", "power") > 5, at("plug").write("relay", True))
    house = CompiledHouse({**devices, "m_2": warm}, [machine])
    assert house.tell("m_1", "power", 6) == house.tell("m_2", "power", 5.5) == HEATS
    assert house.tell("m_1", "power", 5) == house.tell("m_2", "power", 5.0) == []


def test_a_condition_on_two_endpoints_looks_at_last_values_of_which_none_is_zero_before_it_was_told() -> None:
    house = house_of((when("room", "temperature") < 18) & (when("plug", "power") < 5))
    assert house.tell("room", "temperature", 17.5) == [], "the power is unknown, and not zero"
    assert house.tell("plug", "power", 4) == HEATS
    assert house.tell("button_1", "button", 1) == [], "it is looked at when one of its endpoints tells"
    assert house.tell("plug", "power", 5) == [] and house.tell("room", "temperature", 10.0) == []
    assert house.tell("plug", "power", 0) == HEATS and house.tell("room", "temperature", 18.0) == []
    assert house.tell("room", "temperature", -3.0) == HEATS


def test_one_of_several_and_the_opposite() -> None:
    cold, idle = when("room", "temperature") < 18, when("plug", "power") < 5
    house = house_of(cold | idle)
    assert house.tell("plug", "power", 9) == [] and house.tell("room", "temperature", 17.0) == HEATS
    assert house.tell("plug", "power", 9) == HEATS, "it is still cold"
    house = house_of(~(cold | idle))
    assert house.tell("plug", "power", 9) == [], "the temperature is unknown, so it is not known to be warm"
    assert house.tell("room", "temperature", 18.0) == HEATS and house.tell("plug", "power", 4) == []
    assert house_of(~cold).tell("room", "temperature", 18.0) == HEATS


def test_the_opposite_of_some_device_is_each_device() -> None:
    house = house_of(~(when("button_*", "button") == 1))
    assert house.tell("button_1", "button", 0) == [], "nobody knows of the second one"
    assert house.tell("button_2", "button", 1) == [] and house.tell("button_2", "button", 0) == HEATS
    assert house.tell("button_1", "button", 1) == []
    first, second = when("button_1", "button") == 1, when("button_2", "button") == 1
    assert (first & second & first).parts == (first, second, first) and ~~(first & second) == first & second
    assert ~(first | second) == ~first & ~second


def test_last_values_are_kept_in_all_states() -> None:
    machine = Machine("one", state="a")
    machine.on("a", when("button_1", "button") == 1, go="b")
    machine.on("b", (when("room", "temperature") < 18) & (when("button_1", "button") == 2), go="c")
    house = CompiledHouse(KINDS, [machine])
    house.tell("room", "temperature", 17.0)
    house.tell("button_1", "button", 1)
    house.tell("button_1", "button", 2)
    assert house.states() == ["c"]


def test_events_in_a_row_are_counted_in_one_state() -> None:
    house = house_of((when("button_*", "button") > 1).in_a_row(3))
    found = [
        house.tell(*one) for one in (("button_1", "button", 2), ("button_2", "button", 3), ("room", "temperature", 0))
    ]
    assert found == [[], [], []] and house.tell("button_1", "button", 2) == HEATS
    found = [house.tell("button_1", "button", one) for one in (2, 2, 1, 2, 2)]
    assert found == [[]] * 5 and house.tell("button_2", "button", 9) == HEATS
    with pytest.raises(TypeError, match="no opposite"):
        ~when("a", "b").__eq__(1).in_a_row(2)
    for samples in (0, 256):
        with pytest.raises(ValueError, match="can't be counted"):
            (when("a", "b") == 1).in_a_row(samples)


def test_a_condition_is_neither_true_nor_false() -> None:
    one = when("a", "b") == 1
    for work in (lambda: one and one, lambda: 1 < when("a", "b") < 3, lambda: not one):
        with pytest.raises(TypeError, match=r"use &, \| and ~"):
            work()
    with pytest.raises(TypeError, match="unsupported operand"):
        one & after(5)  # type: ignore[operator]
    for value in (float("nan"), float("inf"), "x"):
        with pytest.raises(TypeError, match="no number"):
            at("a").write("b", value)  # type: ignore[arg-type]


Says = Callable[[Machine], object]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (lambda one: one.on("a", when("door_*", "button") == 1), "machine 'one', state 'a': there is no device 'door_"),
        (lambda one: one.on("a", when(group("x"), "relay") == 1), "in the group 'x'; there are the groups night, up$"),
        (lambda one: one.on("a", after(1), at(group("x")).write("relay", True)), "no device is in the group 'x'"),
        (lambda one: one.on("a", when("*", "relay") == 1), "button_1 has no endpoint 'relay'"),
        (lambda one: one.on("a", when("plug", "power") == 10**400), "0 is no UINT32, which plug.power is"),
        (lambda one: one.on("a", when("room", "temperature") == 10**400), "0 is no FLOAT, which room.temperature is"),
        (lambda one: one.on("a", after(1), bad="b"), "nothing is written that could lead to 'b'"),
        (lambda one: one.on("b", after(1), go="a"), "machine 'one', state 'b': nothing leads to this state"),
        (lambda one: one.on("b", after(1)), "nothing leads to this state"),
        (
            lambda one: one.on("a", (when("plug", "power") == 1) & (when("plug", "power") == 1).in_a_row(2)),
            "events in a row are counted by a condition of their own",
        ),
    ],
)
def test_a_mistake_is_told_with_its_machine_and_state(says: Says, why: str) -> None:
    machine = Machine("one", state="a")
    says(machine)
    with pytest.raises(CompileError, match=why):
        compiled(House(devices_of(KINDS, GROUPS), [machine], MASTER), None)


def test_what_a_device_has_no_room_for_is_refused() -> None:
    kinds = {f"room_{number}": "temperature" for number in range(26)}
    machine = Machine("one", state="a")
    machine.on("a", ~(when("room_*", "temperature") < 18), go="b")
    with pytest.raises(CompileError, match="last values of 26 endpoints need 133 bytes, and a device has room for 127"):
        compiled(House(devices_of(kinds), [machine], MASTER), None)
    del kinds["room_0"], kinds["room_1"]
    assert compiled(House(devices_of(kinds), [machine], MASTER), None)
    many = {f"b_{number}": "button" for number in range(256)}
    machine = Machine("one", state="a")
    machine.on("a", when("b_*", "button") == 1, go="b")
    with pytest.raises(CompileError, match="256 endpoints in conditions are more than 255"):
        compiled(House(devices_of(many), [machine], MASTER), None)
    writers = [Machine(f"m{number}", state="a") for number in range(26)]
    for machine in writers:
        machine.on("a", when("plug", "relay") == 1, at("plug").write("relay", True))
    devices = devices_of({"plug": "relay"})
    with pytest.raises(CompileError, match="the program of plug has 2,076 bytes, and there is room for 2,048"):
        compiled(House(devices, writers, MASTER), "plug")
    assert compiled(House(devices, writers, MASTER), None)
    assert CompiledHouse(devices, writers[1:]).tell("plug", "relay", 1) == HEATS * 25
    with pytest.raises(CompileError, match="two machines have the name 'm3'"):
        compiled(House(devices_of(KINDS), [*writers[:5], writers[3]], MASTER), None)


def test_machines_that_write_one_endpoint_are_listed_and_the_last_one_counts() -> None:
    machines = []
    for name, where, value in (("left", "lamp_*", True), ("right", "lamp_1", False), ("up", "plug", True)):
        machines.append(Machine(name, state="a"))
        machines[-1].on("a", when("room", "temperature") < 18, at(where).write("relay", value))
        machines[-1].on("a", clock("06:30"), at(where).write("relay", value))
    house = CompiledHouse(KINDS, machines)
    assert conflicts_of(house.house) == [WriteConflict("lamp_1", "relay", ("left", "right"))]
    assert house.tell("room", "temperature", 1.0) == [
        *HEATS, ("lamp_1", "relay", True), ("lamp_1", "relay", False), ("lamp_2", "relay", True),
    ]  # fmt: skip
