"""Position in a log: epoch and sequence, and the history that makes two logs comparable.

The second seed's store status (UUID and generation) becomes an epoch history: a list of (epoch, first sequence, branch
id). Two histories agree up to the last entry that is equal in all three parts.
"""

from bisect import bisect_right
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Count, Word


class Position(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One record of a log, or with sequence 0 the place before the first."""

    epoch: Count = 0
    sequence: Count = 0

    def __str__(self) -> str:
        return f"{self.epoch}:{self.sequence}"


BEGINNING: Final = Position()
"""Position before the first record of any log."""
ENDLESS: Final = 2**63 - 1
"""Last sequence of an epoch that may still be written."""
EPOCHS_MAX: Final = 60_000
"""Number of entries from which an epoch history lets go of those below the log's beginning; a store header has room for
some more. None goes before, so that a store that was away for long is still compared with it."""


EPOCHS_MOST: Final = 64_000
"""Most entries of a history: a store header holds as many, whatever their numbers. With as many within the records that
are kept, nobody leads a log any more before the oldest have gone."""


class EpochEntry(msgspec.Struct, frozen=True, array_like=True):
    """Start of an epoch: from `first_sequence` on the log was written under `epoch`."""

    epoch: Count
    first_sequence: Count
    branch_id: Word
    """Random 64 bits drawn at the grant; they tell apart two epochs of the same number."""


Epochs = Annotated[tuple[EpochEntry, ...], Meta(max_length=65_536)]
"""Entries of a history that a peer tells: what a store header has room for, and no more."""


class EpochHistory(msgspec.Struct, frozen=True, array_like=True):
    """Entries with rising epochs and first sequences that do not fall."""

    entries: tuple[EpochEntry, ...] = ()

    def __post_init__(self) -> None:
        for older, newer in zip(self.entries, self.entries[1:], strict=False):
            if newer.epoch <= older.epoch or newer.first_sequence < older.first_sequence:
                raise ValueError(f"epoch history goes backwards: {older} then {newer}")

    @classmethod
    def told(cls, entries: tuple[EpochEntry, ...]) -> "EpochHistory | None":
        """History that somebody else told; None: it runs backwards, or is too long, so it is none."""
        try:
            return cls(entries) if len(entries) <= EPOCHS_MOST else None
        except ValueError:
            return None

    @property
    def epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    def granted(self, entry: EpochEntry, begin_sequence: int = 1) -> "EpochHistory":
        """This history with `entry` as its last one. Entries that begin there or later have no record and go.

        Args:
            begin_sequence: of the log; a full history lets go of what it need not know of the records before.
        """
        kept = tuple(one for one in self.entries if one.first_sequence < entry.first_sequence)
        if len(kept) >= EPOCHS_MAX:
            kept = kept[_first_needed(kept, begin_sequence) :]
        return EpochHistory((*kept, entry))

    def has_room(self, begin_sequence: int) -> bool:
        """True: one more epoch can be granted, in a log that begins there."""
        count = len(self.entries)
        return count < EPOCHS_MOST or count - _first_needed(self.entries, begin_sequence) < EPOCHS_MOST

    def epoch_of(self, sequence: int) -> int:
        """Epoch under which `sequence` was written; 0 before the first entry."""
        place = bisect_right(self.entries, sequence, key=lambda one: one.first_sequence)
        return self.entries[place - 1].epoch if place else 0

    def position(self, sequence: int) -> Position:
        """Position of the record `sequence` in a log with this history."""
        return Position(self.epoch_of(sequence), sequence) if sequence else BEGINNING

    def end_of(self, epoch: int) -> int:
        """Last sequence that can be of this epoch, `ENDLESS` for the last one; 0: the history does not have it."""
        for index, entry in enumerate(self.entries):
            if entry.epoch == epoch:
                return _end_of(self.entries, index, ENDLESS)
        return 0

    def common_point(self, other: "EpochHistory", own_end: int, other_end: int) -> int:
        """Highest sequence up to which both logs are known to hold the same records.

        Args:
            other: the other store's history.
            own_end, other_end: last sequence each store holds.
        """
        common = 0
        own_entries, other_entries = _aligned(self.entries, other.entries)
        for index, (mine, theirs) in enumerate(zip(own_entries, other_entries, strict=False)):
            if mine != theirs:
                return min(common, own_end, other_end)
            mine_ends = _end_of(own_entries, index, own_end)
            theirs_ends = _end_of(other_entries, index, other_end)
            common = min(mine_ends, theirs_ends)
        return min(common, own_end, other_end)


def _aligned(
    mine: tuple[EpochEntry, ...], theirs: tuple[EpochEntry, ...]
) -> tuple[tuple[EpochEntry, ...], tuple[EpochEntry, ...]]:
    """Both from the first entry on that both have, where one of them has let go of the older ones.

    An entry names its branch at random, so logs that share one share everything before it.
    """
    if mine and theirs and mine[0] in theirs:
        return mine, theirs[theirs.index(mine[0]) :]
    if mine and theirs and theirs[0] in mine:
        return mine[mine.index(theirs[0]) :], theirs
    return mine, theirs


def _first_needed(entries: tuple[EpochEntry, ...], begin_sequence: int) -> int:
    """Index of the entry under which the last record before the log was written."""
    return max(0, bisect_right(entries, begin_sequence - 1, key=lambda one: one.first_sequence) - 1)


def _end_of(entries: tuple[EpochEntry, ...], index: int, end: int) -> int:
    """Last sequence written under entry `index` of a log that ends at `end`."""
    return entries[index + 1].first_sequence - 1 if index + 1 < len(entries) else end
