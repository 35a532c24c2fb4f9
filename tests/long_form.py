"""Tests with a long form: `make test` takes a part of what they could try, `make drill` all of it."""

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pytest

T = TypeVar("T")

IS_LONG: Final = bool(os.environ.get("ALBIREO_LONG_TESTS"))


def some(everything: Sequence[T], every: int) -> Sequence[T]:
    """One of `every` so many, the last one always; all of them in the long form."""
    return everything if IS_LONG else everything[(len(everything) - 1) % every :: every]


def in_long_form(why: str) -> pytest.MarkDecorator:
    """Marks what `make test` leaves to `make drill`, and says why."""
    return pytest.mark.skipif(not IS_LONG, reason=f"`make drill` plays it: {why}")


def examples(number: int) -> int:
    """Examples of a property, of which `number` are tried in the long form; a third of them in the short one."""
    return number if IS_LONG else -(-number // 3)


def check_caught(catch: Callable[[range], object], pinned: int, searched: range) -> None:
    """Check that one of the seeds catches a shortcut.

    What a seed plays changes with each message that grows by a byte: a pinned seed only keeps the short form short.

    Args:
        catch: plays seeds in turn; returns what the first of them that catches the shortcut saw, None if none does.
        pinned: the seed that caught it when it was searched last; tried first.
        searched: all seeds that are tried.
    """
    assert pinned in searched
    is_caught = any(catch(seeds) is not None for seeds in (range(pinned, pinned + 1), searched))
    assert is_caught, f"none of the seeds {searched.start} to {searched.stop - 1} catches it"
