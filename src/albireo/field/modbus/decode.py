"""Registers <-> engineering values: whole columns at a time for reading, single values for writing.

A layout is worked out once from the item table. A poll then costs a fixed number of numpy operations per register type,
however many items there are.

Rules for what a device may say:
- NaN is a sensor that has no value: BadSensorFailure. Infinities are BadOutOfRange.
- A float32 is the shortest decimal that tells it from its neighbours, 40.1 and not 40.099998474121094 (ADR-0262).
- A uint64 above 2**63 - 1 does not fit the stored type: BadOutOfRange.
- A string ends at its first NUL; bytes that are not UTF-8 are replaced and the value is UncertainSubNormal.

Spec: MODBUS Application Protocol V1.1b3, 4.2 (big-endian within a register); the order of registers is not
standardised, hence `word_order`; ADR-0034.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.contract import PolledColumns
from albireo.field.modbus.items import DTYPES, WORDS, ModbusItem, RegisterType
from albireo.field.modbus.plan import PollPlan
from albireo.field.modbus.scaling import Scaling
from albireo.model.decimals import scaled, shortest
from albireo.model.quality import BAD_CLASS, BAD_OUT_OF_RANGE, BAD_SENSOR_FAILURE, SEVERITY_SHIFT, UNCERTAIN_SUB_NORMAL
from albireo.model.samples import Strings
from albireo.model.value import Value, ValueType

_INT64_MAX: Final = 2**63 - 1


class _Numbers(msgspec.Struct, frozen=True, eq=False):
    """Items of one register type and byte order that end in one column."""

    dtype: str
    is_byte_swapped: bool
    words: NDArray[np.intp]
    """(items, registers): image positions, most significant word first."""
    slots: NDArray[np.intp]
    """Rows of the values in their column."""
    scalings: Sequence[Scaling]
    columns: NDArray[np.float64]
    """`Scaling.columns` of each."""

    def scaled(self, raw: NDArray[np.int64 | np.uint64 | np.float64]) -> NDArray[np.float64]:
        """Engineering values of raw numbers, one of each item."""
        times, plus, by, raw_max = self.columns
        number = raw.astype(np.float64)
        found: NDArray[np.float64] = (number * times + plus) / by
        beyond = np.flatnonzero(np.abs(number) > raw_max)
        if len(beyond):
            found[beyond], is_sure = scaled(number[beyond], times[beyond], plus[beyond], by[beyond])
            for place in beyond[~is_sure].tolist():
                found[place] = self.scalings[place].value(raw[place].item())
        return found


class _Bits(msgspec.Struct, frozen=True, eq=False):
    """Bool items of registers: one bit, or any bit."""

    words: NDArray[np.intp]
    mask: NDArray[np.uint16]
    slots: NDArray[np.intp]


class _Text(msgspec.Struct, frozen=True):
    start: int
    stop: int
    length: int
    is_low_word_first: bool
    is_byte_swapped: bool


class Layout:
    """Makes columns of the images of a plan."""

    def __init__(self, items: Sequence[ModbusItem], plan: PollPlan) -> None:
        self._rows = {
            value_type: np.array([r for r, one in enumerate(items) if one.item.value_type is value_type], np.intp)
            for value_type in ValueType
        }
        self._floats = _numbers(items, plan, self._rows[ValueType.FLOAT64])
        self._ints = _numbers(items, plan, self._rows[ValueType.INT64])
        bools = self._rows[ValueType.BOOL].tolist()
        slots = [(slot, row) for slot, row in enumerate(bools) if items[row].kind.is_bits]
        self._plain_slots = np.array([slot for slot, _ in slots], np.intp)
        self._plain_at = np.array([plan.positions[row] for _, row in slots], np.intp)
        self._register_bits = _register_bits(items, plan, bools)
        self._texts = [_text(items[row], plan.positions[row]) for row in self._rows[ValueType.STRING].tolist()]

    def columns(
        self, registers: NDArray[np.uint16], bits: NDArray[np.uint8], quality: NDArray[np.uint32]
    ) -> list[PolledColumns]:
        """Columns of the values in the images.

        Args:
            registers: image of registers, native byte order.
            bits: image of bits, 0 or 1.
            quality: of each item as far as the wire knows it, by row.
        """
        found = []
        for value_type, rows in self._rows.items():
            if not len(rows):
                continue
            marks = quality[rows]
            value: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint8] | Strings
            match value_type:
                case ValueType.FLOAT64:
                    value = self._float_column(registers, len(rows))
                    _mark_unfit(value, marks)
                case ValueType.INT64:
                    value = self._int_column(registers, len(rows), marks)
                case ValueType.BOOL:
                    value = self._bool_column(registers, bits, len(rows))
                case ValueType.STRING:
                    value = self._string_column(registers, marks)
            found.append(PolledColumns(value_type=value_type, rows=rows, value=value, quality=marks))
        return found

    def _float_column(self, registers: NDArray[np.uint16], count: int) -> NDArray[np.float64]:
        column = np.zeros(count, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # A value that is no number gets its quality next.
            for group in self._floats:
                column[group.slots] = group.scaled(_raw(group, registers))
        return column

    def _int_column(self, registers: NDArray[np.uint16], count: int, marks: NDArray[np.uint32]) -> NDArray[np.int64]:
        column = np.zeros(count, np.int64)
        for group in self._ints:
            raw = _raw(group, registers)
            if group.dtype == ">u8":
                too_large = raw > _INT64_MAX
                unfit = group.slots[too_large & (marks[group.slots] >> SEVERITY_SHIFT < BAD_CLASS)]
                marks[unfit] = BAD_OUT_OF_RANGE
                raw = np.where(too_large, 0, raw)
            column[group.slots] = raw
        return column

    def _bool_column(self, registers: NDArray[np.uint16], bits: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
        column = np.zeros(count, np.uint8)
        column[self._plain_slots] = bits[self._plain_at]
        group = self._register_bits
        column[group.slots] = (registers[group.words] & group.mask) != 0
        return column

    def _string_column(self, registers: NDArray[np.uint16], marks: NDArray[np.uint32]) -> Strings:
        values = []
        for slot, one in enumerate(self._texts):
            text, is_clean = _string(
                registers[one.start : one.stop], one.length, one.is_low_word_first, one.is_byte_swapped
            )
            values.append(text)
            if not is_clean and marks[slot] >> SEVERITY_SHIFT < BAD_CLASS:
                marks[slot] = UNCERTAIN_SUB_NORMAL
        return Strings.of(values)


def _numbers(items: Sequence[ModbusItem], plan: PollPlan, rows: NDArray[np.intp]) -> list[_Numbers]:
    groups: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for slot, row in enumerate(rows.tolist()):
        one = items[row]
        groups.setdefault((DTYPES[one.type], one.is_byte_swapped), []).append((slot, row))
    return [
        _Numbers(
            dtype,
            is_byte_swapped,
            np.array([_words(items[row], plan.positions[row]) for _, row in members], np.intp),
            np.array([slot for slot, _ in members], np.intp),
            [items[row].scaling for _, row in members],
            np.array([items[row].scaling.columns(is_whole=dtype[1] != "f") for _, row in members], np.float64).T,
        )
        for (dtype, is_byte_swapped), members in groups.items()
    ]


def _words(item: ModbusItem, position: int) -> list[int]:
    """Image positions of an item's registers, most significant first."""
    words = list(range(position, position + item.words))
    return words[::-1] if item.is_low_word_first else words


