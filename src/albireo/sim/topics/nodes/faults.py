"""Faults of the process of a member's topics, beside those of the pair."""

from collections.abc import Callable, Sequence
from pathlib import Path

from albireo.model.instant import MS
from albireo.sim.nodes.clients import ProducerClient
from albireo.sim.nodes.faults import CAPACITY, NodeFaults
from albireo.sim.nodes.machine import VoterMachine
from albireo.sim.nodes.member import MemberMachine
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.topics.nodes.machine import TopicsMachine, TopicsMember

TOPIC_FAULTS = (
    "kill_topics kill_both_topics kill_topics_in_write pause_topics fail_topics_sync full_topics rot_messages"
).split()


class TopicNodeFaults(NodeFaults):
    """Faults of one pair with topics."""

    def __init__(
        self,
        stage: NodeStage,
        members: Sequence[TopicsMember],
        voters: Sequence[VoterMachine],
        producers: Sequence[ProducerClient],
        begin_rival: Callable[[str], None],
    ) -> None:
        super().__init__(stage, members, voters, producers, begin_rival)
        self._topics = [one.topics for one in members]
        self._rotten: tuple[TopicsMachine, Path] | None = None
        """File that is damaged, until that is found out and it is moved aside."""

    def heal(self) -> None:
        super().heal()
        for machine in self._topics:
            machine.hung_until = machine.dies_in = 0
            machine.fails_sync = False
            machine.disk.capacity_bytes = CAPACITY
            if machine.actor is not None:
                machine.actor.paused_until = self.agenda.at
            if not machine.is_up:
                machine.start_soon(0)

    def _one_of_topics(self) -> TopicsMachine:
        return self.chance.choice(self._topics)

    def _calm(self) -> tuple[MemberMachine, MemberMachine] | None:
        """The same, while no member's files lack messages that only the other one has."""
        if self._rotten is not None:
            machine, path = self._rotten
            if path in machine.disk.paths(path.parent):
                return None
            self._rotten = None
        return super()._calm() if all(one.is_whole for one in self._topics) else None

    def kill_topics(self) -> None:
        machine = self._one_of_topics()
        if machine.is_up:
            machine.dies("killed", is_power=False)

    def kill_topics_in_write(self) -> None:
        """Kill the process before one of the next changes of its disk."""
        machine = self._one_of_topics()
        if machine.is_up:
            machine.dies_in = self.chance.randint(1, 12)

    def pause_topics(self) -> None:
        machine = self._one_of_topics()
        if machine.actor is not None and machine.is_up:
            machine.actor.paused_until = self.agenda.at + int(self.chance.uniform(50, 3_000) * MS)

    def fail_topics_sync(self) -> None:
        machine = self._one_of_topics()
        if machine.is_up:
            machine.is_sick = machine.fails_sync = True

    def kill_both_topics(self) -> None:
        for machine in self._topics:
            if machine.is_up:
                machine.dies("killed", is_power=False)

    def full_topics(self) -> None:
        """The disks of both members have no room for messages for a while, to the last byte or nearly."""
        for_ms = self.chance.uniform(500, 3_000)
        for machine in self._topics:
            machine.is_sick = True
            machine.disk.capacity_bytes = CAPACITY - machine.disk.free_bytes(machine.data)
        self.agenda.after_ms(for_ms, self._have_room)

    def _have_room(self) -> None:
        for machine in self._topics:
            machine.disk.capacity_bytes = CAPACITY

    def rot_messages(self) -> None:
        """A bit of the passive member's stored messages turns over, while the other member's are whole."""
        calm = self._calm()
        if calm is None:
            return
        member = calm[1]
        assert isinstance(member, TopicsMember)
        disk, root = member.topics.disk, member.data / "topics"
        files = [one for one in disk.paths(root) if one.suffix == ".parquet"] if disk.has_directory(root) else []
        if files:
            path = self.chance.choice(files)
            disk.flip(path, self.chance.randrange(len(disk.bytes_of(path))), self.chance.randrange(8))
            self._rotten = member.topics, path
            self.stage.note(member.topics.name, f"a bit of {path.name} turns over")
            member.topics.dies("killed", is_power=False)
