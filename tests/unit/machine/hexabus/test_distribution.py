"""Random houses on random events with writes that fail, beside a plain reading of their description."""

import operator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from albireo.codec.hexabus.house import (
    AllOf,
    AnyOf,
    Condition,
    DeviceGroup,
    EventCondition,
    House,
    Relation,
    WriteAction,
    decode_house,
    encode_house,
)
from albireo.machine.hexabus import Machine, at, group
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.vm import SmEvent
from tests.long_form import examples
from tests.parts.compiled_house import ENDPOINTS, CompiledHouse, Writes

KINDS: Final = {
    "button_1": "button",
    "button_2": "button",
    "room": "temperature",
    "plug": "power button relay",
    "lamp_1": "relay dimmer",
    "lamp_2": "relay dimmer",
}
GROUPS: Final = {"button_1": "people up all", "button_2": "all up", "plug": "people all", "lamp_2": "night"}
TELLING: Final = [("room", "temperature"), ("plug", "power"), *((one, "button") for one in KINDS if "button" in one)]
TELLING.append(("plug", "button"))
WRITTEN: Final = [("plug", "relay"), *((one, kind) for one in ("lamp_1", "lamp_2") for kind in ("relay", "dimmer"))]
COMPARES: Final = {
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
    Relation.LESS: operator.lt,
    Relation.LESS_OR_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_OR_EQUAL: operator.ge,
}
Ways = list[tuple[str, Condition | tuple[WriteAction, ...], tuple[WriteAction, ...], str]]