def _register_bits(items: Sequence[ModbusItem], plan: PollPlan, bools: Sequence[int]) -> _Bits:
    members = [(slot, row) for slot, row in enumerate(bools) if not items[row].kind.is_bits]
    masks = [_bit_mask(items[row]) for _, row in members]
    return _Bits(
        np.array([plan.positions[row] for _, row in members], np.intp),
        np.array(masks, np.uint16),
        np.array([slot for slot, _ in members], np.intp),
    )


def _bit_mask(item: ModbusItem) -> int:
    """The bits of the register, as it comes from the wire, that say true."""
    if item.bit is None:
        return 0xFFFF
    return 1 << (item.bit ^ 8 if item.is_byte_swapped else item.bit)


def _text(item: ModbusItem, position: int) -> _Text:
    return _Text(position, position + item.words, item.length, item.is_low_word_first, item.is_byte_swapped)


def _raw(group: _Numbers, registers: NDArray[np.uint16]) -> NDArray[np.int64 | np.uint64 | np.float64]:
    """The numbers of a group as the device holds them; for a float32 the decimal that it stands for."""
    words = registers[group.words]
    if group.is_byte_swapped:
        words = words.byteswap()
    found = np.frombuffer(words.astype(">u2").tobytes(), group.dtype)
    return shortest(found) if group.dtype == ">f4" else found


