"""Scenes: several faults in the order and at the distance at which one missing rule would show.

A mix of faults drawn at random finds most shortcuts; some windows are a few milliseconds wide, or need three things to
go wrong one after the other. A directed workload plays such a scene again and again, each time with other distances.
A scene comes only while everything is well. The machines as they are must hold in all of them.

Spec: design/pair.md, How it is proven.
"""

from functools import partial

from albireo.machine.pair.events import State
from albireo.model.instant import MS
from albireo.sim.machines.faults import PairFaults
from albireo.sim.machines.parts import NO_FOLD
from albireo.sim.machines.shell import Shell
from albireo.sim.machines.stage import MemberNode, PairStage


class Scenes(PairFaults):
    """Scenes of one pair, named as in `Mix.faults`, like the faults that they are made of."""

    def __init__(self, stage: PairStage, shell: Shell) -> None:
        super().__init__(stage, shell)
        self._heals_at_solo = False
        self._hangs_at_solo = False

    def moved(self, node: MemberNode, new: State) -> None:
        super().moved(node, new)
        if self._heals_at_solo and new is State.SOLO:
            self._heals_at_solo = False
            self.agenda.after_ms(20 + self.chance.random() * 150, self._heal_split)

    def _cut_voters(self, node: MemberNode, for_ms: float) -> None:
        for name in self.stage.config.voters:
            self.network.cut_both(node.name, name, for_ms)

    def stale_minority(self) -> None:
        """The members lose each other, and the holder loses one voter: that voter never hears of the smaller set."""
        calm = self.calm()
        if calm is not None:
            holder, _ = calm
            for_ms = self.chance.uniform(1_500, 2_500)
            name = self.chance.choice(self.stage.config.voters)
            self.stage.note(holder.name, f"cut from {name} and from the other for {for_ms:.0f} ms")
            self.network.cut_both(holder.name, name, for_ms)
            self._cut_link(for_ms)

    def contend(self) -> None:
        """Nobody reaches anybody for longer than a lease; then both reach the voters at once, and not each other."""
        if self.calm() is not None:
            for_ms = self.chance.uniform(800, 1_100)
            self.stage.note("world", f"voters cut off for {for_ms:.0f} ms, link for longer")
            for node in self.members:
                self._cut_voters(node, for_ms)
            self._cut_link(for_ms + 1_500)

    def forged_by_promise(self) -> None:
        """The voters are away until they count no lease; then the port of the holder, which leads by the other member's
        promise alone, is said to be closed."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            away_ms = self.stage.config.lease_and_drift / MS + self.chance.uniform(20, 200)
            self.stage.note("world", f"voters cut off for {away_ms:.0f} ms, then a forged refusal")
            for node in self.members:
                self._cut_voters(node, away_ms)
            self._cut_voters(holder, away_ms + 1_500)
            self.agenda.after_ms(away_ms + self.chance.random() * 20, partial(self._forge, holder, passive))

    def _forge(self, holder: MemberNode, passive: MemberNode) -> None:
        if holder.is_holder and holder.is_up and passive.is_up:
            self._cut_link(1_500)
            self.stage.has_forged = True
            self.shell.tell_gone(passive, holder.machine.own.run)

    def deaf_passive(self) -> None:
        """Only the way from the holder to the passive member is cut."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            for_ms = self.chance.uniform(1_000, 2_000)
            self.stage.note(passive.name, f"does not hear {holder.name} for {for_ms:.0f} ms")
            self.network.cut(holder.name, passive.name, for_ms)

    def hung_restart(self) -> None:
        """The passive member's disk hangs while records wait for it; its process is killed and comes back."""
        calm = self.calm()
        if calm is not None:
            _, passive = calm
            chance = self.chance
            self.stage.note(passive.name, "disk hangs")
            passive.hung_until = self.agenda.at + int(chance.uniform(400, 900) * MS)
            self.agenda.after_ms(
                20 + chance.random() * 150,
                partial(self.shell.down, passive, keeps_cache=True, for_ms=30 + chance.random() * 60),
            )

    def split_tail(self) -> None:
        """The holder, cut off with records that nobody else has, comes back just after the other member took over."""
        calm = self.calm()
        if calm is not None:
            holder, _ = calm
            self.stage.note(holder.name, "cut off until the other leads")
            self._cut_link(5_000)
            self._cut_voters(holder, 5_000)
            self._heals_at_solo = True

    def long_tail(self) -> None:
        """A split tail, and both disks hang when the old holder comes back, its own disk for longer."""
        if self.calm() is not None:
            self.split_tail()
            self._hangs_at_solo = True

    def _heal_split(self) -> None:
        self.network.heal()
        if self._hangs_at_solo:
            self._hangs_at_solo = False
            for node in self.members:
                hang_ms = self.chance.uniform(120, 300) if node.is_holder and node.machine.state is State.SOLO else 600
                node.hung_until = self.agenda.at + int(hang_ms * MS)

    def late_shrink(self) -> None:
        """The members lose each other; the holder goes on alone and dies at once; older messages still come."""
        calm = self.calm()
        if calm is not None:
            holder, _ = calm
            self.stage.note("link", "cut; the holder dies when it is alone")
            self._cut_link(3_000)
            dies_ms = self.stage.config.silence_ns / MS + self.chance.random() * 150
            self.agenda.after_ms(dies_ms, partial(self.shell.down, holder, keeps_cache=True, for_ms=3_000))

    def late_answers(self) -> None:
        """No message of the holder arrives any more, save at its clients; old answers to it are still under way."""
        calm = self.calm()
        if calm is not None:
            holder, _ = calm
            self.stage.note(holder.name, "is no longer heard")
            self._cut_link(2_500)
            for name in self.stage.config.voters:
                self.network.cut(holder.name, name, 2_500)

    def old_disk_alone(self) -> None:
        """The passive member comes back with an old disk while the holder is dead; later the holder returns."""
        calm = self.calm()
        floors = [voter.machine.floor.sequence for voter in self.voters.witnesses.values()]
        if calm is None or min(floors) < 2:
            return
        holder, passive = calm
        self.stage.shield(5_500)
        self.shell.down(passive, keeps_cache=False, for_ms=100)
        at = self.chance.randrange(1, min(*floors, len(passive.log), 10_000))
        del passive.log[at:]
        passive.synced, passive.snapshot = at, NO_FOLD
        self.stage.note(passive.name, f"gets a disk back that ends at {passive.end}")
        self.shell.down(holder, keeps_cache=False, for_ms=4_000)
