"""Scaling: raw numbers of registers <-> decimals in engineering units.

    value = raw * scale + offset = (raw * times + plus) / by        times, plus, by: the least whole numbers

While numerator and denominator are below 2**53 they are exact as doubles, and so their quotient is the double nearest
to the decimal value: a column costs a product, a sum and a division. What is beyond - a scale of many digits, a large
number of 64 bits, a float with a scale - goes by whole numbers of any size, one after the other.

Spec: ADR-0262.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec

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

    def raw_max(self, *, is_whole: bool) -> float:
        """Largest raw number, either way, with numerator and denominator exact as doubles; -1: there is none.

        Args:
            is_whole: raw numbers are.
        """
        if self == UNSCALED:
            return math.inf
        if not is_whole or max(abs(self.plus), self.by) > EXACT:
            return -1
        return (int(EXACT) - abs(self.plus)) // abs(self.times)

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
