"""The byte-code machine: each operation, the oddities of the original, programs that are refused, and hostile ones."""

import math
import random
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.program import HEAD, NOTHING, PROGRAM_BYTES_MAX, SmOp, decode_program
from albireo.codec.hexabus.values import HexScalar, HexType, HexValue
from albireo.machine.hexabus.arithmetic import SmError, SmFault, common, converted, wrapped
from albireo.machine.hexabus.vm import MEMORY_BYTES, STACK_MAX, SmEvent, SmMachine, parts_of

Code = Sequence[int | bytes]
ORIGIN: Final = bytes(range(16))
TOO_MANY: Final[Code] = [SmOp.LD_TRUE] * (STACK_MAX + 1)
EVENT: Final = SmEvent(ORIGIN, 77, HexValue(HexType.SINT16, -5))
LOADS: Final = {
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


def load(datatype: HexType, value: float) -> bytes:
    if datatype is HexType.BOOL:
        return bytes([SmOp.LD_TRUE if value else SmOp.LD_FALSE])
    op, shape = LOADS[datatype]
    return bytes([op]) + struct.pack(shape, value)


def program(code: Code, init: Code = (), periodic: Code = ()) -> bytes:
    """A program whose vectors are these."""
    parts = [b"".join(bytes([one]) if isinstance(one, int) else one for one in part) for part in (init, code, periodic)]
    at, vectors = HEAD.size, []
    for part in parts:
        vectors.append(at if part else NOTHING)
        at += len(part)
    return HEAD.pack(0, *vectors) + b"".join(parts)


class World:
    """A machine, and what it writes."""

    def __init__(self, data: bytes, refused: HexError | None = None) -> None:
        self.written: list[tuple[int, HexValue]] = []
        self.refused = refused
        found = decode_program(data)
        assert found is not None
        self.machine = SmMachine(found, self.write)

    def write(self, eid: int, value: HexValue) -> HexError | None:
        self.written.append((eid, value))
        return self.refused

    def run(self, event: SmEvent | None = EVENT, now_s: int = 0) -> SmError | None:
        return self.machine.run(event, now_s)


def told(value: float) -> bytes:
    return bytes([SmOp.LD_U8, int(value), SmOp.WRITE])


def result(*code: int | bytes) -> HexValue | SmError:
    """The value on top of the stack behind this code, or how it failed."""
    world = World(program([*code, told(9), SmOp.RET]))
    error = world.run()
    if error is not None:
        return error
    ((eid, value),) = world.written
    assert eid == 9
    return value


def value(datatype: HexType, number: HexScalar) -> HexValue:
    return HexValue(datatype, number)


def test_constants_event_time_and_comparisons_of_addresses() -> None:
    for datatype in (HexType.BOOL, *LOADS):
        assert result(load(datatype, 1)) == value(datatype, {HexType.BOOL: True, HexType.FLOAT: 1.0}.get(datatype, 1))
    assert result(SmOp.LD_SOURCE_EID) == value(HexType.UINT32, 77)
    assert result(SmOp.LD_SOURCE_VAL) == value(HexType.SINT16, -5)
    world = World(program([SmOp.LD_SYSTIME, told(1), SmOp.RET]))
    assert world.run(now_s=1234) is None and world.written == [(1, value(HexType.SINT64, 1234))]
    assert result(SmOp.CMP_SRC_IP, 0x24, ORIGIN[2:5]) == value(HexType.BOOL, True)
    assert result(SmOp.CMP_SRC_IP, 0x24, b"abc") == value(HexType.BOOL, False)
    assert result(SmOp.CMP_SRC_IP, 0x0F, ORIGIN) == value(HexType.BOOL, True)


def test_without_an_event_there_is_nothing_to_load() -> None:
    codes: list[Code] = [[SmOp.LD_SOURCE_EID], [SmOp.LD_SOURCE_VAL], [SmOp.CMP_SRC_IP, 0, b"a"]]
    for code in codes:
        world = World(program([], periodic=[*code, SmOp.RET]))
        assert world.run(None) is SmError.INVALID_OPERATION
    text = SmEvent(ORIGIN, 1, HexValue(HexType.STRING, "x"))
    assert World(program([SmOp.LD_SOURCE_VAL, SmOp.RET])).run(text) is SmError.INVALID_TYPES


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (HexType.BOOL, HexType.BOOL, HexType.UINT32),
        (HexType.UINT8, HexType.UINT16, HexType.UINT32),
        (HexType.SINT8, HexType.SINT8, HexType.SINT32),
        (HexType.SINT8, HexType.UINT8, HexType.UINT32),
        (HexType.SINT16, HexType.UINT8, HexType.SINT32),
        (HexType.UINT16, HexType.SINT8, HexType.UINT32),
        (HexType.SINT32, HexType.UINT32, HexType.UINT32),
        (HexType.SINT64, HexType.UINT32, HexType.SINT64),
        (HexType.SINT64, HexType.UINT64, HexType.UINT64),
        (HexType.UINT64, HexType.SINT8, HexType.UINT64),
        (HexType.FLOAT, HexType.UINT64, HexType.FLOAT),
    ],
)
def test_two_values_meet_in_a_datatype(one: HexType, other: HexType, found: HexType) -> None:
    assert common(one, other) == common(other, one) == found


