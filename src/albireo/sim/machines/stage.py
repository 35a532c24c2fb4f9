"""Stage on which every part of the simulated pair stands: cables, configuration, nodes with clocks and disks.

Spec: design/pair.md, How it is proven.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from albireo.machine.pair.events import Event, LogChanged, State
from albireo.machine.pair.member import Member
from albireo.machine.vote.voter import Voter, VoterStore
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import MS, Instant
from albireo.model.log_view import LogView
from albireo.model.position import BEGINNING, Position
from albireo.sim.engine.agenda import Agenda, MachineClock, Timer
from albireo.sim.engine.network import Messages
from albireo.sim.engine.stage import Stage
from albireo.sim.machines.parts import EMPTY_DISK, NO_FOLD, DiskImage, LoggedBatch, Variant
from albireo.sim.machines.swarm import PairSwarm, config_of

NAMES: Final = ("A", "B")
WINDOW: Final = 4
"""Most batches that a producer has under way."""
PRESS_EVERY_MS: Final = 30
PRESS_AFTER_MS: Final = 60


class PairStage(Stage[PairSwarm]):
    """Stage of one seed's pair, with what happened that several parts have to know."""

    def __init__(self, seed: int, swarm: PairSwarm, variant: Variant, *, is_verbose: bool) -> None:
        agenda = Agenda(self._watch)
        super().__init__(seed, swarm, random.Random(f"world {seed}"), agenda, is_verbose=is_verbose)
        self.variant = variant
        self.config = config_of(swarm)
        self.network = Messages(self, loss=swarm.loss, duplicate=swarm.duplicate, long_delay=swarm.long_delay)
        self.members: list[MemberNode] = []
        self.steps = self.timers = 0
        self.refused: Counter[str] = Counter()
        self.has_forged = False
        """True: a network device has said that a living holder's port is closed."""
        self.is_forced = False
        """True: an operator used force, so the world expects the case that says so."""

    def other(self, node: "MemberNode") -> "MemberNode":
        return self.members[1 - node.index]

    def crashes(self, share: float) -> bool:
        """True: somebody dies now, before an effect; drawn with the chance `share`."""
        return share > 0.0 and self.has_faults and not self.is_shielded and self.chance.random() < share

    def is_well(self) -> bool:
        states = {member.machine.state for member in self.members if member.is_up}
        return states == {State.ACTIVE, State.READY}

    def _watch(self) -> None:
        """Check that never two members have a valid permit."""
        first, second = self.members
        if first.is_holder and second.is_holder:
            acting = [m for m in self.members if m.machine.permit(m.now) is not None]
            if len(acting) > 1:
                self.fail(f"both act, epochs {[m.machine.holder.epoch for m in acting if m.machine.holder]}")


class Node(MachineClock):
    """Node that has a clock and can be paused, killed and cut off."""

    def __init__(self, stage: PairStage, name: str) -> None:
        super().__init__(stage.chance, stage.swarm.drift)
        self.stage = stage
        self.agenda = stage.agenda
        self.name = name
        self.is_up = False
        self.life = 0
        self.up_since = 0
        self.paused_until = 0

    @property
    def now(self) -> Instant:
        return Instant(self.offset + int(self.agenda.at * self.rate))

    def begin_life(self) -> None:
        self.is_up = True
        self.life += 1
        self.up_since = self.stage.agenda.at

    def awake(self, what: Callable[[], object], life: int = 0) -> None:
        """Do `what` now, or when the node is let run again; never in another life than the present or the given one."""
        life = life or self.life
        if not self.is_up or self.life != life:
            return
        if self.agenda.at < self.paused_until:
            self.agenda.call_at(self.paused_until, partial(self.awake, what, life))
            return
        what()


class VoterNode(Node):
    def __init__(self, stage: PairStage, name: str, store: VoterStore) -> None:
        super().__init__(stage, name)
        self.store: VoterStore | None = store
        self.old_store = store
        """A backup of the store, taken now and then."""
        self.machine: Voter


