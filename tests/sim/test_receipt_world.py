"""A pair with a local stream, from a seed: what was told early is lost only by a takeover, with its program, and a gap.

The machines that say and keep are the real ones (tests/parts/receipt.py). A seed moves them: disks are slow, frames
reach the other member late, members lose power, are overtaken and don't know it, programs lose their lines and die.

A failure prints the seed: `pytest tests/sim -k "receipts and seed-17"` plays it again.
"""

import random
from collections.abc import Sequence

import msgspec
import pytest

from albireo.codec.message import Appended
from albireo.machine.desk.receipts import Batch, Receipts
from albireo.machine.kernel.events import Durable
from albireo.machine.producer.producer import Producer, SendToCore
from albireo.model.instant import MS, Instant
from albireo.model.log_view import LogView
from tests.long_form import check_caught, some
from tests.parts.receipt import LOCAL, Member, Pair, Program

SEEDS = some(range(150), 8)
STEPS = 150


class World:
    """One seed: its own mix, and what it does next."""

    def __init__(self, seed: int, *, local: frozenset[int] = LOCAL, programs: Sequence[str] = ()) -> None:
        self.chance = chance = random.Random(f"receipts {seed}")
        self.pair = Pair(programs or ("p", "q")[: chance.choice([1, 2])], local)
        self.pair.settle()
        faults = chance.choice([0.2, 1.0, 4.0])
        self.does = {
            self.offer: 30.0,
            self.carry: 40.0,
            self.sync: 20.0,
            self.copy: chance.choice([4.0, 15.0]),
            self.pass_time: 10.0,
            self.cut_line: faults,
            self.lose_power: faults * chance.choice([0.0, 0.5]),
            self.begin_again: 4 * faults,
            self.take_over: faults * chance.choice([0.0, 1.0, 2.0]),
            self.learn: 2 * faults,
            self.die: faults * chance.choice([0.0, 1.0]),
            self.leave: 0.3 * faults,
            self.catch_up: 5 * faults,
        }

    def program(self) -> Program:
        return self.chance.choice(self.pair.programs)

    def member(self) -> Member:
        return self.chance.choice(self.pair.members)

    def step(self) -> None:
        do = self.chance.choices(list(self.does), weights=list(self.does.values()))[0]
        do()

    def settle(self) -> list[int]:
        self.learn()
        for program in self.pair.programs:
            for member in self.pair.members:
                if member.is_up and member.index not in program.machine.lines:
                    program.line(member, is_up=True)
        self.pair.settle()
        return self.pair.check()

    def offer(self) -> None:
        self.program().offer(self.chance.randint(1, 5))

    def carry(self) -> None:
        """Some of what is on its way arrives, of the dead as well."""
        program, member, chance = self.program(), self.member(), self.chance
        program.says(member.index, chance.randint(0, 4))
        program.hears(member.index, chance.randint(0, 4))
        for identity, index, into in self.pair.ghosts:
            if chance.random() < 0.3:
                self.pair.arrive(identity, index, into, 2)

    def sync(self) -> None:
        member = self.member()
        if member.is_up:
            member.sync(self.chance.choice([1, 2, 1_000]))
            if member is self.pair.passive:
                self.pair.join()

    def copy(self) -> None:
        if self.pair.leader.is_up:
            self.pair.copy(self.chance.randint(1, 6))

    def catch_up(self) -> None:
        """The passive member gets everything, and comes into the set."""
        if self.pair.leader.is_up and self.pair.passive.is_up:
            self.pair.copy()
            self.pair.leader.sync()
            self.pair.passive.sync()
            self.pair.join()

    def pass_time(self) -> None:
        self.pair.pass_time(self.chance.choice([1, 20, 200, 2_000]) * MS)

    def cut_line(self) -> None:
        program, member = self.program(), self.member()
        if member.is_up:
            program.line(member, is_up=member.index not in program.machine.lines)

    def lose_power(self) -> None:
        member = self.member()
        if member.is_up:
            self.pair.kill(member, power=self.chance.random() < 0.7)

    def begin_again(self) -> None:
        member = self.member()
        if not member.is_up:
            self.pair.start(member)

    def take_over(self) -> None:
        if self.pair.passive.is_up and self.pair.passive.index in self.pair.set:
            self.pair.takeover()
            for program in self.pair.programs:
                if self.chance.random() < 0.2:
                    program.begin()  # On the machine that failed.

    def learn(self) -> None:
        for member in list(self.pair.late):
            self.pair.meets(self.pair.members[member])

    def die(self) -> None:
        self.program().begin()

    def leave(self) -> None:
        """The passive member is voted out of the set."""
        if self.pair.leader.is_up:
            self.pair.set = {self.pair.leader.index}
            self.pair.commit()


def play(seed: int, *, local: frozenset[int] = LOCAL) -> tuple[World, list[int]]:
    world = World(seed, local=local)
    for _ in range(STEPS):
        world.step()
    return world, world.settle()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_receipts_hold(seed: int) -> None:
    play(seed)


def test_the_world_shows_both_what_is_cut_and_what_is_sent_again() -> None:
    """Otherwise it would prove nothing: tails with a living program are stored, tails that died with it are lost."""
    lost = told_early = 0
    for seed in range(30):
        world, found = play(seed)
        lost += len(found)
        told_early += sum(len(life.told_in) for one in world.pair.programs for life in one.lives)
    assert lost > 0
    assert told_early > 10 * lost


def test_without_a_local_stream_nobody_is_told_early() -> None:
    for seed in range(10):
        world, lost = play(seed, local=frozenset())
        assert not lost
        assert not any(life.told_in for one in world.pair.programs for life in one.lives)


def caught(seeds: range) -> int | None:
    """Return the first seed that ends badly; None if none of them does."""
    for seed in seeds:
        try:
            play(seed)
        except AssertionError:
            return seed
    return None


def test_told_before_the_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sync, view = Member.sync, Member.view

    def written(self: Member) -> LogView:
        return msgspec.structs.replace(view(self), durable=self.end)

    def told_first(self: Member, frames: int = 1_000_000) -> None:
        """Told is what was written, not what the disk has."""
        if self.root.waits_for_disk:
            self.step(Durable())
        sync(self, frames)

    monkeypatch.setattr(Member, "view", written)
    monkeypatch.setattr(Member, "sync", told_first)
    check_caught(caught, 0, range(50))


def test_a_producer_that_lets_go_at_the_early_receipt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    appended = Producer._appended

    def let_go(self: Producer, event: Appended, now: Instant) -> list[SendToCore]:
        return appended(self, msgspec.structs.replace(event, uncommitted=0), now)

    monkeypatch.setattr(Producer, "_appended", let_go)
    check_caught(caught, 2, range(50))


def test_an_early_receipt_that_calls_everything_committed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Receipts, producer_id: int, batch: Batch) -> Appended:
        return self._role.receipt(producer_id, batch.producer_sequence, batch.position)

    monkeypatch.setattr(Receipts, "_early", early)
    check_caught(caught, 0, range(50))
