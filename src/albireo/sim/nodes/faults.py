"""What can go wrong in the simulated cluster. Each method is one fault, named as in `Swarm.faults`.

Faults of `SINGLE` are covered one at a time only: they wait until everything is well, and while one lasts the world is
shielded from all others.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from albireo.codec.frame import HEADER_BYTES, FrameHeader, decode_header
from albireo.codec.message import Answer
from albireo.log.segment.segment import Segment
from albireo.model.instant import MS, SECOND
from albireo.model.position import Position
from albireo.sim.engine.disk import SimDisk
from albireo.sim.nodes.machines import Machine, MemberMachine, WitnessMachine
from albireo.sim.nodes.swarm import VOTER

if TYPE_CHECKING:
    from albireo.sim.nodes.world import World

SETTLED_NS: Final = 1 * SECOND
IMAGE_EVERY_MS: Final = 700.0
ROT_MS: Final = 400.0
"""Looked at so often whether a rotten byte was found and repaired."""
CAPACITY: Final = 1 << 40


class Faults:
    """Does them to one world, with that world's chance."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.chance = world.chance
        self.sick: set[str] = set()
        """Hosts whose disk was made to refuse something."""
        self._rot: tuple[MemberMachine, Path, int, int] | None = None
        self._stops: dict[str, set[Position]] = {}

    def begin(self) -> None:
        if {"old_disk", "rewind_voter"} & set(self.world.swarm.faults):
            self._take_images()
        self._schedule()

    def _schedule(self) -> None:
        if self.world.swarm.faults:
            wait_ms = 20 + self.chance.expovariate(1.0 / self.world.swarm.fault_every_ms)
            self.world.agenda.after_ms(wait_ms, self._one)

    def _one(self) -> None:
        world = self.world
        if world.has_faults:
            if not self._is_shielded:
                getattr(self, self.chance.choice(world.swarm.faults))()
            self._schedule()

    @property
    def _is_shielded(self) -> bool:
        return self.world.agenda.at < self.world.quiet_until

    def _shield(self, for_ms: float) -> None:
        self.world.quiet_until = self.world.agenda.at + int(for_ms * MS)

    def _pick(self) -> MemberMachine:
        """The holder more often than not: that is where it hurts."""
        members = self.world.members
        leaders = [one for one in members if one.member is not None and one.member.holder is not None]
        return self.chance.choice(leaders if leaders and self.chance.random() < 0.6 else members)

    def _passive(self) -> MemberMachine:
        members = self.world.members
        followers = [one for one in members if one.member is not None and one.member.holder is None]
        return self.chance.choice(followers or members)

    def _any(self) -> Machine:
        return self.chance.choice([self._pick(), self._pick(), *self.world.voters])

    @property
    def is_over(self) -> bool:
        """Nothing rots any more."""
        return self._rot is None

    def heal(self) -> None:
        """Everything works from now on."""
        world = self.world
        world.note("world", "healed")
        world.network.cuts.clear()
        for machine in (*world.members, *world.voters):
            machine.hung_until = machine.dies_in = 0
            machine.fails_sync = machine.fails_read = False
            machine.disk.cut_at = None
            machine.disk.capacity_bytes = CAPACITY
            if machine.actor is not None:
                machine.actor.paused_until = world.agenda.at
            if not machine.is_up:
                machine.start_soon(0)
        for machine in world.members:
            self._undrain(machine)

    def _undrain(self, machine: MemberMachine) -> None:
        """Until it has heard it."""
        if machine.is_drained:
            self._end_drain(machine)
        if machine.is_drained or not machine.is_up:
            self.world.agenda.after_ms(500, partial(self._undrain, machine))

    # --- Processes and machines --------------------------------------------------------------------------------------

    def kill(self) -> None:
        self._any().dies("killed", is_power=False)

    def kill_both(self) -> None:
        for machine in self.world.members:
            machine.dies("killed", is_power=False)

    def kill_in_write(self) -> None:
        """Before one of the next changes of its disk."""
        machine = self._any()
        if machine.is_up:
            machine.dies_in = self.chance.randint(1, 12)

    def power(self) -> None:
        self._any().dies("power cut", is_power=True)

    def power_both(self) -> None:
        for machine in self.world.members:
            machine.dies("power cut", is_power=True)

    def power_in_write(self) -> None:
        """In the middle of one of the next changes of its disk."""
        machine = self._any()
        if machine.is_up:
            machine.disk.cut_at = len(machine.disk.operations) + self.chance.randint(1, 12)

    def away(self) -> None:
        """Long enough for records to be let go."""
        self._passive().dies("away", is_power=True, for_ms=self.chance.uniform(2_000, 5_000))

    def pause(self) -> None:
        machine = self._any()
        if machine.actor is not None and machine.is_up:
            for_ms = self.chance.uniform(50, 1_500)
            self.world.note(machine.host.name, f"paused for {for_ms:.0f} ms")
            machine.actor.pause(self.world.agenda.at + int(for_ms * MS))

    def restart_voter(self) -> None:
        machine = self.chance.choice(self.world.voters)
        machine.dies("restarts", is_power=self.chance.random() < 0.5, for_ms=1 + self.chance.random() * 300)

    def jump_clock(self) -> None:
        """The wall clock of a machine; nothing is decided by it."""
        machine = self._any()
        machine.host.wall_shift_ns = self.chance.randrange(-3600, 3600) * SECOND
        self.world.note(machine.host.name, f"clock jumps by {machine.host.wall_shift_ns // SECOND} s")

    def lose_voter(self) -> None:
        """One of three comes back without its store; a person has it admitted again."""
        voters = self.world.voters
        if len(voters) == 3 and not any(one.is_lost for one in voters):
            voter = self.chance.choice(voters)
            voter.dies("loses its disk", is_power=True, for_ms=1 + self.chance.random() * 300)
            voter.refit(SimDisk(self.chance.getrandbits(32)))
            voter.is_lost = True
            self.world.agenda.after_ms(1_000, partial(self._readmit, voter))

    def _readmit(self, voter: WitnessMachine) -> None:
        """Until the active member has done it."""

        def answered(answer: Answer) -> None:
            if not answer.error:
                voter.is_lost = False

        active = next((one for one in self.world.members if one.is_serving), None)
        if active is not None:
            self._order(active, "voter_reset", answered, voter=f"{VOTER}{voter.host.name}")
        if voter.is_lost:
            self.world.agenda.after_ms(3_000, lambda: self._readmit(voter) if voter.is_lost else None)

    # --- Disks -------------------------------------------------------------------------------------------------------

    def hang_disk(self) -> None:
        machine, for_ms = self._any(), self.chance.uniform(200, 3_000)
        self.world.note(machine.host.name, f"disk hangs for {for_ms:.0f} ms")
        machine.hung_until = self.world.agenda.at + int(for_ms * MS)

    def fail_sync(self) -> None:
        machine = self._any()
        if machine.is_up:
            self.world.note(machine.host.name, "next sync fails")
            self.sick.add(machine.host.name)
            machine.fails_sync = True

    def fail_read(self) -> None:
        machine = self._pick()
        if machine.is_up:
            self.world.note(machine.host.name, "next read fails")
            self.sick.add(machine.host.name)
            machine.fails_read = True

    def full_disk(self) -> None:
        """Somebody else has filled it up, to the last byte or nearly."""
        machine, for_ms = self._pick(), self.chance.uniform(500, 3_000)
        disk = machine.disk
        left = self.chance.choice([0, self.chance.randrange(1 << 18)])
        self.world.note(machine.host.name, f"disk full for {for_ms:.0f} ms, {left} bytes left")
        self.sick.add(machine.host.name)  # A cut needs room for its quarantine.
        disk.capacity_bytes = CAPACITY - disk.free_bytes(machine.data) + left

        def has_room() -> None:
            machine.disk.capacity_bytes = CAPACITY

        self.world.agenda.after_ms(for_ms, has_room)

    # --- Cables ------------------------------------------------------------------------------------------------------

    def _cut(self, one: str, other: str, for_ms: float) -> None:
        self.world.network.cut(one, other, for_ms)
        self.world.network.cut(other, one, for_ms)

    def _others(self, machine: Machine) -> list[str]:
        hosts = [one.host.name for one in (*self.world.members, *self.world.voters)]
        return [name for name in (*hosts, "outside") if name != machine.host.name]

    def cut_link(self) -> None:
        for_ms = self.chance.uniform(100, 3_000)
        self.world.note("link", f"cut for {for_ms:.0f} ms")
        self._cut("primary", "backup", for_ms)

    def cut_path(self) -> None:
        for_ms, path = self.chance.uniform(100, 3_000), self.chance.randrange(self.world.config.paths)
        self.world.note("link", f"path {path} cut for {for_ms:.0f} ms")
        self.world.network.cut("primary", "backup", for_ms, path)
        self.world.network.cut("backup", "primary", for_ms, path)

    def cut_member(self) -> None:
        machine, for_ms = self._pick(), self.chance.uniform(100, 3_000)
        self.world.note(machine.host.name, f"cut off for {for_ms:.0f} ms")
        for other in self._others(machine):
            self._cut(machine.host.name, other, for_ms)

    def cut_oneway(self) -> None:
        machine, for_ms = self._pick(), self.chance.uniform(100, 3_000)
        is_deaf = self.chance.random() < 0.5
        self.world.note(machine.host.name, f"{'hears' if is_deaf else 'says'} nothing for {for_ms:.0f} ms")
        for other in self._others(machine):
            ends = (other, machine.host.name) if is_deaf else (machine.host.name, other)
            self.world.network.cut(*ends, for_ms)

    def cut_voter(self) -> None:
        voter, for_ms = self.chance.choice(self.world.voters), self.chance.uniform(100, 3_000)
        for machine in self.world.members:
            if self.chance.random() < 0.7:
                self.world.note(machine.host.name, f"cut from {voter.host.name} for {for_ms:.0f} ms")
                self._cut(machine.host.name, voter.host.name, for_ms)

    def break_connections(self) -> None:
        self.world.note("network", "breaks connections")
        self.world.network.reset(lambda _: self.chance.random() < 0.5)

    # --- Orders ------------------------------------------------------------------------------------------------------

    def _order(self, machine: MemberMachine, what: str, then: Callable[[Answer], object], **arguments: object) -> None:
        name = machine.host.name

        def answered(answer: Answer) -> None:
            self.world.note(name, f"answers {what}: {answer.error or 'done'}")
            then(answer)

        self.world.note(name, f"is asked: {what}")
        machine.operator.order(what, answered, **arguments)

    def switchover(self) -> None:
        self._order(self._pick(), "switchover", lambda _: None)

    def drain(self) -> None:
        machine = self._pick()
        self._order(machine, "drain", lambda _: None)
        self.world.agenda.after_ms(self.chance.uniform(300, 2_000), partial(self._end_drain, machine))

    def _end_drain(self, machine: MemberMachine) -> None:
        self._order(machine, "drain", lambda _: None, is_on=False)

    def stop(self) -> None:
        self._any().stop()

    def stop_both(self) -> None:
        """`albireo stop --all`."""
        active = next((one for one in self.world.members if one.state == "active"), None)
        if active is None:
            return
        passive = self.world.members[1 - active.index]
        shutdown_id = f"{self.chance.getrandbits(64):016x}"

        def held(answer: Answer) -> None:
            if not answer.error:
                self._order(active, "stop_level", level)

        def level(answer: Answer) -> None:
            if not answer.error and isinstance(answer.result, dict):
                told = {"position": answer.result["position"], "shutdown_id": shutdown_id}
                self._order(passive, "stop_now", lambda one: stopping(one, told), **told)

        def stopping(answer: Answer, told: dict[str, object]) -> None:
            if not answer.error:
                self._order(active, "stop_now", lambda _: None, **told)

        self._order(passive, "stop_hold", held)

    def stopped(self, machine: MemberMachine) -> None:
        """A clean stop is over. Stores that say they were stopped together end alike."""
        header = machine.log.header
        if header.is_clean:
            ends = self._stops.setdefault(header.shutdown_id, set())
            ends.add(machine.log.end)
            if len(ends) > 1:
                self.world.fail(f"stopped together as {header.shutdown_id}, but at {sorted(ends)}")

    # --- One at a time -----------------------------------------------------------------------------------------------

    def _calm(self) -> tuple[MemberMachine, MemberMachine] | None:
        """Holder and passive member, if nothing else is wrong for a while."""
        world, at = self.world, self.world.agenda.at
        machines = (*world.members, *world.voters)
        if not world.is_well() or self._rot is not None or max(world.network.cuts.values(), default=0) > at:
            return None
        if not all(one.is_calm and at - one.up_since > SETTLED_NS for one in machines):
            return None
        if any(one.is_lost or one.disk.cut_at is not None or one.disk.capacity_bytes != CAPACITY for one in machines):
            return None
        active = next(one for one in world.members if one.state == "active")
        return active, world.members[1 - active.index]

    def _exchange(self, machine: MemberMachine, disk: SimDisk, why: str) -> None:
        """Another disk in that machine."""
        self._shield(3_000)
        machine.dies(why, is_power=True, for_ms=200 + self.chance.random() * 300)
        machine.exchange(disk)

    def empty_disk(self) -> None:
        """The passive member comes back with nothing."""
        calm = self._calm()
        if calm is not None:
            self._exchange(calm[1], SimDisk(self.chance.getrandbits(32)), "gets an empty disk")

    def _take_images(self) -> None:
        """Backups of disks, from which an old state can come back."""
        for machine in (*self.world.members, *self.world.voters):
            is_wanted = machine.image is None or self.chance.random() < 0.3
            if machine.is_up and not self._is_shielded and not machine.is_lost and is_wanted:
                machine.image = machine.disk.image(self.chance.getrandbits(32))
                machine.image.capacity_bytes = CAPACITY
        self.world.agenda.after_ms(IMAGE_EVERY_MS, self._take_images)

    def old_disk(self) -> None:
        """The passive member comes back with a backup of its disk."""
        calm = self._calm()
        if calm is not None and calm[1].image is not None:
            disk, calm[1].image = calm[1].image, None
            self._exchange(calm[1], disk, "gets an old disk")

    def force_refused(self) -> None:
        """Somebody forces the passive member to lead, while the other is well."""
        calm = self._calm()
        if calm is None:
            return

        def answered(answer: Answer) -> None:
            if not answer.error:
                self.world.fail(f"{calm[1].host.name} was forced to lead, with {calm[0].host.name} alive")

        self._shield(1_500)
        self._order(calm[1], "promote", answered)

    def rewind_voter(self) -> None:
        """One of three comes back from a backup, while the holder lives."""
        if self._calm() is not None and len(self.world.voters) == 3:
            voter = self.chance.choice(self.world.voters)
            if voter.image is not None:
                self._shield(1_500)
                disk, voter.image = voter.image, None
                voter.dies("comes back from a backup", is_power=True, for_ms=1 + self.chance.random() * 300)
                voter.refit(disk)

    def rot_at_start(self) -> None:
        """The passive member finds at its start that a record can't be read."""
        calm = self._calm()
        segment = self._rots(calm[1]) if calm is not None else None
        if calm is not None and segment is not None:
            machine = calm[1]
            machine.dies("killed", is_power=False, for_ms=100 + self.chance.random() * 300)
            if segment.index_path in machine.disk.paths(segment.index_path.parent):
                machine.disk.unlink(segment.index_path)  # Else what stands in it would be believed.

    def rot_while_up(self) -> None:
        """A reader or the scrub finds it."""
        calm = self._calm()
        if calm is not None:
            self._rots(calm[1])

    def _rots(self, machine: MemberMachine) -> Segment | None:
        """Turn over a bit in a sealed segment."""
        sealed = [one for one in machine.log._stock.table.segments if one.is_sealed]
        if not sealed:
            return None
        segment = self.chance.choice(sealed)
        offset, bit = self._somewhere(machine.disk.bytes_of(segment.path), segment), self.chance.randrange(8)
        self._rot = (machine, segment.path, offset, machine.disk.bytes_of(segment.path)[offset])
        machine.disk.flip(segment.path, offset, bit)
        self.world.note(machine.host.name, f"bit {bit} of {segment.path.name} at {offset} turns over")
        self._watch_rot()
        return segment

    def _somewhere(self, data: bytes, segment: Segment) -> int:
        """In a header or body: of the zeros between two frames nobody would know."""
        offset, places = 0, list[range]()
        while offset < segment.summary.end_offset:
            header = decode_header(data, offset)
            assert isinstance(header, FrameHeader), "nothing rots twice"
            places.append(range(offset, offset + HEADER_BYTES + header.body_bytes))
            offset += header.frame_bytes
        return self.chance.choice(self.chance.choice(places))

    def _watch_rot(self) -> None:
        """Nothing else goes wrong until it is found and repaired, or let go."""
        if self._rot is None:
            return
        machine, path, offset, byte = self._rot
        disk = machine.disk
        is_gone = path not in disk.paths(path.parent)
        if is_gone or (disk.bytes_of(path)[offset : offset + 1] == bytes([byte]) and not machine.log.corrupt):
            self.world.note(machine.host.name, f"{path.name} is {'gone' if is_gone else 'mended'}")
            self._rot = None
            return
        self._shield(1_000)
        self.world.agenda.after_ms(ROT_MS, self._watch_rot)