class MemberNode(Node):
    """Member with log and store header on a disk; the first `synced` records survive a power cut."""

    hears: Callable[[Event], None]
    """Function by which the shell hands an event to the machine."""
    timer: Timer
    machine: Member

    def __init__(self, stage: PairStage, index: int) -> None:
        super().__init__(stage, NAMES[index])
        self.index = index
        self.store = f"store {self.name}"
        self.log: list[LoggedBatch] = []
        self.synced = 0
        self.believed = 0
        """Number of records that count as synced although they are not: a shortcut."""
        self.header = EMPTY_DISK.header
        self.image = EMPTY_DISK
        """A backup of the disk, taken now and then."""
        self.is_damaged = False
        self.feature_level = FIRST_LEVEL
        """Highest feature level known to the software that the member starts with."""
        self.runs = 0
        self.hung_until = 0
        self.cuts = 0
        self.has_untold = False
        """True: the log was appended to, or its history changed, and the machine has not heard of it."""
        self.folded = 0
        self.appended: dict[int, int] = {}
        """Last number of each producer in the log: the view that admission decides on."""
        self.is_open = False
        self.snapshot = NO_FOLD
        """Newest snapshot of the folds on the disk."""

    @property
    def end(self) -> Position:
        return Position(self.log[-1].epoch, len(self.log)) if self.log else BEGINNING

    @property
    def is_holder(self) -> bool:
        return self.is_up and self.machine.holder is not None

    def view(self) -> LogView:
        """Return the view of the log at this instant."""
        length = len(self.log)
        told = self.position(min(self.folded, length))
        durable = self.position(min(max(self.synced, self.believed), length))
        return LogView(
            committed=min(told, durable),
            told=told,
            durable=durable,
            end=self.end,
            history=self.header.history,
            damaged_from=length + 1 if self.is_damaged else 0,
        )

    def position(self, sequence: int) -> Position:
        return Position(self.log[sequence - 1].epoch, sequence) if sequence else BEGINNING

    def deliver(self, event: Event) -> None:
        self.awake(partial(self.hears, event))

    def append(self, entry: LoggedBatch) -> None:
        self.log.append(entry)
        self.sync()
        self.has_untold = True

    def tell_changed(self) -> None:
        """Let the machine hear of an append or a cut before anything else: the shell does both in one turn."""
        has_untold, self.has_untold = self.has_untold, False
        if has_untold and self.is_up:
            self.hears(LogChanged())

    def cut_to(self, sequence: int) -> None:
        del self.log[sequence:]
        self.synced = min(self.synced, sequence)
        self.believed = min(self.believed, sequence)
        self.folded = min(self.folded, sequence)
        self.cuts += 1
        if self.snapshot.sequence > sequence and not self.stage.variant.snapshots_uncommitted:
            self.snapshot = NO_FOLD
        self.sync()

    def sync(self) -> None:
        """Make durable after a while what is written now, and tell it then (or, with a shortcut, at once)."""
        stage, end, life, cuts = self.stage, self.end, self.life, self.cuts

        def done() -> None:
            if self.is_up and self.life == life and self.cuts == cuts:
                if end.sequence > self.synced:
                    self.synced = end.sequence
                    self.deliver(LogChanged())

        wait_ms = 0.2 + stage.chance.random() * 2
        stage.agenda.call_at(max(stage.agenda.at + int(wait_ms * MS), self.hung_until), done)
        if stage.variant.told_before_sync:
            self.believed = len(self.log)
            stage.agenda.call_at(stage.agenda.at, partial(self.awake, partial(self.hears, LogChanged()), life))

    def saved(self) -> DiskImage:
        return DiskImage(tuple(self.log[: self.synced]), self.header)

    def restored(self, disk: DiskImage, store: str) -> None:
        """Put another disk into this machine while it is down."""
        self.log, self.header, self.store = list(disk.log), disk.header, store
        self.synced = len(self.log)
        self.snapshot = NO_FOLD
        self.cuts += 1


class StageProducer:
    """Producer that numbers its batches and never gives up on one: what waits too long goes to the other member."""

    def __init__(self, stage: PairStage, number: int, chance: random.Random) -> None:
        self.stage = stage
        self.number = number
        self.offered = 0
        self.acked = 0
        self.sent_at = 0
        self.target = 0
        self.admit: Callable[[MemberNode, int, range, bool], None]
        """Function called with the member that a message reached, run, numbers, and True if they are offered again."""
        self.run = 1
        self._chance = chance

    @property
    def has_room(self) -> bool:
        return self.offered - self.acked < WINDOW

    @property
    def is_waiting(self) -> bool:
        return self.acked < self.offered

    def begin(self) -> None:
        self._produce()
        self._press()

    def _produce(self) -> None:
        if self.has_room and not self.stage.is_quiet:
            self.offered += 1
            self._put(self.offered, is_again=False)
        wait_ms = self.stage.swarm.batch_every_ms * (0.5 + self._chance.random())
        self.stage.agenda.after_ms(wait_ms, self._produce)

    def _press(self) -> None:
        agenda = self.stage.agenda
        if self.is_waiting and agenda.at - self.sent_at > PRESS_AFTER_MS * MS:
            self.target = 1 - self.target
            self.sent_at = agenda.at
            self._put(self.acked + 1, is_again=True)
        agenda.after_ms(PRESS_EVERY_MS, self._press)

    def _put(self, first: int, *, is_again: bool) -> None:
        """Send what waits from `first` on, in order, as one message."""
        if first == self.acked + 1:
            self.sent_at = self.stage.agenda.at
        node = self.stage.members[self.target]
        arrives = partial(self.admit, node, self.run, range(first, self.offered + 1), is_again)
        self.stage.network.send("client", node.name, 0, lambda: node.awake(arrives))
