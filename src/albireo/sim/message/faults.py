"""Faults of a world of messages."""

import msgspec

from albireo.codec.tree.letters import OutcomeSaid
from albireo.model.instant import MS, SECOND
from albireo.model.tree.message import MessageOutcome
from albireo.sim.engine.faults import Faults
from albireo.sim.message.node import MessageNode, MessageStore
from albireo.sim.message.stage import MessagesStage


class MessageFaults(Faults[MessagesStage, MessageNode]):
    """Faults of one world. The topmost and the lowest node have messages; the one between passes letters on."""

    cut_ms_max = 1_500.0

    def heal(self) -> None:
        self.network.heal()
        for node in self.members:
            node.slowness = 1.0
            if node.present is None:
                node.start(continues=False)

    def _end(self, node: MessageNode) -> None:
        node.end_run()
        node.silence_all()

    def _later(self, node: MessageNode, *, continues: bool) -> None:
        def start() -> None:
            if node.present is None:
                node.start(continues=continues)

        self.agenda.after_ms(self.chance.uniform(1, 600), start)

    def restart(self) -> None:
        """A node starts anew; nothing proves that its store is the one it wrote last."""
        node = self._pick()
        if node.present is not None:
            self._end(node)
            self._later(node, continues=False)

    def go_on(self) -> None:
        """A process dies, and its supervisor, which held the store all the while, starts the next one."""
        node = self._pick()
        if node.present is not None:
            self._end(node)
            node.start(continues=True)

    def take_over(self) -> None:
        """The other member takes over, with clocks of its own; the first one does not know it for a while."""
        node = self._pick()
        if node.present is not None:
            node.end_run(lingers_ms=self.chance.choice([0.0, 200.0, 1_000.0]))
            node.wall_offset = self.chance.choice([0, 0, 3_600 * SECOND, -3_600 * SECOND])
            node.start(continues=True, other_machine=True)

    def take_over_twice(self) -> None:
        self.take_over()
        self.agenda.after_ms(self.chance.uniform(1, 100), self.take_over)

    def wipe(self) -> None:
        """A store is destroyed, and the node begins with an empty one."""
        node = self._pick()
        if node.present is not None:
            self._end(node)
            node.store = MessageStore()
            self._later(node, continues=False)

    def restore(self) -> None:
        """A store is replaced by an old copy of it."""
        node = self._pick()
        if node.present is not None:
            self._end(node)
            node.was_restored = True
            count = node.store.committed
            least = max(0, count - 10) if self.chance.random() < 0.5 else 0
            node.store = node.store.as_of(self.chance.randint(least, count))
            self._later(node, continues=False)

    def cut_off(self) -> None:
        self.cut_member()

    def cut_link(self) -> None:
        first, second = self.chance.choice([self.members[:2], self.members[1:]])
        self.network.cut_both(first.name, second.name, self._cut_ms())

    def jump_wall(self) -> None:
        """The wall clock of a machine jumps."""
        node = self._pick()
        if node.present is not None:
            node.wall_offset += self.chance.choice([-1, 1]) * self.chance.choice([50 * MS, 3_600 * SECOND])
            node.present.wall_offset = node.wall_offset

    def forge(self) -> None:
        """An outcome comes with a guid that is not that of its message; an old letter comes again."""
        if not self.stage.letters:
            return
        _, target, letter = self.chance.choice(self.stage.letters)
        self.stage.hear(target, letter)
        if isinstance(letter, OutcomeSaid):
            forged = msgspec.structs.replace(letter, guid="0" * 32, outcome=MessageOutcome.VERIFIED)
            self.stage.hear(target, forged)
        for node in self.members:
            run = node.present
            if run is not None and run.fold.outbox.open:
                name = self.chance.choice(list(run.fold.outbox.open))
                life = run.fold.outbox.known(name.owner).life
                forged = OutcomeSaid(name=name, life=life, guid="0" * 32, outcome=MessageOutcome.VERIFIED)
                self.stage.hear(node.id, forged)

    def cancel(self) -> None:
        for node in self.members:
            run = node.present
            if run is not None and run.fold.outbox.open:
                name = self.chance.choice(list(run.fold.outbox.open))
                run.do(run.machine.cancel(name, run.times()))

    def slow_disk(self) -> None:
        node = self._pick()
        node.slowness = 20.0

        def recover() -> None:
            node.slowness = 1.0

        self.agenda.after_ms(300, recover)
