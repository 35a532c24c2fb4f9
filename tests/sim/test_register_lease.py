"""The lease of the register voter in time: two real machines, a PLC whose connections lag, pauses, breaks, two clocks.

Checked at each grant: the other member does not believe that its own lease runs. Everything comes from the seed; a
failure prints it.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from albireo.codec.pair_message import Accept, Prepare, Question, Read, Record, Release, Voted
from albireo.codec.register_block import BLOCK_REGISTERS, RELEASED, Ballot, encode_ballot
from albireo.machine.vote.events import (
    Connected,
    ConnectionLost,
    Effect,
    Event,
    OwnCopy,
    Part,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegisterPhase,
    RegistersRead,
    RegistersWritten,
    ResetConnection,
    WriteBlock,
)
from albireo.machine.vote.look import Look
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import SendVote, VoteAsked, VoterRefusal
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.sim.engine.agenda import Agenda
from tests.long_form import check_caught, some
from tests.parts.register_world import first_ballot, padded, record

LEASE: Final = 100 * MS
SETTLES: Final = (3 * MS, 40 * MS)
ROUND_TRIP: Final = 4 * MS
DEAD: Final = 50 * MS
DURATION: Final = 15 * SECOND
RATES: Final = (0.98, 1.02)
"""Two clocks apart by less than the drift of 5 %."""


class Member:
    """A candidate that stands whenever it may, and a holder that renews, forgets to, is paused, or releases."""

    def __init__(self, index: int, machine: type[RegisterVoter], chance: random.Random) -> None:
        self.index = index
        self.rate = chance.uniform(*RATES)
        self.machine = machine
        self.disk = OwnCopy(ballot=first_ballot(index), landed=1)
        self.run = 0
        self.voter: RegisterVoter
        self.epoch = 0
        self.record: Record | None = None
        self.is_holder = False
        self.lease_until = 0
        self.round = 0
        self.dropped_round = 0
        """Nothing sent up to here brings a lease back that was given up (machine/pair/lease.py)."""
        self.sent: dict[int, int] = {}
        self.paused_until = 0
        self.forgets_until = 0
        self.connection = 0

    def local(self, now: int) -> Instant:
        return Instant(int(now * self.rate) + 1)


class World:
    def __init__(self, seed: int, machine: type[RegisterVoter], from_answer: bool = False) -> None:
        self.chance = random.Random(seed)
        self.agenda = Agenda()
        self.from_answer = from_answer
        self.settle = self.chance.choice(SETTLES)
        self.members = [Member(index, machine, self.chance) for index in (0, 1)]
        blocks = [list(padded(encode_ballot(first_ballot(index)))) for index in (0, 1)]
        self.own = [list(block) for block in blocks]
        self.cross = [list(block) for block in blocks]
        self.shown_at = [0, 0]
        self.grants = 0
        self.takeovers = 0
        self.violation = ""
        self._stands = (self.chance.uniform(0.2, 1.0), self.chance.uniform(0.2, 1.0))
        self._faults = self.chance.uniform(0.02, 0.2)
        for member in self.members:
            self._start(member)
            self.agenda.call_at(self.agenda.at, lambda member=member: self._tick(member))  # type: ignore[misc]  # Bound early.

    def play(self) -> str:
        self.agenda.play_until(self.agenda.at + DURATION, lambda: bool(self.violation), every=1)
        return self.violation

    def _start(self, member: Member) -> None:
        member.run += 1
        whole = RegisterConfig(
            name="plc",
            cluster="c",
            voters=("plc",),
            generation=1,
            member=member.index,
            run=member.run,
            lease_ns=LEASE,
            settle_ns=self.settle,
            poll_ns=2 * MS,
            dead_time_ns=DEAD,
            watch_ns=15 * MS,
        )
        member.voter = member.machine(whole, member.disk, member.local(self.agenda.at))
        member.is_holder, member.record, member.epoch, member.lease_until = False, None, 0, 0
        self._connect(member)

    def _connect(self, member: Member) -> None:
        member.connection += 1
        self._deliver(member, Connected(member.connection))

    def _deliver(self, member: Member, event: Event) -> None:
        """Hand over an event, later if the process is paused."""
        if self.agenda.at < member.paused_until:
            self.agenda.call_at(member.paused_until, lambda: self._deliver(member, event))
            return
        local = member.local(self.agenda.at)
        for effect in member.voter.step(event, local):
            self._perform(member, effect)
        due = member.voter.deadline()
        if due is not None:
            self.agenda.call_at(int(due / member.rate) + 1, lambda: self._deliver(member, TimePassed()))

    def _perform(self, member: Member, effect: Effect) -> None:
        connection = member.connection
        there = self.agenda.at + self.chance.randrange(ROUND_TRIP)
        back = there + self.chance.randrange(ROUND_TRIP)
        match effect:
            case PersistCopy(copy):
                member.disk = copy
            case ReadBlocks():
                self.agenda.call_at(there, lambda: self._reads(member, connection, back))
            case WriteBlock(_, start, words):
                self.agenda.call_at(there, lambda: self._lands(member.index, start, words))
                self.agenda.call_at(back, lambda: self._deliver(member, RegistersWritten(connection)))
            case ResetConnection():
                self._deliver(member, ConnectionLost(connection))
                self._connect(member)
            case SendVote(voted):
                self._answered(member, voted)

    def _reads(self, member: Member, connection: int, back: int) -> None:
        views = [self.own[index] if index == member.index else self.cross[index] for index in (0, 1)]
        words = tuple(views[0] + views[1])
        self.agenda.call_at(back, lambda: self._deliver(member, RegistersRead(connection, words)))

    def _lands(self, index: int, start: int, words: tuple[int, ...]) -> None:
        """Own connection at once, the other one within `settle`, in order."""
        self.own[index][start : start + len(words)] = words
        image = list(self.own[index])
        at = max(self.shown_at[index], self.agenda.at + self.chance.choice((0, self.settle - 1, self.settle - 1)))
        self.shown_at[index] = at
        self.agenda.call_at(at, lambda: self.cross[index].__setitem__(slice(0, BLOCK_REGISTERS), image))

    def _ask(self, member: Member, question: Callable[..., Question], **fields: Any) -> None:
        member.round += 1
        member.sent[member.round] = self.agenda.at
        head = {"cluster": "c", "generation": 1, "member": member.index, "run": member.run, "round": member.round}
        self._deliver(member, VoteAsked(question(**head, **fields)))

    def _tick(self, member: Member) -> None:
        self.agenda.call_at(self.agenda.at + self.chance.randrange(2 * MS, 20 * MS), lambda: self._tick(member))
        if self.agenda.at < member.paused_until or self.agenda.at < member.forgets_until:
            return
        dice = self.chance.random()
        if dice < self._faults:
            self._fault(member)
        elif member.is_holder and self.agenda.at >= member.lease_until:
            member.is_holder = False
        elif member.is_holder and dice < 0.99:
            self._ask(member, Accept, record=member.record)
        elif member.is_holder:
            member.is_holder, member.lease_until = False, 0
            member.dropped_round = member.round
            self._ask(member, Release, epoch=member.epoch)
        elif dice < self._stands[member.index]:
            self._ask(member, Read)

    def _fault(self, member: Member) -> None:
        match self.chance.randrange(8):
            case 4 | 5 | 6 | 7:
                # About a lease: what comes next meets the other's candidacy.
                member.forgets_until = self.agenda.at + int(self.chance.uniform(0.7, 1.6) * LEASE)
            case 0:
                member.paused_until = self.agenda.at + self.chance.randrange(2 * LEASE)
            case 1:
                self._deliver(member, ConnectionLost(member.connection))
                self._connect(member)
            case 2 if not member.is_holder and self.chance.random() < 0.2:
                self._start(member)
            case _:
                member.is_holder, member.lease_until = False, 0

    def _answered(self, member: Member, voted: Voted) -> None:
        if voted.question == "pair_read" and voted.is_granted and not voted.is_lease_running:
            if voted.record is not None and not member.is_holder:
                own = member.record
                if own is not None and own.rank == voted.record.rank and self.chance.random() < 0.5:
                    self._ask(member, Accept, record=own)
                    return
                epoch = voted.promised + 1
                self._ask(member, Prepare, epoch=epoch + (epoch + member.index) % 2)
                member.epoch = epoch + (epoch + member.index) % 2
        elif voted.question == "pair_prepare" and voted.is_granted:
            member.record = record(member.epoch, member.run, (0, 1))
            self._ask(member, Accept, record=member.record)
        elif voted.question == "pair_prepare" and voted.reason == "leased" and self.chance.random() < 0.7:
            self.agenda.call_at(self.agenda.at + 20 * MS, lambda: self._ask(member, Prepare, epoch=member.epoch))
        elif voted.question == "pair_accept":
            self._granted(member, voted)

    def _granted(self, member: Member, voted: Voted) -> None:
        if not voted.is_granted or voted.to_run != member.run or voted.round <= member.dropped_round:
            member.is_holder = member.is_holder and voted.reason != "promised"
            return
        base = self.agenda.at if self.from_answer else member.sent[voted.round]
        until = int(base + LEASE / member.rate)
        if until <= self.agenda.at:
            return
        self.takeovers += not member.is_holder
        self.grants += 1
        member.is_holder, member.lease_until = True, max(member.lease_until, until)
        other = self.members[1 - member.index]
        if other.is_holder and other.lease_until > self.agenda.at:
            left = (other.lease_until - self.agenda.at) / MS
            self.violation = f"{member.index} is granted {voted.round}, the other has {left:.1f} ms left"


class WriteRenews(RegisterVoter):
    """A renewal is a write: no look at the other's ballot after it."""

    def _is_open(self, epoch: int, run: int, other: Ballot) -> bool:
        is_renewed = self.state.phase is RegisterPhase.JUDGING and self.state.part is Part.LIFE
        return is_renewed or super()._is_open(epoch, run, other)


