"""Times of day: each is told of once a day, in the order of all, whatever the clock and the master do."""

from datetime import date, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.hexabus.house import House
from albireo.codec.hexabus.journal import ResetOrdered, event_of
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus import Machine, after, at, clock, when
from albireo.machine.hexabus.clocks import CLOCKS_MAX, DAYS_KEPT
from albireo.machine.hexabus.compiler import MACHINES_MAX, TIMER, HouseTimer, compiled
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.silent import SilentMachine
from albireo.machine.hexabus.vm import SmEvent
from albireo.model.instant import SECOND, Instant
from tests.parts.compiled_house import DAY, MASTER, MONDAY, CompiledHouse, Writes, devices_of

KINDS: Final = {"lamp": "relay", "button": "button"}
ON: Final[Writes] = [("lamp", "relay", True)]
OFF: Final[Writes] = [("lamp", "relay", False)]
SIX: Final = MONDAY + 6 * 3_600


def morning(time: str = "06:30", days: str = "") -> Machine:
    """A lamp that goes on at a time; a button puts it out."""
    machine = Machine("morning", state="off")
    machine.on("off", clock(time, days), at("lamp").write("relay", True), go="on")
    machine.on("on", when("button", "button") == 1, at("lamp").write("relay", False), go="off")
    return machine


def house_at(local_s: int, *machines: Machine) -> CompiledHouse:
    return CompiledHouse(KINDS, machines or [morning()], local_s=local_s)


def test_a_time_of_day_is_reached_once_a_day() -> None:
    house = house_at(SIX)
    assert house.silent.deadline() == 0 and house.wait(1_799) == []
    assert house.silent.deadline() == 1_800 * SECOND and house.wait(1) == ON
    assert house.tell("button", "button", 1) == OFF and house.wait(0) == house.wait(60) == []
    assert house.silent.deadline() == 1_920 * SECOND, "the begin of the next minute: a clock may jump"
    assert house.wait(DAY - 61) == [] and house.wait(1) == ON


@pytest.mark.parametrize("late_s", [1, 1_800, 3_600])
def test_a_clock_that_jumps_past_a_time_tells_of_it_late_and_once(late_s: int) -> None:
    house = house_at(SIX)
    assert house.wait(0) == [] and house.set_clock(SIX + 1_800 + late_s) == ON
    house.tell("button", "button", 1)
    assert house.set_clock(SIX + 1_800 + late_s) == house.set_clock(SIX + 1_800) == house.set_clock(SIX) == []
    assert house.wait(1_800) == [], "a clock that went back tells nothing twice"
    assert house.set_clock(SIX + DAY + 1_800) == ON


def test_a_clock_that_jumps_more_than_an_hour_past_a_time_leaves_it_out() -> None:
    house = house_at(SIX)
    assert house.set_clock(SIX + 1_800 + 3_601) == []
    assert house.set_clock(SIX + 1_800) == ON, "it went back, and nothing was told"


def test_a_jump_past_midnight_tells_of_the_day_before() -> None:
    house = house_at(MONDAY + DAY - 900, morning("23:50", "mon"))
    assert house.set_clock(MONDAY + DAY + 1_200) == ON
    house.tell("button", "button", 1)
    assert house.set_clock(MONDAY + DAY - 600) == house.set_clock(MONDAY + 2 * DAY - 600) == []
    assert house.set_clock(MONDAY + 8 * DAY - 600) == ON


def test_days_that_were_told_are_remembered_for_a_week_and_a_wrong_year_does_no_harm() -> None:
    house = house_at(SIX)
    for number in range(DAYS_KEPT):
        assert house.set_clock(SIX + number * DAY + 1_800) == ON
        house.tell("button", "button", 1)
    for number in range(DAYS_KEPT):
        assert house.set_clock(SIX + number * DAY + 1_800) == []
    assert house.set_clock(SIX + 365 * DAY + 1_800) == ON
    house.tell("button", "button", 1)
    assert house.set_clock(SIX + DAYS_KEPT * DAY + 1_800) == ON


def test_a_time_that_was_reached_in_another_state_is_over() -> None:
    machine = morning()
    machine.state = "on"
    house = house_at(SIX, machine)
    assert house.wait(1_800) == [] and house.tell("button", "button", 1) == OFF
    assert house.wait(60) == [], "the lamp was put out after half past six"


