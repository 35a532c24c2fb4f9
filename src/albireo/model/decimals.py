"""Arithmetic of doubles that stand for decimals, as people and tables write them.

A double stands for the shortest decimal that is nearest to it, and two compare as their decimals do. Their difference
does not: 40.3 - 0.1 is 40.199999999999996. See `value.difference` too; ADR-0262.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.model.value import EXACT

Numbers = NDArray[np.float64]
AnyNumbers = Numbers | NDArray[np.int64] | NDArray[np.uint8]

_NOISE: Final = 2.0**-50
"""Part of the sum of two values by which what is computed of their difference can be off: less than eight roundings."""
_NOISE_MAX: Final = 2.0**-10  # Part of a change that may count as noise: a step of a counter beyond 2**53 stays one.


def surely(change: AnyNumbers, after: AnyNumbers, before: AnyNumbers) -> Numbers:
    """Size of a change, less what it may be off: beyond a width just if the change of the decimals is.

    That holds for multiples of 10**-n up to 3 * 10**14 times as large. An infinite change stays so, NaN is NaN.
    """
    size = np.abs(change)
    certain: Numbers = np.fmax(size - _NOISE * (np.abs(after) + np.abs(before)), size * (1 - _NOISE_MAX))
    return certain


def shortest(single: NDArray[np.float32]) -> Numbers:
    """Doubles nearest to the shortest decimals that tell these numbers of single precision apart.

    Six to nine digits do; all are tried at once, each by one rounding of exact numbers. What is small, large, or no
    number goes by its text; so do powers of two, for numbers below lie closer, and the nearest decimal may miss.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # NaN of a kind that signals.
        number = single.astype(np.float64)
        size = np.abs(number)
        is_usual = (size > 1e-13) & (size < 1e14)
        places = _DIGITS - np.floor(np.log10(np.where(is_usual, size, 1))).astype(np.intp)
        up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
        tried = np.rint(number * up / down) / up * down
        is_same = (tried.astype(np.float32) == single) & (is_usual | (size == 0))
    is_same[1:] &= np.frexp(size)[0] != 0.5
    found: Numbers = tried[is_same.argmax(axis=0), np.arange(len(number))]
    others = np.flatnonzero(~is_same.any(axis=0))
    if len(others):
        found[others] = single[others].astype(np.str_).astype(np.float64)
    return found


def scaled(number: Numbers, times: Numbers, plus: Numbers, by: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Doubles nearest to `(number * times + plus) / by` of the decimals that numbers stand for, and where that is sure.

    A decimal of nine digits is a whole number over a power of ten: that it is the right one is seen by dividing them.
    So the result is the quotient of two whole numbers, which is rounded once if both are doubles.

    Args:
        times, plus, by: whole numbers; with an infinite `by` nothing is sure.
    """
    size = np.abs(number)
    is_usual = (size > 1e-13) & (size < EXACT)
    up = _POWERS[np.maximum(8 - np.floor(np.log10(np.where(is_usual, size, 1))).astype(np.intp), 0)]
    with np.errstate(invalid="ignore", over="ignore"):  # What is no number, or too large, is not sure.
        whole, shift, below = np.rint(number * up), plus * up, by * up
        largest = np.maximum(np.abs(whole * times) + np.abs(shift), below)
        is_sure = (is_usual | (size == 0)) & (whole / up == number) & (largest < EXACT)
        return (whole * times + shift) / below, is_sure


def cleared(number: Numbers) -> Numbers:
    """Numbers computed of decimals, without the noise of that: the nearest decimal of 12 digits, where it is that near.

    So a constant of 50.1 has the average 50.1. That holds for sizes from 10**-10 to 10**12.
    """
    size = np.abs(number)
    is_usual = (size >= 1e-10) & (size < 1e12)
    up = _POWERS[11 - np.floor(np.log10(np.where(is_usual, size, 1))).astype(np.intp)]
    with np.errstate(invalid="ignore", over="ignore"):  # What is not usual stays as it is.
        short = np.rint(number * up) / up
        is_near = is_usual & (np.abs(number - short) <= _COMPUTED * size)
    found: Numbers = np.where(is_near, short, number)
    return found


_COMPUTED: Final = 2.0**-46
"""Part of itself that a sum of some thousand products is mostly off by less than."""


def single(number: float) -> float:
    """As `shortest`, of one number."""
    return float(str(np.float32(number)))


_DIGITS: Final = np.arange(5, 9)[:, None]  # Behind the first one.
_POWERS: Final = 10.0 ** np.arange(23)  # All that are doubles.
