"""Compiler: one program for each device out of the machines of a house, each with all states and its own writes.

All copies see the same events in the same order, so they are in the same states. Time is an event as well: the master
tells when a machine has been in a state long enough, by its own clock and in the order of all, so no device needs one,
and none changes its state before another. The event names machine, transition, and how often the machine has changed
its state: one that comes too late means nothing.

    memory of machine n     state:u8 changes:u16, at 3 n
    timer event             endpoint 254 of the master, UINT32: machine << 24 | transition << 16 | changes

CMP_LE is never emitted: the original computes it as CMP_GE.
"""

import struct
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from albireo.codec.hexabus.program import HEAD, NOTHING, PROGRAM_BYTES_MAX, VERSION, SmOp
from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus.description import (
    EventCondition,
    HouseDevice,
    HouseEndpoint,
    HouseMachine,
    Relation,
    TimeCondition,
    Transition,
    WriteAction,
)
from albireo.machine.hexabus.vm import MEMORY_BYTES

TIMER: Final = 254
"""Endpoint of the master that tells of time."""
MACHINE_BYTES: Final = 3
MACHINES_MAX: Final = MEMORY_BYTES // MACHINE_BYTES
STATES_MAX: Final = 255
TRANSITIONS_MAX: Final = 255
ALL_BYTES_MAX: Final = 0xFFFF
"""Bytes of the master's program: as far as an address reaches."""
_WHOLE: Final = 16
"""Bytes of an address."""
_U8, _U16 = int(HexType.UINT8) << 12, int(HexType.UINT16) << 12
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
_COMPARES: Final = {
    Relation.EQUAL: (SmOp.CMP_EQ,),
    Relation.UNEQUAL: (SmOp.CMP_NEQ,),
    Relation.LESS: (SmOp.CMP_LT,),
    Relation.LESS_OR_EQUAL: (SmOp.CMP_LT, SmOp.CMP_EQ),
    Relation.GREATER: (SmOp.CMP_GT,),
    Relation.GREATER_OR_EQUAL: (SmOp.CMP_GT, SmOp.CMP_EQ),
}
"""Operations of which one at least is to say yes."""


class CompileError(ValueError):
    """A description names what there is not, or is too large."""


class HouseTimer(msgspec.Struct, frozen=True):
    """A transition that waits for time."""

    machine: int
    transition: int
    state: int
    seconds: int

    def value(self, changes: int) -> int:
        """Value of the event that tells of it."""
        return self.machine << 24 | self.transition << 16 | changes


class House(msgspec.Struct, frozen=True):
    """Devices by name, and the machines that are distributed over them."""

    devices: Mapping[str, HouseDevice]
    machines: Sequence[HouseMachine]
    master: bytes
    """IPv6 address of the master, 16 bytes."""


