"""Compiler: one program for each device out of the machines of a house, each with all states and its own writes.

All copies see the same events in the same order, so they are in the same states. Time is an event as well: the master
tells when a machine has been in a state long enough, by its own clock and in the order of all, so no device needs one,
and none changes its state before another. The event names machine, transition, and how often the machine has changed
its state: one that comes too late means nothing. Times of day are told likewise (clocks.py).

    an event --> number of its source; none: the run ends --> its value is kept, if a condition needs last values
             --> each machine takes its transition, and leaves the number of it on the stack, if this device is to write
             --> the writes of these transitions
    memory of machine n     state:u8 changes:u16, at 3 n
    behind them             counts:u8 of events in a row; last values, each with a BOOL before it that says: it is known
                            a BOOL for each group in conditions: the present event is of it (names.py)
    the last byte           number of the source
    timer event             endpoint 254 of the master, UINT32: machine << 24 | transition << 16 | changes

Invariants
    same:  whatever comes of writes, states are those of all other devices: a run that fails has taken its transitions.
    room:  a program of 2,048 bytes is full with 25 machines that write, and the stack has 32 places.

CMP_LE is never emitted: the original computes it as CMP_GE.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from albireo.codec.hexabus.house import GROUP_PREFIX, ClockCondition, House, Relation, TimeCondition
from albireo.codec.hexabus.program import HEAD, NOTHING, PROGRAM_BYTES_MAX, VERSION, SmOp
from albireo.codec.hexabus.values import SIZES, HexType
from albireo.machine.hexabus.clocks import CLOCK, clocks_of
from albireo.machine.hexabus.meaning import (
    NUMBER_MAX,
    CompileError,
    EventSource,
    EventTests,
    MeantCondition,
    MeantWay,
    ValueTest,
    ValueTests,
    meaning_of,
    tests_of,
)
from albireo.machine.hexabus.names import MORE
from albireo.machine.hexabus.vm import MEMORY_BYTES, STACK_MAX

TIMER: Final = 254
"""Endpoint of the master that tells of time."""
MACHINE_BYTES: Final = 3
SOURCE_AT: Final = MEMORY_BYTES - 1
"""Place of the number of the last event's source, which says nothing of states."""
MACHINES_MAX: Final = SOURCE_AT // MACHINE_BYTES
ALL_BYTES_MAX: Final = 0xFFFF
"""Bytes of the master's program: as far as an address reaches."""
_WHOLE: Final = 16
"""Bytes of an address."""
_COMPARES: Final = {
    Relation.EQUAL: (SmOp.CMP_EQ,),
    Relation.UNEQUAL: (SmOp.CMP_NEQ,),
    Relation.LESS: (SmOp.CMP_LT,),
    Relation.LESS_OR_EQUAL: (SmOp.CMP_LT, SmOp.CMP_EQ),
    Relation.GREATER: (SmOp.CMP_GT,),
    Relation.GREATER_OR_EQUAL: (SmOp.CMP_GT, SmOp.CMP_EQ),
}
"""Operations of which one at least is to say yes."""


class HouseTimer(msgspec.Struct, frozen=True):
    """A transition that waits for time."""

    machine: int
    transition: int
    state: int
    seconds: int

    def value(self, changes: int) -> int:
        """Value of the event that tells of it."""
        return self.machine << 24 | self.transition << 16 | changes


