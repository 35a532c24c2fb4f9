"""Simulation of a house: lines in, events with their writes and states out, the same each time."""

import pytest

from albireo.codec.hexabus.house import House
from albireo.machine.hexabus import Machine, after, at, clock, when
from albireo.machine.hexabus.simulation import HouseSimulation
from tests.parts.compiled_house import MASTER, devices_of

KINDS = {"button": "button", "lamp_1": "relay dimmer", "lamp_2": "relay", "room": "temperature"}


def machines() -> list[Machine]:
    stairs = Machine("stairs", state="dark")
    on, off = (at("lamp_*").write("relay", value) for value in (True, False))
    stairs.on("dark", when("button", "button") == 1, on, go="lit", bad="broken")
    stairs.on("lit", after(90), off, go="dark")
    night = Machine("night", state="off")
    night.on("off", clock("22:00", "sat"), at("lamp_1").write("dimmer", 5), go="on")
    night.on("on", when("room", "temperature") < 5.5, go="off")
    return [stairs, night]


def play(*lines: str) -> list[str]:
    simulation = HouseSimulation(House(devices_of(KINDS), machines(), MASTER))
    found = [event for line in lines for event in simulation.line(line)]
    return [f"{one.at_s:g} {one.event}: {' '.join(map(str, (*one.states, *one.writes)))}".rstrip(" :") for one in found]


def test_time_passes_only_when_it_is_told_to() -> None:
    assert play("button.button = 1", "wait 89", "  # a comment", "wait 1", "button.button=0") == [
        "0 button.button = 1: stairs: dark -> lit lamp_1.relay = true lamp_2.relay = true",
        "90 stairs: 90 s in lit: stairs: lit -> dark lamp_1.relay = false lamp_2.relay = false",
        "90 button.button = 0",
    ]


def test_a_clock_time_is_waited_for_on_the_day_that_is_meant() -> None:
    assert play("clock 22:00", "clock 22:00") == [], "it begins on a Monday"
    saturday_s = 5 * 86_400 + 22 * 3_600
    lit = f"{saturday_s} clock 22:00: night: off -> on lamp_1.dimmer = 5"
    assert play("clock sat 22:00") == [lit]
    assert play("clock 06:30", "clock sat 21:59", "wait 60", "room.temperature = 4") == [
        lit,
        f"{saturday_s} room.temperature = 4.0: night: on -> off",
    ]


def test_a_time_of_day_right_before_the_begin_is_over() -> None:
    late = Machine("late", state="off")
    late.on("off", clock("23:30"), go="on")
    simulation = HouseSimulation(House(devices_of(KINDS), [late], MASTER))
    assert simulation.line("wait 3600") == []
    assert [one.event for one in simulation.line("clock 23:59")] == ["clock 23:30"]


def test_a_write_that_is_refused_leads_to_the_bad_state() -> None:
    assert play("refuse lamp_2.relay", "button.button = 1") == [
        "0 button.button = 1: stairs: dark -> lit lamp_1.relay = true lamp_2.relay = true  REFUSED",
        "0 lamp_2 could not write relay: stairs: lit -> broken",
    ]


def test_a_reset_begins_with_the_first_states_and_forgets_timers() -> None:
    assert play("button.button = 1", "wait 60", "reset", "wait 60", "button.button = 1")[1:] == [
        "60 reset: all machines begin anew",
        "120 button.button = 1: stairs: dark -> lit lamp_1.relay = true lamp_2.relay = true",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("press button", "is no line"),
        ("clock 25:00", "is no line"),
        ("lamp_9.relay = 1", r"there is no lamp_9.relay; devices are button, lamp_1"),
        ("lamp_1.power = 1", r"there is no lamp_1.power; lamp_1 has dimmer, relay"),
        ("button.button = 256", "256 is no UINT8, which button.button is"),
        ("lamp_1.relay = 2", "2 is no BOOL"),
        ("room.temperature = warm", "warm is no FLOAT"),
        ("refuse lamp_9.relay", "there is no lamp_9.relay"),
        ("wait 999999999", "are not waited"),
    ],
)
def test_a_line_that_says_nothing_is_refused_with_its_reason(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        play(line)
