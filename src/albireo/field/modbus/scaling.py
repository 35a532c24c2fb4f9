"""Scaling: raw numbers of registers <-> decimals in engineering units.

    value = raw * scale + offset = (raw * times + plus) / by        times, plus, by: the least whole numbers

Up to 2**53 numerator and denominator are exact as doubles, so their quotient is the double nearest to the decimal
value. A float is a whole number over a power of ten first, which goes into both. What is beyond is computed in whole
numbers of any size, one at a time (ADR-0262).
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

    def columns(self, *, is_whole: bool) -> tuple[float, float, float, float]:
        """Times, plus, by, and the largest raw number (whole if `is_whole`) with which doubles do; -1: none.

        `by` is infinite if they are no doubles themselves.
        """
        if self == UNSCALED:
            return 1, 0, 1, math.inf
        if max(abs(self.times), abs(self.plus), self.by) > EXACT:
            return 1, 0, math.inf, -1
        raw_max = (int(EXACT) - abs(self.plus)) // abs(self.times) if is_whole else -1
        return self.times, self.plus, self.by, raw_max

    def value(self, raw: float) -> float:
        """Engineering value of a raw number; a float stands for its shortest decimal."""
        if not math.isfinite(raw):
            return float(raw) if self.times > 0 else -float(raw)
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
