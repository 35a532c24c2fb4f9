"""Events, effects, configuration and memory of the register voter.

The adapter that owns the PLC's connection and the own member tell the events and carry out the effects.
Spec: design/pair.md, The PLC register block.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from albireo.codec.pair_message import Question
from albireo.codec.register_block import (
    GENERATION_MAX,
    LEASE_MS_MAX,
    RELEASED,
    RUN_MAX,
    Ballot,
    LifeSign,
)
from albireo.machine.vote.voter import HolderGone, SendVote, VoteAsked
from albireo.model.instant import MS, SECOND, Instant, TimePassed

LONG_AGO: Final = Instant(0)


class RegisterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The asking member, the terms that both members agree on, and the measurements of the commissioning test."""

    name: str
    """Name of this voter in the list."""
    cluster: str
    voters: tuple[str, ...]
    generation: int
    member: int
    run: int
    """Number of this run of the member's CORE: 1 .. 2**32 - 1."""
    lease_ns: int
    """Whole milliseconds, at most 65,535; the own block tells it to the other member."""
    drift: float = 0.05
    settle_ns: int = 50 * MS
    """Time after which all connections see a write that its own connection sees; measured by `doctor plc-voter`."""
    poll_ns: int = 10 * MS
    """Pause between two reads that wait for a write to become visible."""
    dead_time_ns: int = 2 * SECOND
    """Time after which a write of a broken connection has landed or never will: TCP_USER_TIMEOUT and PLC queue."""
    watch_ns: int = 100 * MS
    """Pause between looks while nobody asks: they restore the own block and watch the other's life-sign."""
    reads_max: int = 20
    """Most reads until a write is visible; after them the connection is given up."""

    def __post_init__(self) -> None:
        if self.lease_ns % MS or not 0 < self.lease_ns <= LEASE_MS_MAX * MS:
            raise ValueError(f"register voter: lease is 1 to {LEASE_MS_MAX} whole ms, got {self.lease_ns} ns")
        if self.member not in (0, 1) or not 0 < self.run <= RUN_MAX or not 0 <= self.generation <= GENERATION_MAX:
            raise ValueError(f"register voter: member {self.member}, run {self.run}, generation {self.generation}")
        if min(self.settle_ns, self.poll_ns, self.dead_time_ns, self.watch_ns) < 0 or self.reads_max < 1:
            raise ValueError("register voter: waits are not negative and a write is read back at least once")

    def stretched(self, duration_ns: int) -> int:
        return int(duration_ns * (1.0 + self.drift)) + 1


class RegisterRefusal(Enum):
    """Reason why there is no vote, beside the words of `VoterRefusal` and `register_block.Damage`.

    The prefix `other_` says that the other member's block is at fault.
    """

    LEASE_DIFFERS = "lease_differs"
    """The block was written under another lease length: the members are configured differently."""
    TWO_WRITERS = "two_writers"
    """The own block holds a write of this count that this member did not make: a cloned disk, or somebody's hand."""
    COPY_BEHIND = "copy_behind"
    """The own block is ahead of the synced copy: this member's disk is an old one."""
    REWOUND = "rewound"
    """A block went back to an older image: the PLC saves its memory now and then. No vote until admitted anew."""
    NOT_KEPT = "not_kept"
    """The PLC does not show what was written."""


class OwnCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Copy of the own block on this member's disk: the block is rebuilt from it, never from nothing."""

    ballot: Ballot
    landed: int
    """Count of the last write that is known to have landed before this one; an older image in the PLC is rewound."""
    promised_run: int = 0
    """Run to which `ballot.promised` belongs."""


class Connected(msgspec.Struct, frozen=True):
    """The adapter has a connection; requests on it are carried out in their order."""

    connection: int


class ConnectionLost(msgspec.Struct, frozen=True):
    """The connection broke, was reset, timed out or got an exception; the adapter has closed it by RST before."""

    connection: int


class RegistersRead(msgspec.Struct, frozen=True):
    """Answer to `ReadBlocks`: member 0's block, then member 1's."""

    connection: int
    words: Sequence[int]


class RegistersWritten(msgspec.Struct, frozen=True):
    """Answer to `WriteBlock`; it does not prove that the PLC keeps the write."""

    connection: int