def _mark_unfit(value: NDArray[np.float64], marks: NDArray[np.uint32]) -> None:
    """Give what is no number the quality that says so, in place."""
    unfit = ~np.isfinite(value)
    if unfit.any():
        unfit &= marks >> SEVERITY_SHIFT < BAD_CLASS
        marks[unfit & np.isnan(value)] = BAD_SENSOR_FAILURE
        marks[unfit & np.isinf(value)] = BAD_OUT_OF_RANGE


def _string(
    registers: NDArray[np.uint16], length: int, is_low_word_first: bool, is_byte_swapped: bool
) -> tuple[str, bool]:
    words = registers[::-1] if is_low_word_first else registers
    data = words.astype("<u2" if is_byte_swapped else ">u2").tobytes()[:length].partition(b"\0")[0]
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode(errors="replace"), False


def decode_one(item: ModbusItem, registers: Sequence[int]) -> Value:
    """The engineering value that `registers` (as they came, `item.words` of them) hold; for a read-back."""
    words = np.array(registers, np.uint16)
    if item.type is RegisterType.STRING:
        return _string(words, item.length, item.is_low_word_first, item.is_byte_swapped)[0]
    if item.type is RegisterType.BOOL:
        return bool(int(words[0]) & _bit_mask(item))
    if item.is_low_word_first:
        words = words[::-1]
    if item.is_byte_swapped:
        words = words.byteswap()
    raw = np.frombuffer(words.astype(">u2").tobytes(), DTYPES[item.type])[0]
    return item.scaling.value(raw) if item.item.value_type is ValueType.FLOAT64 else int(raw)


class Unencodable(ValueError):
    """The value can't be written to this item; the message says why."""


def encode_one(item: ModbusItem, value: Value) -> list[int]:
    """The registers that hold `value`, in the device's order.

    Raises:
        Unencodable: wrong type, not finite, or out of the range of the registers.
    """
    data = _encoded_text(item, value) if item.type is RegisterType.STRING else _encoded_number(item, value)
    words = np.frombuffer(data, ">u2").astype(np.uint16)
    if item.is_byte_swapped:
        words = words.byteswap()
    if item.is_low_word_first:
        words = words[::-1]
    return [int(one) for one in words]


def _encoded_text(item: ModbusItem, value: Value) -> bytes:
    if not isinstance(value, str):
        raise Unencodable(f"a text is wanted, not {value!r}")
    data = value.encode()
    if len(data) > item.length or b"\0" in data:
        raise Unencodable(f"{len(data)} bytes of text, at most {item.length}, and no NUL")
    return data.ljust(2 * item.words, b"\0")


def _encoded_number(item: ModbusItem, value: Value) -> bytes:
    if isinstance(value, str):
        raise Unencodable(f"a number is wanted, not {value!r}")
    if item.type is RegisterType.BOOL:
        return struct.pack(">H", 1 if value else 0)
    if not np.isfinite(value):
        raise Unencodable(f"{value!r} is not finite")
    number = item.scaling.raw(float(value)) if item.is_scaled else value
    dtype = DTYPES[item.type]
    if item.type in (RegisterType.FLOAT32, RegisterType.FLOAT64):
        try:
            return struct.pack(">f" if item.type is RegisterType.FLOAT32 else ">d", float(number))
        except OverflowError as error:
            raise Unencodable(f"{value!r} does not fit a {item.type.value}") from error
    if not item.is_scaled and number != int(number):
        raise Unencodable(f"{value!r} is no whole number")
    whole = round(number)
    ends = np.iinfo(dtype)
    if not ends.min <= whole <= ends.max:
        raise Unencodable(f"{value!r} is raw {whole}, a {item.type.value} holds {ends.min} to {ends.max}")
    return whole.to_bytes(2 * WORDS[item.type], "big", signed=dtype[1] == "i")
