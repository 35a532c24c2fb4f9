"""Tests with a long form: `make test` takes a part of what they could try, `make drill` all of it."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

IS_LONG: Final = bool(os.environ.get("ALBIREO_LONG_TESTS"))


def some(everything: Sequence[T], every: int) -> Sequence[T]:
    """One of `every` so many, the last one always; all of them in the long form."""
    return everything if IS_LONG else everything[(len(everything) - 1) % every :: every]


def examples(number: int) -> int:
    """Examples of a property, of which `number` are tried in the long form; a third of them in the short one."""
    return number if IS_LONG else -(-number // 3)
