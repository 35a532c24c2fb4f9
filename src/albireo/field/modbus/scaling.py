"""Scaling: raw numbers of registers <-> decimals in engineering units.

    value = raw * scale + offset = (raw * times + plus) / by        times, plus, by: the least whole numbers

While numerator and denominator are below 2**53 they are exact as doubles, and so their quotient is the double nearest
to the decimal value: a column costs a product, a sum and a division. What is beyond - a scale of many digits, a large
number of 64 bits, a float with a scale - goes by whole numbers of any size, one after the other.

Spec: ADR-0262.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.model.decimals import Numbers
from albireo.model.value import EXACT


class Scaling(msgspec.Struct, frozen=True):
    """Scale and offset of an item, as whole numbers."""

    times: int
    plus: int
    by: int

    @classmethod
    def of(cls, scale: Decimal, offset: Decimal) -> "Scaling":
        one, other = Fraction(scale), Fraction(offset)
        by = math.lcm(one.denominator, other.denominator)
        return cls(int(one * by), int(other * by), by)

    def value(self, raw: float) -> float:
        """Engineering value of a raw number; a double stands for its decimal."""
        if not math.isfinite(raw):
            return raw if self.times > 0 else -raw
        above, below = Decimal(str(raw)).as_integer_ratio()
        number = above * self.times + below * self.plus
        try:
            return number / (below * self.by)
        except OverflowError:
            return math.inf if number > 0 else -math.inf

    def raw(self, value: float) -> Fraction:
        """The raw number that stands for a value."""
        return (Fraction(str(value)) * self.by - self.plus) / self.times


UNSCALED: Final = Scaling(1, 0, 1)


class ScalingColumn:
    """Scalings of items of one register type."""

    def __init__(self, each: Sequence[Scaling], *, is_whole: bool) -> None:
        """`is_whole`: raw numbers of this type are."""
        self._each = each
        largest = [_raw_max(one, is_whole=is_whole) for one in each]
        self._raw_max = np.array(largest)
        by_column = [one if most >= 0 else UNSCALED for one, most in zip(each, largest, strict=True)]
        self._times = np.array([one.times for one in by_column], np.float64)
        self._plus = np.array([one.plus for one in by_column], np.float64)
        self._by = np.array([one.by for one in by_column], np.float64)

    def values(self, raw: NDArray[np.int64 | np.uint64 | np.float64]) -> Numbers:
        """Engineering values of raw numbers, one of each item."""
        number = raw.astype(np.float64)
        found: Numbers = (number * self._times + self._plus) / self._by
        for place in np.flatnonzero(np.abs(number) > self._raw_max).tolist():
            found[place] = self._each[place].value(raw[place].item())
        return found


def _raw_max(one: Scaling, *, is_whole: bool) -> float:
    """Largest raw number that goes by columns, either way; -1: none does."""
    if one == UNSCALED:
        return math.inf
    if not is_whole or max(abs(one.plus), one.by) > EXACT:
        return -1
    return (int(EXACT) - abs(one.plus)) // abs(one.times)
