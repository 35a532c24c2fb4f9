"""Decoding: whole columns agree with `struct`, value by value, for every type, word order and place."""

import math
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.contract import PolledColumns
from albireo.field.modbus.decode import Layout, Unencodable, decode_one, encode_one
from albireo.field.modbus.items import WORDS, ModbusItem, RegisterType, TableKind, parse_row
from albireo.field.modbus.plan import PlanConfig, plan
from albireo.model.quality import BAD_NO_COMMUNICATION, BAD_OUT_OF_RANGE, BAD_SENSOR_FAILURE, GOOD, UNCERTAIN_SUB_NORMAL
from albireo.model.samples import Strings
from tests.long_form import examples

FORMATS = {
    RegisterType.INT16: ">h", RegisterType.UINT16: ">H", RegisterType.INT32: ">i", RegisterType.UINT32: ">I",
    RegisterType.INT64: ">q", RegisterType.UINT64: ">Q", RegisterType.FLOAT32: ">f", RegisterType.FLOAT64: ">d",
}  # fmt: skip
ORDERS = ("big", "little", "big_swap", "little_swap")


def parsed(**cells: str) -> ModbusItem:
    found = parse_row({"name": "x", "kind": "holding", "address": "0", **cells})
    assert isinstance(found, ModbusItem), found
    return found


def on_the_wire(data: bytes, order: str) -> list[int]:
    """Registers that a device of this word order sends for big-endian `data`. Written from the manuals' letters."""
    words = [data[at : at + 2] for at in range(0, len(data), 2)]
    if order.endswith("swap"):
        words = [word[::-1] for word in words]
    if order.startswith("little"):
        words = words[::-1]
    return [int.from_bytes(word, "big") for word in words]


def read(item: ModbusItem, registers: list[int], quality: int = GOOD) -> tuple[object, int]:
    """What a poll makes of one item."""
    laid = plan([item], PlanConfig())
    columns = Layout([item], laid).columns(
        np.array(registers, np.uint16), np.zeros(0, np.uint8), np.array([quality], np.uint32)
    )
    (column,) = columns
    value = column.value.to_list()[0] if isinstance(column.value, Strings) else column.value.tolist()[0]
    return value, int(column.quality[0])


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(list(FORMATS)), st.sampled_from(ORDERS), st.binary(min_size=8, max_size=8))
def test_numbers_agree_with_struct(register_type: RegisterType, order: str, data: bytes) -> None:
    item = parsed(type=register_type.value, word_order=order)
    raw = data[: 2 * WORDS[register_type]]
    (expected,) = struct.unpack(FORMATS[register_type], raw)
    registers = on_the_wire(raw, order)
    value, quality = read(item, registers)
    if register_type is RegisterType.FLOAT32:
        expected = float(str(np.float32(expected)))
    if isinstance(expected, float) and not math.isfinite(expected):
        assert quality == (BAD_SENSOR_FAILURE if math.isnan(expected) else BAD_OUT_OF_RANGE)
    elif isinstance(expected, int) and expected > 2**63 - 1:
        assert quality == BAD_OUT_OF_RANGE
    else:
        assert (value, quality) == (expected, GOOD)
        assert decode_one(item, registers) == expected
        assert encode_one(item, expected) == registers


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(ORDERS), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6))
def test_strings_come_back(order: str, text: str) -> None:
    item = parsed(type="string", length="24", word_order=order)
    registers = encode_one(item, text)
    assert read(item, registers) == (text, GOOD)
    assert decode_one(item, registers) == text


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 15), st.booleans(), st.integers(0, 0xFFFF))
def test_a_bit_of_a_register(bit: int, is_swapped: bool, word: int) -> None:
    item = parsed(type="bool", bit=str(bit), word_order="big_swap" if is_swapped else "big")
    (register,) = on_the_wire(word.to_bytes(2, "big"), "big_swap" if is_swapped else "big")
    assert read(item, [register]) == (word >> bit & 1, GOOD)
    assert decode_one(item, [register]) is bool(word >> bit & 1)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(-32768, 32767), st.sampled_from([0.1, 0.01, 2.0, -0.5]), st.sampled_from([0.0, -40.0, 1000.0]))
def test_a_scaled_value_is_written_as_the_raw_number_it_was_read_from(raw: int, scale: float, offset: float) -> None:
    item = parsed(type="int16", scale=str(scale), offset=str(offset))
    value, _ = read(item, [raw & 0xFFFF])
    assert isinstance(value, float)
    assert value == float(Decimal(str(scale)) * raw + Decimal(str(offset)))
    assert encode_one(item, value) == [raw & 0xFFFF]


