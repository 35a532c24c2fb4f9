"""Faults of a world of any kind: how they come, one after the other at drawn distances, and those of its cables."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from albireo.sim.engine.network import OUTSIDE, Cables
from albireo.sim.engine.stage import StageT


class Struck(Protocol):
    """Member as faults see it: its name, and if it is the holder."""

    name: str

    @property
    def is_holder(self) -> bool: ...


MemberT = TypeVar("MemberT", bound=Struck)


class Faults(ABC, Generic[StageT, MemberT]):
    """Faults of one world. A method named in `Mix.faults` is one fault; none begins while the world is shielded."""

    cut_ms_max = 2_000.0

    def __init__(self, stage: StageT, network: Cables, members: Sequence[MemberT], voters: Sequence[str]) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = stage.chance
        self.network = network
        self.members = members
        self._voters = voters

    def begin(self) -> None:
        swarm = self.stage.swarm
        if swarm.faults:
            self.agenda.after_ms(20 + self.chance.expovariate(1.0 / swarm.fault_every_ms), self._one)

    def _one(self) -> None:
        if self.stage.has_faults:
            if not self.stage.is_shielded:
                getattr(self, self.chance.choice(self.stage.swarm.faults))()
            self.begin()

    @abstractmethod
    def heal(self) -> None:
        """Make everything work from now on."""

    def _pick(self) -> MemberT:
        """Draw a member, the holder more often than not: that is where it hurts."""
        leaders = [one for one in self.members if one.is_holder]
        return self.chance.choice(leaders if leaders and self.chance.random() < 0.6 else self.members)

    def _others(self, member: MemberT) -> list[str]:
        """Return the names of all that the member talks to."""
        names = [*(one.name for one in self.members), *self._voters, OUTSIDE]
        return [name for name in names if name != member.name]

    def _cut_ms(self) -> float:
        return self.chance.uniform(100, self.cut_ms_max)

    def _cut_link(self, for_ms: float) -> None:
        first, second = self.members
        self.network.cut_both(first.name, second.name, for_ms)

    def cut_link(self) -> None:
        for_ms = self._cut_ms()
        self.stage.note("link", f"cut for {for_ms:.0f} ms")
        self._cut_link(for_ms)

    def cut_path(self) -> None:
        """Cut one of the cables between the members."""
        for_ms, path = self._cut_ms(), self.chance.randrange(self.stage.swarm.paths)
        self.stage.note("link", f"path {path} cut for {for_ms:.0f} ms")
        first, second = self.members
        self.network.cut_both(first.name, second.name, for_ms, path)

    def cut_member(self) -> None:
        member, for_ms = self._pick(), self._cut_ms()
        self.stage.note(member.name, f"cut off for {for_ms:.0f} ms")
        for other in self._others(member):
            self.network.cut_both(member.name, other, for_ms)

    def cut_voter(self) -> None:
        voter, for_ms = self.chance.choice(self._voters), self._cut_ms()
        for member in self.members:
            if self.chance.random() < 0.7:
                self.stage.note(member.name, f"cut from {voter} for {for_ms:.0f} ms")
                self.network.cut_both(member.name, voter, for_ms)
