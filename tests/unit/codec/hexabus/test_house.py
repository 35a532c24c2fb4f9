"""Houses as JSON: what is written is read, and nothing else is."""

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import (
    DEPTH_MAX,
    HOUSE_BYTES_MAX,
    AllOf,
    AnyOf,
    ClockCondition,
    Condition,
    DeviceGroup,
    EventCondition,
    House,
    HouseDevice,
    HouseEndpoint,
    HouseMachine,
    Relation,
    TimeCondition,
    Transition,
    ValueCondition,
    WriteAction,
    decode_house,
    encode_house,
)
from albireo.codec.hexabus.values import HexType

COLD: Final = EventCondition("room", "temperature", Relation.LESS, 18.5)
OPEN: Final = EventCondition(DeviceGroup("doors"), "open", Relation.EQUAL, True, every=True)


def house_of(*conditions: Condition) -> House:
    machine = HouseMachine("heating", state="off")
    for one in conditions:
        machine.on("off", one, WriteAction("heater_*", "relay", 1), go="on", bad="failed")
    endpoints = {"temperature": HouseEndpoint(3, HexType.FLOAT)}
    return House({"room": HouseDevice(bytes(range(16)), endpoints, frozenset({"a", "b"}))}, [machine], bytes(16))


ALL: Final = house_of(COLD, OPEN.in_a_row(3), COLD & OPEN | ~COLD, TimeCondition(5), ClockCondition(390, 31))
DATA: Final = encode_house(ALL)
PLAIN: Final = json.loads(DATA)

names = st.text(max_size=5)
devices = names | st.builds(DeviceGroup, names)
numbers = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.builds(
    EventCondition, devices, names, st.sampled_from(Relation), numbers, st.booleans(), st.integers(1, 255)
)
values: st.SearchStrategy[ValueCondition] = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)), st.sampled_from([AllOf, AnyOf]), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)
conditions = st.one_of(
    values,
    st.builds(TimeCondition, st.integers(1, 2**31 - 1)),
    st.builds(ClockCondition, st.integers(0, 1_439), st.integers(1, 127)),
)
transitions = st.builds(
    Transition, names, conditions, st.lists(st.builds(WriteAction, devices, names, numbers)).map(tuple), names, names
)
machines = st.builds(HouseMachine, names, names, st.lists(transitions, max_size=3))
origins = st.binary(min_size=16, max_size=16)
known = st.builds(
    HouseDevice,
    origins,
    st.dictionaries(names, st.builds(HouseEndpoint, st.integers(0, 2**32 - 1), st.sampled_from(HexType)), max_size=3),
    st.frozensets(names, max_size=3),
)


@given(st.builds(House, st.dictionaries(names, known, max_size=3), st.lists(machines, max_size=3), origins))
def test_what_is_written_is_read(house: House) -> None:
    data = encode_house(house)
    read = decode_house(data)
    assert read == house and encode_house(read) == data
    found = [type(two.condition) for one in read.machines for two in one.transitions]
    assert found == [type(two.condition) for one in house.machines for two in one.transitions]


@given(st.binary(max_size=200))
def test_hostile_bytes_are_no_house(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_house(data)


@given(st.integers(0, len(DATA) - 1), st.binary(max_size=3))
def test_a_changed_house_is_a_house_or_an_error(at: int, change: bytes) -> None:
    try:
        decode_house(DATA[:at] + change + DATA[at + 1 :])
    except DecodeError:
        pass


def changed(path: str, value: object) -> bytes:
    """The house with something else at a place."""
    plain = json.loads(DATA)
    *way, last = (int(one) if one.isdigit() else one for one in path.split("."))
    where = plain
    for one in way:
        where = where[one]
    where[last] = value
    return json.dumps(plain).encode()


FIRST: Final = "machines.0.transitions.0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("unknown", 1),
        (f"{FIRST}.unknown", 1),
        (f"{FIRST}.condition.unknown", 1),
        (f"{FIRST}.condition.type", "exec"),
        (f"{FIRST}.condition.relation", "is"),
        (f"{FIRST}.condition.value", None),
        (f"{FIRST}.condition.value", "18.5"),
        (f"{FIRST}.condition.every", 1),
        (f"{FIRST}.condition.samples", 0),
        (f"{FIRST}.condition.samples", 256),
        (f"{FIRST}.condition.devices", {"pattern": "a"}),
        (f"{FIRST}.condition.devices", "a" * 201),
        (f"{FIRST}.actions", [PLAIN["machines"][0]["transitions"][0]["actions"][0]] * 256),
        (f"{FIRST}.go", 1),
        ("machines.0.transitions", PLAIN["machines"][0]["transitions"] * 60),
        ("machines.0.transitions.2.condition.parts", []),
        ("machines.0.transitions.2.condition.parts", [PLAIN["machines"][0]["transitions"][3]["condition"]]),
        ("machines.0.transitions.3.condition.seconds", 0),
        ("machines.0.transitions.3.condition.seconds", 2**31),
        ("machines.0.transitions.4.condition.minute", 1_440),
        ("machines.0.transitions.4.condition.days", 0),
        ("machines.0.transitions.4.condition.days", 128),
        ("devices.room.origin", "AAAA"),
        ("devices.room.endpoints.temperature.datatype", 13),
        ("devices.room.endpoints.temperature.eid", -1),
        ("devices.room.endpoints.temperature.eid", 2**32),
        ("devices.room.groups", "a"),
        ("master", "fd00::1"),
    ],
)
def test_nothing_else_is_read(path: str, value: object) -> None:
    with pytest.raises(DecodeError):
        decode_house(changed(path, value))


def test_bounds() -> None:
    deep: ValueCondition = COLD
    for number in range(DEPTH_MAX):
        deep = AllOf((deep,)) if number % 2 else AnyOf((deep,))
        if number < DEPTH_MAX - 1:
            assert decode_house(encode_house(house_of(deep)))
    with pytest.raises(DecodeError, match="more than 16 deep"):
        decode_house(encode_house(house_of(deep)))
    bottomless = b'{"type":"all","parts":[' * 50_000
    with pytest.raises(DecodeError):
        decode_house(DATA.replace(b'{"type":"after"', bottomless, 1)[:HOUSE_BYTES_MAX])
    with pytest.raises(DecodeError, match="1,048,576 bytes at most"):
        decode_house(DATA.ljust(HOUSE_BYTES_MAX + 1))
    assert decode_house(DATA.ljust(HOUSE_BYTES_MAX)) == ALL
