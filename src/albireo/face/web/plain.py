"""Plain: values as JSON texts of a browser can hold them exactly."""

import math
from typing import Any, Final

import msgspec

from albireo.face.web.words import Shown
from albireo.model.instant import MS
from albireo.model.value import Value

EXACT_MAX: Final = 2**53
"""Largest integer that a browser's numbers hold exactly."""


def shown(value: Value | None) -> Shown:
    """A value of an item."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_MAX else str(value)
    return value if math.isfinite(value) else str(value)


def ms(at_ns: int) -> int:
    """Wall time in ms."""
    return at_ns // MS


def plain(answer: object) -> Any:
    """An answer of the client. A field `..._ns` becomes `..._ms`, and whatever is no number of a browser its digits."""
    return _plain(msgspec.to_builtins(answer, str_keys=True))


def _plain(found: object) -> object:
    match found:
        case dict():
            return dict(_field(name, value) for name, value in found.items())
        case list() | tuple():
            return [_plain(one) for one in found]
        case int() | float() | bool() | str() | None:
            return shown(found)
        case _:
            return str(found)


def _field(name: str, value: object) -> tuple[str, object]:
    if name.endswith("_ns") and (value is None or isinstance(value, int)):
        return f"{name[:-3]}_ms", None if value is None else value / MS
    return name, _plain(value)