def plain(columns: PolledColumns) -> list[object]:
    assert not isinstance(columns.value, Strings)
    return list(columns.value.tolist())


def test_a_table_of_everything_is_decoded_in_one_go() -> None:
    rows = [
        {"name": "a", "kind": "holding", "address": "0", "type": "float32"},
        {"name": "b", "kind": "holding", "address": "10", "type": "int16", "scale": "0.5"},
        {"name": "c", "kind": "input", "address": "0", "type": "uint32", "word_order": "little"},
        {"name": "d", "kind": "coil", "address": "7"},
        {"name": "e", "kind": "holding", "address": "20", "type": "bool"},
    ]
    items = [one for one in (parse_row(row) for row in rows) if isinstance(one, ModbusItem)]
    laid = plan(items, PlanConfig(gap_registers_max=0))
    registers = np.zeros(laid.register_count, np.uint16)
    for row, words in ((0, [0x3FC0, 0]), (1, [0xFFFE]), (2, [1, 2]), (4, [8])):
        registers[laid.positions[row] : laid.positions[row] + len(words)] = words
    bits = np.ones(laid.bit_count, np.uint8)
    columns = Layout(items, laid).columns(registers, bits, np.zeros(5, np.uint32))
    found = {int(row): value for one in columns for row, value in zip(one.rows, plain(one), strict=True)}
    assert found == {0: 1.5, 1: -1.0, 2: 0x2_0001, 3: 1, 4: 1}


def test_a_quality_of_the_wire_is_not_made_better_by_a_strange_value() -> None:
    assert read(parsed(type="float32"), [0x7FC0, 0], BAD_NO_COMMUNICATION)[1] == BAD_NO_COMMUNICATION


@pytest.mark.parametrize(
    ("data", "order", "text"),
    [
        (b"ABCD", "big", "ABCD"), (b"BADC", "big_swap", "ABCD"), (b"CDAB", "little", "ABCD"),
        (b"DCBA", "little_swap", "ABCD"),
        (b"AB\0\0", "big", "AB"), (b"ABC\0", "big", "ABC"), (b"AB\0D", "big", "AB"), (b"\0BCD", "big", ""),
        (b"BA\0C", "big_swap", "ABC"), (b"\0\0AB", "little", "AB"), (b"\0\0\0\0", "big", ""),
        (b"AB  ", "big", "AB  "), (b"  AB", "big", "  AB"), (b"    ", "big", "    "), (b"A\r\nB", "big", "A\r\nB"),
        ("\u00b0C".encode() + b"\0", "big", "\u00b0C"), ("\u20ac".encode() + b"\0", "big", "\u20ac"),
    ],
)  # fmt: skip
def test_a_text_is_what_stands_before_its_first_nul_in_the_order_of_the_device(
    data: bytes, order: str, text: str
) -> None:
    """Blanks are kept: they may be meant, and a reader can take them away."""
    item = parsed(type="string", length="4", word_order=order)
    registers = [int.from_bytes(data[at : at + 2], "big") for at in (0, 2)]
    assert read(item, registers) == (text, GOOD)
    assert decode_one(item, registers) == text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xffA", "\ufffdA"),
        (b"\xb0C", "\ufffdC"),  # Latin-1.
        (b"\x81\x8b", "\ufffd\ufffd"),
        ("a\u20ac".encode()[:2], "a\ufffd"),  # A character that the length cuts in two.
        (b"\xff\0", "\ufffd"),
    ],
)
def test_text_that_is_no_utf8_is_uncertain(data: bytes, shown: str) -> None:
    registers = [int.from_bytes(data, "big")]
    assert read(parsed(type="string", length="2"), registers) == (shown, UNCERTAIN_SUB_NORMAL)


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ({"type": "uint16"}, 70_000), ({"type": "uint16"}, -1), ({"type": "int16"}, 1.5), ({"type": "int16"}, "7"),
        ({"type": "float32"}, float("nan")), ({"type": "float32"}, 1e300), ({"type": "string", "length": "2"}, "abc"),
        ({"type": "string", "length": "2"}, 5), ({"type": "int16", "scale": "0.1"}, 4_000.0),
    ],
)  # fmt: skip
def test_what_a_register_cannot_hold_is_refused(cells: dict[str, str], value: float | str) -> None:
    with pytest.raises(Unencodable):
        encode_one(parsed(**cells), value)


def test_kinds_know_what_they_are() -> None:
    assert [one for one in TableKind if one.is_writable] == [TableKind.COIL, TableKind.HOLDING]
