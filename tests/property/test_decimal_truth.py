"""Decimal truth: values are what the table says in decimals, and what is judged of them is judged in decimals.

The oracle is `decimal.Decimal` over the texts of the table.
"""

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, example, given, settings

from albireo.field.contract import PolledColumns
from albireo.field.dead_band import DeadBand
from albireo.field.modbus.decode import Layout, Unencodable, decode_one, encode_one
from albireo.field.modbus.items import WORDS, ModbusItem, RegisterType, parse_row
from albireo.field.modbus.plan import PlanConfig, plan
from albireo.field.modbus.scaling import Scaling
from albireo.model.decimals import scaled, shortest, surely
from albireo.model.instant import Instant, WallTime
from albireo.model.item import DataItem
from albireo.model.value import ValueType, difference
from tests.long_form import examples, some

REGISTERS = some(range(2**16), 64)
"""Raw values of 16 bits: each in the long form, one of 64 in the short one, the last one always."""
ITEMS = 1_024
"""Items of a table into which they are put, as often as it takes."""
WHOLE = [one for one in WORDS if one.value[-2:] in ("16", "32", "64") and not one.value.startswith("float")]


@st.composite
def texts(draw: st.DrawFn, least: int = 0) -> str:
    """A number of up to eight digits, of which up to four are behind the point, as people write it."""
    places = draw(st.integers(0, 4))
    digits = draw(st.one_of(st.integers(least, 9), st.integers(least, 10 ** (4 + places) - 1)))
    text = f"{Decimal(digits).scaleb(-places):f}"
    return draw(st.sampled_from(["", "", "-"])) + text


def item_of(**cells: str) -> ModbusItem:
    found = parse_row({"name": "x", "kind": "holding", "address": "0", **cells})
    assert isinstance(found, ModbusItem), found
    return found


def polled(items: list[ModbusItem], words: np.ndarray) -> list[float]:
    """What a poll of items that all begin at address 0, 1, 2 ... of the words makes of them."""
    laid = plan(items, PlanConfig())
    image = np.zeros(laid.register_count, np.uint16)
    for row, one in enumerate(items):
        image[laid.positions[row] : laid.positions[row] + one.words] = words[row]
    (column,) = Layout(items, laid).columns(image, np.zeros(0, np.uint8), np.zeros(len(items), np.uint32))
    assert column.value_type is ValueType.FLOAT64
    return list(column.value.tolist())  # type: ignore[union-attr]  # Numbers.


@given(st.sampled_from([RegisterType.INT16, RegisterType.UINT16]), texts(least=1), texts())
@settings(max_examples=examples(30), deadline=None)
@example(RegisterType.UINT16, "0.1", "0")
@example(RegisterType.INT16, "0.1", "-40.05")
@example(RegisterType.UINT16, "-0.0001", "0.0003")
def test_a_scaled_value_is_the_double_nearest_to_its_decimal(kind: RegisterType, scale: str, offset: str) -> None:
    assume(scale != "1" or Decimal(offset) != 0)
    items = [item_of(type=kind.value, scale=scale, offset=offset, address=str(at)) for at in range(ITEMS)]
    layout = Layout(items, plan(items, PlanConfig()))
    for first in range(0, len(REGISTERS), ITEMS):
        words = np.resize(np.array(REGISTERS[first : first + ITEMS], np.uint16), ITEMS)
        (column,) = layout.columns(words, np.zeros(0, np.uint8), np.zeros(ITEMS, np.uint32))
        raws = words.astype(np.int16 if kind is RegisterType.INT16 else np.uint16).tolist()
        expected = [float(raw * Decimal(scale) + Decimal(offset)) for raw in raws]
        assert column.value.tolist() == expected  # type: ignore[union-attr]  # Numbers.
        for word, value in list(zip(words.tolist(), expected, strict=True))[::16]:
            assert decode_one(items[0], [word]) == value
            assert encode_one(items[0], value) == [word], "a value is written as what it was read from"


