"""Parts that tests share: a pair with a local stream, from a seed."""

import random
from collections.abc import Sequence

from albireo.model.instant import MS
from tests.parts.receipt import LOCAL, Member, Pair, Program


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