class NoSettledRenewal(RegisterVoter):
    """Reads the other's block as soon as its own life-sign is read back."""

    def _read_back(self, words: Sequence[int], now: Instant) -> list[Effect]:
        effects = super()._read_back(words, now)
        if self.state.phase is RegisterPhase.SETTLING and self.state.part is Part.LIFE:
            self._become(wait_until=now)
        return effects


class NoLookAgain(RegisterVoter):
    """The life-sign counts before the ballot is written, not after."""

    def _is_lease_running(self, look: Look, now: Instant) -> bool:
        return self.state.phase is not RegisterPhase.JUDGING and super()._is_lease_running(look, now)


class ShortWatch(RegisterVoter):
    """Takes a fifth of a lease for one."""

    def _lease_left(self, look: Look, now: Instant) -> int:
        return super()._lease_left(look, now) - LEASE * 4 // 5


class AnyWriteIsALease(RegisterVoter):
    """Also one that changes nothing a candidate watches."""

    def _propose(self, run: int, changes: dict[str, Any], *, is_moving: bool, now: Instant) -> list[Effect]:
        return super()._propose(run, changes, is_moving=True, now=now)


class ReleaseIgnoresNothing(RegisterVoter):
    """A renewal after a release leaves the life-sign released."""

    def _accept(self, question: Accept, other: Ballot, look: Look, now: Instant) -> list[Effect]:
        if look.own_life is not None and look.own_life.sign == RELEASED:
            self._become(has_moved=True)
        return super()._accept(question, other, look, now)


