"""Meaning of a house: which devices, endpoints and values the words of its machines stand for.

A transition with a bad state stands for a further one, out of the state that was entered: a device that had to write
tells, by its endpoint FAILED, of an endpoint that it could not write.
"""

import struct
from collections.abc import Iterator
from fnmatch import fnmatchcase
from ipaddress import IPv6Address
from typing import Final, Union

import msgspec

from albireo.codec.hexabus.house import (
    GROUP_PREFIX,
    AllOf,
    AnyOf,
    ClockCondition,
    DeviceGroup,
    Devices,
    EventCondition,
    House,
    HouseMachine,
    Number,
    Relation,
    TimeCondition,
    Transition,
    ValueCondition,
)
from albireo.codec.hexabus.program import SmOp
from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus.endpoints import FAILED

NUMBER_MAX: Final = 255
"""Most states, and transitions, of a machine."""
_LOADS: Final = {
    HexType.UINT8: (SmOp.LD_U8, ">B"),
    HexType.UINT16: (SmOp.LD_U16, ">H"),
    HexType.UINT32: (SmOp.LD_U32, ">I"),
    HexType.UINT64: (SmOp.LD_U64, ">Q"),
    HexType.SINT8: (SmOp.LD_S8, ">b"),
    HexType.SINT16: (SmOp.LD_S16, ">h"),
    HexType.SINT32: (SmOp.LD_S32, ">i"),
    HexType.SINT64: (SmOp.LD_S64, ">q"),
    HexType.FLOAT: (SmOp.LD_FLOAT, ">f"),
}


class CompileError(ValueError):
    """A description names what there is not, or is too large."""


class EventSource(msgspec.Struct, frozen=True):
    """An endpoint of a device that tells of itself."""

    origin: bytes
    """Its address, or the id of a group for any of its devices."""
    eid: int
    datatype: HexType


class ValueTest(msgspec.Struct, frozen=True):
    """The value of an endpoint compares so."""

    source: EventSource
    relation: Relation
    constant: bytes
    """Instruction that loads the value with which it is compared."""


class ValueTests(msgspec.Struct, frozen=True):
    """Last values meet all of these, or one of them."""

    parts: tuple[Union[ValueTest, "ValueTests"], ...]
    every: bool


class EventTests(msgspec.Struct, frozen=True):
    """An event meets one of these, so many times in a row."""

    tests: tuple[ValueTest, ...]
    samples: int = 1


class MeantWrite(msgspec.Struct, frozen=True):
    """A device writes an endpoint."""

    device: str
    endpoint: str
    source: EventSource
    constant: bytes
    """Instruction that loads the value."""


MeantCondition = EventTests | ValueTests | TimeCondition | ClockCondition


class MeantWay(msgspec.Struct, frozen=True):
    """A transition, with numbers of states."""

    state: int
    condition: MeantCondition
    writes: tuple[MeantWrite, ...]
    go: int


class WriteConflict(msgspec.Struct, frozen=True):
    """Several machines write one endpoint: no mistake, but the last one of them counts."""

    device: str
    endpoint: str
    machines: tuple[str, ...]


def meaning_of(house: House) -> list[list[MeantWay]]:
    """All transitions of each machine, and behind them those to bad states.

    Raises:
        CompileError: a name means nothing, or a value is none of its endpoint.
    """
    for name, device in house.devices.items():
        if device.origin[0] == GROUP_PREFIX[0]:
            raise CompileError(f"{IPv6Address(device.origin)} is no address of a device, and {name} has it")
    names = [one.name for one in house.machines]
    twice = {one for one in names if names.count(one) > 1}
    if twice:
        raise CompileError(f"two machines have the name {min(twice)!r}")
    return [_ways(house, machine) for machine in house.machines]


def conflicts_of(house: House) -> list[WriteConflict]:
    """Endpoints that several machines write. Raises CompileError: as `meaning_of` does."""
    writers: dict[tuple[str, str], dict[str, None]] = {}
    for machine, ways in zip(house.machines, meaning_of(house), strict=True):
        for write in (one for way in ways for one in way.writes):
            writers.setdefault((write.device, write.endpoint), {})[machine.name] = None
    return [WriteConflict(*where, tuple(names)) for where, names in sorted(writers.items()) if len(names) > 1]


def tests_of(condition: MeantCondition | ValueTest) -> Iterator[ValueTest]:
    """All comparisons of a condition."""
    match condition:
        case ValueTest():
            yield condition
        case EventTests(tests=parts) | ValueTests(parts=parts):
            for part in parts:
                yield from tests_of(part)


