"""What can go wrong in the simulated pair. Each method is one fault, named as in `Swarm.faults`.

Faults of `SINGLE` are covered one at a time only: they wait until everything is well, and while one lasts the world is
shielded from all others.
"""

from functools import partial
from typing import TYPE_CHECKING

from albireo.machine.pair.events import ForceAsked, HoldAsked, PeerGone, State, StopAsked, SwitchoverAsked
from albireo.model.instant import MS, SECOND
from albireo.sim.machines.parts import EMPTY_DISK, NAMES, NO_FOLD, MemberNode, VoterNode
from albireo.sim.machines.plc import Plc

if TYPE_CHECKING:
    from albireo.sim.machines.world import World

IMAGE_EVERY_MS = 400.0
SETTLED_NS = 1 * SECOND


class Faults:
    """Does them to one world, with that world's chance."""

    def __init__(self, world: "World") -> None:
        self.world = world
        if {"old_disk", "rewind_voter"} & set(world.swarm.faults):
            self._take_images()

    def _pick(self) -> MemberNode:
        """The holder more often than not: that is where it hurts."""
        leaders = [m for m in self.world.members if m.is_leading]
        return self.world.chance.choice(leaders if leaders and self.world.chance.random() < 0.6 else self.world.members)

    def down(self, node: MemberNode, *, keeps_cache: bool, for_ms: float = 0.0) -> None:
        """Down now, and up again after `for_ms`; 0: drawn."""
        self.world.stop_member(node, keeps_cache=keeps_cache)
        wait_ms = for_ms or 20 + self.world.chance.random() * 1500
        self.world.after_ms(wait_ms, partial(self.world.start_member, node))

    def moved(self, node: MemberNode, new: State) -> None:
        """A directed workload may kill whoever reached a state."""
        swarm = self.world.swarm
        if self.world.has_faults and new.value == swarm.dies_at:
            wait_ms = self.world.chance.random() * swarm.dies_within_ms
            self.world.after_ms(wait_ms, partial(self.down, node, keeps_cache=self.world.chance.random() < 0.5))

    # --- Processes and machines ----------------------------------------------------------------------------------

    def kill(self) -> None:
        self.down(self._pick(), keeps_cache=True)

    def kill_both(self) -> None:
        for node in self.world.members:
            self.down(node, keeps_cache=True)

    def power(self) -> None:
        self.down(self._pick(), keeps_cache=False)

    def power_both(self) -> None:
        for node in self.world.members:
            self.down(node, keeps_cache=False)

    def pause(self) -> None:
        node = self._pick()
        node.paused_until = self.world.at + int(self.world.chance.uniform(50, 1500) * MS)
        self.world.note(node.name, "paused")

    def hang_disk(self) -> None:
        node = self._pick()
        node.hung_until = self.world.at + int(self.world.chance.uniform(200, 3000) * MS)
        self.world.note(node.name, "disk hangs")

    def stop(self) -> None:
        """An orderly stop, and a start some time after its end."""
        node = self._pick()
        if node.is_up:
            self.world.note(node.name, "asked to stop")
            self.world.deliver(node, StopAsked())

    def stop_both(self) -> None:
        """Admission is closed, then both are stopped together: nobody leaves the set."""
        holders = [node for node in self.world.members if node.is_leading]
        if holders:
            self.world.note("world", "both are asked to stop")
            self.world.deliver(holders[0], SwitchoverAsked("stop", is_for_stop=True))
            for node in self.world.members:
                self.world.after_ms(300, partial(self._stop_joint, node))

    def _stop_joint(self, node: MemberNode) -> None:
        if not self.world.is_shielded:
            self.world.deliver(node, StopAsked(is_joint=True))

    def hold(self) -> None:
        """A member is told to stand for nothing, for a while."""
        node = self._pick()
        if node.is_up:
            self.world.note(node.name, "held back")
            wait_ms = self.world.chance.uniform(200, 1500)
            self.world.awake(node, node.life, partial(self._hold, node, wait_ms))

    def _hold(self, node: MemberNode, wait_ms: float) -> None:
        """Its end is ordered when it has begun: two orders that wait for the end of a pause may change places."""
        self.world.step(node, HoldAsked(True))
        self.world.after_ms(wait_ms, partial(self.world.deliver, node, HoldAsked(False)))

    def switchover(self) -> None:
        for node in self.world.members:
            if node.is_up:
                self.world.deliver(node, SwitchoverAsked("drill"))

    # --- Cables --------------------------------------------------------------------------------------------------

    def cut_link(self) -> None:
        for_ms = self.world.chance.uniform(100, 2000)
        self.world.note("link", f"cut for {for_ms:.0f} ms")
        self.world.cut("A", "B", for_ms)
        self.world.cut("B", "A", for_ms)

    def cut_path(self) -> None:
        """One of the cables between the members."""
        for_ms, path = self.world.chance.uniform(100, 2000), self.world.chance.randrange(self.world.config.paths)
        self.world.note("link", f"path {path} cut for {for_ms:.0f} ms")
        self.world.cut("A", "B", for_ms, path)
        self.world.cut("B", "A", for_ms, path)

    def cut_member(self) -> None:
        node, for_ms = self._pick(), self.world.chance.uniform(100, 2000)
        self.world.note(node.name, f"cut off for {for_ms:.0f} ms")
        for other in ("A", "B", "client", *self.world.config.voters):
            self.world.cut(node.name, other, for_ms)
            self.world.cut(other, node.name, for_ms)

    def cut_oneway(self) -> None:
        node, for_ms = self._pick(), self.world.chance.uniform(100, 2000)
        self.world.note(node.name, f"hears nothing for {for_ms:.0f} ms")
        for other in ("A", "B", *self.world.config.voters):
            self.world.cut(other, node.name, for_ms)

    def cut_deaf(self) -> None:
        """One member no longer hears the other, and nothing else is wrong."""
        node, for_ms = self._pick(), self.world.chance.uniform(100, 2000)
        other = self.world.members[1 - node.index]
        self.world.note(node.name, f"does not hear {other.name} for {for_ms:.0f} ms")
        self.world.cut(other.name, node.name, for_ms)

    def cut_voter(self) -> None:
        name, for_ms = self.world.chance.choice(self.world.config.voters), self.world.chance.uniform(100, 2000)
        for member in NAMES:
            if self.world.chance.random() < 0.7:
                self.world.note(member, f"cut from {name} for {for_ms:.0f} ms")
                self.world.cut(member, name, for_ms)
                self.world.cut(name, member, for_ms)

    def forge_refusal(self) -> None:
        """A network device says that the holder's port is closed, while the holder lives (rule 12)."""
        for node in self.world.members:
            if node.is_leading:
                run, other = node.machine.own.run, self.world.members[1 - node.index]
                if self.world.chance.random() < 0.7:
                    self.cut_link()
                self.world.has_forged = True
                self.world.note("network", f"forges a refusal of {node.name}")
                if other.is_up:
                    self.world.deliver(other, PeerGone(run))
                self.world.tell_voters_gone(other, run)

    # --- Voters --------------------------------------------------------------------------------------------------

    def _witness(self) -> VoterNode | None:
        names = sorted(self.world.voters)
        return self.world.voters[self.world.chance.choice(names)] if names else None

    def restart_voter(self) -> None:
        voter = self._witness()
        if voter is not None:
            voter.is_up = False
            self.world.note(voter.name, "restarts")
            self.world.after_ms(self.world.chance.random() * 300, partial(self.world.start_voter, voter))

    def lose_voter(self) -> None:
        """At most one of three loses its store, for good."""
        if self.world.swarm.voters == 3 and self.world.voters:
            voter = self.world.voters[max(self.world.voters)]
            voter.store = self.world.first_store if self.world.variant.fresh_voter else None
            self.world.note(voter.name, "loses its store")
            self.world.start_voter(voter)

    def _plc(self) -> Plc:
        return self.world.plcs[self.world.chance.choice(sorted(self.world.plcs))]

    def restart_plc(self) -> None:
        """Its registers are kept; its connections are not."""
        plc = self._plc()
        self.world.note(plc.name, "restarts")
        plc.break_connections()

    def zero_plc(self) -> None:
        plc = self._plc()
        self.world.note(plc.name, "restarts without its registers")
        plc.forget()

    def tear_plc(self) -> None:
        plc = self._plc()
        self.world.note(plc.name, "restarts in the middle of a write")
        plc.tear()

    def break_plc(self) -> None:
        """A connection breaks with a request on its way."""
        self._plc().break_connections()

    # --- One at a time -------------------------------------------------------------------------------------------

    def _take_images(self) -> None:
        """Backups of disks and voters, from which an old state can come back."""
        for node in self.world.members:
            if node.is_up and not self.world.is_shielded and self.world.chance.random() < 0.5:
                node.image = node.saved()
        for voter in self.world.voters.values():
            if voter.store is not None and self.world.chance.random() < 0.3:
                voter.old_store = voter.store
        self.world.after_ms(IMAGE_EVERY_MS, self._take_images)

    def calm(self) -> tuple[MemberNode, MemberNode] | None:
        """Holder and passive member, if nothing else is wrong for a while."""
        world = self.world
        is_calm = world.is_well() and not world.is_shielded and max(world.cuts.values(), default=0) <= world.at
        started = [node.up_since for node in (*world.members, *world.voters.values()) if node.is_up]
        all_up = len(started) == len(world.members) + len(world.voters)
        hung = max(max(node.hung_until, node.paused_until) for node in world.members) > world.at
        orders = [node.machine.handover for node in world.members if node.is_up]
        has_orders = any(order.keeps_back or order.drain_until is not None for order in orders)
        if not is_calm or not all_up or hung or has_orders or world.at - max(started) < SETTLED_NS:
            return None
        holder = next(node for node in world.members if node.is_leading)
        return holder, world.members[1 - holder.index]

    def old_disk(self) -> None:
        """The passive member comes back with a backup of its disk."""
        calm = self.calm()
        if calm is not None:
            _, passive = calm
            self.world.shield(3_000)
            self.down(passive, keeps_cache=False, for_ms=200 + self.world.chance.random() * 300)
            passive.restored(passive.image, passive.store)
            self.world.note(passive.name, f"gets a disk back that ends at {passive.end}")

    def damaged_disk(self) -> None:
        """The passive member finds a record below its commit position unreadable."""
        calm = self.calm()
        if calm is not None and calm[1].folded > 1:
            _, passive = calm
            self.world.shield(3_000)
            self.down(passive, keeps_cache=False, for_ms=200 + self.world.chance.random() * 300)
            at = self.world.chance.randrange(1, min(passive.folded, len(passive.log)))
            del passive.log[at:]
            passive.snapshot = NO_FOLD
            passive.synced, passive.is_damaged = at, True
            self.world.note(passive.name, f"cannot read record {at + 1}")

    def cloned_disk(self) -> None:
        """The passive machine starts with a copy of the holder's disk; later somebody gives it an empty one."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            self.world.shield(6_000)
            self.down(passive, keeps_cache=False, for_ms=300)
            passive.restored(holder.saved(), holder.store)
            self.world.note(passive.name, f"gets a copy of the disk of {holder.name}")

            def repair() -> None:
                if passive.machine.state is not State.JOINING:
                    self.world.fail(f"{passive.name} is {passive.machine.state.value} with a cloned disk")
                self.down(passive, keeps_cache=False, for_ms=100)
                passive.restored(EMPTY_DISK, f"{holder.store}, new {passive.runs}")
                self.world.note(passive.name, "gets an empty disk")

            self.world.after_ms(2_500, repair)

    def rewind_voter(self) -> None:
        """One voter of three comes back from a backup, while the holder lives."""
        if self.calm() is not None and self.world.swarm.voters == 3 and self.world.voters:
            voter = self.world.voters[self.world.chance.choice(sorted(self.world.voters))]
            if voter.store is not None:
                self.world.shield(1_500)
                voter.store = voter.old_store
                self.world.note(voter.name, "comes back from a backup")
                self.world.start_voter(voter)

    def force_refused(self) -> None:
        """Somebody forces the passive member to lead, while the other is well."""
        calm = self.calm()
        if calm is not None:
            holder, passive = calm
            self.world.shield(1_500)
            self.world.note(passive.name, "is asked to lead by force")
            before = self.world.refused["other_is_alive"]
            self.world.deliver(passive, ForceAsked())

            def check() -> None:
                if passive.is_leading or self.world.refused["other_is_alive"] == before:
                    self.world.fail(f"{passive.name} did not refuse force while {holder.name} is alive")

            self.world.after_ms(1_200, check)

    def force_on_survivor(self) -> None:
        """The holder's machine burns and the voters with it; the operator says so to the survivor."""
        calm = self.calm()
        if calm is None:
            return
        holder, passive = calm
        self.world.shield(7_000)
        self.world.is_forced = True
        self.down(holder, keeps_cache=False, for_ms=5_500)
        for name in self.world.config.voters:
            self.world.cut(passive.name, name, 4_500)
            self.world.cut(name, passive.name, 4_500)
        self.world.after_ms(1_000, partial(self.world.deliver, passive, ForceAsked()))

        def check() -> None:
            if passive.machine.state is not State.SOLO:
                self.world.fail(f"{passive.name} is {passive.machine.state.value} after force")
            if self.world.ledger.lost:
                self.world.fail(f"force on a member of the set lost {self.world.ledger.lost[:3]}")

        self.world.after_ms(3_000, check)
