"""Guesses: what the registers of an unknown device probably hold, out of several looks at them.

What it does not do: know. A manual beats every guess.

The idea: a type is proposed only where the registers behave like it. Texts and floats are recognised by their bits,
counters by moving as the two halves of one number do; all else is an integer of one register.
"""

import math
import struct
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from albireo.field.modbus.items import TableKind
from albireo.model.decimals import single
from albireo.model.value import number_text

FLOAT_LOWEST: Final = 1e-3
FLOAT_HIGHEST: Final = 1e7
"""Magnitudes that a measured value in engineering units usually has."""
NEGATIVE_FROM: Final = 0xE000
"""A register from here on is rather a small negative number (-8192..-1) than a large positive one."""
WILD_MIN: Final = 512
"""Difference of one register between the looks that speaks for the low half of a mantissa."""
COUNTED_MAX: Final = 20_000
"""Largest step of a counter between two looks; a larger one is no count of a second."""
UNSTEADY: Final = 4
"""Steps of a counter differ by less than this factor; those of a measured value that happens to rise do not."""
COUNTER_LOOKS_MIN: Final = 4
"""Looks at which a counter must have risen: with fewer, noise beside a set point often looks like one."""
COUNTER_HIGH_MAX: Final = 0x7FFF
"""Highest upper half of a counter: below 2^31, as nearly all that ever count in a plant."""
TEXT_REGISTERS_MIN: Final = 3
"""Registers of the shortest text: two may be numbers that happen to be letters."""
TEXT_REGISTERS_MAX: Final = 32
ORDERS: Final = ("big", "little")
_TEXT: Final = frozenset(range(0x20, 0x7F))
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class RegisterStretch(msgspec.Struct, frozen=True):
    """Addresses `first` .. `first + count - 1` of one table answer, all in one read or in pieces."""

    kind: TableKind
    first: int
    count: int
    width: int = 1
    """Registers that are only given together, as some devices do with numbers of 32 bits: 1 or 2."""

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.first + self.count


class DeviceOrder(msgspec.Struct, frozen=True):
    """Order of the two registers of a number, which a device has for all of its numbers."""

    order: str = "big"
    is_settled: bool = False
    """Numbers that moved have shown it, with few against it."""


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """An item that probably stands there."""

    kind: TableKind
    address: int
    type: str
    word_order: str = ""
    length: int = 0
    """Characters of a string, two to a register; 0 for all else."""
    seen: str = ""
    """Value that was read at the last look."""
    is_doubtful: bool = False
    """Something speaks against it, or nothing but a likeness for it."""


def word_order_of(parts: Sequence[tuple[RegisterStretch, Sequence[Sequence[int]]]]) -> DeviceOrder:
    """The order of the device, by the numbers that behave like one in either order; those that moved count first."""
    moved, still = Counter[str](), Counter[str]()
    for stretch, looks in parts:
        for one in [] if stretch.kind.is_bits else guess(stretch, looks, range(stretch.count), None):
            (still if one.is_doubtful else moved)[one.word_order] += one.word_order != ""
    votes = (moved or still).most_common()
    most, all_votes = max((count for _, count in votes), default=0), sum(count for _, count in votes)
    if not most:
        return DeviceOrder()
    return DeviceOrder(votes[0][0], is_settled=any(moved.values()) and 4 * (all_votes - most) <= all_votes)


def guess(
    stretch: RegisterStretch, looks: Sequence[Sequence[int]], kept: Sequence[int], order: DeviceOrder | None = None
) -> list[Guess]:
    """Items that the kept addresses of a stretch probably hold, lowest first.

    Args:
        looks: values of the whole stretch at each look, the first look first.
        order: that of the device; None: it is not known, and each number may have its own.
    """
    if stretch.kind.is_bits:
        return [
            Guess(kind=stretch.kind, address=stretch.first + at, type="bool", seen=str(bool(looks[-1][at])).lower())
            for at in kept
        ]
    found: list[Guess] = []
    wanted = set(kept)
    at = 0
    while at < stretch.count:
        if at not in wanted:
            at += 1
            continue
        one, words = _guess_at(stretch, [look[at:] for look in looks], at, order)
        found.append(one)
        at += words
    return found


