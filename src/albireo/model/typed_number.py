"""Numbers, and truths, as a person types them or a table holds them, read by one rule wherever they stand.

    number = [sign] (digits ["." [digits]] | "." digits) [("e" | "E") [sign] digits]
    whole  = [sign] digits | "0x" hexadecimal digits
    sign   = "+" | "-"

Digits are 0 to 9; blanks around a number are cut. Zeros before it mean nothing. `float` and `int` take more, which
nobody who types it means: 1_5, digits of other scripts, nan, inf.
"""

import math
import re
from typing import Final

from albireo.model.bounded import INT64_MAX, INT64_MIN
from albireo.model.value import Value, ValueType

CHARS_MAX: Final = 40
"""Longest number; the longest that says anything, a float, has 24."""
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+")

_TRUTHS: Final = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}


def number_of(text: str) -> float:
    """A finite number.

    Raises:
        ValueError: it is none; the words say so, and show no more of it than a line holds.
    """
    text = text.strip()
    number = float(text) if len(text) <= CHARS_MAX and _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{shortened(text)} is no number")
    return number


def whole_of(text: str) -> int:
    """A whole number. Raises: as `number_of`."""
    text = text.strip()
    if len(text) > CHARS_MAX or not _WHOLE.fullmatch(text):
        raise ValueError(f"{shortened(text)} is no whole number")
    number = int(text, 16 if text[:2].lower() == "0x" else 10)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{text} is beyond the whole numbers of 64 bits")
    return number


def truth_of(text: str) -> bool:
    """True or false. Raises: as `number_of`."""
    found = _TRUTHS.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{shortened(text)} is neither true nor false")
    return found


def value_of(text: str, value_type: ValueType) -> Value:
    """The value of this type that is meant. Raises: as `number_of`."""
    match value_type:
        case ValueType.STRING:
            return text
        case ValueType.BOOL:
            return truth_of(text)
        case ValueType.INT64:
            return whole_of(text)
        case ValueType.FLOAT64:
            return number_of(text)


def shortened(text: str) -> str:
    """The text in quotes, its middle left out if it is too long for a line."""
    return repr(text if len(text) <= CHARS_MAX else f"{text[:20]}...{text[-10:]}")
