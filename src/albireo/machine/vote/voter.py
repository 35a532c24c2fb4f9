"""Voter: one Paxos acceptor with the epoch as ballot, and the clock of one lease.

It judges no eligibility and holds no data: it remembers the highest epoch it promised and the highest record it
accepted, and it keeps candidates away while the recorded run may still act. A witness steps one such machine for each
pair; the register voter does the same in two blocks of a PLC.

Not decided here: which member is a candidate (the members), how the store is synced (the shell; `Persist` comes before
`SendVote`).

            install                     lease + drift over        accept
    EMPTY ---------> WAITING ------------------------------> FREE <------> LEASED
                        |  accept of the recorded run                ^        release, lease over
                        +--------------------------------------------+--------+

Invariants
    EMPTY:    nothing is promised, nothing granted: an empty voter is not the initial state.
    WAITING:  a lease granted before the start may still run; only the recorded run gets anything.
    FREE:     no lease is valid.
    LEASED:   `lease_end` lies ahead on this clock; no other run is promised anything, unless the holder's process is
              known to be gone.
    always:   `promised` >= `record.epoch`; neither ever falls; both are synced before an answer tells of them.

Spec: design/pair.md, The voter protocol, exactly; rule 12.
"""

from enum import Enum
from typing import Final, assert_never

import msgspec

from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Record, Release, Voted
from albireo.codec.register_block import EPOCH_MAX
from albireo.model.instant import MS, Instant
from albireo.model.position import BEGINNING, Position

LEASE_NS_MAX: Final = 65_535 * MS
"""Longest lease that a register block can say; a longer one would keep every candidate away for as long."""


class VoterState(Enum):
    EMPTY = "empty"
    WAITING = "waiting"
    FREE = "free"
    LEASED = "leased"


class VoterRefusal(Enum):
    """Reason why a voter says no. A refusal never changes roles and is always counted."""

    EMPTY = "empty"
    """The voter has no store: it votes for nobody until it is admitted."""
    NOT_EMPTY = "not_empty"
    FOREIGN_CLUSTER = "foreign_cluster"
    OTHER_LIST = "other_list"
    """Another generation of the voter list, or other names in a first record."""
    STARTING = "starting"
    LEASED = "leased"
    PROMISED = "promised"
    """An epoch as high, or higher, was promised."""
    SUPERSEDED = "superseded"
    """A higher record was accepted."""
    MALFORMED = "malformed"
    """The record is not one that its sender could propose."""