@pytest.mark.parametrize(
    ("first", "second", "op", "found"),
    [
        ((HexType.UINT8, 200), (HexType.UINT8, 100), SmOp.OP_ADD, (HexType.UINT32, 300)),
        ((HexType.UINT8, 1), (HexType.UINT8, 2), SmOp.OP_SUB, (HexType.UINT32, 2**32 - 1)),
        ((HexType.SINT8, 1), (HexType.SINT8, 2), SmOp.OP_SUB, (HexType.SINT32, -1)),
        ((HexType.SINT32, 2**31 - 1), (HexType.SINT32, 1), SmOp.OP_ADD, (HexType.SINT32, -(2**31))),
        ((HexType.UINT64, 2**63), (HexType.UINT8, 2), SmOp.OP_MUL, (HexType.UINT64, 0)),
        ((HexType.SINT32, -7), (HexType.SINT32, 2), SmOp.OP_DIV, (HexType.SINT32, -3)),
        ((HexType.SINT32, -7), (HexType.SINT32, 2), SmOp.OP_MOD, (HexType.SINT32, -1)),
        ((HexType.SINT32, 7), (HexType.SINT32, -2), SmOp.OP_MOD, (HexType.SINT32, 1)),
        ((HexType.SINT32, -(2**31)), (HexType.SINT32, -1), SmOp.OP_DIV, (HexType.SINT32, -(2**31))),
        ((HexType.SINT64, -(2**63)), (HexType.SINT64, -1), SmOp.OP_MOD, (HexType.SINT64, 0)),
        ((HexType.FLOAT, 1.5), (HexType.UINT8, 2), SmOp.OP_MUL, (HexType.FLOAT, 3.0)),
        ((HexType.FLOAT, 1.0), (HexType.FLOAT, 0.0), SmOp.OP_DIV, (HexType.FLOAT, math.inf)),
        ((HexType.FLOAT, -1.0), (HexType.FLOAT, 0.0), SmOp.OP_DIV, (HexType.FLOAT, -math.inf)),
        ((HexType.FLOAT, 3e38), (HexType.FLOAT, 10.0), SmOp.OP_MUL, (HexType.FLOAT, math.inf)),
        ((HexType.FLOAT, -7.5), (HexType.FLOAT, 2.0), SmOp.OP_MOD, (HexType.FLOAT, -1.5)),
        ((HexType.UINT8, 6), (HexType.UINT8, 3), SmOp.OP_AND, (HexType.UINT32, 2)),
        ((HexType.UINT8, 6), (HexType.UINT8, 3), SmOp.OP_OR, (HexType.UINT32, 7)),
        ((HexType.SINT8, -1), (HexType.SINT8, 1), SmOp.OP_XOR, (HexType.SINT32, -2)),
        ((HexType.UINT8, 1), (HexType.UINT8, 31), SmOp.OP_SHL, (HexType.UINT32, 2**31)),
        ((HexType.UINT8, 1), (HexType.UINT8, 32), SmOp.OP_SHL, (HexType.UINT32, 0)),
        ((HexType.SINT8, -8), (HexType.UINT8, 1), SmOp.OP_SHR, (HexType.SINT32, -4)),
        ((HexType.SINT8, -8), (HexType.UINT8, 99), SmOp.OP_SHR, (HexType.SINT32, -1)),
        ((HexType.UINT8, 8), (HexType.SINT8, -1), SmOp.OP_SHL, (HexType.UINT32, 4)),
        ((HexType.UINT8, 8), (HexType.SINT8, -1), SmOp.OP_SHR, (HexType.UINT32, 16)),
        ((HexType.SINT8, -2), (HexType.UINT8, 7), SmOp.CMP_LT, (HexType.BOOL, False)),
        ((HexType.SINT8, -2), (HexType.SINT8, 7), SmOp.CMP_LT, (HexType.BOOL, True)),
        ((HexType.UINT8, 7), (HexType.UINT8, 2), SmOp.CMP_LE, (HexType.BOOL, True)),
        ((HexType.UINT8, 2), (HexType.UINT8, 7), SmOp.CMP_LE, (HexType.BOOL, False)),
        ((HexType.UINT8, 7), (HexType.UINT8, 7), SmOp.CMP_GE, (HexType.BOOL, True)),
        ((HexType.UINT8, 7), (HexType.FLOAT, 7.0), SmOp.CMP_EQ, (HexType.BOOL, True)),
        ((HexType.FLOAT, math.nan), (HexType.FLOAT, math.nan), SmOp.CMP_NEQ, (HexType.BOOL, True)),
        ((HexType.UINT8, 7), (HexType.UINT8, 2), SmOp.CMP_GT, (HexType.BOOL, True)),
    ],
)
def test_operations_of_two_values(
    first: tuple[HexType, float], second: tuple[HexType, float], op: SmOp, found: tuple[HexType, float]
) -> None:
    assert result(load(*first), load(*second), op) == value(*found)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ([load(HexType.UINT8, 1), load(HexType.UINT8, 0), SmOp.OP_DIV], SmError.DIV_BY_ZERO),
        ([load(HexType.SINT64, 1), load(HexType.SINT64, 0), SmOp.OP_MOD], SmError.DIV_BY_ZERO),
        ([load(HexType.FLOAT, 1), load(HexType.FLOAT, 0), SmOp.OP_MOD], SmError.DIV_BY_ZERO),
        ([load(HexType.FLOAT, 1), load(HexType.FLOAT, math.inf), SmOp.OP_MOD], SmError.DIV_BY_ZERO),
        ([load(HexType.FLOAT, 1), load(HexType.UINT8, 1), SmOp.OP_AND], SmError.INVALID_TYPES),
        ([load(HexType.FLOAT, 1), load(HexType.UINT8, 1), SmOp.OP_SHL], SmError.INVALID_TYPES),
        ([load(HexType.UINT8, 1), load(HexType.FLOAT, 1), SmOp.OP_SHR], SmError.INVALID_TYPES),
        ([load(HexType.FLOAT, math.inf), SmOp.CONV_U8], SmError.INVALID_OPERATION),
        ([load(HexType.FLOAT, 1), SmOp.OP_DT_DECOMPOSE, 1], SmError.INVALID_TYPES),
        ([load(HexType.FLOAT, 1), SmOp.OP_SWITCH_8, 0], SmError.INVALID_TYPES),
        ([load(HexType.SINT64, 2**63 - 1), SmOp.OP_DT_DECOMPOSE, 1], SmError.INVALID_OPERATION),
        ([SmOp.OP_ADD], SmError.STACK_ERROR),
        ([load(HexType.UINT8, 1), SmOp.OP_ADD], SmError.STACK_ERROR),
        ([SmOp.POP], SmError.STACK_ERROR),
        ([SmOp.LD_TRUE, SmOp.OP_DUP_I, 1], SmError.STACK_ERROR),
        ([SmOp.LD_TRUE, SmOp.OP_ROT], SmError.STACK_ERROR),
        ([SmOp.LD_TRUE, SmOp.WRITE], SmError.STACK_ERROR),
        ([SmOp.JNZ, 0, 0], SmError.STACK_ERROR),
        (TOO_MANY, SmError.STACK_ERROR),
        ([SmOp.LD_MEM, 0x10, MEMORY_BYTES], SmError.OOB_READ),
        ([SmOp.LD_MEM, 0x30, MEMORY_BYTES - 3], SmError.OOB_READ),
        ([SmOp.LD_TRUE, SmOp.ST_MEM, 0x10, MEMORY_BYTES], SmError.OOB_WRITE),
        ([load(HexType.FLOAT, math.nan), SmOp.ST_MEM, 0x10, 0], SmError.INVALID_OPERATION),
    ],
)
def test_what_can_not_be_done_ends_the_run(code: Code, error: SmError) -> None:
    assert World(program([*code, SmOp.RET])).run() is error


