"""Arithmetic of doubles that stand for decimals, as people and tables write them.

A double stands for the shortest decimal that is nearest to it: 1.2, not 1.1999999999999999556. Two such doubles compare
as their decimals do. What is computed of them does not: 40.3 - 0.1 is 40.199999999999996. So a limit less its
hysteresis is `value.difference`, and a change between two values is taken less what their doubles can be off.

Spec: ADR-0262.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
AnyNumbers = Numbers | NDArray[np.int64] | NDArray[np.uint8]

_NOISE: Final = 2.0**-50
"""Part of the sum of two values by which their difference can be off: three roundings of 2**-53, and what is computed
of the difference."""
_NOISE_MAX: Final = 2.0**-10
"""Part of a change that may count as noise. So a step of a counter beyond 2**53 stays a step."""


def surely(change: AnyNumbers, after: AnyNumbers, before: AnyNumbers) -> Numbers:
    """Size of a change of a value, less what it may be off; beyond a width just if the change of the decimals is.

    That is proven for values that differ by whole multiples of 10**-n, and are at most 3 * 10**14 times as large. An
    infinite change stays infinite, and one of NaN is NaN.
    """
    size = np.abs(change)
    certain: Numbers = np.fmax(size - _NOISE * (np.abs(after) + np.abs(before)), size * (1 - _NOISE_MAX))
    return certain


def shortest(single: NDArray[np.float32]) -> Numbers:
    """Doubles nearest to the shortest decimals that tell these numbers of single precision apart.

    Six to nine digits do; all four are tried at once. One division or product of exact numbers rounds once, so what
    is found is the nearest double. By its text goes what is too small, too large or no number, and a power of two of
    more digits: below it numbers lie closer than above it, so the nearest decimal may miss where a farther one hits.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # NaN of a kind that signals.
        number = single.astype(np.float64)
        size = np.abs(number)
        is_usual = (size > 1e-13) & (size < 1e14)
        places = _DIGITS - np.floor(np.log10(np.where(is_usual, size, 1))).astype(np.intp)
        up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
        tried = np.rint(number * up / down) / up * down
        is_same = (tried.astype(np.float32) == single) & is_usual
    is_same[1:] &= np.frexp(size)[0] != 0.5
    found: Numbers = tried[is_same.argmax(axis=0), np.arange(len(number))]
    others = np.flatnonzero(~is_same.any(axis=0))
    if len(others):
        found[others] = single[others].astype(np.str_).astype(np.float64)
    return found


def single(number: float) -> float:
    """As `shortest`, of one number."""
    return float(str(np.float32(number)))


_DIGITS: Final = np.arange(5, 9)[:, None]
"""Digits behind the first, of each try."""
_POWERS: Final = 10.0 ** np.arange(23)
"""All powers of ten that are doubles."""
