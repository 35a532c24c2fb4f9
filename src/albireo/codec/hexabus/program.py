"""Programs of state machines: 58 operations, of which each run ends, because jumps lead forward only.

    program = version:u8 init:u16 packet:u16 periodic:u16 code      version 0; 0xFF: there is none
    code    = opcode:u8 immediate                                    an address of 0xFFFF: nothing is done then

A jump says how many bytes behind its instruction are skipped. What no vector leads to is not looked at: uploads are
padded. Decoding refuses a program that leaves itself, or jumps into the middle of an instruction.

Facts: numbers of operations as `shared/sm_types.h` of the branch `development` has them.
"""

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError


class SmOp(IntEnum):
    """Operations by their codes."""

    LD_SOURCE_EID = 0
    LD_SOURCE_VAL = 1
    LD_FALSE = 2
    LD_TRUE = 3
    LD_U8 = 4
    LD_U16 = 5
    LD_U32 = 6
    LD_U64 = 7
    LD_S8 = 8
    LD_S16 = 9
    LD_S32 = 10
    LD_S64 = 11
    LD_FLOAT = 12
    LD_SYSTIME = 13
    LD_MEM = 14
    ST_MEM = 15
    OP_MUL = 16
    OP_DIV = 17
    OP_MOD = 18
    OP_ADD = 19
    OP_SUB = 20
    OP_AND = 21
    OP_OR = 22
    OP_XOR = 23
    OP_SHL = 24
    OP_SHR = 25
    OP_DUP = 26
    OP_DUP_I = 27
    OP_ROT = 28
    OP_ROT_I = 29
    OP_DT_DECOMPOSE = 30
    OP_SWITCH_8 = 31
    OP_SWITCH_16 = 32
    OP_SWITCH_32 = 33
    CMP_SRC_IP = 34
    CMP_LT = 35
    CMP_LE = 36
    CMP_GT = 37
    CMP_GE = 38
    CMP_EQ = 39
    CMP_NEQ = 40
    CONV_B = 41
    CONV_U8 = 42
    CONV_U16 = 43
    CONV_U32 = 44
    CONV_U64 = 45
    CONV_S8 = 46
    CONV_S16 = 47
    CONV_S32 = 48
    CONV_S64 = 49
    CONV_F = 50
    JNZ = 51
    JZ = 52
    JUMP = 53
    WRITE = 54
    POP = 55
    POP_I = 56
    RET = 57


VERSION: Final = 0
NO_PROGRAM: Final = 0xFF
NOTHING: Final = 0xFFFF
HEAD: Final = struct.Struct(">BHHH")
PROGRAM_BYTES_MAX: Final = 2_048
"""Room of a device for a program."""
PROGRAMS_KEPT: Final = 64
"""Programs that need not be decoded again: devices begin anew, and masters take over."""
_IMMEDIATES: Final = {
    SmOp.LD_U8: struct.Struct(">B"),
    SmOp.LD_U16: struct.Struct(">H"),
    SmOp.LD_U32: struct.Struct(">I"),
    SmOp.LD_U64: struct.Struct(">Q"),
    SmOp.LD_S8: struct.Struct(">b"),
    SmOp.LD_S16: struct.Struct(">h"),
    SmOp.LD_S32: struct.Struct(">i"),
    SmOp.LD_S64: struct.Struct(">q"),
    SmOp.LD_FLOAT: struct.Struct(">f"),
    SmOp.LD_MEM: struct.Struct(">H"),
    SmOp.ST_MEM: struct.Struct(">H"),
    SmOp.OP_DUP_I: struct.Struct(">B"),
    SmOp.OP_ROT_I: struct.Struct(">B"),
    SmOp.POP_I: struct.Struct(">B"),
    SmOp.OP_DT_DECOMPOSE: struct.Struct(">B"),
    SmOp.JNZ: struct.Struct(">H"),
    SmOp.JZ: struct.Struct(">H"),
    SmOp.JUMP: struct.Struct(">H"),
}
JUMPS: Final = frozenset({SmOp.JNZ, SmOp.JZ, SmOp.JUMP})
MEMORY: Final = frozenset({SmOp.LD_MEM, SmOp.ST_MEM})
_LABELS: Final = {
    SmOp.OP_SWITCH_8: (struct.Struct(">B"), struct.Struct(">b")),
    SmOp.OP_SWITCH_16: (struct.Struct(">H"), struct.Struct(">h")),
    SmOp.OP_SWITCH_32: (struct.Struct(">I"), struct.Struct(">i")),
}
MEMORY_TYPES: Final = 10
"""Datatypes that stand in memory: BOOL to FLOAT."""