class PlainHouse:
    """The same house by the words of its description; what devices could not write is a condition of its own."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.states = [one.state for one in house.machines]
        self.last: dict[tuple[str, str], float] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.ways = [self._ways(one) for one in house.machines]

    @staticmethod
    def _ways(machine: Machine) -> Ways:
        ways: Ways = [(one.state, one.condition, one.actions, one.go) for one in machine.transitions]
        return ways + [(one.go, one.actions, (), one.bad) for one in machine.transitions if one.bad]

    def meant(self, devices: str | DeviceGroup) -> list[str]:
        if isinstance(devices, DeviceGroup):
            return sorted(name for name, one in self.house.devices.items() if devices.group in one.groups)
        begin, star, _ = devices.partition("*")
        return sorted(one for one in KINDS if one == devices or (star and one.startswith(begin)))

    def act(self, device: str, endpoint: str, value: float, refused: set[tuple[str, str]]) -> tuple[Writes, Writes]:
        """What is written, and what fails; a device stops at the first write that fails."""
        if endpoint != "failed":
            self.last[device, endpoint] = value
        told: Writes = []
        for index, ways in enumerate(self.ways):
            for number, (state, condition, actions, go) in enumerate(ways):
                if state == self.states[index] and self.is_met((index, number), condition, device, endpoint, value):
                    self.states[index] = go
                    self.counts = {one: count for one, count in self.counts.items() if one[0] != index}
                    told += [(name, one.endpoint, one.value) for one in actions for name in self.meant(one.devices)]
                    break
        written: Writes = []
        failed: Writes = []
        for name, kind, wanted in told:
            if name not in {one for one, _, _ in failed}:
                (failed if (name, kind) in refused else written).append((name, kind, wanted))
        return written, failed

    def is_met(self, which: tuple[int, int], condition: object, device: str, endpoint: str, value: float) -> bool:
        if isinstance(condition, tuple):
            return endpoint == "failed" and any(
                device in self.meant(one.devices) and ENDPOINTS[one.endpoint].eid == value for one in condition
            )
        if isinstance(condition, EventCondition) and (not condition.every or len(self.meant(condition.devices)) == 1):
            if device not in self.meant(condition.devices) or endpoint != condition.endpoint:
                return False
            is_so = bool(COMPARES[condition.relation](value, condition.value))
            self.counts[which] = self.counts.get(which, 0) + 1 if is_so else 0
            return self.counts[which] == condition.samples or (is_so and condition.samples == 1)
        return (device, endpoint) in self.looked_at(condition) and self.holds(condition)

    def looked_at(self, condition: object) -> set[tuple[str, str]]:
        if isinstance(condition, AllOf | AnyOf):
            return {where for one in condition.parts for where in self.looked_at(one)}
        assert isinstance(condition, EventCondition)
        return {(name, condition.endpoint) for name in self.meant(condition.devices)}

    def holds(self, condition: object) -> bool:
        if isinstance(condition, AllOf):
            return all(self.holds(one) for one in condition.parts)
        if isinstance(condition, AnyOf):
            return any(self.holds(one) for one in condition.parts)
        assert isinstance(condition, EventCondition)
        values = [self.last.get((name, condition.endpoint)) for name in self.meant(condition.devices)]
        found = [one is not None and COMPARES[condition.relation](one, condition.value) for one in values]
        return all(found) if condition.every else any(found)


small = st.integers(0, 3)
leaves = st.builds(
    lambda where, relation, value: EventCondition(where[0], where[1], relation, value),
    st.sampled_from([*TELLING, ("button_*", "button"), *((group(one), "button") for one in ("people", "all", "up"))]),
    st.sampled_from(Relation),
    small,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one, other: one & other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
        st.builds(lambda one: ~one, inner),
    ),
    max_leaves=4,
)
conditions = st.one_of(leaves, values, st.builds(lambda one, samples: one.in_a_row(samples), leaves, st.integers(2, 3)))
actions = st.builds(
    lambda where, value: at(where[0]).write(where[1], value),
    st.sampled_from([*WRITTEN, ("lamp_*", "relay"), ("lamp_*", "dimmer"), (group("night"), "relay")]),
    st.integers(0, 1),
)


@st.composite
def machines(draw: st.DrawFn, name: str) -> Machine:
    machine, entered = Machine(name, state="a"), ["a"]
    for _ in range(draw(st.integers(1, 5))):
        done = draw(st.lists(actions, max_size=3))
        state, go = draw(st.sampled_from(entered)), draw(st.sampled_from("abc"))
        bad = draw(st.sampled_from(["", "a", "bad"])) if done else ""
        machine.on(state, draw(conditions), *done, go=go, bad=bad)
        entered = list(dict.fromkeys([*entered, go, *([bad] if bad else [])]))
    return machine


events = st.tuples(st.sampled_from(TELLING), small, st.sets(st.sampled_from(WRITTEN), max_size=3), st.booleans())


@pytest.mark.slow
@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(st.tuples(machines("one"), machines("two"), machines("three")), st.lists(events, min_size=5, max_size=25))
def test_all_devices_do_what_the_description_says_whatever_comes_of_their_writes(
    made: tuple[Machine, ...], told: list[tuple[tuple[str, str], int, set[tuple[str, str]], bool]]
) -> None:
    try:
        house = CompiledHouse(KINDS, list(made), GROUPS)
    except CompileError:
        reject()
    read = decode_house(encode_house(house.house))
    assert read == house.house and compiled(read, "plug") == compiled(house.house, "plug")
    plain = PlainHouse(house.house)
    waiting: list[SmEvent] = []
    for (device, endpoint), value, refused, is_failure_heard in told:
        house.refused = refused
        number = float(value) if endpoint == "temperature" else value
        check(house, plain, house.event(device, endpoint, number), endpoint, waiting)
        if waiting and is_failure_heard:
            check(house, plain, waiting.pop(0), "failed", waiting)


def check(house: CompiledHouse, plain: PlainHouse, event: SmEvent, endpoint: str, waiting: list[SmEvent]) -> None:
    """Have both take an event: states, writes of each device and failures are the same."""
    names = {one.origin: name for name, one in house.house.devices.items()}
    value = event.value.value
    assert isinstance(value, bool | int | float)
    house.act(event)
    written, failed = plain.act(names[event.origin], endpoint, value, house.refused)
    assert house.states() == plain.states
    for name in KINDS:
        assert [one for one in house.written if one[0] == name] == [one for one in written if one[0] == name]
    found = [(names[one.origin], one.value.value) for one in house.failures]
    assert sorted(found) == sorted((name, ENDPOINTS[kind].eid) for name, kind, _ in failed)
    waiting += house.failures
