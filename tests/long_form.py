"""Tests with a long form: `make test` takes a part of what they could try, `make drill` all of it."""

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

IS_LONG: Final = bool(os.environ.get("ALBIREO_LONG_TESTS"))


def some(everything: Sequence[T], every: int) -> Sequence[T]:
    """One of `every` so many, the last one always; all of them in the long form."""
    return everything if IS_LONG else everything[(len(everything) - 1) % every :: every]


def examples(number: int) -> int:
    """Examples of a property, of which `number` are tried in the long form; a third of them in the short one."""
    return number if IS_LONG else -(-number // 3)


def check_caught(catch: Callable[[range], object], pinned: int, searched: range) -> None:
    """Check that a shortcut is caught by the seed that is pinned for it; the long form searches all of them anew.

    Args:
        catch: plays seeds in turn; returns what the first of them that catches the shortcut saw, None if none does.
        pinned: a seed of `searched` that caught it when it was searched last.
    """
    assert pinned in searched
    found = catch(searched) if IS_LONG else "search anew in the long form"
    assert catch(range(pinned, pinned + 1)) is not None, f"seed {pinned} catches it no more; of all seeds: {found}"