def _ways(house: House, machine: HouseMachine) -> list[MeantWay]:
    numbers = {name: number for number, name in enumerate(machine.states)}
    entered = {machine.state, *(name for one in machine.transitions for name in (one.go, one.bad) if name != one.state)}
    ways, failures = [], []
    for one in machine.transitions:
        where = f"machine {machine.name!r}, state {one.state!r}"
        try:
            writes, condition = tuple(_writes(house, one)), _condition(house, one.condition)
        except CompileError as error:
            raise CompileError(f"{where}: {error}") from error
        ways.append(MeantWay(numbers[one.state], condition, writes, numbers[one.go]))
        if one.bad:
            failures.append(MeantWay(numbers[one.go], _failures(writes), (), numbers[one.bad]))
        if one.bad and not writes:
            raise CompileError(f"{where}: nothing is written that could lead to {one.bad!r}")
        if one.state not in entered and len(numbers) <= NUMBER_MAX:
            raise CompileError(f"{where}: nothing leads to this state")
    if len(numbers) > NUMBER_MAX or len(ways + failures) > NUMBER_MAX:
        raise CompileError(f"machine {machine.name!r} has more than {NUMBER_MAX} states or transitions")
    return ways + failures


def _failures(writes: tuple[MeantWrite, ...]) -> EventTests:
    """One of these writes could not be done."""
    tests = []
    for one in writes:
        source = EventSource(one.source.origin, FAILED, HexType.UINT32)
        tests.append(ValueTest(source, Relation.EQUAL, struct.pack(">BI", SmOp.LD_U32, one.source.eid)))
    return EventTests(tuple(tests))


def _condition(house: House, condition: ValueCondition | TimeCondition | ClockCondition) -> MeantCondition:
    match condition:
        case EventCondition(devices=DeviceGroup() as group, every=False, samples=samples):
            return EventTests((_of_group(group, list(_each(house, condition))),), samples)
        case EventCondition(samples=samples):
            tests = tuple(_each(house, condition))
            if len(tests) == 1 or not condition.every:
                return EventTests(tests, samples)
            return _values(house, condition)
        case AllOf() | AnyOf():
            return _values(house, condition)
    return condition


def _of_group(group: DeviceGroup, tests: list[ValueTest]) -> ValueTest:
    """One comparison for all devices of a group."""
    if len({(one.source.eid, one.source.datatype) for one in tests}) > 1:
        raise CompileError(f"devices of the group {group.group!r} have this endpoint by several numbers, or types")
    return msgspec.structs.replace(tests[0], source=msgspec.structs.replace(tests[0].source, origin=group.id))


def _values(house: House, condition: ValueCondition) -> ValueTests:
    if not isinstance(condition, EventCondition):
        return ValueTests(tuple(_values(house, one) for one in condition.parts), isinstance(condition, AllOf))
    if condition.samples > 1:
        raise CompileError("events in a row are counted by a condition of their own")
    return ValueTests(tuple(_each(house, condition)), condition.every)


def _each(house: House, condition: EventCondition) -> Iterator[ValueTest]:
    for name in _meant(house, condition.devices):
        source = _source(house, name, condition.endpoint)
        constant = _constant(source.datatype, condition.value, f"{name}.{condition.endpoint}")
        yield ValueTest(source, condition.relation, constant)


def _writes(house: House, transition: Transition) -> Iterator[MeantWrite]:
    for one in transition.actions:
        for name in _meant(house, one.devices):
            source = _source(house, name, one.endpoint)
            constant = _constant(source.datatype, one.value, f"{name}.{one.endpoint}")
            yield MeantWrite(name, one.endpoint, source, constant)


def _meant(house: House, devices: Devices) -> list[str]:
    """Names of devices."""
    if isinstance(devices, DeviceGroup):
        found = [name for name, one in house.devices.items() if devices.group in one.groups]
        groups = sorted({name for one in house.devices.values() for name in one.groups})
        why = f"no device is in the group {devices.group!r}; there are the groups {', '.join(groups)}"
    else:
        found = [name for name in house.devices if name == devices or fnmatchcase(name, devices)]
        why = f"there is no device {devices!r}; there are {', '.join(sorted(house.devices))}"
    if not found:
        raise CompileError(why)
    return sorted(found)


def _source(house: House, device: str, endpoint: str) -> EventSource:
    known = house.devices[device]
    found = known.endpoints.get(endpoint)
    if found is None:
        raise CompileError(f"{device} has no endpoint {endpoint!r}; it has {', '.join(sorted(known.endpoints))}")
    return EventSource(known.origin, found.eid, found.datatype)


def _constant(datatype: HexType, value: Number, where: str) -> bytes:
    """The instruction that loads a value as an endpoint has it."""
    if datatype is HexType.BOOL and value in (0, 1):
        return bytes([SmOp.LD_TRUE if value else SmOp.LD_FALSE])
    if datatype in _LOADS:
        op, shape = _LOADS[datatype]
        try:
            return bytes([op]) + struct.pack(shape, value)
        except (struct.error, OverflowError) as error:
            raise CompileError(f"{value!r} is no {datatype.name}, which {where} is") from error
    raise CompileError(f"{value!r} is no {datatype.name}, which {where} is")
