"""Filling: has the messages that a member's files lack come from the other member's, piece by piece.

    hole --AskOther--> pieces --enough of them, or all--> KeepPieces --kept--> the next part of the hole
                         \\--the other member lacks them, too--> KeepPieces of nothing: they are gone

One question is under way at a time. One without an answer is asked again: there may be no other member for now. What
the other member lacks, too, is nowhere, so the hole ends there; whoever wants its messages is told that they are lost.

Invariants
    whole:   a hole ends only as far as the other member's files have been read.
    bounded: no more than KEEP_BYTES, and one piece, are in memory.

Not done here: files, sending (node/topics/filling.py). Spec: ADR-0247.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.served import MessageColumns
from albireo.codec.topic_files import MessageHole, MessagesSent
from albireo.model.instant import SECOND, Instant

KEEP_BYTES: Final = 16 << 20
"""Size of pieces that become one file."""
AGAIN_NS: Final = 2 * SECOND
"""Time after which a question is asked again, or the next one, if nothing came."""


class AskOther(msgspec.Struct, frozen=True):
    """Effect: ask the other member for messages between these records."""

    number: int
    after: int
    up_to: int


class KeepPieces(msgspec.Struct, frozen=True, eq=False):
    """Effect: put these in the place of the begin of a hole, up to a record; then call `kept`."""

    hole: MessageHole
    pieces: Sequence[MessageColumns]
    up_to: int
    is_given_up: bool
    """The end of the stretch is lacking on both members."""


class HoleFilling:
    """The machine. Its methods are its events."""

    def __init__(self) -> None:
        self._hole: MessageHole | None = None
        self._pieces: list[MessageColumns] = []
        self._number = 0
        self._after = 0
        """Sequence up to which pieces are here."""
        self._ask_at: Instant | None = None
        """When to ask, or to ask again; None: nothing is lacking, or files are being written."""

    def deadline(self) -> Instant | None:
        return self._ask_at

    def holes(self, holes: Sequence[MessageHole], now: Instant) -> None:
        """These are lacking; what has come for another one is let go of."""
        hole = holes[0] if holes else None
        if hole != self._hole:
            self._hole, self._pieces = hole, []
            self._after = 0 if hole is None else hole.first_sequence - 1
            self._ask_at = None if hole is None else now

    def ticked(self, now: Instant) -> list[AskOther]:
        """Ask, if it is time."""
        if self._hole is None or self._ask_at is None or now < self._ask_at:
            return []
        self._number += 1
        self._ask_at = Instant(now + AGAIN_NS)
        return [AskOther(self._number, self._after, self._hole.last_sequence)]

    def heard(self, sent: MessagesSent, messages: MessageColumns | None, now: Instant) -> list[KeepPieces]:
        """The other member has answered."""
        hole = self._hole
        if hole is None or self._ask_at is None or sent.number != self._number:
            return []
        end = min(max(sent.scanned_to, sent.lacks_to), hole.last_sequence)
        if end <= self._after:
            return []  # It is not that far itself; it is asked again.
        if messages is not None and len(messages):
            if int(messages.sequence[0]) <= self._after or int(messages.sequence[-1]) > end:
                return []
            self._pieces.append(messages)
        self._after = end
        size = sum(one.size_bytes for one in self._pieces)
        if size < KEEP_BYTES and end < hole.last_sequence and not sent.lacks_to:
            self._ask_at = now
            return []
        self._ask_at = None
        return [KeepPieces(hole, tuple(self._pieces), end, bool(sent.lacks_to))]

    def kept(self, now: Instant) -> None:
        """Files were written, or could not be: then the pieces are asked for anew, a while later."""
        self._pieces = []
        if self._hole is not None:
            self._after, self._ask_at = self._hole.first_sequence - 1, Instant(now + AGAIN_NS)