class PersistCopy(msgspec.Struct, frozen=True):
    """Effect: write and sync the copy; later effects must not happen before."""

    copy: OwnCopy


class ReadBlocks(msgspec.Struct, frozen=True):
    """Effect: one FC03 over both blocks."""

    connection: int


class WriteBlock(msgspec.Struct, frozen=True):
    """Effect: one FC16 into the own block, beginning at its `register`."""

    connection: int
    register: int
    words: tuple[int, ...]


class ResetConnection(msgspec.Struct, frozen=True):
    """Effect: close the connection by RST and answer with `ConnectionLost`; a write on it may still be under way."""

    connection: int


Event = VoteAsked | Connected | ConnectionLost | RegistersRead | RegistersWritten | HolderGone | TimePassed
Effect = PersistCopy | ReadBlocks | WriteBlock | ResetConnection | SendVote


class RegisterPhase(Enum):
    CLOSED = "closed"
    SILENT = "silent"
    IDLE = "idle"
    LOOKING = "looking"
    WRITING = "writing"
    READING_BACK = "reading_back"
    PAUSED = "paused"
    SETTLING = "settling"
    JUDGING = "judging"


class Part(Enum):
    BALLOT = "ballot"
    LIFE = "life"


TAKES: dict[type[Event], frozenset[RegisterPhase]] = {
    VoteAsked: frozenset(RegisterPhase),
    Connected: frozenset({RegisterPhase.CLOSED}),
    ConnectionLost: frozenset(RegisterPhase) - {RegisterPhase.CLOSED},
    RegistersRead: frozenset({RegisterPhase.LOOKING, RegisterPhase.READING_BACK, RegisterPhase.JUDGING}),
    RegistersWritten: frozenset({RegisterPhase.WRITING}),
    HolderGone: frozenset(RegisterPhase),
    TimePassed: frozenset({RegisterPhase.SILENT, RegisterPhase.IDLE, RegisterPhase.PAUSED, RegisterPhase.SETTLING}),
}
"""Phases in which an event is looked at; in all others it is late, and ignored. Complete over phases x events."""

Watched = tuple[tuple[int, int], int, tuple[int, ...], tuple[int, ...]]
"""Part of the other's block that moves while its holder lives: rank, run, set, and the raw life-sign, torn or not."""
NOT_WATCHED: Final[Watched] = ((0, 0), 0, (), ())


class RegisterState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the machine remembers; the same state, event and `now` give the same effects."""

    phase: RegisterPhase = RegisterPhase.CLOSED
    copy: OwnCopy | None = None
    connection: int = 0
    silent_until: Instant = LONG_AGO
    wait_until: Instant = LONG_AGO
    """End of the wait of PAUSED, SETTLING and IDLE."""
    asked: Question | None = None
    """Question under way; None while IDLE or when the machine looks for itself."""
    waiting: Question | None = None
    """Question that came while another was under way; keep latest, capacity 1: a member asks again."""
    part: Part = Part.BALLOT
    """Part of the block that the W under way writes."""
    is_moving: bool = False
    """The W under way changes registers that a candidate watches."""
    has_moved: bool = False
    """A W of this question changed registers that a candidate watches: only such a W makes a lease."""
    is_settled: bool = False
    """The own ballot went through W since the connection last broke."""
    landed: int = 0
    """Count of the last write that was read back."""
    reads: int = 0
    sign: int = RELEASED
    """Last life-sign of this run; it goes on counting across a release."""
    life: LifeSign = LifeSign(RELEASED)
    """Life-sign that the next W writes; its floor is the highest known."""
    trouble: str = ""
    """Reason why the last look gave no vote; "" if it did."""
    watched: Watched = NOT_WATCHED
    changed_at: Instant = LONG_AGO
    """Time of the first read that showed `watched`."""
    looked_at: Instant = LONG_AGO
    other_high: tuple[int, int, int] = (0, 0, 0)
    """Highest promise, epoch and version seen in the other's block."""
    is_holder_gone: bool = False
    starts_until: Instant = LONG_AGO
    """Instant until which an earlier run of this member may have a lease."""
