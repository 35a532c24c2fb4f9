"""Parts of the simulated pair: records, folds, store headers, disks, and the shortcuts to be caught.

Spec: design/pair.md, How it is proven.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.machine.pair.member import Member
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import Voter
from albireo.model.feature import FIRST_LEVEL
from albireo.model.position import EpochHistory

NOOP: Final = -1
"""Producer of records of the holder's own: the first of an epoch, and one that raises the feature level."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Variant of the pair: which machines run, and which shortcuts the world takes; the default takes none."""

    member: type[Member] = Member
    voter: type[Voter] = Voter
    register: type[RegisterVoter] = RegisterVoter
    told_before_sync: bool = False
    no_dedup_rebuild: bool = False
    snapshots_uncommitted: bool = False
    """Snapshots of the folds hold records that are not committed, and outlive a cut below them."""
    acks_pending_duplicate: bool = False
    early_before_sync: bool = False
    """A producer of a local stream is told when its batch is appended, not when the disk has it."""
    forgets_early: bool = False
    """A producer lets go of what it was told of early."""
    accepts_gap: bool = False
    recovered_is_durable: bool = False
    fresh_voter: bool = False
    answers_before_persist: bool = False
    """The voter's answer leaves before its store is synced."""
    plc_ignores_epoch: bool = False
    stamp_not_polled: bool = False
    writes_to_the_end: bool = False
    """An output write starts while any of the lease is left, not only while `write_max` is."""


PLAIN: Final = Variant()


class LoggedBatch(msgspec.Struct, frozen=True):
    """One batch in a log."""

    epoch: int
    producer: int
    number: int
    committed: int
    """Commit position known at append, as the frame header has it."""
    body: int = 0
    """Identity of a record of a local stream: a batch or, if negative, the opening of a run (local.py); 0 in others."""
    level: int = 0
    """Feature level that the record raises the log to; 0: it raises none."""


class Fold(msgspec.Struct, frozen=True):
    """Folds of a log up to `sequence`: last number and count of batches of each producer."""

    sequence: int
    last: dict[int, int]
    counts: dict[int, int]

    def over(self, entries: list[LoggedBatch]) -> "Fold":
        """Return the fold with the entries that follow."""
        counts = dict(self.counts)
        for entry in entries:
            counts[entry.producer] = counts.get(entry.producer, 0) + 1
        last = self.last | {entry.producer: entry.number for entry in entries}
        return Fold(self.sequence + len(entries), last, counts)


NO_FOLD: Final = Fold(0, {}, {})


def level_of(entries: Iterable[LoggedBatch]) -> int:
    """Return the feature level of a log that holds these entries."""
    return max((entry.level for entry in entries if entry.level), default=FIRST_LEVEL)


class MemberHeader(msgspec.Struct, frozen=True):
    """Store header of a member."""

    tried_epoch: int = 0
    accepted_epoch: int = 0
    history: EpochHistory = EpochHistory()


class DiskImage(msgspec.Struct, frozen=True):
    """Content of a member's disk at one time."""

    log: tuple[LoggedBatch, ...]
    header: MemberHeader


EMPTY_DISK: Final = DiskImage((), MemberHeader())