def _guess_at(
    stretch: RegisterStretch, looks: Sequence[Sequence[int]], at: int, device: DeviceOrder | None
) -> tuple[Guess, int]:
    """The item that begins with these registers, and how many of them are its own."""
    before, after = looks[0], looks[-1]
    orders = ORDERS if device is None else (device.order,)
    is_unsettled = device is not None and not device.is_settled
    kind, address = stretch.kind, stretch.first + at
    if words := text_words(before, after):
        text = _bytes_of(after[:words]).rstrip(b"\0 ").decode("ascii")
        return Guess(kind=kind, address=address, type="string", length=2 * words, seen=repr(text)), words
    if order := float_order(before[:2], after[:2], orders):
        seen = number_text(single(_as_float(after[:2], order)))
        doubt = is_unsettled or (device is None and before[:2] == after[:2])
        return Guess(kind=kind, address=address, type="float32", word_order=order, seen=seen, is_doubtful=doubt), 2
    order = counter_order([look[:2] for look in looks], orders)
    if order or stretch.width == 2:
        seen, doubt = str(_as_whole(after[:2], order or orders[0])), is_unsettled or not order
        return Guess(
            kind=kind, address=address, type="uint32", word_order=order or orders[0], seen=seen, is_doubtful=doubt
        ), 2
    doubt = bool(float_order(before[:2], after[:2]) or counter_order([look[:2] for look in looks]))
    is_signed = max(before[0], after[0]) >= NEGATIVE_FROM
    value = after[0] - 0x10000 if is_signed and after[0] >= 0x8000 else after[0]
    whole = "int16" if is_signed else "uint16"
    return Guess(kind=kind, address=address, type=whole, seen=str(value), is_doubtful=doubt), 1


def text_words(before: Sequence[int], after: Sequence[int]) -> int:
    """Registers that begin here and hold one text, its padding with zeros included; 0 when it is none.

    Two letters to a register, most of the characters letters, the same at both looks.
    """
    words, most = 0, min(len(after), TEXT_REGISTERS_MAX)
    while words < most and before[words] == after[words] and _is_text(after[words]):
        words += 1
    text = _bytes_of(after[:words]).rstrip(b"\0")
    if words < TEXT_REGISTERS_MIN or 2 * sum(one in _LETTERS for one in text) < len(text):
        return 0
    while words < most and before[words] == after[words] == 0:
        words += 1
    return words


def _is_text(word: int) -> bool:
    high, low = word >> 8, word & 0xFF
    return high in _TEXT and (low in _TEXT or low == 0)


def _bytes_of(words: Sequence[int]) -> bytes:
    return struct.pack(f">{len(words)}H", *words)


def counter_order(looks: Sequence[Sequence[int]], orders: Sequence[str] = ORDERS) -> str:
    """`big` or `little` when two registers count up steadily as the halves of one number, else empty.

    An upper half of zero says nothing: the lower one may as well be a counter of 16 bits.
    """
    if len(looks) < COUNTER_LOOKS_MIN or len(looks[0]) < 2:
        return ""
    for order in orders:
        values = [_as_whole(words, order) for words in looks]
        steps = [later - earlier for earlier, later in pairwise(values)]
        is_steady = 0 < min(steps) and max(steps) <= min(COUNTED_MAX, UNSTEADY * min(steps))
        if is_steady and 0 < values[0] >> 16 <= COUNTER_HIGH_MAX:
            return order
    return ""


def _as_whole(words: Sequence[int], order: str) -> int:
    high, low = (words[0], words[1]) if order == "big" else (words[1], words[0])
    return high << 16 | low


def float_order(before: Sequence[int], after: Sequence[int], orders: Sequence[str] = ORDERS) -> str:
    """`big` or `little` when two registers look like one float32 at both looks, else empty.

    Two integers side by side often have the bits of a plausible float, so the magnitude is not enough. A word that
    moved must have moved as the low half of a mantissa does, wildly; one that stood still must be a round number.
    """
    if len(after) < 2:
        return ""
    for order in orders:
        values = [_as_float(words, order) for words in (before, after)]
        if not all(_is_plausible(value) for value in values) or not _moves_little(*values):
            continue
        low = 1 if order == "big" else 0
        moved = abs(before[low] - after[low])
        if moved >= WILD_MIN or (list(before) == list(after) and _is_round(values[0])):
            return order
    return ""


def _as_float(words: Sequence[int], order: str) -> float:
    high, low = (words[0], words[1]) if order == "big" else (words[1], words[0])
    value: float = struct.unpack(">f", struct.pack(">HH", high, low))[0]
    return value


def _is_plausible(value: float) -> bool:
    return math.isfinite(value) and FLOAT_LOWEST <= abs(value) <= FLOAT_HIGHEST


def _is_round(value: float) -> bool:
    """A set point or a rating: few decimal digits."""
    return struct.pack(">f", value) == struct.pack(">f", float(f"{value:.3g}"))


def _moves_little(before: float, after: float) -> bool:
    """A measured value does not jump by orders of magnitude within a second."""
    return max(abs(before), abs(after)) <= 10 * min(abs(before), abs(after))