def test_values_are_moved_on_the_stack() -> None:
    three = [load(HexType.UINT8, one) for one in (1, 2, 3)]
    assert result(*three, SmOp.OP_DUP) == value(HexType.UINT8, 3)
    assert result(*three, SmOp.OP_DUP_I, 2) == value(HexType.UINT8, 1)
    assert result(*three, SmOp.OP_ROT) == value(HexType.UINT8, 2)
    assert result(*three, SmOp.OP_ROT_I, 2) == value(HexType.UINT8, 1)
    assert result(*three, SmOp.OP_ROT_I, 2, SmOp.POP) == value(HexType.UINT8, 3)
    assert result(*three, SmOp.POP_I, 1, SmOp.POP) == value(HexType.UINT8, 1)
    assert result(*TOO_MANY[2:]) == value(HexType.BOOL, True)


@pytest.mark.parametrize("datatype", [HexType.BOOL, *LOADS])
def test_memory_keeps_each_datatype_and_is_empty_at_the_first_run(datatype: HexType) -> None:
    reference = bytes([datatype << 4, 16])
    store: Code = [load(datatype, 1), SmOp.ST_MEM, reference]
    world = World(program([SmOp.LD_MEM, reference, told(1), *store, SmOp.RET]))
    world.machine.memory[:] = b"\xff" * MEMORY_BYTES
    assert world.run() is None and world.run() is None
    assert [found.value for _, found in world.written] == [0, 1]
    assert {found.datatype for _, found in world.written} == {datatype}


