"""Arithmetic of state machines: C-like, on ten datatypes, with the oddities of the original, which devices have.

Whatever is narrower than 32 bits becomes 32 bits wide; with unlike signs the wider one counts, and of equal ones the
unsigned one: -2 is not less than 7 as UINT8. FLOAT is single precision. Integers wrap.

Facts: `shared/sm_machine.c` of the branch `development`. Odd there, and so here: a FLOAT is true if it is no number,
and only then; CMP_LE is CMP_GE; a shift by a negative count shifts the other way.
"""

import math
import operator
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from albireo.codec.hexabus.program import SmOp
from albireo.codec.hexabus.values import HexType

BOOL, FLOAT = int(HexType.BOOL), int(HexType.FLOAT)
UINT32, UINT64 = int(HexType.UINT32), int(HexType.UINT64)
SINT32, SINT64 = int(HexType.SINT32), int(HexType.SINT64)
SIGNED: Final = frozenset(range(int(HexType.SINT8), FLOAT))
BITS: Final = (1, 8, 16, 32, 64, 8, 16, 32, 64)
"""Width of the integers, by their datatypes."""
SHIFT_MAX: Final = 64
_FLOAT: Final = struct.Struct("<f")


class SmError(IntEnum):
    """Why a run ended early."""

    OOB_READ = 1
    OOB_WRITE = 2
    INVALID_OPCODE = 3
    INVALID_TYPES = 4
    DIV_BY_ZERO = 5
    INVALID_HEADER = 6
    INVALID_OPERATION = 7
    STACK_ERROR = 8
    WRITE_FAILED = 9


class SmFault(Exception):
    """A run can't go on."""

    def __init__(self, error: SmError) -> None:
        super().__init__(error.name)
        self.error = error


def single(value: float) -> float:
    """The nearest number of single precision."""
    try:
        found: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def wrapped(value: int, datatype: int) -> int:
    """An integer in the width of its datatype."""
    bits = BITS[datatype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if datatype in SIGNED and value >> (bits - 1) else value


def converted(value: float, datatype: int, to: int) -> float:
    """A value as another datatype. Raises SmFault: it has none there."""
    if datatype == to:
        return value
    if datatype == FLOAT:
        if to == BOOL:
            return int(math.isnan(value))
        if not math.isfinite(value):
            raise SmFault(SmError.INVALID_OPERATION)
        return wrapped(int(value), to)
    if to == FLOAT:
        return single(value)
    return int(value != 0) if to == BOOL else wrapped(int(value), to)


def common(one: int, other: int) -> int:
    """The datatype in which two values are dealt with."""
    if FLOAT in (one, other):
        return FLOAT
    first, second = BITS[one], BITS[other]
    is_wide = max(first, second) == 64
    signs = one in SIGNED, other in SIGNED
    if all(signs) or (signs[0] and first > second) or (signs[1] and second > first):
        return SINT64 if is_wide else SINT32
    return UINT64 if is_wide else UINT32


COMMON: Final = tuple(tuple(common(one, other) for other in range(FLOAT + 1)) for one in range(FLOAT + 1))
"""The same, by both datatypes."""
_LEAST: Final = {UINT32: 0, UINT64: 0, SINT32: -(1 << 31), SINT64: -(1 << 63)}
_MOST: Final = {UINT32: (1 << 32) - 1, UINT64: (1 << 64) - 1, SINT32: (1 << 31) - 1, SINT64: (1 << 63) - 1}


Calculation = Callable[[float, float, int], float]
"""Takes two values and their datatype, which `common` gave. Raises SmFault: a division by zero."""


def _by(plain: Callable[[Any, Any], Any]) -> Calculation:
    """Addition and its like, as Python has them, in the width of a datatype."""

    def calculated(one: float, other: float, datatype: int) -> float:
        found: float = plain(one, other)
        if datatype == FLOAT:
            return single(found)
        return found if _LEAST[datatype] <= found <= _MOST[datatype] else wrapped(int(found), datatype)

    return calculated


def _divided(one: float, other: float, datatype: int) -> float:
    if datatype != FLOAT:
        return wrapped(_quotient(int(one), int(other)), datatype)
    if other:
        return single(one / other)
    return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1.0, other)


def _left_over(one: float, other: float, datatype: int) -> float:
    if datatype != FLOAT:
        return wrapped(int(one) - _quotient(int(one), int(other)) * int(other), datatype)
    if other == 0 or math.isinf(other):
        raise SmFault(SmError.DIV_BY_ZERO)
    return math.nan if math.isinf(one) else single(math.fmod(one, other))


def _quotient(first: int, second: int) -> int:
    """As C divides: towards zero."""
    if not second:
        raise SmFault(SmError.DIV_BY_ZERO)
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


CALCULATIONS: Final[Mapping[SmOp, Calculation]] = {
    SmOp.OP_MUL: _by(operator.mul),
    SmOp.OP_DIV: _divided,
    SmOp.OP_MOD: _left_over,
    SmOp.OP_ADD: _by(operator.add),
    SmOp.OP_SUB: _by(operator.sub),
}
COMPARISONS: Final[Mapping[SmOp, Callable[[Any, Any], bool]]] = {
    SmOp.CMP_LT: operator.lt,
    SmOp.CMP_LE: operator.ge,
    SmOp.CMP_GT: operator.gt,
    SmOp.CMP_GE: operator.ge,
    SmOp.CMP_EQ: operator.eq,
    SmOp.CMP_NEQ: operator.ne,
}


def shifted(op: SmOp, value: float, datatype: int, count: int) -> tuple[int, int]:
    """A value shifted, and its datatype. Raises SmFault: it is no integer."""
    result = common(datatype, BOOL)
    if result == FLOAT:
        raise SmFault(SmError.INVALID_TYPES)
    whole = wrapped(int(value), result)
    count = max(-SHIFT_MAX, min(SHIFT_MAX, count))
    is_left = (op is SmOp.OP_SHL) == (count >= 0)
    count = abs(count)
    if count >= BITS[result]:
        return (-1 if whole < 0 and not is_left else 0), result
    return wrapped(whole << count if is_left else whole >> count, result), result
