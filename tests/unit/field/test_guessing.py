"""Guesses of types: proposed only where registers behave like it."""

import struct

import pytest

from albireo.field.modbus.guessing import (
    DeviceOrder,
    Guess,
    RegisterStretch,
    counter_order,
    float_order,
    guess,
    text_words,
    word_order_of,
)
from albireo.field.modbus.items import TableKind


def words(value: float, order: str = "big") -> tuple[int, int]:
    high, low = struct.unpack(">HH", struct.pack(">f", value))
    return (high, low) if order == "big" else (low, high)


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        (words(21.537), words(21.611), "big"),
        (words(21.537, "little"), words(21.611, "little"), "little"),
        (words(-0.0153), words(-0.0166), "big"),
        (words(12.5), words(12.5), "big"),
        (words(100.0, "little"), words(100.0, "little"), "little"),
        ((16_800, 17_250), (16_803, 17_249), ""),  # Two speeds: plausible bits, but neither half moves wildly.
        ((16_800, 17_250), (16_800, 17_250), ""),
        ((0, 0), (0, 0), ""),
        ((3, 70), (3, 71), ""),
        (words(1e30), words(1.1e30), ""),
        (words(5.0), words(500.0), ""),
        ((0x7FC0, 1), (0x7FC0, 1), ""),  # NaN.
    ],
)
def test_two_registers_are_a_float_only_when_they_behave_like_one(
    before: tuple[int, int], after: tuple[int, int], order: str
) -> None:
    assert float_order(before, after) == order


def test_types_are_guessed_and_bits_are_bits() -> None:
    before = [7, 0xFFF6, *words(21.537), 9]
    after = [8, 0xFFF5, *words(21.611), 9]
    assert guess(RegisterStretch(TableKind.INPUT, 10, 5), [before, after], range(5)) == [
        Guess(kind=TableKind.INPUT, address=10, type="uint16", seen="8"),
        Guess(kind=TableKind.INPUT, address=11, type="int16", seen="-11"),
        Guess(kind=TableKind.INPUT, address=12, type="float32", word_order="big", seen="21.611"),
        Guess(kind=TableKind.INPUT, address=14, type="uint16", seen="9"),
    ]
    assert guess(RegisterStretch(TableKind.COIL, 0, 2), [[0, 1], [1, 1]], [0]) == [
        Guess(kind=TableKind.COIL, address=0, type="bool", seen="true")
    ]


def registers(text: str, count: int) -> list[int]:
    return list(struct.unpack(f">{count}H", text.encode().ljust(2 * count, b"\0")))


def test_a_text_is_one_item_with_its_padding_and_not_ten_integers() -> None:
    look = [7, *registers("TUNNEL-1 Pump", 10), 9]
    assert guess(RegisterStretch(TableKind.HOLDING, 100, 12), [look] * 4, range(12)) == [
        Guess(kind=TableKind.HOLDING, address=100, type="uint16", seen="7"),
        Guess(kind=TableKind.HOLDING, address=101, type="string", length=20, seen="'TUNNEL-1 Pump'"),
        Guess(kind=TableKind.HOLDING, address=111, type="uint16", seen="9"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (registers("Pump", 2), registers("Pump", 2)),  # Too short: two numbers may look like it.
        (registers("Pump 1", 3), registers("Pump 2", 3)),  # It changes, as numbers do.
        (registers("12:34:56", 4), registers("12:34:56", 4)),  # More digits than letters.
        ([500, 501, 502, 503], [500, 501, 502, 503]),
    ],
)
def test_registers_that_need_not_be_text_are_none(before: list[int], after: list[int]) -> None:
    assert text_words(before, after) == 0


@pytest.mark.parametrize(
    ("looks", "order"),
    [
        ([(3, 100), (3, 140), (3, 181), (3, 220)], "big"),
        ([(100, 3), (140, 3), (181, 3), (220, 3)], "little"),
        ([(3, 65_500), (3, 65_530), (4, 20), (4, 50)], "big"),
        ([(0, 100), (0, 140), (0, 181), (0, 220)], ""),  # It may as well have 16 bits.
        ([(5, 100), (5, 101), (5, 109), (5, 110)], ""),  # A set point beside a value that happens to rise.
        ([(5, 100), (5, 140), (5, 139), (5, 180)], ""),
        ([(3, 100), (3, 140)], ""),
    ],
)
def test_two_registers_are_a_counter_only_when_they_count_together(looks: list[tuple[int, int]], order: str) -> None:
    assert counter_order(looks) == order


def test_a_counter_of_32_bits_is_one_item() -> None:
    looks = [[5, 3, 100 + 40 * at, 8] for at in range(4)]
    found = guess(RegisterStretch(TableKind.INPUT, 0, 4), looks, range(4))
    assert [(one.address, one.type, one.seen) for one in found] == [
        (0, "uint16", "5"),
        (1, "uint32", str((3 << 16) + 220)),
        (3, "uint16", "8"),
    ]


# The device as a whole.

Part = tuple[RegisterStretch, list[list[int]]]


def part(first: int, *items: tuple[tuple[int, ...], tuple[int, ...]]) -> Part:
    looks = [[word for one in items for word in one[look]] for look in (0, 1)]
    return RegisterStretch(TableKind.INPUT, first, len(looks[0])), looks


def moving(order: str, value: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return words(value, order), words(1.003 * value, order)


def steady(*registers: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return registers, registers


def kinds(parts: list[Part]) -> list[tuple[int, str, str, bool]]:
    order = word_order_of(parts)
    found = [one for stretch, looks in parts for one in guess(stretch, looks, range(stretch.count), order)]
    return [(one.address, one.type, one.word_order, one.is_doubtful) for one in found]


def test_the_order_is_that_of_the_numbers_that_moved_and_what_speaks_against_it_is_doubtful() -> None:
    """100.0 in the other order may as well be 17096 and 0."""
    parts = [part(0, moving("little", 21.537), moving("little", 47.113)), part(9, steady(*words(100.0)))]
    assert word_order_of(parts) == DeviceOrder("little", is_settled=True)
    assert kinds(parts) == [
        (0, "float32", "little", False),
        (2, "float32", "little", False),
        (9, "uint16", "", True),
        (10, "uint16", "", False),
    ]
    assert kinds([*parts, part(20, steady(*words(100.0, "little")))])[-1] == (20, "float32", "little", False)


def test_numbers_that_stand_still_settle_no_order() -> None:
    assert kinds([part(0, steady(*words(12.5, "little")))]) == [(0, "float32", "little", True)]


def test_numbers_that_move_in_both_orders_settle_none() -> None:
    parts = [part(0, moving("little", 21.537)), part(9, moving("big", 47.113))]
    assert not word_order_of(parts).is_settled
    assert kinds(parts)[0][1:] == ("float32", "little", True)


def test_registers_that_are_given_in_pairs_are_numbers_of_32_bits_in_the_order_of_the_device() -> None:
    pair = RegisterStretch(TableKind.INPUT, 9, 2, 2), [[7, 0]] * 2
    assert kinds([pair]) == [(9, "uint32", "big", True)]
    assert kinds([part(0, moving("little", 21.537)), pair]) == [
        (0, "float32", "little", False),
        (9, "uint32", "little", True),
    ]


def test_bits_have_no_order() -> None:
    assert word_order_of([(RegisterStretch(TableKind.COIL, 0, 4), [[0, 1, 1, 0]] * 4)]) == DeviceOrder()
