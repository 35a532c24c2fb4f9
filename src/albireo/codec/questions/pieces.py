"""Pieces of CORE's long answers: rows by a rising number of their own, and the number behind which to go on."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final, TypeVar

from msgspec import Meta

from albireo.codec.questions.kind import Asked
from albireo.model.bounded import ENTRIES_MAX, Name

PIECE_ENTRIES_MAX: Final = 1_000
"""Most rows of a piece; some 2 ms of a turn."""
_NONE: Final = -1

Entry = TypeVar("Entry")


class NoCursor(Exception):
    """A cursor that was never given out by this question."""


class InPieces(Asked, frozen=True, kw_only=True):
    """Arguments of a question that may be answered in pieces."""

    cursor: Name = ""
    """`next` of the piece before; empty: the first piece, or all of it at once."""
    rows_max: Annotated[int, Meta(ge=0, le=ENTRIES_MAX)] = 0
    """Most rows of a piece; 0 without a cursor: all of it at once."""

    @property
    def is_piece(self) -> bool:
        return bool(self.cursor or self.rows_max)

    @property
    def after(self) -> int:
        """Number behind which the piece begins.

        Raises:
            NoCursor: the cursor is no number.
        """
        if self.cursor and not (self.cursor.isascii() and self.cursor.isdecimal() and len(self.cursor) <= 19):
            raise NoCursor("this is no cursor of this question; leave it out to begin anew")
        return int(self.cursor) if self.cursor else _NONE

    def piece(self, rows: Iterator[tuple[int, Entry]]) -> tuple[list[Entry], str]:
        """The first of the rows, which come by rising number behind `after`, and the next cursor; empty: no more."""
        count = min(self.rows_max or PIECE_ENTRIES_MAX, PIECE_ENTRIES_MAX)
        found = list(islice(rows, count + 1))
        following = str(found[count - 1][0]) if len(found) > count else ""
        return [row for _, row in found[:count]], following

    def told(self, rows: Iterator[tuple[int, Entry]]) -> object:
        """The answer of these rows: a piece with its next cursor, or all of them."""
        if not self.is_piece:
            return [row for _, row in rows]
        found, following = self.piece(rows)
        return {"next": following, "rows": found}
