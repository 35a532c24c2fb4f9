"""Machine that runs the program of a device: total, bounded, and every run ends.

A program is made ready once: each instruction becomes a function with its argument and the place of the next one. A run
is begun by an event, or each second; the first one begins with the vector `init`, with an empty memory.

Invariants
    ends:    jumps lead forward only, so no run has more steps than the program has instructions.
    bounded: 32 values on the stack, 128 bytes of memory.

Facts: `shared/sm_machine.c` of the branch `development`, except that months before 2000-03-01 are right.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.program import PROGRAMS_KEPT, SmInstruction, SmOp, SmProgram
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue
from albireo.machine.hexabus.arithmetic import (
    BOOL,
    CALCULATIONS,
    COMMON,
    COMPARISONS,
    FLOAT,
    SIGNED,
    SINT32,
    SINT64,
    UINT32,
    Calculation,
    SmError,
    SmFault,
    converted,
    shifted,
    single,
    wrapped,
)

STACK_MAX: Final = 32
MEMORY_BYTES: Final = 128
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_MAX: Final = (1 << 31) * 31_622_400
_MEMORY: Final = tuple(struct.Struct("<" + one) for one in "?BHIQbhiqf")
_CONSTANTS: Final = {
    SmOp.LD_FALSE: HexType.BOOL,
    SmOp.LD_TRUE: HexType.BOOL,
    SmOp.LD_U8: HexType.UINT8,
    SmOp.LD_U16: HexType.UINT16,
    SmOp.LD_U32: HexType.UINT32,
    SmOp.LD_U64: HexType.UINT64,
    SmOp.LD_S8: HexType.SINT8,
    SmOp.LD_S16: HexType.SINT16,
    SmOp.LD_S32: HexType.SINT32,
    SmOp.LD_S64: HexType.SINT64,
    SmOp.LD_FLOAT: HexType.FLOAT,
}
_PARTS: Final = ("weekday", "year", "month", "day", "hour", "minute", "second")
"""Parts of a time as they come onto the stack, from bit 6 of the mask to bit 0."""
END: Final = -1


class SmEvent(msgspec.Struct, frozen=True):
    """Cause of a run: an endpoint of a device has a value."""

    origin: bytes
    eid: int
    value: HexValue


Step = tuple[Callable[["SmMachine", object], int | None], object, int]
"""Function and argument of an instruction, and place of the next one. The function may give another place."""


class SmMachine:
    """The program of a device, with its memory."""

    def __init__(self, program: SmProgram, write: Callable[[int, HexValue], HexError | None]) -> None:
        """`write`: gives an endpoint of the device a value."""
        self.memory = bytearray(MEMORY_BYTES)
        self.is_first = True
        """True: the next run begins with `init`."""
        self._write = write
        self._now_s = 0
        self._event: SmEvent | None = None
        self._stack: list[tuple[int, float]] = []
        """Datatypes and values."""
        self._steps, self._begins = _made_ready(program)

    def resume(self, memory: bytes) -> None:
        """Go on with the memory of another machine that runs the same states."""
        self.memory[:] = memory[:MEMORY_BYTES].ljust(MEMORY_BYTES, b"\0")
        self.is_first = False

    def run(self, event: SmEvent | None, now_s: int) -> SmError | None:
        """Run once, for an event or because a second has passed.

        Args:
            now_s: local time, seconds since 1970.
        Returns:
            The error that ended it early; None: it came to its end.
        """
        self._event, self._now_s = event, now_s
        init, packet, periodic = self._begins
        try:
            if self.is_first:
                self.is_first = False
                self.memory[:] = bytes(MEMORY_BYTES)
                self._go(init)
            self._go(periodic if event is None else packet)
        except SmFault as fault:
            return fault.error
        except IndexError:  # Nothing else here is looked up by a place: the stack is empty.
            return SmError.STACK_ERROR
        return None

    def _go(self, place: int | None) -> None:
        self._stack.clear()
        steps = self._steps
        at = END if place is None else place
        while at != END:
            work, argument, following = steps[at]
            jump = work(self, argument)
            at = following if jump is None else jump

    # The stack.

    def push(self, datatype: int, value: float) -> None:
        if len(self._stack) >= STACK_MAX:
            raise SmFault(SmError.STACK_ERROR)
        self._stack.append((datatype, value))

    def place(self, depth: int) -> int:
        """Index of the value so deep in the stack."""
        if depth >= len(self._stack):
            raise SmFault(SmError.STACK_ERROR)
        return len(self._stack) - 1 - depth

    @property
    def event(self) -> SmEvent:
        """The event of this run. Raises SmFault: none began it."""
        if self._event is None:
            raise SmFault(SmError.INVALID_OPERATION)
        return self._event

    # Operations.

    def source_eid(self, _: object) -> None:
        self.push(UINT32, self.event.eid)

    def source_value(self, _: object) -> None:
        told = self.event.value
        if not isinstance(told.value, int | float):
            raise SmFault(SmError.INVALID_TYPES)
        self.push(int(told.datatype), single(told.value) if told.datatype is HexType.FLOAT else int(told.value))

    def constant(self, told: tuple[int, float]) -> None:
        if len(self._stack) >= STACK_MAX:
            raise SmFault(SmError.STACK_ERROR)
        self._stack.append(told)

    def system_time(self, _: object) -> None:
        self.push(SINT64, wrapped(self._now_s, SINT64))

    def load(self, where: tuple[int, int]) -> None:
        datatype, at = where
        try:
            (value,) = _MEMORY[datatype].unpack_from(self.memory, at)
        except struct.error:
            raise SmFault(SmError.OOB_READ) from None
        self.push(datatype, value if datatype == FLOAT else int(value))

    def store(self, where: tuple[int, int]) -> None:
        datatype, at = where
        held, value = self._stack.pop()
        told = converted(value, held, datatype)
        try:
            _MEMORY[datatype].pack_into(self.memory, at, told)
        except struct.error:
            raise SmFault(SmError.OOB_WRITE) from None

    def _two(self) -> tuple[int, float, float]:
        """The two upper values in their common datatype."""
        second_type, second = self._stack.pop()
        first_type, first = self._stack.pop()
        datatype = COMMON[first_type][second_type]
        if first_type != datatype:
            first = converted(first, first_type, datatype)
        if second_type != datatype:
            second = converted(second, second_type, datatype)
        return datatype, first, second

    def calculate(self, work: Calculation) -> None:
        datatype, first, second = self._two()
        self._stack.append((datatype, work(first, second, datatype)))

    def compare(self, is_so: Callable[[float, float], bool]) -> None:
        _, first, second = self._two()
        self._stack.append((BOOL, int(is_so(first, second))))

    def combine(self, op: SmOp) -> None:
        datatype, first, second = self._two()
        if datatype == FLOAT:
            raise SmFault(SmError.INVALID_TYPES)
        one, other = int(first), int(second)
        found = one & other if op is SmOp.OP_AND else one | other if op is SmOp.OP_OR else one ^ other
        self.push(datatype, wrapped(found, datatype))

    def shift(self, op: SmOp) -> None:
        count_type, count = self._stack.pop()
        datatype, value = self._stack.pop()
        if count_type == FLOAT:
            raise SmFault(SmError.INVALID_TYPES)
        found, result = shifted(op, value, datatype, int(count))
        self.push(result, found)

    def duplicate(self, depth: int) -> None:
        at = self.place(depth)
        self.push(*self._stack[at])

    def rotate(self, depth: int) -> None:
        at = self.place(depth)
        self._stack.append(self._stack.pop(at))

    def drop(self, depth: int) -> None:
        at = self.place(depth)
        del self._stack[at]

    def decompose(self, mask: int) -> None:
        datatype, value = self._stack.pop()
        if datatype == FLOAT:
            raise SmFault(SmError.INVALID_TYPES)
        for bit, part in zip(range(6, -1, -1), parts_of(int(value)), strict=True):
            if mask >> bit & 1:
                self.push(SINT32, part)

    def switch(self, cases: tuple[dict[int, int], dict[int, int]]) -> int | None:
        datatype, value = self._stack.pop()
        if datatype == FLOAT:
            raise SmFault(SmError.INVALID_TYPES)
        return cases[datatype in SIGNED].get(int(value))

    def is_from(self, block: tuple[int, bytes]) -> None:
        first, wanted = block
        self.push(BOOL, int(self.event.origin[first : first + len(wanted)] == wanted))

    def convert(self, to: int) -> None:
        datatype, value = self._stack.pop()
        self.push(to, converted(value, datatype, to))

    def jump_if(self, jump: tuple[bool, int]) -> int | None:
        wanted, place = jump
        datatype, value = self._stack.pop()
        return place if bool(converted(value, datatype, BOOL)) == wanted else None

    def write(self, _: object) -> None:
        eid_type, eid = self._stack.pop()
        datatype, value = self._stack.pop()
        if eid_type == FLOAT:
            raise SmFault(SmError.INVALID_TYPES)
        told: HexScalar = bool(value) if datatype == BOOL else value if datatype == FLOAT else int(value)
        if self._write(int(eid) & 0xFFFFFFFF, HexValue(HexType(datatype), told)) is not None:
            raise SmFault(SmError.WRITE_FAILED)


def parts_of(seconds: int) -> tuple[int, ...]:
    """Weekday (0: Sunday), year since 1900, month from 0, day, hour, minute and second of a time.

    Raises SmFault: its year has no 32 bits.
    """
    if not -_SECONDS_MAX <= seconds <= _SECONDS_MAX:
        raise SmFault(SmError.INVALID_OPERATION)
    days, rest = divmod(seconds, 86_400)
    cycles, day = divmod(days, 146_097)  # The calendar repeats after 400 years.
    found = _EPOCH + timedelta(days=day, seconds=rest)
    weekday, year = (found.isoweekday() % 7), found.year - 1900 + 400 * cycles
    return weekday, year, found.month - 1, found.day, found.hour, found.minute, found.second


@lru_cache(maxsize=PROGRAMS_KEPT)
def _made_ready(program: SmProgram) -> tuple[list[Step], list[int | None]]:
    """Instructions of a program, and where it begins."""
    places = {at: place for place, at in enumerate(sorted(program.instructions))}
    steps = [_step(program.instructions[at], places) for at in sorted(program.instructions)]
    return steps, [None if at is None else places[at] for at in (program.init, program.packet, program.periodic)]


def _step(one: SmInstruction, places: dict[int, int]) -> Step:
    """An instruction made ready."""
    work, argument = _prepared(one, places)
    following = END if one.op in (SmOp.RET, SmOp.JUMP) else places[one.following]
    return work, argument, following  # type: ignore[return-value]  # Each argument is its own function's.


def _prepared(one: SmInstruction, places: dict[int, int]) -> tuple[object, object]:
    op = one.op
    if op in _CONSTANTS:
        return SmMachine.constant, (int(_CONSTANTS[op]), one.immediate)
    if op in CALCULATIONS:
        return SmMachine.calculate, CALCULATIONS[op]
    if op in COMPARISONS:
        return SmMachine.compare, COMPARISONS[op]
    if SmOp.CONV_B <= op <= SmOp.CONV_F:
        return SmMachine.convert, op - SmOp.CONV_B
    for work, ops in _BY_OP.items():
        if op in ops:
            return work, op
    for work, ops in _BY_IMMEDIATE.items():
        if op in ops:
            return work, int(one.immediate)
    match op:
        case SmOp.LD_MEM | SmOp.ST_MEM:
            reference = int(one.immediate)
            return SmMachine.load if op is SmOp.LD_MEM else SmMachine.store, (reference >> 12, reference & 0xFFF)
        case SmOp.CMP_SRC_IP:
            return SmMachine.is_from, (one.first, one.block)
        case SmOp.JNZ | SmOp.JZ:
            return SmMachine.jump_if, (op is SmOp.JNZ, places[one.target])
        case SmOp.JUMP:
            return _jump, places[one.target]
        case SmOp.RET:
            return _end, None
    return SmMachine.switch, _cases(one, places)


def _cases(one: SmInstruction, places: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Places of a switch by label, for values without and with a sign; of equal labels the first one counts."""
    cases = one.cases[::-1]
    return {case.unsigned: places[case.target] for case in cases}, {case.signed: places[case.target] for case in cases}


def _jump(_: SmMachine, place: int) -> int:
    return place


def _end(_: SmMachine, __: object) -> None:
    return None


_BY_OP: Final = {
    SmMachine.source_eid: {SmOp.LD_SOURCE_EID},
    SmMachine.source_value: {SmOp.LD_SOURCE_VAL},
    SmMachine.system_time: {SmOp.LD_SYSTIME},
    SmMachine.combine: {SmOp.OP_AND, SmOp.OP_OR, SmOp.OP_XOR},
    SmMachine.shift: {SmOp.OP_SHL, SmOp.OP_SHR},
    SmMachine.write: {SmOp.WRITE},
}
"""Functions that need to know the operation alone."""
_BY_IMMEDIATE: Final = {
    SmMachine.duplicate: {SmOp.OP_DUP, SmOp.OP_DUP_I},
    SmMachine.rotate: {SmOp.OP_ROT, SmOp.OP_ROT_I},
    SmMachine.drop: {SmOp.POP, SmOp.POP_I},
    SmMachine.decompose: {SmOp.OP_DT_DECOMPOSE},
}
"""Functions that take the immediate."""
