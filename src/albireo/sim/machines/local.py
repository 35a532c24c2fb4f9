"""A producer of the simulated pair whose stream is `local`, and the judge of what it is told.

The producer is told of a batch once the disk of the member that leads has it, and keeps it until committed. It may
die: then a new run opens, and the member that leads writes the gap. A batch is known by its body, whatever its number.

    offered --> appended --> synced: told early, kept --> committed: told, let go
                                  \\--> cut by a takeover: offered again, or dead with its producer: a gap

Checked here
    at each early receipt: the batch is on the disk of the member that says so;
    at each grant: what was told early is missing only if another member said it;
    at the end: what was told early is committed, or its run is dead and a later run opened with a gap.

Spec: ADR-0122.
"""

import random
from functools import partial
from typing import Final

import msgspec

from albireo.machine.pair.events import ACTING
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.parts import LoggedBatch
from albireo.sim.machines.stage import WINDOW, MemberNode, PairStage, StageProducer

LOCAL: Final = 1
"""Number of the producer whose stream is local."""
KEPT_MAX: Final = 4 * WINDOW
"""Most batches that the producer keeps: told early, or under way."""
BODIES: Final = 1_000_000
"""Number of bodies that one run has; the body of an opening is the negative of its run."""
DIES_MS: Final = 4_000.0
DIES_WITH_MEMBER: Final = 0.3


class Told(msgspec.Struct, frozen=True):
    """An early receipt."""

    number: int
    by: int
    epoch: int


class LocalProducer(StageProducer):
    """Producer of a local stream: `acked` is what it knows to be committed, `told` what it was told of at all."""

    def __init__(self, stage: PairStage, chance: random.Random) -> None:
        super().__init__(stage, LOCAL, chance)
        self.told = 0
        self.is_opening = False

    @property
    def has_room(self) -> bool:
        return self.offered - self.told < WINDOW and self.offered - self.acked < KEPT_MAX and not self.is_opening

    @property
    def is_waiting(self) -> bool:
        return self.is_opening or super().is_waiting

    def go_on(self, last: int, *, is_opening: bool) -> None:
        """Go on behind `last`; nothing else is known."""
        self.offered = self.acked = self.told = last
        self.is_opening = is_opening