class _Code:
    """Instructions with labels, which are always ahead."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._open: dict[int, list[tuple[int, int]]] = {}
        """Places of skips that wait for a label, each with the address from which it counts."""
        self._labels = 0

    def put(self, *parts: int | bytes) -> None:
        for part in parts:
            self.data += part if isinstance(part, bytes) else bytes([part])

    def fresh(self) -> int:
        """A label of which the place is not known yet."""
        self._labels += 1
        return self._labels

    def jump(self, op: SmOp, label: int) -> None:
        self.put(op, bytes(2))
        self._open.setdefault(label, []).append((len(self.data) - 2, len(self.data)))

    def switch(self, labels: Mapping[int, int], op: SmOp = SmOp.OP_SWITCH_8) -> None:
        width = 4 if op is SmOp.OP_SWITCH_32 else 1
        self.put(op, len(labels))
        following = len(self.data) + (width + 2) * len(labels)
        for number, label in labels.items():
            self.put(number.to_bytes(width, "big"), bytes(2))
            self._open.setdefault(label, []).append((len(self.data) - 2, following))

    def label(self, label: int) -> None:
        for place, following in self._open.pop(label, []):
            skip = len(self.data) - following & 0xFFFF  # One that is longer is refused, with the whole program.
            self.data[place : place + 2] = struct.pack(">H", skip)


def timers_of(house: House) -> list[HouseTimer]:
    """All transitions that wait for time."""
    return [
        HouseTimer(index, number, machine.states.index(one.state), one.condition.seconds)
        for index, machine in enumerate(house.machines)
        for number, one in enumerate(machine.transitions)
        if isinstance(one.condition, TimeCondition)
    ]


Meant = list[list[MeantWay]]


def outputs_of(house: House, meant: Meant | None = None) -> list[tuple[str, str]]:
    """Devices and endpoints to which machines write. Raises CompileError: a name means nothing.

    Args:
        meant: meaning of the house; None: it is looked up.
    """
    writes = (one for ways in meant or meaning_of(house) for way in ways for one in way.writes)
    return sorted({(one.device, one.endpoint) for one in writes})


def compiled(house: House, device: str | None, meant: Meant | None = None) -> bytes:
    """The program of a device; None: that of the master, which writes for all of them, to the numbers of `outputs_of`.

    Raises:
        CompileError: a name means nothing, or the program is too large.
    """
    code = _Program(house, device, meant or meaning_of(house)).code.data
    data = HEAD.pack(VERSION, NOTHING, HEAD.size, NOTHING) + bytes(code)
    bytes_max = ALL_BYTES_MAX if device is None else PROGRAM_BYTES_MAX
    if len(data) > bytes_max:
        whose = "the master" if device is None else device
        raise CompileError(f"the program of {whose} has {len(data):,} bytes, and there is room for {bytes_max:,}")
    return data


def _at(datatype: HexType, place: int) -> bytes:
    """Operand of a value in memory."""
    return struct.pack(">H", datatype << 12 | place)


class _Program:
    """The code of a device, and places of all that it keeps."""

    def __init__(self, house: House, device: str | None, meant: Meant) -> None:
        self.code = _Code()
        self._device = device
        self._machines = meant
        self._clocks = clocks_of(house)
        self._outputs = {one: number for number, one in enumerate(outputs_of(house, meant))} if device is None else {}
        self._timer = EventSource(house.master, TIMER, HexType.UINT32)
        self._sources: dict[EventSource, int] = {}
        """Numbers of all sources on which something depends, from 1."""
        self._counts: list[range] = []
        """Places of each machine's counts: as many as one state needs."""
        self._kept: dict[EventSource, int] = {}
        """Places of last values."""
        self._groups: dict[EventSource, int] = {}
        """Places of notes that an event is of a group."""
        self._lay_out()
        self._find_source()
        writers = [index for index, ways in enumerate(self._machines) if any(map(self._own_writes, ways))]
        for index in range(len(self._machines)):
            self._machine(index, is_writer=index in writers)
        for place in self._groups.values():
            self.code.put(SmOp.LD_FALSE, SmOp.ST_MEM, _at(HexType.BOOL, place))
        if len(writers) >= STACK_MAX:
            raise CompileError(f"{len(writers)} machines that write are more than {STACK_MAX - 1}")
        for place, index in enumerate(writers):
            self.code.put(SmOp.OP_ROT_I, len(writers) - 1 - place)
            self._write(index)
        self.code.put(SmOp.RET)

    def _lay_out(self) -> None:
        if len(self._machines) > MACHINES_MAX:
            raise CompileError(
                f"{len(self._machines)} machines are more than the {MACHINES_MAX} for which a device has room"
            )
        end = MACHINE_BYTES * len(self._machines)
        kept: dict[EventSource, None] = {}
        for ways in self._machines:
            counted = [way.state for way in ways if isinstance(way.condition, EventTests) and way.condition.samples > 1]
            self._counts.append(range(end, end + max(map(counted.count, counted), default=0)))
            end = self._counts[-1].stop
            for way in ways:
                own = dict.fromkeys(one.source for one in tests_of(way.condition)) or {self._timer: None}
                for one in own:
                    self._sources.setdefault(one, len(self._sources) + 1)
                kept.update(own if isinstance(way.condition, ValueTests) else {})
        for source in kept:
            self._kept[source] = end
            end += 1 + SIZES[source.datatype]
        for source in self._sources:
            if source.origin.startswith(GROUP_PREFIX):
                self._groups[source] = end
                end += 1
        if len(self._sources) > NUMBER_MAX:
            raise CompileError(f"{len(self._sources)} endpoints in conditions are more than {NUMBER_MAX}")
        if end > SOURCE_AT:
            raise CompileError(
                f"states, counts, groups and last values of {len(kept)} endpoints need {end} bytes, "
                f"and a device has room for {SOURCE_AT}"
            )

    def _own_writes(self, way: MeantWay) -> list[bytes]:
        own = [one for one in way.writes if self._device in (one.device, None)]
        eids = [self._outputs.get((one.device, one.endpoint), one.source.eid) for one in own]
        return [
            one.constant + struct.pack(">BIB", SmOp.LD_U32, eid, SmOp.WRITE) for one, eid in zip(own, eids, strict=True)
        ]

    def _find_source(self) -> None:
        """Find the number of the event's source, and keep its value; end if nothing depends on it, or more follows."""
        code, found, of_group = self.code, self.code.fresh(), self.code.fresh()
        labels = {source.eid: code.fresh() for source in self._sources}
        code.put(SmOp.LD_SOURCE_EID)
        code.switch(labels, SmOp.OP_SWITCH_32)
        code.put(SmOp.RET)
        for eid, label in labels.items():
            code.label(label)
            for source, number in self._sources.items():
                if source.eid != eid:
                    continue
                other = code.fresh()
                compared = _WHOLE - (source in self._groups)
                code.put(SmOp.CMP_SRC_IP, compared - 1, source.origin[:compared])
                code.jump(SmOp.JZ, other)
                if (place := self._groups.get(source)) is not None:
                    code.put(SmOp.LD_TRUE, SmOp.ST_MEM, _at(HexType.BOOL, place))
                elif (place := self._kept.get(source)) is not None:
                    code.put(SmOp.LD_SOURCE_VAL, SmOp.ST_MEM, _at(source.datatype, place + 1))
                    code.put(SmOp.LD_TRUE, SmOp.ST_MEM, _at(HexType.BOOL, place))
                code.put(SmOp.LD_U8, number)
                code.jump(SmOp.JUMP, of_group if source in self._groups else found)
                code.label(other)
            code.put(SmOp.RET)
        if self._groups:
            code.label(of_group)
            code.put(SmOp.CMP_SRC_IP, (_WHOLE - 1) * (_WHOLE + 1), bytes([MORE]))
            code.jump(SmOp.JZ, found)
            code.put(SmOp.RET)
        code.label(found)
        code.put(SmOp.ST_MEM, _at(HexType.UINT8, SOURCE_AT))

    def _machine(self, index: int, *, is_writer: bool) -> None:
        """One machine at an event: the first transition of its state that is met; its number, if this device writes."""
        code, enter, nothing, end = self.code, self.code.fresh(), self.code.fresh(), self.code.fresh()
        ways = self._machines[index]
        labels = {way.state: code.fresh() for way in ways}
        code.put(SmOp.LD_MEM, _at(HexType.UINT8, MACHINE_BYTES * index))
        code.switch(labels)
        code.jump(SmOp.JUMP, nothing)
        for state, label in labels.items():
            code.label(label)
            counts = iter(self._counts[index])
            for number, way in enumerate(ways):
                if way.state != state:
                    continue
                otherwise = code.fresh()
                self._condition((index, number), way.condition, counts, otherwise)
                if is_writer:
                    code.put(SmOp.LD_U8, number + 1 if self._own_writes(way) else 0)
                code.put(SmOp.LD_U8, way.go)
                code.jump(SmOp.JUMP, enter)
                code.label(otherwise)
            code.jump(SmOp.JUMP, nothing)
        code.label(enter)
        self._enter(index)
        code.jump(SmOp.JUMP, end)
        code.label(nothing)
        if is_writer:
            code.put(SmOp.LD_U8, 0)
        code.label(end)

    def _enter(self, index: int) -> None:
        """Enter the state that lies on the stack."""
        place = MACHINE_BYTES * index
        changes = _at(HexType.UINT16, place + 1)
        self.code.put(SmOp.ST_MEM, _at(HexType.UINT8, place))
        self.code.put(SmOp.LD_MEM, changes, SmOp.LD_U8, 1, SmOp.OP_ADD, SmOp.ST_MEM, changes)
        for count in self._counts[index]:
            self.code.put(SmOp.LD_U8, 0, SmOp.ST_MEM, _at(HexType.UINT8, count))

    def _write(self, index: int) -> None:
        """Writes of the transition whose number lies on the stack."""
        code, end = self.code, self.code.fresh()
        writes = {number: self._own_writes(way) for number, way in enumerate(self._machines[index], 1)}
        labels = {number: code.fresh() for number, own in writes.items() if own}
        code.switch(labels)
        code.jump(SmOp.JUMP, end)
        for number, label in labels.items():
            code.label(label)
            code.put(*writes[number])
            code.jump(SmOp.JUMP, end)
        code.label(end)

    def _condition(
        self, which: tuple[int, int], condition: MeantCondition, counts: Iterator[int], otherwise: int
    ) -> None:
        """Go on if a condition is met, else jump."""
        code, (index, number) = self.code, which
        match condition:
            case TimeCondition():
                self._is_from([self._timer], otherwise)
                code.put(SmOp.LD_SOURCE_VAL, SmOp.LD_U32, struct.pack(">I", index << 24 | number << 16))
                code.put(SmOp.LD_MEM, _at(HexType.UINT16, MACHINE_BYTES * index + 1), SmOp.OP_OR, SmOp.CMP_EQ)
                code.jump(SmOp.JZ, otherwise)
            case ClockCondition():
                self._is_from([self._timer], otherwise)
                told = struct.pack(">H", CLOCK << 8 | self._clocks.index(condition))
                code.put(SmOp.LD_SOURCE_VAL, SmOp.LD_U8, 16, SmOp.OP_SHR, SmOp.LD_U16, told, SmOp.CMP_EQ)
                code.jump(SmOp.JZ, otherwise)
            case EventTests(tests=tests, samples=samples) if samples > 1:
                self._counted(tests, samples, next(counts), otherwise)
            case EventTests(tests=tests):
                met = code.fresh()
                self._event(tests, met)
                code.jump(SmOp.JUMP, otherwise)
                code.label(met)
            case ValueTests():
                met = code.fresh()
                self._is_from([one.source for one in tests_of(condition)], otherwise)
                self._values(condition, met, otherwise)
                code.label(met)

    def _is_from(self, sources: Sequence[EventSource], otherwise: int) -> None:
        """Go on if the event is of one of these endpoints, else jump."""
        here = self.code.fresh()
        by_group = {one: self._groups[one] for one in sources if one in self._groups}
        for place in by_group.values():
            self.code.put(SmOp.LD_MEM, _at(HexType.BOOL, place))
            self.code.jump(SmOp.JNZ, here)
        if numbers := {self._sources[one]: here for one in sources if one not in by_group}:
            self.code.put(SmOp.LD_MEM, _at(HexType.UINT8, SOURCE_AT))
            self.code.switch(numbers)
        self.code.jump(SmOp.JUMP, otherwise)
        self.code.label(here)

    def _compare(self, load: bytes, test: ValueTest, met: int) -> None:
        """Jump if a value compares so, else go on."""
        for op in _COMPARES[test.relation]:
            self.code.put(load, test.constant, op)
            self.code.jump(SmOp.JNZ, met)

    def _event(self, tests: Iterable[ValueTest], met: int, unmet: int | None = None) -> None:
        """Jump if the event meets a test, or is of one of these endpoints and meets none; else go on."""
        by_constant: dict[bytes, list[ValueTest]] = {}
        for test in tests:
            by_constant.setdefault(test.constant, []).append(test)
        for alike in by_constant.values():
            following = self.code.fresh()
            self._is_from([one.source for one in alike], following)
            self._compare(bytes([SmOp.LD_SOURCE_VAL]), alike[0], met)
            if unmet is not None:
                self.code.jump(SmOp.JUMP, unmet)
            self.code.label(following)

    def _counted(self, tests: Iterable[ValueTest], samples: int, count: int, otherwise: int) -> None:
        """Count an event that meets a test, or begin anew with one that does not; go on with the last one."""
        code, met, unmet = self.code, self.code.fresh(), self.code.fresh()
        place = _at(HexType.UINT8, count)
        self._event(tests, met, unmet)
        code.jump(SmOp.JUMP, otherwise)
        code.label(unmet)
        code.put(SmOp.LD_U8, 0, SmOp.ST_MEM, place)
        code.jump(SmOp.JUMP, otherwise)
        code.label(met)
        code.put(SmOp.LD_MEM, place, SmOp.LD_U8, 1, SmOp.OP_ADD, SmOp.OP_DUP, SmOp.ST_MEM, place)
        code.put(SmOp.LD_U8, samples, SmOp.CMP_EQ)
        code.jump(SmOp.JZ, otherwise)

    def _values(self, test: ValueTest | ValueTests, met: int, unmet: int) -> None:
        """Jump to `met` or `unmet`, as last values are."""
        code = self.code
        if isinstance(test, ValueTest):
            place = self._kept[test.source]
            code.put(SmOp.LD_MEM, _at(HexType.BOOL, place))
            code.jump(SmOp.JZ, unmet)
            self._compare(bytes([SmOp.LD_MEM]) + _at(test.source.datatype, place + 1), test, met)
            code.jump(SmOp.JUMP, unmet)
            return
        for number, part in enumerate(test.parts, 1):
            if number == len(test.parts):
                self._values(part, met, unmet)
            else:
                following = code.fresh()
                self._values(part, following if test.every else met, unmet if test.every else following)
                code.label(following)
