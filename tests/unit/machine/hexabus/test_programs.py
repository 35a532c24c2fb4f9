"""The fourteen programs of the original, by what they do, written anew: each is compiled for all devices and played.

Reference of the wire, section 6. What the original writes as classes of machines are functions that return machines.
"""

from albireo.codec.hexabus.program import PROGRAM_BYTES_MAX
from albireo.machine.hexabus import Machine, after, at, clock, when
from albireo.machine.hexabus.compiler import compiled
from tests.parts.compiled_house import DAY, MONDAY, CompiledHouse


def test_1_staircase_light() -> None:
    machine = Machine("stairs", state="day")
    machine.on("day", when("sky", "button") == 0, go="dark")
    machine.on("dark", when("sky", "button") == 1, go="day")
    machine.on("dark", when("press", "button") == 1, at("lamp_*").write("relay", True), go="lit")
    machine.on("lit", after(90), at("lamp_*").write("relay", False), go="dark")
    house = CompiledHouse({"sky": "button", "press": "button", "lamp_1": "relay", "lamp_2": "relay"}, [machine])
    assert house.tell("press", "button", 1) == [], "it is day"
    house.tell("sky", "button", 0)
    assert house.tell("press", "button", 1) == [("lamp_1", "relay", True), ("lamp_2", "relay", True)]
    assert house.wait(90) == [("lamp_1", "relay", False), ("lamp_2", "relay", False)] and house.states() == ["dark"]


def test_2_toggle_with_a_safety_timeout() -> None:
    machine = Machine("plug", state="off")
    machine.on("off", when("plug", "button") == 1, at("plug").write("relay", True), go="on")
    machine.on("on", when("plug", "button") == 1, at("plug").write("relay", False), go="off")
    machine.on("on", after(1_200), at("plug").write("relay", False), go="off")
    house = CompiledHouse({"plug": "button relay"}, [machine])
    assert house.tell("plug", "button", 1) == [("plug", "relay", True)]
    assert house.tell("plug", "button", 1) == [("plug", "relay", False)] and house.wait(1_200) == []
    house.tell("plug", "button", 1)
    assert house.wait(1_199) == [] and house.wait(1) == [("plug", "relay", False)]


def thermostat(name: str, room: str, heater: str, low: float) -> Machine:
    machine = Machine(name, state="off")
    machine.on("off", when(room, "temperature") < low, at(heater).write("relay", True), go="on")
    machine.on("on", when(room, "temperature") > low + 1.5, at(heater).write("relay", False), go="off")
    return machine


def test_3_one_thermostat_twice() -> None:
    kinds = {"hall": "temperature", "hall_heater": "relay", "bath": "temperature", "bath_heater": "relay"}
    house = CompiledHouse(
        kinds, [thermostat("hall", "hall", "hall_heater", 18.0), thermostat("bath", "bath", "bath_heater", 22.0)]
    )
    assert house.tell("hall", "temperature", 20.0) == [] and house.tell("bath", "temperature", 20.0) == [
        ("bath_heater", "relay", True)
    ]
    assert house.tell("hall", "temperature", 17.5) == [("hall_heater", "relay", True)]
    assert house.tell("bath", "temperature", 23.6) == [("bath_heater", "relay", False)]
    assert house.states() == ["on", "off"]


def test_4_and_5_two_devices_as_one_by_a_third_ones_codes() -> None:
    machine = Machine("pair", state="off")
    machine.on("off", when("box", "code") == 12, at("plug_*").write("relay", True), go="on")
    machine.on("on", when("box", "code") == 13, at("plug_*").write("relay", False), go="off")
    house = CompiledHouse({"box": "code", "plug_1": "relay", "plug_2": "relay"}, [machine])
    assert house.tell("box", "code", 13) == []
    assert house.tell("box", "code", 12) == [("plug_1", "relay", True), ("plug_2", "relay", True)]
    assert house.tell("box", "code", 13) == [("plug_1", "relay", False), ("plug_2", "relay", False)]


def saver() -> Machine:
    machine = Machine("saver", state="on")
    machine.on("on", when("plug", "power") < 10, go="idle")
    machine.on("idle", when("plug", "power") >= 10, go="on")
    machine.on("idle", after(60), at("plug").write("relay", False), go="cut")
    machine.on("cut", when("plug", "button") == 1, at("plug").write("relay", True), go="on")
    return machine


def test_6_and_12_a_plug_that_saves_and_is_brought_back() -> None:
    house = CompiledHouse({"plug": "power button relay"}, [saver()])
    house.tell("plug", "power", 4)
    assert house.wait(59) == [] and house.tell("plug", "power", 50) == [] and house.wait(60) == []
    house.tell("plug", "power", 4)
    assert house.wait(60) == [("plug", "relay", False)] and house.states() == ["cut"]
    assert house.tell("plug", "button", 1) == [("plug", "relay", True)] and house.states() == ["on"]


