"""Machines that are described, compiled, and run by all devices of a house on one order of events."""

from typing import Final

import pytest

from albireo.codec.hexabus.house import House, Relation
from albireo.codec.hexabus.program import PROGRAM_BYTES_MAX, SmOp, decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, after, at, when
from albireo.machine.hexabus.compiler import MACHINES_MAX, TIMER, compiled
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.vm import SmEvent
from albireo.model.instant import SECOND, Instant
from tests.parts.compiled_house import ENDPOINTS, MASTER, CompiledHouse, devices_of

KINDS: Final = {
    "button_1": "button",
    "lamp_1": "relay",
    "lamp_2": "relay",
    "room": "temperature",
    "heater": "relay",
}
DEVICES: Final = devices_of(KINDS)
BUTTON: Final = ENDPOINTS["button"]


def stairs() -> Machine:
    made = Machine("stairs", state="dark")
    made.on("dark", when("button_1", "button") == 1, at("lamp_*").write("relay", True), go="lit")
    made.on("lit", after(90), at("lamp_*").write("relay", False), go="dark")
    return made


def heating() -> Machine:
    made = Machine("heating", state="off")
    made.on("off", when("room", "temperature") < 20.0, at("heater").write("relay", True), go="on")
    made.on("on", when("room", "temperature") >= 22.5, at("heater").write("relay", False), go="off")
    return made


LIGHTS_ON: Final = [("lamp_1", "relay", True), ("lamp_2", "relay", True)]
LIGHTS_OFF: Final = [("lamp_1", "relay", False), ("lamp_2", "relay", False)]


def test_the_staircase_of_the_first_page() -> None:
    world = CompiledHouse(KINDS, [stairs()])
    assert world.tell("button_1", "button", 0) == [] and world.silent.deadline() is None
    assert world.tell("button_1", "button", 1) == LIGHTS_ON and world.silent.state(0) == "lit"
    assert world.wait(89) == [] and world.silent.deadline() == 90 * SECOND
    assert world.tell("button_1", "button", 1) == [], "a transition that is not there"
    assert world.wait(1) == LIGHTS_OFF and world.silent.state(0) == "dark"
    assert world.silent.deadline() is None and world.wait(1_000) == []
    assert world.tell("button_1", "button", 1) == LIGHTS_ON


def test_a_timer_that_comes_too_late_means_nothing() -> None:
    machine = stairs()
    machine.on("lit", when("button_1", "button") == 2, go="dark")
    world = CompiledHouse(KINDS, [machine])
    world.tell("button_1", "button", 1)
    world.now = Instant(90 * SECOND)
    (late,) = world.silent.due(world.now)
    world.tell("button_1", "button", 2)
    world.tell("button_1", "button", 1)
    assert world.act(late) == [] and world.silent.state(0) == "lit"
    assert world.wait(90) == LIGHTS_OFF


def test_machines_of_a_house_do_not_disturb_each_other() -> None:
    world = CompiledHouse(KINDS, [heating(), stairs()])
    assert world.tell("room", "temperature", 20.5) == []
    assert world.tell("room", "temperature", 19.5) == [("heater", "relay", True)]
    assert world.tell("button_1", "button", 1) == LIGHTS_ON
    assert world.tell("room", "temperature", 22.5) == [("heater", "relay", False)]
    assert (world.silent.state(0), world.silent.state(1)) == ("off", "lit")
    assert world.wait(90) == LIGHTS_OFF


@pytest.mark.parametrize("comparison", Relation)
@pytest.mark.parametrize("value", [3, 4, 5])
def test_each_comparison_means_what_it_says(comparison: Relation, value: int) -> None:
    watched = when("button_1", "button")
    conditions = {
        Relation.EQUAL: watched == 4,
        Relation.UNEQUAL: watched != 4,
        Relation.LESS: watched < 4,
        Relation.LESS_OR_EQUAL: watched <= 4,
        Relation.GREATER: watched > 4,
        Relation.GREATER_OR_EQUAL: watched >= 4,
    }
    machine = Machine("one", state="a")
    machine.on("a", conditions[comparison], at("lamp_1").write("relay", True), go="b")
    expected = {
        Relation.EQUAL: value == 4,
        Relation.UNEQUAL: value != 4,
        Relation.LESS: value < 4,
        Relation.LESS_OR_EQUAL: value <= 4,
        Relation.GREATER: value > 4,
        Relation.GREATER_OR_EQUAL: value >= 4,
    }[comparison]
    assert bool(CompiledHouse(KINDS, [machine]).tell("button_1", "button", value)) == expected
    program = decode_program(compiled(House(DEVICES, [machine], MASTER), "lamp_1"))
    assert program is not None
    assert SmOp.CMP_LE not in {one.op for one in program.instructions.values()}


def test_the_first_transition_that_is_met_is_taken_and_the_value_of_another_device_is_not() -> None:
    machine = Machine("one", state="a")
    machine.on("a", when("button_1", "button") > 0, at("lamp_1").write("relay", True))
    machine.on("a", when("button_1", "button") > 1, at("lamp_2").write("relay", True), go="b")
    world = CompiledHouse(KINDS, [machine])
    assert world.tell("button_1", "button", 5) == [("lamp_1", "relay", True)] and world.silent.state(0) == "a"
    other = SmEvent(DEVICES["lamp_1"].origin, BUTTON.eid, HexValue(HexType.UINT8, 5))
    assert world.act(other) == []
    assert world.act(SmEvent(DEVICES["button_1"].origin, TIMER, HexValue(HexType.UINT32, 0))) == []


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (lambda one: one.on("a", when("nobody", "button") == 1), "no device 'nobody'"),
        (lambda one: one.on("a", when("lamp_1", "button") == 1), "no endpoint 'button'; it has relay"),
        (lambda one: one.on("a", after(1), at("door_*").write("relay", True)), "there is no device 'door_\\*'"),
        (lambda one: one.on("a", after(1), at("button_1").write("relay", True)), "no endpoint 'relay'"),
        (lambda one: one.on("a", after(1), at("lamp_1").write("relay", 2)), "2 is no BOOL, which lamp_1.relay is"),
        (lambda one: one.on("a", when("button_1", "button") == 256), "256 is no UINT8"),
        (lambda one: one.on("a", when("button_1", "button") == 0.5), "0.5 is no UINT8"),
        (lambda one: [one.on(f"s{number}", after(1), go="a") for number in range(300)], "more than 255"),
        (lambda one: [one.on("a", after(1), at("lamp_1").write("relay", True)) for _ in range(100)], "bytes"),
    ],
)
def test_what_can_not_be_compiled_is_named(machine: object, why: str) -> None:
    one = Machine("one", state="a")
    machine(one)  # type: ignore[operator]
    with pytest.raises(CompileError, match=why):
        compiled(House(DEVICES, [one], MASTER), "lamp_1")


def test_bounds() -> None:
    many = [Machine(f"m{number}", state="a") for number in range(MACHINES_MAX + 1)]
    with pytest.raises(CompileError, match="for which a device has room"):
        compiled(House(DEVICES, many, MASTER), None)
    assert len(compiled(House(DEVICES, many[1:], MASTER), None)) <= PROGRAM_BYTES_MAX
    for seconds in (0, -1, 2**31):
        with pytest.raises(ValueError, match="no time to wait"):
            after(seconds)
    with pytest.raises(TypeError, match="no number"):
        when("a", "b") == "x"  # noqa: B015  # It describes.