class SmCase(msgspec.Struct, frozen=True):
    """A case of a switch."""

    unsigned: int
    signed: int
    """The label, for a value without and with a sign."""
    target: int


class SmInstruction(msgspec.Struct, frozen=True):
    """An instruction. Addresses count from the begin of the program."""

    at: int
    op: SmOp
    following: int
    """Address behind it."""
    immediate: int | float = 0
    """Constant, place in memory with its type, number of a stack value, or mask."""
    target: int = 0
    """Address to which it jumps."""
    first: int = 0
    """First byte of an address that is compared, of 16."""
    block: bytes = b""
    cases: tuple[SmCase, ...] = ()


class SmProgram(msgspec.Struct, frozen=True, eq=False):
    """A program: its instructions by address, and where it begins. It is equal to itself alone."""

    init: int | None
    packet: int | None
    periodic: int | None
    instructions: dict[int, SmInstruction]


@lru_cache(maxsize=PROGRAMS_KEPT)
def decode_program(data: bytes, bytes_max: int = PROGRAM_BYTES_MAX) -> SmProgram | None:
    """A program; None: there is none.

    Args:
        bytes_max: room that there is for it.

    Raises:
        DecodeError: it is of another version, or can't be run to an end.
    """
    if data[:1] == bytes([NO_PROGRAM]):
        return None
    if len(data) < HEAD.size or len(data) > bytes_max:
        raise DecodeError(0, f"a program has {HEAD.size} to {bytes_max:,} bytes")
    version, *vectors = HEAD.unpack_from(data)
    if version != VERSION:
        raise DecodeError(0, f"a program of version {version}, not {VERSION}")
    init, packet, periodic = (None if one == NOTHING else one for one in vectors)
    instructions: dict[int, SmInstruction] = {}
    waiting = [one for one in (init, packet, periodic) if one is not None]
    while waiting:
        at = waiting.pop()
        if at in instructions:
            continue
        one = instructions[at] = _instruction(data, at)
        waiting += [case.target for case in one.cases]
        if one.op in JUMPS:
            waiting.append(one.target)
        if one.op not in (SmOp.JUMP, SmOp.RET):
            waiting.append(one.following)
    end = HEAD.size
    for at in sorted(instructions):
        if at < end:
            raise DecodeError(at, "a jump into the middle of an instruction, or into the vectors")
        end = instructions[at].following
    return SmProgram(init, packet, periodic, instructions)


def _instruction(data: bytes, at: int) -> SmInstruction:
    try:
        op = SmOp(data[at])
        if op in _IMMEDIATES:
            return _of_immediate(data, at, op)
        if op in _LABELS:
            return _of_switch(data, at, op)
        if op is SmOp.CMP_SRC_IP:
            return _of_address(data, at)
    except (IndexError, struct.error) as error:
        raise DecodeError(at, "the program ends within an instruction, or goes on behind its end") from error
    except DecodeError:
        raise
    except ValueError as error:
        raise DecodeError(at, f"there is no operation {data[at]}") from error
    immediate = {SmOp.LD_TRUE: 1, SmOp.OP_ROT: 1}.get(op, 0)
    return SmInstruction(at, op, at + 1, immediate)


def _of_address(data: bytes, at: int) -> SmInstruction:
    first, last = divmod(data[at + 1], 16)
    block = data[at + 2 : at + 3 + last - first]
    if first > last or len(block) < last - first + 1:
        raise DecodeError(at, "an address that is compared has an end before its begin")
    return SmInstruction(at, SmOp.CMP_SRC_IP, at + 2 + len(block), first=first, block=block)


def _of_immediate(data: bytes, at: int, op: SmOp) -> SmInstruction:
    shape = _IMMEDIATES[op]
    (immediate,) = shape.unpack_from(data, at + 1)
    following = at + 1 + shape.size
    if op in JUMPS:
        return SmInstruction(at, op, following, target=following + immediate)
    if op in MEMORY and immediate >> 12 >= MEMORY_TYPES:
        raise DecodeError(at, f"nothing in memory has the type {immediate >> 12}")
    return SmInstruction(at, op, following, immediate)


def _of_switch(data: bytes, at: int, op: SmOp) -> SmInstruction:
    unsigned, signed = _LABELS[op]
    count, place = data[at + 1], at + 2
    following = place + count * (unsigned.size + 2)
    cases = []
    for _ in range(count):
        (label,), (with_sign,) = unsigned.unpack_from(data, place), signed.unpack_from(data, place)
        (skip,) = struct.unpack_from(">H", data, place + unsigned.size)
        cases.append(SmCase(label, with_sign, following + skip))
        place += unsigned.size + 2
    return SmInstruction(at, op, following, cases=tuple(cases))