def test_7_heating_in_two_stages_with_hysteresis() -> None:
    machine = Machine("heater", state="off")
    machine.on("off", when("room", "temperature") < 16.0, at("heater").write("dimmer", 100), go="full")
    machine.on("off", when("room", "temperature") < 19.0, at("heater").write("dimmer", 50), go="half")
    machine.on("off", when("room", "humidity") > 80.0, at("heater").write("dimmer", 50), go="half")
    machine.on("half", when("room", "temperature") < 16.0, at("heater").write("dimmer", 100), go="full")
    machine.on("half", when("room", "temperature") >= 21.0, at("heater").write("dimmer", 0), go="off")
    machine.on("full", when("room", "temperature") >= 18.0, at("heater").write("dimmer", 50), go="half")
    house = CompiledHouse({"room": "temperature humidity", "heater": "dimmer"}, [machine])
    seen = [house.tell("room", "temperature", one) for one in (18.5, 15.0, 17.0, 18.0, 20.5, 21.0)]
    assert [one[0][2] if one else None for one in seen] == [50, 100, None, 50, None, 0]
    assert house.tell("room", "humidity", 85.0) == [("heater", "dimmer", 50)]


def test_8_a_remote_control_for_groups_of_plugs() -> None:
    machine = Machine("media", state="off")
    machine.on("off", when("remote", "code") == 1, at("tv_*").write("relay", True), go="film")
    machine.on(
        "film",
        when("remote", "code") == 2,
        at("tv_*").write("relay", False),
        at("hifi").write("relay", True),
        go="music",
    )
    machine.on("music", when("remote", "code") == 0, at("*i*").write("relay", False), go="off")
    house = CompiledHouse({"remote": "code", "tv_set": "relay", "tv_box": "relay", "hifi": "relay"}, [machine])
    assert house.tell("remote", "code", 1) == [("tv_set", "relay", True), ("tv_box", "relay", True)]
    assert sorted(house.tell("remote", "code", 2)) == [
        ("hifi", "relay", True), ("tv_box", "relay", False), ("tv_set", "relay", False),
    ]  # fmt: skip
    assert house.tell("remote", "code", 0) == [("hifi", "relay", False)]


def test_9_two_machines_that_drive_one_light_agree_at_all_devices_whatever_comes_of_it() -> None:
    machines = []
    for name in ("left", "right"):
        machine = Machine(name, state="off")
        machine.on("off", when(name, "button") == 1, at("lamp").write("relay", True), go="on")
        machine.on("on", when(name, "button") == 1, at("lamp").write("relay", False), go="off")
        machines.append(machine)
    house = CompiledHouse({"left": "button", "right": "button", "lamp": "relay"}, machines)
    assert house.tell("left", "button", 1) == house.tell("right", "button", 1) == [("lamp", "relay", True)]
    assert house.tell("left", "button", 1) == [("lamp", "relay", False)] and house.states() == ["off", "on"]


def test_10_a_timer_switch_by_remote_codes() -> None:
    machine = Machine("switch", state="off")
    machine.on("off", when("remote", "code") == 7, at("plug").write("relay", True), go="on")
    machine.on("on", when("remote", "code") == 8, go="going")
    machine.on("going", when("remote", "code") == 7, go="on")
    machine.on("going", after(3), at("plug").write("relay", False), go="off")
    house = CompiledHouse({"remote": "code", "plug": "relay"}, [machine])
    assert house.tell("remote", "code", 7) == [("plug", "relay", True)]
    house.tell("remote", "code", 8)
    house.tell("remote", "code", 7)
    assert house.wait(3) == [] and house.states() == ["on"]
    house.tell("remote", "code", 8)
    assert house.wait(3) == [("plug", "relay", False)]


def test_11_slaves_follow_their_master() -> None:
    machine = Machine("desk", state="off")
    machine.on("off", when("computer", "power") >= 40, at("slave_*").write("relay", True), go="on")
    machine.on("on", when("computer", "power") < 40, at("slave_*").write("relay", False), go="off")
    house = CompiledHouse({"computer": "power", "slave_1": "relay", "slave_2": "relay"}, [machine])
    assert len(house.tell("computer", "power", 120)) == 2 and house.tell("computer", "power", 90) == []
    assert house.tell("computer", "power", 12) == [("slave_1", "relay", False), ("slave_2", "relay", False)]


