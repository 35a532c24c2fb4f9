"""Faults of the simulated cluster. A method named in `Mix.faults` is one fault.

Faults of `SINGLE` are covered one at a time only: they come only while everything is well, and while one lasts the
world is shielded from all others.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from albireo.codec.frame import HEADER_BYTES, FrameHeader, decode_header
from albireo.codec.message import Answer
from albireo.log.segment.segment import Segment
from albireo.model.instant import MS, SECOND
from albireo.sim.engine.disk import SimDisk
from albireo.sim.engine.faults import Faults
from albireo.sim.nodes.clients import ProducerClient
from albireo.sim.nodes.machine import Machine, VoterMachine
from albireo.sim.nodes.member import MemberMachine, are_well
from albireo.sim.nodes.stage import NodeStage

SETTLED_NS: Final = 1 * SECOND
IMAGE_EVERY_MS: Final = 700.0
ROT_MS: Final = 400.0
"""Interval at which the world looks if a rotten byte was found and repaired."""
CAPACITY: Final = 1 << 40


class NodeFaults(Faults[NodeStage, MemberMachine]):
    """Faults of one pair of whole nodes."""

    cut_ms_max = 3_000.0

    def __init__(
        self,
        stage: NodeStage,
        members: Sequence[MemberMachine],
        voters: Sequence[VoterMachine],
        producers: Sequence[ProducerClient],
        begin_rival: Callable[[str], None],
    ) -> None:
        super().__init__(stage, stage.network, members, [one.name for one in voters])
        self.voters = voters
        self._producers = producers
        self._begin_rival = begin_rival
        self._rot: tuple[MemberMachine, Path, int, int] | None = None

    def begin(self) -> None:
        if {"old_disk", "rewind_voter"} & set(self.stage.swarm.faults):
            self._take_images()
        super().begin()

    def _passive(self) -> MemberMachine:
        followers = [one for one in self.members if one.member is not None and not one.is_holder]
        return self.chance.choice(followers or self.members)

    def _any(self) -> Machine:
        return self.chance.choice([self._pick(), self._pick(), *self.voters])

    @property
    def is_over(self) -> bool:
        """True: nothing is rotten any more."""
        return self._rot is None

    def heal(self) -> None:
        self.stage.note("world", "healed")
        self.network.heal()
        for machine in (*self.members, *self.voters):
            machine.hung_until = machine.dies_in = 0
            machine.fails_sync = machine.fails_read = False
            machine.disk.cut_at = None
            machine.disk.capacity_bytes = CAPACITY
            if machine.actor is not None:
                machine.actor.paused_until = self.agenda.at
            if not machine.is_up:
                machine.start_soon(0)
        for machine in self.members:
            self._let_lead(machine)

    def _let_lead(self, machine: MemberMachine) -> None:
        """End the maintenance of a member, again until the member has heard it."""
        if machine.is_in_maintenance:
            self._end_maintenance(machine)
        if machine.is_in_maintenance or not machine.is_up:
            self.agenda.after_ms(500, partial(self._let_lead, machine))

    def kill(self) -> None:
        self._any().dies("killed", is_power=False)

    def kill_both(self) -> None:
        for machine in self.members:
            machine.dies("killed", is_power=False)

    def kill_in_write(self) -> None:
        """Kill a process before one of the next changes of its disk."""
        machine = self._any()
        if machine.is_up:
            machine.dies_in = self.chance.randint(1, 12)

    def power(self) -> None:
        self._any().dies("power cut", is_power=True)

    def power_both(self) -> None:
        for machine in self.members:
            machine.dies("power cut", is_power=True)

    def power_in_write(self) -> None:
        """Cut the power of a machine in the middle of one of the next changes of its disk."""
        machine = self._any()
        if machine.is_up:
            machine.disk.cut_at = len(machine.disk.operations) + self.chance.randint(1, 12)

    def away(self) -> None:
        """Take the passive member away, long enough for records to be let go."""
        self._passive().dies("away", is_power=True, for_ms=self.chance.uniform(2_000, 5_000))

    def pause(self) -> None:
        machine = self._any()
        if machine.actor is not None and machine.is_up:
            for_ms = self.chance.uniform(50, 1_500)
            self.stage.note(machine.name, f"paused for {for_ms:.0f} ms")
            machine.actor.paused_until = self.agenda.at + int(for_ms * MS)

    def pause_program(self) -> None:
        self.chance.choice(self._producers).pause(self.chance.uniform(50, 3_000))

    def rival(self) -> None:
        """Begin another program under the name of one that lives, which may be paused."""
        one = self.chance.choice(self._producers)
        self.stage.note(one.name, "has a rival")
        if self.chance.random() < 0.5:
            one.pause(self.chance.uniform(50, 3_000))
        self._begin_rival(one.name)

    def restart_voter(self) -> None:
        machine = self.chance.choice(self.voters)
        machine.dies("restarts", is_power=self.chance.random() < 0.5, for_ms=1 + self.chance.random() * 300)

    def jump_clock(self) -> None:
        """Let the wall clock of a machine jump; nothing is decided by it."""
        machine = self._any()
        machine.host.wall_shift_ns = self.chance.randrange(-3600, 3600) * SECOND
        self.stage.note(machine.name, f"clock jumps by {machine.host.wall_shift_ns // SECOND} s")

    def lose_voter(self) -> None:
        """One voter of three comes back without its store; a person has it admitted again."""
        voters = self.voters
        if len(voters) == 3 and not any(one.is_lost for one in voters):
            voter = self.chance.choice(voters)
            voter.dies("loses its disk", is_power=True, for_ms=1 + self.chance.random() * 300)
            voter.refit(SimDisk(self.chance.getrandbits(32)))
            voter.is_lost = True
            self.agenda.after_ms(1_000, partial(self._readmit, voter))

    def _readmit(self, voter: VoterMachine) -> None:
        """Ask the active member to admit a voter again, until that is done."""

        def answered(answer: Answer) -> None:
            if answer.refusal is None:
                voter.is_lost = False

        active = next((one for one in self.members if one.is_serving), None)
        if active is not None:
            self._order(active, "voter_reset", answered, voter=voter.voter)
        if voter.is_lost:
            self.agenda.after_ms(3_000, lambda: self._readmit(voter) if voter.is_lost else None)

    def hang_disk(self) -> None:
        machine, for_ms = self._any(), self.chance.uniform(200, 3_000)
        self.stage.note(machine.name, f"disk hangs for {for_ms:.0f} ms")
        machine.hung_until = self.agenda.at + int(for_ms * MS)

    def fail_sync(self) -> None:
        machine = self._any()
        if machine.is_up:
            self.stage.note(machine.name, "next sync fails")
            machine.is_sick = True
            machine.fails_sync = True

    def fail_read(self) -> None:
        machine = self._pick()
        if machine.is_up:
            self.stage.note(machine.name, "next read fails")
            machine.is_sick = True
            machine.fails_read = True

    def full_disk(self) -> None:
        """Fill a disk up, as by somebody else, to the last byte or nearly."""
        machine, for_ms = self._pick(), self.chance.uniform(500, 3_000)
        disk = machine.disk
        left = self.chance.choice([0, self.chance.randrange(1 << 18)])
        self.stage.note(machine.name, f"disk full for {for_ms:.0f} ms, {left} bytes left")
        machine.is_sick = True  # A cut needs room for its quarantine.
        disk.capacity_bytes = CAPACITY - disk.free_bytes(machine.data) + left

        def has_room() -> None:
            machine.disk.capacity_bytes = CAPACITY

        self.agenda.after_ms(for_ms, has_room)

    def cut_oneway(self) -> None:
        machine, for_ms = self._pick(), self._cut_ms()
        is_deaf = self.chance.random() < 0.5
        self.stage.note(machine.name, f"{'hears' if is_deaf else 'says'} nothing for {for_ms:.0f} ms")
        for other in self._others(machine):
            ends = (other, machine.name) if is_deaf else (machine.name, other)
            self.network.cut(*ends, for_ms)

    def break_connections(self) -> None:
        self.stage.note("network", "breaks connections")
        self.stage.network.reset(lambda _: self.chance.random() < 0.5)

    def _order(self, machine: MemberMachine, what: str, then: Callable[[Answer], object], **arguments: object) -> None:
        name = machine.name

        def answered(answer: Answer) -> None:
            self.stage.note(name, f"answers {what}: {answer.refusal or 'done'}")
            then(answer)

        self.stage.note(name, f"is asked: {what}")
        machine.operator.order(what, answered, **arguments)

    def switchover(self) -> None:
        self._order(self._pick(), "switchover", lambda _: None)

    def maintenance(self) -> None:
        machine = self._pick()
        self._order(machine, "maintenance", lambda _: None)
        self.agenda.after_ms(self.chance.uniform(300, 2_000), partial(self._end_maintenance, machine))

    def _end_maintenance(self, machine: MemberMachine) -> None:
        self._order(machine, "maintenance", lambda _: None, is_on=False)

    def stop(self) -> None:
        self._any().stop()

    def stop_both(self) -> None:
        """Stop both members as `albireo stop --all` does."""
        active = next((one for one in self.members if one.state == "active"), None)
        if active is None:
            return
        passive = self.members[1 - active.index]
        shutdown_id = f"{self.chance.getrandbits(64):016x}"

        def held(answer: Answer) -> None:
            if answer.refusal is None:
                self._order(active, "stop_level", level)

        def level(answer: Answer) -> None:
            if answer.refusal is None and isinstance(answer.result, dict):
                told = {"position": answer.result["position"], "shutdown_id": shutdown_id}
                self._order(passive, "stop_now", lambda one: stopping(one, told), **told)

        def stopping(answer: Answer, told: dict[str, object]) -> None:
            if answer.refusal is None:
                self._order(active, "stop_now", lambda _: None, **told)

        self._order(passive, "stop_hold", held)

    def _calm(self) -> tuple[MemberMachine, MemberMachine] | None:
        """Return active and passive member if nothing else is wrong and all are up for a while; otherwise None."""
        at, machines = self.agenda.at, (*self.members, *self.voters)
        if not are_well(self.members) or self._rot is not None or not self.network.is_whole:
            return None
        if not all(one.is_calm and at - one.up_since > SETTLED_NS for one in machines):
            return None
        if any(one.is_lost or one.disk.cut_at is not None or one.disk.capacity_bytes != CAPACITY for one in machines):
            return None
        active = next(one for one in self.members if one.state == "active")
        return active, self.members[1 - active.index]

    def _exchange(self, machine: MemberMachine, disk: SimDisk, why: str) -> None:
        """Take a machine down and put another disk into it."""
        self.stage.shield(3_000)
        machine.dies(why, is_power=True, for_ms=200 + self.chance.random() * 300)
        machine.exchange(disk)

    def empty_disk(self) -> None:
        """The passive member comes back with an empty disk."""
        calm = self._calm()
        if calm is not None:
            self._exchange(calm[1], SimDisk(self.chance.getrandbits(32)), "gets an empty disk")

    def _take_images(self) -> None:
        """Take backups of disks, from which an old state can come back."""
        for machine in (*self.members, *self.voters):
            is_wanted = machine.image is None or self.chance.random() < 0.3
            if machine.is_up and not self.stage.is_shielded and not machine.is_lost and is_wanted:
                machine.image = machine.disk.image(self.chance.getrandbits(32))
                machine.image.capacity_bytes = CAPACITY
        self.agenda.after_ms(IMAGE_EVERY_MS, self._take_images)

    def old_disk(self) -> None:
        """The passive member comes back with a backup of its disk."""
        calm = self._calm()
        if calm is not None and calm[1].image is not None:
            disk, calm[1].image = calm[1].image, None
            self._exchange(calm[1], disk, "gets an old disk")

    def force_refused(self) -> None:
        """Somebody asks the passive member to lead by force while the other member is well; it must refuse."""
        calm = self._calm()
        if calm is None:
            return

        def answered(answer: Answer) -> None:
            if answer.refusal is None:
                self.stage.fail(f"{calm[1].name} was forced to lead, with {calm[0].name} alive")

        self.stage.shield(1_500)
        self._order(calm[1], "promote", answered)

    def rewind_voter(self) -> None:
        """One voter of three comes back from a backup, while the holder lives."""
        if self._calm() is not None and len(self.voters) == 3:
            voter = self.chance.choice(self.voters)
            if voter.image is not None:
                self.stage.shield(1_500)
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
                machine.disk.unlink(segment.index_path)  # Otherwise what stands in the index would be believed.

    def rot_while_up(self) -> None:
        """A bit of the passive member's log turns over while it is up; a reader or the scrub finds it."""
        calm = self._calm()
        if calm is not None:
            self._rots(calm[1])

    def _rots(self, machine: MemberMachine) -> Segment | None:
        """Turn over a bit in a sealed segment and return the segment; None if none is sealed."""
        sealed = [one for one in machine.log._stored.table.segments if one.is_sealed]
        if not sealed:
            return None
        segment = self.chance.choice(sealed)
        offset, bit = self._somewhere(machine.disk.bytes_of(segment.path), segment), self.chance.randrange(8)
        self._rot = (machine, segment.path, offset, machine.disk.bytes_of(segment.path)[offset])
        machine.disk.flip(segment.path, offset, bit)
        self.stage.note(machine.name, f"bit {bit} of {segment.path.name} at {offset} turns over")
        self._watch_rot()
        return segment

    def _somewhere(self, data: bytes, segment: Segment) -> int:
        """Draw an offset in a header or body: nobody would notice a change of the zeros between two frames."""
        offset, places = 0, list[range]()
        while offset < segment.summary.end_offset:
            header = decode_header(data, offset)
            assert isinstance(header, FrameHeader), "nothing rots twice"
            places.append(range(offset, offset + HEADER_BYTES + header.body_bytes))
            offset += header.frame_bytes
        return self.chance.choice(self.chance.choice(places))

    def _watch_rot(self) -> None:
        """Let nothing else go wrong until the rotten byte is found and repaired, or let go."""
        if self._rot is None:
            return
        machine, path, offset, byte = self._rot
        disk = machine.disk
        is_gone = path not in disk.paths(path.parent)
        if is_gone or (disk.bytes_of(path)[offset : offset + 1] == bytes([byte]) and not machine.log.corrupt):
            self.stage.note(machine.name, f"{path.name} is {'gone' if is_gone else 'mended'}")
            self._rot = None
            return
        self.stage.shield(1_000)
        self.agenda.after_ms(ROT_MS, self._watch_rot)