class VoterStore(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a voter on its disk."""

    cluster: str
    generation: int
    record: Record
    promised: int
    promised_run: int = 0
    """Run to which `promised` belongs: its repeated PREPARE gets its answer again, also after a restart."""
    floor: Position = BEGINNING
    """Highest commit position reported. It is written along with other changes: after a restart it may be too low,
    never too high."""


class VoteAsked(msgspec.Struct, frozen=True):
    """A question came in."""

    question: Question


class HolderGone(msgspec.Struct, frozen=True):
    """The connections of this run were closed and a new one was refused: process gone, host alive (rule 12)."""

    run: int


class Persist(msgspec.Struct, frozen=True):
    """Effect: write and sync the store; later effects must not happen before."""

    store: VoterStore


class SendVote(msgspec.Struct, frozen=True):
    """Effect: send the vote to the member that asked."""

    message: Voted


Event = VoteAsked | HolderGone
Effect = Persist | SendVote

GRANTS: dict[VoterState, dict[type[Question], str]] = {
    VoterState.EMPTY: {Read: "no", Prepare: "no", Accept: "no", Release: "no", Install: "yes"},
    VoterState.WAITING: {Read: "yes", Prepare: "own", Accept: "own", Release: "yes", Install: "no"},
    VoterState.FREE: {Read: "yes", Prepare: "yes", Accept: "yes", Release: "yes", Install: "no"},
    VoterState.LEASED: {Read: "yes", Prepare: "own", Accept: "yes", Release: "yes", Install: "no"},
}
"""Questions that are looked at: "yes" of any member, "own" of the recorded run only, "no" of none.

ACCEPT is open in LEASED: its sender had promises from a majority, and a voter of that has seen the lease end.
"""
_CLOSED = {
    VoterState.EMPTY: VoterRefusal.EMPTY,
    VoterState.WAITING: VoterRefusal.STARTING,
    VoterState.FREE: VoterRefusal.NOT_EMPTY,
    VoterState.LEASED: VoterRefusal.LEASED,
}


class Voter:
    """The machine. Built at each start from what the disk holds.

    Args:
        name: as the members list it.
        store: None: the disk holds none that can be read.
        now: instant of the start.
        drift: rate by which the lease is stretched on this clock.
        listed: voter list of the configuration: a first record with another list is refused. Empty: any list will do.
    """

    def __init__(
        self,
        name: str,
        cluster: str,
        store: VoterStore | None,
        now: Instant,
        drift: float,
        listed: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.store = store
        self.floor = store.floor if store else BEGINNING
        self.lease_end = now
        self.starts_until = self._start_wait(now, drift)
        self.is_holder_gone = False
        self.refusals: dict[VoterRefusal, int] = {}
        self._drift = drift
        self._listed = listed

    def _start_wait(self, now: Instant, drift: float) -> Instant:
        """Latest end of a lease that was granted just before the start."""
        return self._stretched(now, self.store.record.lease_ns, drift) if self.store else now

    @staticmethod
    def _stretched(now: Instant, lease_ns: int, drift: float) -> Instant:
        return Instant(now + int(lease_ns * (1.0 + drift)) + 1)

    def state(self, now: Instant) -> VoterState:
        if self.store is None:
            return VoterState.EMPTY
        if now < self.starts_until:
            return VoterState.WAITING
        return VoterState.LEASED if now < self.lease_end else VoterState.FREE

    def step(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case VoteAsked(question):
                return self._asked(question, now)
            case HolderGone(run):
                self.is_holder_gone = self.store is not None and self.store.record.run == run
                return []
            case _:
                assert_never(event)

    def _asked(self, question: Question, now: Instant) -> list[Effect]:
        refusal = self._whether(question, now)
        if refusal is not None:
            return [self._no(question, refusal, now)]
        match question:
            case Read():
                return [self._yes(question, now)]
            case Prepare():
                return self._prepare(question, now)
            case Accept():
                return self._accept(question, now)
            case Release():
                return self._release(question, now)
            case Install():
                return self._install(question, now)
            case _:
                assert_never(question)

    def _whether(self, question: Question, now: Instant) -> VoterRefusal | None:
        """Refusal that needs no look at the content; None: look."""
        if question.cluster != self.cluster:
            return VoterRefusal.FOREIGN_CLUSTER
        if self.store is not None and question.generation != self.store.generation:
            return VoterRefusal.OTHER_LIST
        state = self.state(now)
        rule = GRANTS[state][type(question)]
        if rule == "yes" or (rule == "own" and self._is_open_to(question, state)):
            return None
        return VoterRefusal.NOT_EMPTY if isinstance(question, Install) else _CLOSED[state]

    def _is_open_to(self, question: Question, state: VoterState) -> bool:
        assert self.store is not None
        if question.run == self.store.record.run:
            return True
        return state is VoterState.LEASED and self.is_holder_gone

    def _prepare(self, question: Prepare, now: Instant) -> list[Effect]:
        assert self.store is not None
        store = self.store
        if question.epoch % 2 != question.member or question.epoch > EPOCH_MAX:
            return [self._no(question, VoterRefusal.MALFORMED, now)]
        if question.epoch == store.promised and question.run == store.promised_run:
            return [self._yes(question, now)]
        if question.epoch <= store.promised:
            return [self._no(question, VoterRefusal.PROMISED, now)]
        persist = self._keep(promised=question.epoch, promised_run=question.run)
        return [persist, self._yes(question, now)]

    def _accept(self, question: Accept, now: Instant) -> list[Effect]:
        assert self.store is not None
        store, record = self.store, question.record
        if not _is_whole(question, store):
            return [self._no(question, VoterRefusal.MALFORMED, now)]
        if record.epoch < store.promised:
            return [self._no(question, VoterRefusal.PROMISED, now)]
        if record.rank < store.record.rank:
            return [self._no(question, VoterRefusal.SUPERSEDED, now)]
        if record.rank == store.record.rank and record != store.record:
            return [self._no(question, VoterRefusal.MALFORMED, now)]
        self.floor = max(self.floor, question.floor)
        self.lease_end = self._stretched(now, record.lease_ns, self._drift)
        self.is_holder_gone = False
        effects: list[Effect] = []
        if record != store.record or record.epoch != store.promised:
            effects.append(self._keep(record=record, promised=record.epoch, promised_run=record.run))
        return [*effects, self._yes(question, now)]

    def _release(self, question: Release, now: Instant) -> list[Effect]:
        assert self.store is not None
        record = self.store.record
        if (record.epoch, record.run) != (question.epoch, question.run):
            return [self._no(question, VoterRefusal.SUPERSEDED, now)]
        self.lease_end = now
        self.starts_until = min(self.starts_until, now)
        return [self._yes(question, now)]

    def _install(self, question: Install, now: Instant) -> list[Effect]:
        record = question.record
        is_promise = record.epoch <= question.promised <= EPOCH_MAX
        if record.cluster != self.cluster or not is_promise or not _is_record(record):
            return [self._no(question, VoterRefusal.MALFORMED, now)]
        if self.name not in record.voters or (self._listed and record.voters != self._listed):
            return [self._no(question, VoterRefusal.OTHER_LIST, now)]
        self.store = VoterStore(
            cluster=record.cluster, generation=record.generation, record=record, promised=question.promised
        )
        self.starts_until = self._stretched(now, record.lease_ns, self._drift)
        return [Persist(self.store), self._yes(question, now)]

    def _keep(self, **changes: object) -> Persist:
        assert self.store is not None
        self.store = msgspec.structs.replace(self.store, floor=self.floor, **changes)
        return Persist(self.store)

    def _yes(self, question: Question, now: Instant) -> SendVote:
        return SendVote(self._told(question, now))

    def _no(self, question: Question, refusal: VoterRefusal, now: Instant) -> SendVote:
        self.refusals[refusal] = self.refusals.get(refusal, 0) + 1
        told = self._told(question, now)
        return SendVote(msgspec.structs.replace(told, is_granted=False, reason=refusal.value))

    def _told(self, question: Question, now: Instant) -> Voted:
        store = self.store
        left = 0
        is_running = False
        if store is not None:
            left = max(0, self.lease_end - now, self.starts_until - now)
            is_running = left > 0 and not self._is_open_to(question, self.state(now))
        return Voted(
            voter=self.name,
            cluster=self.cluster,
            generation=store.generation if store else 0,
            to_run=question.run,
            round=question.round,
            question=str(type(question).__struct_config__.tag),
            is_granted=True,
            promised=store.promised if store else 0,
            record=store.record if store else None,
            lease_left_ns=left,
            is_lease_running=is_running,
            floor=self.floor,
        )


def _is_whole(question: Accept, store: VoterStore) -> bool:
    """This sender may propose the record: its own epoch, its own run, a possible set."""
    record = question.record
    return (
        record.cluster == store.cluster
        and record.generation == store.generation
        and record.voters == store.record.voters
        and record.holder == question.member
        and record.run == question.run
        and _is_record(record)
    )


def _is_record(record: Record) -> bool:
    """Every field of the record is within its range."""
    return (
        0 < record.epoch <= EPOCH_MAX
        and record.epoch % 2 == record.holder
        and record.version >= 1
        and 0 < record.lease_ns <= LEASE_NS_MAX
        and record.members in ((0,), (1,), (0, 1))
        and record.holder in record.members
    )