def production(name: str, meter: str, high: int, low: int, on_s: int, off_s: int) -> Machine:
    """A consumer that runs while there is production: five values in a row say so, and no state lasts too long."""
    machine, relay = Machine(name, state="off"), at(name)
    for state, other, is_so, longest_s in (
        ("off", "on", when(meter, "power") >= high, off_s),
        ("on", "off", when(name, "power") < low, on_s),
    ):
        for condition in (is_so.in_a_row(5), when(name, "button") == 1, after(longest_s)):
            machine.on(state, condition, relay.write("relay", other == "on"), go=other)
    return machine


def test_13_a_consumer_that_runs_while_there_is_production() -> None:
    house = CompiledHouse(
        {"roof": "power", "pump": "power button relay"}, [production("pump", "roof", 900, 20, 60, 600)]
    )
    for value in (900, 1_000, 899, 900, 900, 900, 900):
        assert house.tell("roof", "power", value) == [], "five in a row are needed, and one was too small"
    assert house.tell("pump", "power", 1_000) == [], "another meter"
    assert house.tell("roof", "power", 900) == [("pump", "relay", True)]
    for value in (19, 19, 19, 19, 20, 0, 0, 0, 0):
        assert house.tell("pump", "power", value) == []
    assert house.wait(59) == [] and house.wait(1) == [("pump", "relay", False)], "values did not prolong its time"
    for _ in range(4):
        assert house.tell("roof", "power", 900) == []
    assert house.tell("pump", "button", 1) == [("pump", "relay", True)], "somebody says so"
    for _ in range(4):
        assert house.tell("pump", "power", 0) == []
    assert house.tell("pump", "power", 0) == [("pump", "relay", False)], "counted anew in this state"
    assert house.wait(600) == [("pump", "relay", True)] and house.states() == ["on"]
    assert 3 * len(compiled(house.house, "pump")) < PROGRAM_BYTES_MAX


def test_14_a_threshold_with_least_times_on_and_off_and_a_button() -> None:
    machine = Machine("pump", state="off")
    machine.on("off", when("roof", "power") > 1_000, at("pump").write("relay", True), go="least")
    machine.on("least", after(300), go="on")
    machine.on("on", when("roof", "power") < 800, at("pump").write("relay", False), go="rest")
    machine.on("on", after(3_600), at("pump").write("relay", False), go="rest")
    machine.on("rest", after(600), go="off")
    machine.on("rest", when("pump", "button") == 1, at("pump").write("relay", True), go="least")
    house = CompiledHouse({"roof": "power", "pump": "relay button"}, [machine])
    assert house.tell("roof", "power", 1_500) == [("pump", "relay", True)]
    assert house.tell("roof", "power", 100) == [], "not before its least time"
    assert house.wait(300) == [] and house.tell("roof", "power", 100) == [("pump", "relay", False)]
    assert house.tell("roof", "power", 1_500) == [], "not before it has rested"
    assert house.tell("pump", "button", 1) == [("pump", "relay", True)], "unless somebody says so"
    house.wait(300)
    assert house.wait(3_600) == [("pump", "relay", False)] and house.states() == ["rest"]
    house.wait(600)
    assert house.states() == ["off"]


def simple_switch(button: str, lamp: str) -> Machine:
    machine = Machine(lamp, state="off")
    machine.on("off", when(button, "button") == 1, at(lamp).write("relay", True), go="on")
    machine.on("on", when(button, "button") == 1, at(lamp).write("relay", False), go="off")
    return machine


def test_14_a_simple_switch_with_devices_as_parameters() -> None:
    kinds = {"door": "button", "bed": "button", "lamp": "relay", "night": "relay"}
    house = CompiledHouse(kinds, [simple_switch("door", "lamp"), simple_switch("bed", "night")])
    assert house.tell("door", "button", 1) == [("lamp", "relay", True)] and house.states() == ["on", "off"]
    assert house.tell("door", "button", 0) == [] and house.tell("door", "button", 1) == [("lamp", "relay", False)]
    assert house.tell("bed", "button", 1) == [("night", "relay", True)]


def timetable(plug: str, days: str, *times: tuple[str, bool]) -> Machine:
    """A plug that goes on and off at times of day, whatever its state was."""
    machine = Machine(plug, state="known")
    for time, is_on in times:
        machine.on("known", clock(time, days), at(plug).write("relay", is_on))
    return machine


def test_14_a_timetable_by_hour_and_minute() -> None:
    machine = timetable("boiler", "mon-fri", ("06:30", True), ("08:00", False), ("17:15", True), ("22:00", False))
    house = CompiledHouse({"boiler": "relay"}, [machine])
    day = [(0, []), (389, []), (390, [True]), (391, []), (480, [False]), (1_034, []), (1_035, [True]), (1_320, [False])]
    for number in range(8):
        for minute, expected in day:
            written = house.set_clock(MONDAY + number * DAY + minute * 60)
            assert [value for _, _, value in written] == ([] if number in (5, 6) else expected), (number, minute)