def test_times_that_are_late_come_in_their_order_and_one_event_is_for_all_machines() -> None:
    machine = Machine("two", state="off")
    machine.on("off", clock("06:30"), at("lamp").write("relay", True))
    machine.on("off", clock("06:10"), at("lamp").write("relay", False))
    other = Machine("other", state="a")
    other.on("a", clock("06:30"), go="b")
    house = house_at(SIX, machine, other)
    assert house.set_clock(SIX + 2_400) == [*OFF, *ON] and house.states() == ["off", "b"]


def test_who_takes_over_knows_from_the_order_what_was_told() -> None:
    house = house_at(SIX)
    local_s, now = SIX + 1_800, Instant(0)
    (told,) = SilentMachine(house.house, now, lambda _: local_s).due(now)
    entry = event_of("::1", 0, 0, b"", told.eid, told.value)
    heard, unheard = (SilentMachine(house.house, now, lambda _: local_s + 60) for _ in range(2))
    heard.folded(entry, now)
    heard.folded(ResetOrdered("test"), now)
    assert heard.state(0) == "off" and heard.due(now) == [], "machines begin anew, and the day does not"
    assert unheard.due(now) == [told] == unheard.due(now), "until it is on record"


@pytest.mark.parametrize("origin", [MASTER, bytes(16)])
def test_only_the_master_tells_of_time(origin: bytes) -> None:
    house = house_at(SIX)
    day = MONDAY // DAY
    event = SmEvent(origin, TIMER, HexValue(HexType.UINT32, 255 << 24 | day))
    assert house.act(event) == (ON if origin == MASTER else []) and house.wait(1_800) == (
        [] if origin == MASTER else ON
    )
    for value in (254 << 24, 255 << 24 | 1 << 16, 0):
        assert house.act(SmEvent(MASTER, TIMER, HexValue(HexType.UINT32, value))) == []


@given(st.integers(0, 10_000), st.sets(st.integers(0, 6), min_size=1))
def test_days_of_the_week_are_those_of_the_calendar(number: int, days: set[int]) -> None:
    names = ",".join(("mon", "tue", "wed", "thu", "fri", "sat", "sun")[one] for one in days)
    house = house_at(number * DAY, morning("00:00", names))
    weekday = (date(1970, 1, 1) + timedelta(days=number)).weekday()
    assert house.wait(0) == (ON if weekday in days else [])


@given(
    st.integers(0, MACHINES_MAX - 1), st.integers(0, 254), st.integers(0, 65_535), st.integers(0, 255), st.integers(0)
)
def test_no_event_of_time_in_a_state_is_that_of_a_time_of_day(
    machine: int, transition: int, changes: int, number: int, day: int
) -> None:
    timer = HouseTimer(machine, transition, 0, 1)
    assert timer.value(changes) != 255 << 24 | number << 16 | day & 0xFFFF


@pytest.mark.parametrize(
    ("days", "mask"),
    [("", 127), ("mon", 1), ("mon-fri", 31), ("sat,sun", 96), ("sat, sun", 96), ("fri-mon", 113), ("sun-sun", 64)],
)
def test_days(days: str, mask: int) -> None:
    assert clock("07:05", days).minute == 425 and clock("07:05", days).days == mask


@pytest.mark.parametrize("time", ["", "24:00", "6:30", "06:60", "06:30 ", "06.30", "٠٦:٣٠"])
def test_no_time_of_day(time: str) -> None:
    with pytest.raises(ValueError, match="is no time of day"):
        clock(time)


@pytest.mark.parametrize("days", [" ", "Mon", "mon-", "-", "mon-tue-wed", "mon,", "mo", "mon--fri", "monday"])
def test_no_days(days: str) -> None:
    with pytest.raises(ValueError, match="are no days"):
        clock("06:30", days)


def test_bounds() -> None:
    devices = devices_of(KINDS)
    with pytest.raises(ValueError, match="nobody tells the local time"):
        SilentMachine(House(devices, [morning()], MASTER), Instant(0))
    plain = Machine("plain", state="a")
    plain.on("a", after(5), go="b")
    assert SilentMachine(House(devices, [plain], MASTER), Instant(0)).deadline() == 5 * SECOND
    many = [Machine("one", state="a"), Machine("two", state="a")]
    for number in range(CLOCKS_MAX + 1):
        many[number % 2].on("a", clock(f"{number // 60:02}:{number % 60:02}"))
    with pytest.raises(CompileError, match="257 times of day are more than 256"):
        compiled(House(devices, many, MASTER), None)