class _Code:
    """Instructions with labels, which are always ahead."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._open: dict[str, list[tuple[int, int]]] = {}
        """Places of skips that wait for a label, each with the address from which it counts."""

    def put(self, *parts: int | bytes) -> None:
        for part in parts:
            self.data += part if isinstance(part, bytes) else bytes([part])

    def jump(self, op: SmOp, label: str) -> None:
        self.put(op, bytes(2))
        self._open.setdefault(label, []).append((len(self.data) - 2, len(self.data)))

    def switch(self, labels: Mapping[int, str]) -> None:
        self.put(SmOp.OP_SWITCH_8, len(labels))
        following = len(self.data) + 3 * len(labels)
        for number, label in labels.items():
            self.put(number, bytes(2))
            self._open.setdefault(label, []).append((len(self.data) - 2, following))

    def label(self, name: str) -> None:
        for place, following in self._open.pop(name, []):
            self.data[place : place + 2] = struct.pack(">H", len(self.data) - following)


def timers_of(house: House) -> list[HouseTimer]:
    """All transitions that wait for time."""
    return [
        HouseTimer(index, number, machine.states.index(one.state), one.condition.seconds)
        for index, machine in enumerate(house.machines)
        for number, one in enumerate(machine.transitions)
        if isinstance(one.condition, TimeCondition)
    ]


def outputs_of(house: House) -> list[tuple[str, str]]:
    """Devices and endpoints to which machines write."""
    found = {
        (name, action.endpoint)
        for machine in house.machines
        for one in machine.transitions
        for action in one.actions
        for name in house.devices
        if _is_meant(name, action)
    }
    return sorted(found)


def compiled(house: House, device: str | None) -> bytes:
    """The program of a device; None: that of the master, which writes for all of them, to the numbers of `outputs_of`.

    Raises:
        CompileError: a name means nothing, or the program is too large.
    """
    if len(house.machines) > MACHINES_MAX:
        raise CompileError(
            f"{len(house.machines)} machines are more than the {MACHINES_MAX} for which a device has room"
        )
    init, packet = _Code(), _Code()
    for index, machine in enumerate(house.machines):
        _check(house, machine)
        init.put(SmOp.LD_U8, 0, SmOp.ST_MEM, struct.pack(">H", _U8 | MACHINE_BYTES * index))
        _machine(packet, house, index, device)
    for code in (init, packet):
        code.put(SmOp.RET)
    begin = HEAD.size
    data = HEAD.pack(VERSION, begin, begin + len(init.data), NOTHING) + bytes(init.data) + bytes(packet.data)
    bytes_max = ALL_BYTES_MAX if device is None else PROGRAM_BYTES_MAX
    if len(data) > bytes_max:
        whose = "the master" if device is None else device
        raise CompileError(f"the program of {whose} has {len(data):,} bytes, and there is room for {bytes_max:,}")
    return data


def _check(house: House, machine: HouseMachine) -> None:
    if len(machine.states) > STATES_MAX or len(machine.transitions) > TRANSITIONS_MAX:
        raise CompileError(f"{machine.name} has more than {STATES_MAX} states or {TRANSITIONS_MAX} transitions")
    for one in machine.transitions:
        if isinstance(one.condition, EventCondition):
            _endpoint(house, one.condition.device, one.condition.endpoint)
        for action in one.actions:
            if not any(_is_meant(name, action) for name in house.devices):
                raise CompileError(f"{machine.name} writes to {action.devices!r}, and no device is named so")


def _endpoint(house: House, device: str, endpoint: str) -> HouseEndpoint:
    known = house.devices.get(device)
    if known is None:
        raise CompileError(f"there is no device {device!r}; there are {', '.join(sorted(house.devices))}")
    found = known.endpoints.get(endpoint)
    if found is None:
        raise CompileError(f"{device} has no endpoint {endpoint!r}; it has {', '.join(sorted(known.endpoints))}")
    return found


def _is_meant(device: str, action: WriteAction) -> bool:
    return fnmatchcase(device, action.devices)


def _machine(code: _Code, house: House, index: int, device: str | None) -> None:
    """One machine at an event: the first transition of its state that is met."""
    machine, end = house.machines[index], f"{index} end"
    by_state: dict[int, list[tuple[int, Transition]]] = {}
    for number, one in enumerate(machine.transitions):
        by_state.setdefault(machine.states.index(one.state), []).append((number, one))
    code.put(SmOp.LD_MEM, struct.pack(">H", _U8 | MACHINE_BYTES * index))
    code.switch({state: f"{index} state {state}" for state in by_state})
    code.jump(SmOp.JUMP, end)
    for state, transitions in by_state.items():
        code.label(f"{index} state {state}")
        for number, one in transitions:
            following = f"{index} behind {number}"
            _condition(code, house, (index, number), one.condition, following)
            for action in one.actions:
                _write(code, house, device, action)
            _enter(code, index, machine.states.index(one.go))
            code.jump(SmOp.JUMP, end)
            code.label(following)
        code.jump(SmOp.JUMP, end)
    code.label(end)


def _enter(code: _Code, index: int, state: int) -> None:
    changes = struct.pack(">H", _U16 | MACHINE_BYTES * index + 1)
    code.put(SmOp.LD_U8, state, SmOp.ST_MEM, struct.pack(">H", _U8 | MACHINE_BYTES * index))
    code.put(SmOp.LD_MEM, changes, SmOp.LD_U8, 1, SmOp.OP_ADD, SmOp.ST_MEM, changes)


def _condition(
    code: _Code, house: House, which: tuple[int, int], condition: EventCondition | TimeCondition, otherwise: str
) -> None:
    """Go on if the event of this run meets a condition, else jump."""
    if isinstance(condition, TimeCondition):
        index, number = which
        _is_from(code, house.master, TIMER, otherwise)
        code.put(SmOp.LD_SOURCE_VAL, SmOp.LD_U32, struct.pack(">I", index << 24 | number << 16))
        code.put(SmOp.LD_MEM, struct.pack(">H", _U16 | MACHINE_BYTES * index + 1), SmOp.OP_OR, SmOp.CMP_EQ)
        code.jump(SmOp.JZ, otherwise)
        return
    endpoint = _endpoint(house, condition.device, condition.endpoint)
    _is_from(code, house.devices[condition.device].origin, endpoint.eid, otherwise)
    constant = _constant(endpoint.datatype, condition.value, f"{condition.device}.{condition.endpoint}")
    *others, last = _COMPARES[condition.comparison]
    met = f"{which} is met"
    for op in others:
        code.put(SmOp.LD_SOURCE_VAL, constant, op)
        code.jump(SmOp.JNZ, met)
    code.put(SmOp.LD_SOURCE_VAL, constant, last)
    code.jump(SmOp.JZ, otherwise)
    code.label(met)


def _is_from(code: _Code, origin: bytes, eid: int, otherwise: str) -> None:
    """Go on if the event is of this endpoint, else jump. The number first: it is mostly another one."""
    code.put(SmOp.LD_SOURCE_EID, SmOp.LD_U32, struct.pack(">I", eid), SmOp.CMP_EQ)
    code.jump(SmOp.JZ, otherwise)
    code.put(SmOp.CMP_SRC_IP, _WHOLE - 1, origin)
    code.jump(SmOp.JZ, otherwise)


def _write(code: _Code, house: House, device: str | None, action: WriteAction) -> None:
    for name in sorted(house.devices):
        if _is_meant(name, action):
            endpoint = _endpoint(house, name, action.endpoint)
            constant = _constant(endpoint.datatype, action.value, f"{name}.{action.endpoint}")
            eid = outputs_of(house).index((name, action.endpoint)) if device is None else endpoint.eid
            if device in (name, None):
                code.put(constant, SmOp.LD_U32, struct.pack(">I", eid), SmOp.WRITE)


def _constant(datatype: HexType, value: float, where: str) -> bytes:
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
