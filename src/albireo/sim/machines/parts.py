"""What the simulated pair is made of: nodes with their clocks and disks, producers, and the shortcuts to be caught.

Spec: design/pair.md, How it is proven.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.machine.pair.member import Member
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import Voter, VoterStore
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from albireo.model.position import BEGINNING, EpochHistory, Position

NOOP: Final = -1
"""Producer of the first record of an epoch."""
NAMES: Final = ("A", "B")
FRAMES_MAX: Final = 64
WINDOW: Final = 4
"""Batches that a producer has under way."""
PRESS_EVERY_MS: Final = 30
PRESS_AFTER_MS: Final = 60


class Violation(Exception):
    """The world saw what must never happen; the message ends with the seed."""


ENDS: Final = (
    Violation,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""How a run may end badly: the world saw something, or a machine met a case that its author had not thought of."""


def said(end: Exception) -> str:
    """A violation in its own words; of any other end, which one it was as well."""
    return str(end) if isinstance(end, Violation) else f"{type(end).__name__}: {end}"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Which machines run, and which shortcuts the shell takes; the default takes none."""

    member: type[Member] = Member
    voter: type[Voter] = Voter
    register: type[RegisterVoter] = RegisterVoter
    told_before_sync: bool = False
    no_dedup_rebuild: bool = False
    snapshots_uncommitted: bool = False
    """Snapshots of the folds hold records that are not committed, and outlive a cut below them."""
    acks_pending_duplicate: bool = False
    early_before_sync: bool = False
    """A producer of a local stream is told when its batch is written, not when the disk has it."""
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


class Entry(msgspec.Struct, frozen=True):
    """One batch in a log."""

    epoch: int
    producer: int
    number: int
    committed: int
    """Commit position known at append, as the frame header has it."""
    body: int = 0
    """What it is, of a local stream (pair_local.py)."""
    level: int = 0
    """Feature level that it raises the log to."""


class Fold(msgspec.Struct, frozen=True):
    """What a log up to `sequence` amounts to: last number and count of batches of each producer."""

    sequence: int
    last: dict[int, int]
    counts: dict[int, int]

    def over(self, entries: list[Entry]) -> "Fold":
        """With the entries that follow."""
        counts = dict(self.counts)
        for entry in entries:
            counts[entry.producer] = counts.get(entry.producer, 0) + 1
        last = self.last | {entry.producer: entry.number for entry in entries}
        return Fold(self.sequence + len(entries), last, counts)


NO_FOLD: Final = Fold(0, {}, {})


def level_of(entries: Iterable[Entry]) -> int:
    """Feature level of a log that holds these."""
    return max((entry.level for entry in entries if entry.level), default=FIRST_LEVEL)


class Node:
    """What has a clock and can be paused, killed and cut off."""

    def __init__(self, name: str, rate: float, offset: int) -> None:
        self.name = name
        self.rate = rate
        self.offset = offset
        self.is_up = False
        self.life = 0
        self.up_since = 0
        self.paused_until = 0
        self.timer_at = 0

    def local(self, at: int) -> Instant:
        return Instant(self.offset + int(at * self.rate))

    def world(self, local: Instant) -> int:
        return int((local - self.offset) / self.rate) + 1


class VoterNode(Node):
    def __init__(self, name: str, rate: float, offset: int, store: VoterStore) -> None:
        super().__init__(name, rate, offset)
        self.store: VoterStore | None = store
        self.old_store = store
        """A backup of the store, taken now and then."""
        self.machine: Voter


class Header(msgspec.Struct, frozen=True):
    """Store header of a member."""

    tried_epoch: int = 0
    accepted_epoch: int = 0
    history: EpochHistory = EpochHistory()


class Disk(msgspec.Struct, frozen=True):
    """What a disk held at one time."""

    log: tuple[Entry, ...]
    header: Header


EMPTY_DISK: Final = Disk((), Header())


class MemberNode(Node):
    """Log and store header on a disk; `synced` records survive a power cut."""

    def __init__(self, index: int, rate: float, offset: int) -> None:
        super().__init__(NAMES[index], rate, offset)
        self.index = index
        self.store = f"store {self.name}"
        self.log: list[Entry] = []
        self.synced = 0
        self.believed = 0
        """Records that count as synced although they are not: a shortcut."""
        self.header = EMPTY_DISK.header
        self.image = EMPTY_DISK
        """A backup of the disk, taken now and then."""
        self.is_damaged = False
        self.feature_level = FIRST_LEVEL
        """Of the software that it starts with."""
        self.runs = 0
        self.hung_until = 0
        self.cuts = 0
        self.has_untold = False
        """Something was appended, and the machine has not heard of it."""
        self.machine: Member
        self.folded = 0
        self.appended: dict[int, int] = {}
        """Last number of each producer in the log: the view that admission decides on."""
        self.is_open = False
        self.snapshot = NO_FOLD
        """Newest one on the disk."""

    @property
    def end(self) -> Position:
        return Position(self.log[-1].epoch, len(self.log)) if self.log else BEGINNING

    def view(self) -> LogView:
        """The log at this instant."""
        length = len(self.log)
        told = self.position(min(self.folded, length))
        durable = self.position(min(max(self.synced, self.believed), length))
        return LogView(
            committed=min(told, durable),
            told=told,
            durable=durable,
            end=self.end,
            history=self.header.history,
            damaged_from=length + 1 if self.is_damaged else 0,
        )

    @property
    def is_leading(self) -> bool:
        return self.is_up and self.machine.holder is not None

    def position(self, sequence: int) -> Position:
        return Position(self.log[sequence - 1].epoch, sequence) if sequence else BEGINNING

    def saved(self) -> Disk:
        return Disk(tuple(self.log[: self.synced]), self.header)

    def restored(self, disk: Disk, store: str) -> None:
        """Another disk in this machine, while it is down."""
        self.log, self.header, self.store = list(disk.log), disk.header, store
        self.synced = len(self.log)
        self.snapshot = NO_FOLD
        self.cuts += 1


class Producer:
    """Numbers its batches and never gives up on one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.offered = 0
        self.acked = 0
        self.sent_at = 0
        self.target = 0