MUTATIONS: Final[dict[str, tuple[type[RegisterVoter], bool]]] = {
    "lease counted from the answer": (RegisterVoter, True),
    "a write alone renews": (WriteRenews, False),
    "renewal without settle": (NoSettledRenewal, False),
    "no look after the ballot": (NoLookAgain, False),
    "watch too short": (ShortWatch, False),
    "an unchanged write makes a lease": (AnyWriteIsALease, False),
    "still released": (ReleaseIgnoresNothing, False),
}
CAUGHT_BY: Final = {
    "lease counted from the answer": 1,
    "a write alone renews": 25,
    "no look after the ballot": 20,
    "watch too short": 1,
    "an unchanged write makes a lease": 2,
    "still released": 1,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(20), 2))
def test_never_two_leases(seed: int) -> None:
    world = World(seed, RegisterVoter)
    assert world.play() == "", f"seed {seed}"
    assert world.grants > 5


def test_the_lease_changes_hands_in_these_worlds() -> None:
    worlds = [World(seed, RegisterVoter) for seed in range(4)]
    for world in worlds:
        world.play()
    assert sum(world.takeovers for world in worlds) > 20
    assert not any(
        refusal == VoterRefusal.EMPTY.value for world in worlds for refusal in world.members[0].voter.refusals
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MUTATIONS))
def test_every_shortcut_of_the_lease_is_caught_within_50_seeds(name: str) -> None:
    machine, from_answer = MUTATIONS[name]

    def caught(seeds: range) -> int | None:
        return next((seed for seed in seeds if World(seed, machine, from_answer).play()), None)

    check_caught(caught, CAUGHT_BY.get(name, 0), range(50))