@given(st.sampled_from(WHOLE), texts(least=1), texts(), st.binary(min_size=8, max_size=8))
@settings(max_examples=examples(600), deadline=None)
@example(RegisterType.INT64, "0.001", "0", b"\x7f" + b"\xff" * 7)
@example(RegisterType.INT64, "0.0001", "9999.9999", b"\x80" + b"\0" * 7)
@example(RegisterType.UINT64, "0.1", "0", b"\xff" * 8)
@example(RegisterType.UINT32, "9999.9999", "0", b"\xff" * 8)
def test_large_registers_are_scaled_as_exactly(kind: RegisterType, scale: str, offset: str, data: bytes) -> None:
    assume(Decimal(scale) != 1 or Decimal(offset) != 0)
    one = item_of(type=kind.value, scale=scale, offset=offset)
    words = np.frombuffer(data, ">u2")[: one.words].astype(np.uint16)
    raw = int.from_bytes(data[: 2 * one.words], "big", signed=kind.value.startswith("int"))
    expected = float(raw * Decimal(scale) + Decimal(offset))
    assert polled([one], words[None]) == [expected]
    assert decode_one(one, words.tolist()) == expected


@given(texts(), texts(least=1), texts(), st.sampled_from([RegisterType.FLOAT32, RegisterType.FLOAT64]))
@settings(max_examples=examples(600), deadline=None)
@example("12.3", "0.1", "0", RegisterType.FLOAT32)
@example("40.1", "1", "0", RegisterType.FLOAT32)
@example("100000.1", "1", "0", RegisterType.FLOAT64)
@example("-0", "1", "0", RegisterType.FLOAT32)
@example("-0", "1", "-0", RegisterType.FLOAT32)
def test_a_float_stands_for_its_shortest_decimal(number: str, scale: str, offset: str, kind: RegisterType) -> None:
    raw = np.array([float(number)], ">f4" if kind is RegisterType.FLOAT32 else ">f8")
    words = np.frombuffer(raw.tobytes(), ">u2").astype(np.uint16)
    one = item_of(type=kind.value, scale=scale, offset=offset)
    expected = float(Decimal(str(raw[0])) * Decimal(scale) + Decimal(offset))
    assert polled([one], words[None]) == [expected]
    assert decode_one(one, words.tolist()) == expected
    if len(number.replace("-", "").replace(".", "").lstrip("0")) <= 6 and scale == "1" and Decimal(offset) == 0:
        assert expected == float(number)
        written = encode_one(one, expected)
        assert written == words.tolist() or expected == 0 == decode_one(one, written), "only the sign of 0 may differ"


@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30), st.lists(st.integers(-9999, 9999)), texts(1), texts()
)
@settings(max_examples=examples(300), deadline=None)
@example([bits << 23 for bits in range(512)], [], "0.1", "-40.05")
@example([(bits << 23) - 1 for bits in range(1, 512)], [], "9999.9999", "0.0001")
@example(np.array([10.0**at for at in range(-45, 39)], np.float32).view(np.uint32).tolist(), [], "-0.0001", "9999.9999")
def test_any_float32_is_scaled_as_exactly(bits: list[int], tenths: list[int], scale: str, offset: str) -> None:
    """The oracle computes in fractions; NaN stays what it is, and an infinity is one."""
    short = (np.array(tenths, np.float64) / 10).astype(np.float32)
    single = np.concatenate([np.array(bits, np.uint32).view(np.float32), short])
    words = np.frombuffer(single.astype(">f4").tobytes(), ">u2").astype(np.uint16).reshape(-1, 2)
    items = [item_of(type="float32", scale=scale, offset=offset, address=str(2 * at)) for at in range(len(single))]
    assume(items[0].is_scaled)

    def expected(one: np.float32) -> float:
        if not np.isfinite(one):
            return float(one) * (1 if Decimal(scale) > 0 else -1)
        return float(Fraction(str(one)) * Fraction(scale) + Fraction(offset))

    np.testing.assert_array_equal(polled(items, words), [expected(one) for one in single])


