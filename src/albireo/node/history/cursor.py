"""Cursor: the place where a piece of an answer ended, as a short text that programs hand back and do not look into.

    letter of the question, then numbers, with dots between: r.7.1700006400000000000.55.2

It names rows by what they are (item, time, sequence, epoch), never by where they are stored: files are sealed, merged
and copied between two pieces, and the files of the other member have other borders.
"""

import re
from typing import Final

from albireo.model.bounded import INT64_MAX, INT64_MIN
from albireo.node.history.errors import QueryRefused

_NUMBER: Final = re.compile(r"-?\d{1,19}")

RAW: Final = "r"
"""Item id, source time, sequence, epoch of the last row."""
INTERVALS: Final = "a"
"""Item id, start of the next interval."""
EVENTS: Final = "e"
"""Sequence, epoch of the last row."""
EVENTS_BACK: Final = "b"
"""The same, below zero, of events with the newest first."""
GAPS: Final = "g"
"""Start, sequence, epoch of the last row."""
LENGTHS: Final = {RAW: 4, INTERVALS: 2, EVENTS: 2, EVENTS_BACK: 2, GAPS: 3}


def written(kind: str, place: tuple[int, ...]) -> str:
    assert len(place) == LENGTHS[kind], f"{kind}: {place}"
    return ".".join([kind, *map(str, place)])


def read(kind: str, text: str) -> tuple[int, ...] | None:
    """The place that a cursor names; None: it is empty, the answer begins.

    Raises:
        QueryRefused: it is no cursor of this question.
    """
    if not text:
        return None
    letter, *numbers = text.split(".")
    if letter != kind or len(numbers) != LENGTHS[kind] or not all(map(_NUMBER.fullmatch, numbers)):
        raise QueryRefused("this is no cursor of this question", "leave it out to begin anew")
    place = tuple(map(int, numbers))
    if not all(INT64_MIN <= one <= INT64_MAX for one in place):
        raise QueryRefused("this is no cursor of this question", "leave it out to begin anew")
    return place