@pytest.mark.parametrize("datatype", [HexType.BOOL, *LOADS])
def test_each_datatype_is_converted_to_each_other_one(datatype: HexType) -> None:
    for to in (HexType.BOOL, *LOADS):
        number = 1.0 if datatype is HexType.FLOAT else 1
        found = result(load(datatype, number), SmOp.CONV_B + (to - HexType.BOOL))
        odd = datatype is HexType.FLOAT and to is HexType.BOOL
        assert found == value(to, {HexType.BOOL: not odd, HexType.FLOAT: 1.0}.get(to, 1))


def test_a_float_is_true_if_it_is_no_number() -> None:
    assert [converted(one, HexType.FLOAT, HexType.BOOL) for one in (0.0, 1.0, math.inf, math.nan)] == [0, 0, 0, 1]


@given(st.integers(-(2**70), 2**70), st.sampled_from([*LOADS][:-1]))
def test_integers_wrap(number: int, datatype: HexType) -> None:
    found = wrapped(number, datatype)
    shape = struct.Struct(LOADS[datatype][1])
    shape.pack(found)
    assert (found - number) % 2 ** (8 * shape.size) == 0


def test_jumps_and_switches() -> None:
    skipped = [SmOp.JUMP, 0, 1, SmOp.RET]
    assert result(*skipped, SmOp.LD_TRUE) == value(HexType.BOOL, True)
    for op, condition, found in (
        (SmOp.JNZ, SmOp.LD_TRUE, False), (SmOp.JNZ, SmOp.LD_FALSE, True),
        (SmOp.JZ, SmOp.LD_TRUE, True), (SmOp.JZ, SmOp.LD_FALSE, False),
    ):  # fmt: skip
        assert result(SmOp.LD_FALSE, condition, op, 0, 2, SmOp.POP, SmOp.LD_TRUE) == value(HexType.BOOL, found)


@pytest.mark.parametrize(
    ("op", "shape"), [(SmOp.OP_SWITCH_8, ">b"), (SmOp.OP_SWITCH_16, ">h"), (SmOp.OP_SWITCH_32, ">i")]
)
def test_a_switch_goes_to_the_label_that_is_the_value_with_its_sign(op: SmOp, shape: str) -> None:
    seven: Code = [SmOp.LD_U8, 7, SmOp.JUMP, 0, 2]
    labels: Code = [struct.pack(shape, -2), 0, len(seven), struct.pack(shape, 5), 0, 0]
    for loaded, found in (
        (load(HexType.SINT8, -2), 8),
        (load(HexType.UINT8, 5), 7),
        (load(HexType.UINT8, 9), 7),
        (load(HexType.UINT8, 254), 8 if op is SmOp.OP_SWITCH_8 else 7),
    ):
        assert result(loaded, op, 2, *labels, *seven, SmOp.LD_U8, 8) == value(HexType.UINT8, found)