@pytest.mark.parametrize(("scale", "offset"), [("0.1", "0"), ("1.8", "32"), ("0.0003", "-40.05")])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_what_devices_measure_is_scaled_in_columns(size: float, scale: str, offset: str) -> None:
    number = shortest(np.random.default_rng(1).normal(0, size, 1_000).astype(np.float32))
    columns = Scaling.of(Decimal(scale), Decimal(offset)).columns(is_whole=False)[:3]
    _, is_sure = scaled(number, *(np.full(len(number), one, np.float64) for one in columns))
    assert is_sure.mean() > 0.98


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@settings(max_examples=examples(600), deadline=None)
@example([bits << 23 for bits in range(512)])
@example([(bits << 23) + 1 for bits in range(512)])
@example([(bits << 23) - 1 for bits in range(1, 512)])
@example(np.array([10.0**at for at in range(-45, 39)], np.float32).view(np.uint32).tolist())
def test_shortest_decimals_are_those_that_numpy_prints(bits: list[int]) -> None:
    single = np.array(bits, np.uint32).view(np.float32)
    expected = np.array([float(str(one)) for one in single])
    np.testing.assert_array_equal(shortest(single), expected)


@given(st.sampled_from(["int16", "uint16", "int32"]), texts(least=1), texts(), texts())
@settings(max_examples=examples(600), deadline=None)
def test_a_set_point_becomes_the_nearest_raw_number(kind: str, scale: str, offset: str, value: str) -> None:
    one = item_of(type=kind, scale=scale, offset=offset)
    assume(one.is_scaled)
    raw = ((Decimal(value) - Decimal(offset)) / Decimal(scale)).to_integral_value(ROUND_HALF_EVEN)
    ends = np.iinfo(kind)
    try:
        found = encode_one(one, float(value))
    except Unencodable:
        assert not ends.min <= raw <= ends.max
    else:
        held = decode_one(one, found)
        assert held == float(raw * Decimal(scale) + Decimal(offset))


decimals = st.integers(-(10**9), 10**9)
"""Numbers of hundred-thousandths."""


def of(number: int) -> float:
    return float(Decimal(number).scaleb(-5))


@given(decimals, decimals | st.none(), st.integers(1, 10**9), st.integers(-1, 1))
@settings(max_examples=examples(1_500), deadline=None)
def test_changes_and_limits_are_judged_in_decimals(before: int, after: int | None, width: int, more: int) -> None:
    """A change is beyond a width just if it is in decimals; drawn near the width itself where `after` is not drawn."""
    after = before + width + more if after is None else after
    change = surely(*(np.array([one]) for one in (of(after) - of(before), of(after), of(before))))
    assert (change[0] > of(width)) == (abs(after - before) > width)
    assert difference(of(before), of(width)) == of(before - width)


def test_a_dead_band_takes_steps_of_its_width_for_none_of_16_bits() -> None:
    """Each value is one step from the last one sent, or two."""
    raws = np.array(REGISTERS, np.int64)[:-2]
    items = [DataItem(name="x", value_type=ValueType.FLOAT64)] * len(raws)
    band = DeadBand(items, np.full(len(raws), 0.1), np.full(len(raws), 10**18), WallTime(0))
    for step, count in ((0, len(raws)), (1, 0), (-1, 0), (2, len(raws))):
        column = PolledColumns(
            value_type=ValueType.FLOAT64,
            rows=np.arange(len(raws)),
            value=(raws + step) / 10,
            quality=np.zeros(len(raws), np.uint32),
        )
        batches = band.take([column], Instant(1), WallTime(1), WallTime(2)).batches
        assert sum(map(len, batches)) == count