class LocalStream:
    """Local stream of one world: the producer, its admission, and the judge."""

    def __init__(self, stage: PairStage, ledger: PairLedger) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = random.Random(f"local {stage.seed}")
        self.ledger = ledger
        self.producer = LocalProducer(stage, self.chance)
        self.producer.admit = self._arrived
        self.early: dict[int, Told] = {}
        """Newest early receipt of each body, whatever became of the batch since."""
        self.cut: set[int] = set()
        """Bodies that were told early and are not in the log of a later holder."""
        self._heard: dict[int, tuple[int, int, int]] = {}
        """Life, epoch and run of the last hello that each member took."""
        self._epoch = 0
        self._told_to: dict[int, tuple[int, int]] = {}
        """Life of each member, and sequence up to which it told early."""

    def begin(self) -> None:
        self.producer.begin()
        self._die_some_day()

    def _die_some_day(self) -> None:
        self.agenda.after_ms(self.chance.expovariate(1 / DIES_MS), self._dies)

    def _dies(self) -> None:
        if self.stage.has_faults:
            self.die()
            self._die_some_day()

    def die(self) -> None:
        """Begin a new run of the producer; what the old run had under way still arrives."""
        self.producer.run += 1
        self.producer.go_on(0, is_opening=True)
        self.stage.tell("client", f"begins run {self.producer.run}")

    def _welcomed(self, run: int, last: int) -> None:
        if self.producer.run == run and self.producer.is_opening:
            self.producer.go_on(last, is_opening=False)

    def _hears(self, run: int, number: int, *, is_committed: bool) -> None:
        one = self.producer
        if is_committed:
            self.ledger.acknowledged.setdefault((LOCAL, number), self.agenda.at)
        if run != one.run or one.is_opening:
            return
        if number > one.told or (is_committed and number > one.acked):
            one.sent_at = self.agenda.at
        one.told = max(one.told, number)
        if is_committed or self.stage.variant.forgets_early:
            one.acked = max(one.acked, number)

    def _serves(self, node: MemberNode) -> bool:
        return node.is_up and node.is_open and node.is_holder and node.machine.state in ACTING

    def _arrived(self, node: MemberNode, run: int, numbers: range, is_again: bool) -> None:
        if is_again:
            self._hello(node, run)
        for number in numbers:
            self._offered(node, run, number, run * BODIES + number)

    def _hello(self, node: MemberNode, run: int) -> None:
        holder = node.machine.holder
        if not self._serves(node) or holder is None:
            return
        place = next((at for at, one in enumerate(reversed(node.log)) if one.producer == LOCAL and one.body < 0), None)
        known = 1 if place is None else -node.log[-1 - place].body
        if run < known:
            return  # A late hello of a dead run.
        self._heard[node.index] = (node.life, holder.epoch, run)
        if known < run:
            self._append(node, node.appended.get(LOCAL, 0), -run)
        elif known == run and place is not None and len(node.log) - place <= node.folded:
            self._say(node, partial(self._welcomed, run, node.appended.get(LOCAL, 0)))

    def _offered(self, node: MemberNode, run: int, number: int, body: int) -> None:
        holder = node.machine.holder
        if not self._serves(node) or holder is None:
            return
        if self._heard.get(node.index) != (node.life, holder.epoch, run):
            return  # The run is over, or has not said hello to this holder.
        last = node.appended.get(LOCAL, 0)
        if number == last + 1:
            self._append(node, number, body)
        elif number <= last:
            self._repeat(node, run, number, body)

    def _append(self, node: MemberNode, number: int, body: int) -> None:
        assert node.machine.holder is not None
        committed = node.folded
        node.appended[LOCAL] = number
        node.append(LoggedBatch(node.machine.holder.epoch, LOCAL, number, committed, body))
        if self.stage.variant.early_before_sync:
            self._tell(node, len(node.log))
        node.tell_changed()

    def _repeat(self, node: MemberNode, run: int, number: int, body: int) -> None:
        """Answer a repeated batch as its original was; nothing is said while that is still on its way."""
        place = next((at for at in range(len(node.log), 0, -1) if node.log[at - 1].body == body), 0)
        if 0 < place <= node.folded:
            self._say(node, partial(self._hears, run, number, is_committed=True))
        elif 0 < place <= self._told_to.get(node.index, (0, 0))[1] and body in self.early:
            self._say(node, partial(self._hears, run, number, is_committed=False))

    def _say(self, node: MemberNode, what: partial[None]) -> None:
        self.stage.network.send(node.name, "client", 0, what)

    def synced(self, node: MemberNode) -> None:
        """Tell early of what the disk of a member has now; what is committed was told as such."""
        if self._serves(node):
            self._tell(node, min(node.synced, len(node.log)))

    def _tell(self, node: MemberNode, to: int) -> None:
        life, told_to = self._told_to.get(node.index, (0, 0))
        first = max(node.folded, told_to if life == node.life else 0)
        self._told_to[node.index] = (node.life, max(to, first))
        for sequence in range(first + 1, to + 1):
            entry = node.log[sequence - 1]
            if entry.producer == LOCAL and entry.body > 0 and entry.epoch == node.header.history.epoch:
                self._judge(node, sequence, entry)
                self._say(node, partial(self._hears, entry.body // BODIES, entry.number, is_committed=False))

    def _judge(self, node: MemberNode, sequence: int, entry: LoggedBatch) -> None:
        if node.synced < sequence:
            self.stage.fail(f"{node.name} tells of {entry} before its disk has it")
        self.early[entry.body] = Told(entry.number, node.index, entry.epoch)
        if entry.epoch < self._epoch:
            self.cut.add(entry.body)  # The member was overtaken, and does not know it.

    def committed(self, node: MemberNode, entry: LoggedBatch) -> None:
        """Tell the producer that the member that leads has committed a record of its stream."""
        if entry.body < 0:
            self._say(node, partial(self._welcomed, -entry.body, entry.number))
        else:
            self._say(node, partial(self._hears, entry.body // BODIES, entry.number, is_committed=True))

    def granted(self, node: MemberNode, epoch: int) -> None:
        """Judge the log with which a member begins to lead; at times the producer dies along with a takeover."""
        here = {entry.body for entry in node.log}
        for body, told in self.early.items():
            if body in here or body in self.cut:
                continue
            if told.by == node.index and not self.stage.is_shielded:
                self.stage.fail(f"{node.name} leads in {epoch} without {body}, told early by itself in {told.epoch}")
            self.cut.add(body)
        self._epoch = max(self._epoch, epoch)
        if self.stage.has_faults and self.chance.random() < DIES_WITH_MEMBER:
            self.die()

    def forced(self) -> None:
        """Note that a person forced a member to lead; what it lacks is gone, and the producer begins anew."""
        self.cut.update(set(self.early) - set(self.ledger.bodies))
        self.die()

    def check_end(self) -> None:
        stored, openings = set(self.ledger.bodies), [-body for body in self.ledger.bodies if body < 0]
        under_way = {one.body for node in self.stage.members if node.is_holder for one in node.log[node.folded :]}
        for body in sorted(set(self.early) - stored - under_way):
            if body not in self.cut:
                self.stage.fail(f"{body} was told early, and is lost without a takeover")
            if not any(run > body // BODIES for run in openings):
                self.stage.fail(f"{body} was told early, was cut, and neither stands in the log nor in a gap")