@given(st.integers(-62_000_000_000, 253_000_000_000))
def test_times_are_taken_apart_as_the_calendar_has_them(seconds: int) -> None:
    found = datetime.fromtimestamp(seconds, UTC) if seconds >= -62_000_000_000 else None
    assert found is not None
    assert parts_of(seconds) == (
        found.isoweekday() % 7, found.year - 1900, found.month - 1, found.day, found.hour, found.minute, found.second,
    )  # fmt: skip


def test_a_mask_chooses_parts_of_a_time() -> None:
    seconds = int(datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC).timestamp())
    world = World(program([load(HexType.SINT64, seconds), SmOp.OP_DT_DECOMPOSE, 0x7F, *[told(1)] * 7, SmOp.RET]))
    assert world.run() is None
    assert [found.value for _, found in world.written] == [3, 2, 1, 28, 10, 126, 6]
    with pytest.raises(SmFault):
        parts_of(2**62)


def test_the_first_run_begins_with_init_and_a_failed_write_ends_a_run() -> None:
    data = program([told(2), SmOp.RET], [SmOp.LD_TRUE, told(1), SmOp.RET], [SmOp.LD_FALSE, told(3), SmOp.RET])
    world = World(data)
    assert world.run() is SmError.STACK_ERROR and [eid for eid, _ in world.written] == [1]
    assert world.run(None) is None and [eid for eid, _ in world.written] == [1, 3]
    refused = World(data, HexError.DATATYPE)
    assert refused.run(None) is SmError.WRITE_FAILED and [eid for eid, _ in refused.written] == [1]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "bytes"),
        (b"\0" * 6, "bytes"),
        (bytes(PROGRAM_BYTES_MAX + 1), "bytes"),
        (HEAD.pack(1, 7, NOTHING, NOTHING) + bytes([SmOp.RET]), "version 1"),
        (program([58]), "no operation 58"),
        (program([255]), "no operation 255"),
        (program([SmOp.LD_TRUE]), "behind its end"),
        (program([SmOp.LD_U32, 0, 0]), "within an instruction"),
        (program([SmOp.JUMP, 0, 5]), "behind its end"),
        (program([SmOp.JUMP, 255, 255]), "behind its end"),
        (program([SmOp.LD_TRUE, SmOp.JZ, 0, 1, SmOp.LD_U8, SmOp.RET, SmOp.RET]), "middle"),
        (HEAD.pack(0, 3, NOTHING, NOTHING) + bytes([SmOp.RET] * 20), "middle|no operation"),
        (HEAD.pack(0, 9_999, NOTHING, NOTHING) + bytes([SmOp.RET]), "behind its end"),
        (program([SmOp.LD_MEM, 0xA0, 0, SmOp.RET]), "type 10"),
        (program([SmOp.CMP_SRC_IP, 0x42, b"abc", SmOp.RET]), "before its begin"),
        (program([SmOp.CMP_SRC_IP, 0x0F, b"abc"]), "before its begin"),
        (program([SmOp.LD_TRUE, SmOp.OP_SWITCH_16, 3, 0, 0]), "within an instruction"),
    ],
)
def test_a_program_that_can_not_be_run_to_an_end_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode_program(data)


def test_there_may_be_no_program_and_padding_is_not_looked_at() -> None:
    assert decode_program(b"\xff" * 64) is None
    padded = program([SmOp.LD_TRUE, told(1), SmOp.RET]) + b"\xff" * 40
    world = World(padded)
    assert world.run() is None and world.run(None) is None and len(world.written) == 1


@pytest.mark.parametrize("seed", range(300))
def test_hostile_programs_end_or_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    code = bytes(chance.choice([chance.randrange(58), chance.randrange(256), 0, SmOp.LD_U8]) for _ in range(200))
    data = HEAD.pack(0, 7, 7 + chance.randrange(50), 7 + chance.randrange(50)) + code + bytes([SmOp.RET] * 600)
    try:
        found = decode_program(data)
    except DecodeError:
        return
    assert found is not None
    machine = SmMachine(found, lambda _, __: None)
    for event in (EVENT, None, EVENT):
        assert machine.run(event, 0) in (None, *SmError)
