"""Faults of the simulated pair. A method named in `Mix.faults` is one fault.

Faults of `SINGLE` are covered one at a time only: they come only while everything is well, and while one lasts the
world is shielded from all others.
"""

from functools import partial

from albireo.machine.pair.events import ForceAsked, HoldAsked, MemberStopAsked, State, SwitchoverAsked
from albireo.model.instant import MS, SECOND
from albireo.sim.engine.faults import Faults
from albireo.sim.machines.parts import EMPTY_DISK, NO_FOLD
from albireo.sim.machines.plc import Plc
from albireo.sim.machines.shell import Shell
from albireo.sim.machines.stage import MemberNode, PairStage, VoterNode

IMAGE_EVERY_MS = 400.0
SETTLED_NS = 1 * SECOND


class PairFaults(Faults[PairStage, MemberNode]):
    """Faults of one pair of machines."""

    def __init__(self, stage: PairStage, shell: Shell) -> None:
        super().__init__(stage, stage.network, stage.members, stage.config.voters)
        self.shell = shell
        self.ledger = shell.ledger
        self.voters = shell.voters
        shell.moved = self.moved
        if {"old_disk", "rewind_voter"} & set(stage.swarm.faults):
            self._take_images()

    def moved(self, node: MemberNode, new: State) -> None:
        """Kill a member, or cut its power, shortly after it reached the state that a directed workload names."""
        swarm = self.stage.swarm
        if self.stage.has_faults and new.value == swarm.dies_at:
            wait_ms = self.chance.random() * swarm.dies_within_ms
            is_kill = self.chance.random() < 0.5
            self.agenda.after_ms(wait_ms, partial(self.shell.down, node, keeps_cache=is_kill))

    def heal(self) -> None:
        self.stage.note("world", "healed")
        self.network.heal()
        for node in self.members:
            node.hung_until = node.paused_until = self.agenda.at
            if not node.is_up or node.machine.state is State.FENCED:
                self.shell.stop(node, keeps_cache=True)
                self.shell.start(node)
        for voter in self.voters.witnesses.values():
            if not voter.is_up:
                self.voters.start(voter)

    def kill(self) -> None:
        self.shell.down(self._pick(), keeps_cache=True)

    def kill_both(self) -> None:
        for node in self.members:
            self.shell.down(node, keeps_cache=True)

    def power(self) -> None:
        self.shell.down(self._pick(), keeps_cache=False)

    def power_both(self) -> None:
        for node in self.members:
            self.shell.down(node, keeps_cache=False)

    def pause(self) -> None:
        node = self._pick()
        node.paused_until = self.agenda.at + int(self.chance.uniform(50, 1500) * MS)
        self.stage.note(node.name, "paused")

    def hang_disk(self) -> None:
        node = self._pick()
        node.hung_until = self.agenda.at + int(self.chance.uniform(200, 3000) * MS)
        self.stage.note(node.name, "disk hangs")

    def stop(self) -> None:
        """Ask a member for an orderly stop; it starts again some time after its end."""
        node = self._pick()
        if node.is_up:
            self.stage.note(node.name, "asked to stop")
            node.deliver(MemberStopAsked())

    def stop_both(self) -> None:
        """Close admission, then stop both members together: nobody leaves the set."""
        holders = [node for node in self.members if node.is_holder]
        if holders:
            self.stage.note("world", "both are asked to stop")
            holders[0].deliver(SwitchoverAsked("stop", is_for_stop=True))
            for node in self.members:
                self.agenda.after_ms(300, partial(self._stop_joint, node))

    def _stop_joint(self, node: MemberNode) -> None:
        if not self.stage.is_shielded:
            node.deliver(MemberStopAsked(is_joint=True))

    def hold(self) -> None:
        """Keep a member from standing for the lead, for a while (maintenance)."""
        node = self._pick()
        if node.is_up:
            self.stage.note(node.name, "held back")
            node.awake(partial(self._hold, node, self.chance.uniform(200, 1500)))

    def _hold(self, node: MemberNode, wait_ms: float) -> None:
        """Ask for the end once maintenance has begun: two events that wait for the end of a pause may change places."""
        node.hears(HoldAsked(True))
        self.agenda.after_ms(wait_ms, partial(node.deliver, HoldAsked(False)))

    def switchover(self) -> None:
        for node in self.members:
            if node.is_up:
                node.deliver(SwitchoverAsked("drill"))

    def cut_oneway(self) -> None:
        node, for_ms = self._pick(), self._cut_ms()
        self.stage.note(node.name, f"hears nothing for {for_ms:.0f} ms")
        for other in self._others(node)[:-1]:
            self.network.cut(other, node.name, for_ms)

    def cut_deaf(self) -> None:
        """Cut only the way by which one member hears the other."""
        node, for_ms = self._pick(), self._cut_ms()
        other = self.stage.other(node)
        self.stage.note(node.name, f"does not hear {other.name} for {for_ms:.0f} ms")
        self.network.cut(other.name, node.name, for_ms)

    def forge_refusal(self) -> None:
        """Let a network device say that the holder's port is closed, while the holder lives (rule 12)."""
        for node in self.members:
            if node.is_holder:
                run, other = node.machine.own.run, self.stage.other(node)
                if self.chance.random() < 0.7:
                    self.cut_link()
                self.stage.has_forged = True
                self.stage.note("network", f"forges a refusal of {node.name}")
                self.shell.tell_gone(other, run)

    def _witness(self) -> VoterNode | None:
        names = sorted(self.voters.witnesses)
        return self.voters.witnesses[self.chance.choice(names)] if names else None

    def restart_voter(self) -> None:
        voter = self._witness()
        if voter is not None:
            voter.is_up = False
            self.stage.note(voter.name, "restarts")
            self.agenda.after_ms(self.chance.random() * 300, partial(self.voters.start, voter))

    def lose_voter(self) -> None:
        """Take the store of one voter of three for good, always of the same one."""
        if self.stage.swarm.voters == 3 and self.voters.witnesses:
            voter = self.voters.witnesses[max(self.voters.witnesses)]
            voter.store = self.voters.first_store if self.stage.variant.fresh_voter else None
            self.stage.note(voter.name, "loses its store")
            self.voters.start(voter)

    def _plc(self) -> Plc:
        return self.voters.plcs[self.chance.choice(sorted(self.voters.plcs))]

    def restart_plc(self) -> None:
        """Restart a PLC: its registers are kept; its connections are not."""
        plc = self._plc()
        self.stage.note(plc.name, "restarts")
        plc.break_connections()

    def zero_plc(self) -> None:
        plc = self._plc()
        self.stage.note(plc.name, "restarts without its registers")
        plc.forget()

    def tear_plc(self) -> None:
        plc = self._plc()
        self.stage.note(plc.name, "restarts in the middle of a write")
        plc.tear()

    def break_plc(self) -> None:
        """Break a PLC's connections, with requests on their way."""
        self._plc().break_connections()

    def _take_images(self) -> None:
        """Take backups of disks and voters, from which an old state can come back."""
        for node in self.members:
            if node.is_up and not self.stage.is_shielded and self.chance.random() < 0.5:
                node.image = node.saved()
        for voter in self.voters.witnesses.values():
            if voter.store is not None and self.chance.random() < 0.3:
                voter.old_store = voter.store
        self.agenda.after_ms(IMAGE_EVERY_MS, self._take_images)

    def calm(self) -> tuple[MemberNode, MemberNode] | None:
        """Return holder and passive member if nothing else is wrong and all are up for a while; otherwise None."""
        at, nodes = self.agenda.at, (*self.members, *self.voters.witnesses.values())
        is_calm = self.stage.is_well() and not self.stage.is_shielded and self.network.is_whole
        started = [node.up_since for node in nodes if node.is_up]
        hung = max(max(node.hung_until, node.paused_until) for node in self.members) > at
        orders = [node.machine.handover for node in self.members if node.is_up]
        has_orders = any(order.keeps_back or order.until is not None for order in orders)
        if not is_calm or len(started) < len(nodes) or hung or has_orders or at - max(started) < SETTLED_NS:
            return None
        holder = next(node for node in self.members if node.is_holder)
        return holder, self.stage.other(holder)

    def old_disk(self) -> None:
        """The passive member comes back with a backup of its disk."""
        calm = self.calm()
        if calm is not None:
            _, passive = calm
            self.stage.shield(3_000)
            self.shell.down(passive, keeps_cache=False, for_ms=200 + self.chance.random() * 300)
            passive.restored(passive.image, passive.store)
            self.stage.note(passive.name, f"gets a disk back that ends at {passive.end}")

    def damaged_disk(self) -> None:
        """The passive member finds a record below its commit position unreadable."""
        calm = self.calm()
        if calm is not None and calm[1].folded > 1:
            _, passive = calm
            self.stage.shield(3_000)
            self.shell.down(passive, keeps_cache=False, for_ms=200 + self.chance.random() * 300)
            at = self.chance.randrange(1, min(passive.folded, len(passive.log)))
            del passive.log[at:]
            passive.snapshot = NO_FOLD
            passive.synced, passive.is_damaged = at, True
            self.stage.note(passive.name, f"cannot read record {at + 1}")

    def cloned_disk(self) -> None:
        """The passive machine starts with a copy of the holder's disk; later somebody gives it an empty one."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            self.stage.shield(6_000)
            self.shell.down(passive, keeps_cache=False, for_ms=300)
            passive.restored(holder.saved(), holder.store)
            self.stage.note(passive.name, f"gets a copy of the disk of {holder.name}")

            def repair() -> None:
                if passive.machine.state is not State.JOINING:
                    self.stage.fail(f"{passive.name} is {passive.machine.state.value} with a cloned disk")
                self.shell.down(passive, keeps_cache=False, for_ms=100)
                passive.restored(EMPTY_DISK, f"{holder.store}, new {passive.runs}")
                self.stage.note(passive.name, "gets an empty disk")

            self.agenda.after_ms(2_500, repair)

    def rewind_voter(self) -> None:
        """One voter of three comes back from a backup, while the holder lives."""
        if self.calm() is not None and self.stage.swarm.voters == 3 and self.voters.witnesses:
            voter = self.voters.witnesses[self.chance.choice(sorted(self.voters.witnesses))]
            if voter.store is not None:
                self.stage.shield(1_500)
                voter.store = voter.old_store
                self.stage.note(voter.name, "comes back from a backup")
                self.voters.start(voter)

    def force_refused(self) -> None:
        """Somebody asks the passive member to lead by force while the holder is well; it must refuse."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            self.stage.shield(1_500)
            self.stage.note(passive.name, "is asked to lead by force")
            before = self.stage.refused["other_is_alive"]
            passive.deliver(ForceAsked())

            def check() -> None:
                if passive.is_holder or self.stage.refused["other_is_alive"] == before:
                    self.stage.fail(f"{passive.name} did not refuse force while {holder.name} is alive")

            self.agenda.after_ms(1_200, check)

    def force_on_survivor(self) -> None:
        """The holder's machine burns and the voters with it; the operator says so to the survivor."""
        calm = self.calm()
        if calm is None:
            return
        holder, passive = calm
        self.stage.shield(7_000)
        self.stage.is_forced = True
        self.shell.down(holder, keeps_cache=False, for_ms=5_500)
        for name in self.stage.config.voters:
            self.network.cut_both(passive.name, name, 4_500)
        self.agenda.after_ms(1_000, partial(passive.deliver, ForceAsked()))

        def check() -> None:
            if passive.machine.state is not State.SOLO:
                self.stage.fail(f"{passive.name} is {passive.machine.state.value} after force")
            if self.ledger.lost:
                self.stage.fail(f"force on a member of the set lost {self.ledger.lost[:3]}")

        self.agenda.after_ms(3_000, check)
