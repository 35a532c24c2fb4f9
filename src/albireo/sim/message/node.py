"""One simulated node of a tree: a log with a committed and an uncommitted part, clocks, devices, and its machine.

A run is one tenure of the machine. Only the present run appends; a run that was taken over goes on hearing and saying
for a while, and none of its records is ever committed.
"""

import random
from collections.abc import Callable
from functools import partial

import msgspec

from albireo.codec.message_records import LifeBegun, MessageDone, MessageEnd, MessageLeased, MessageRecord
from albireo.machine.fold.letters.letters import MessageFold
from albireo.machine.message.events import (
    ExecuteBody,
    HandOut,
    MessageDoubt,
    MessageEffect,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendLetter,
    StageReached,
)
from albireo.machine.message.receiving.receivers import Receiver, ReceiverEffect
from albireo.model.instant import MS, LogTime, WallTime, soonest
from albireo.model.tree.message import AddCause, Life, MessageName, MessageOutcome
from albireo.sim.engine.agenda import MachineClock
from albireo.sim.message.stage import MessagesStage


class LoggedFact(msgspec.Struct, frozen=True):
    """One record of a simulated log."""

    record: MessageRecord
    log_time: int
    at: int
    """World time of its append."""


class MessageStore:
    """Log of one node, as its disk has it."""

    def __init__(self) -> None:
        self.facts: list[LoggedFact] = []
        self.committed = 0
        self.begins: list[tuple[int, int]] = []
        """Number of facts before each epoch, and the epoch."""

    @property
    def epoch(self) -> int:
        return self.begins[-1][1] if self.begins else 0

    def as_of(self, count: int) -> "MessageStore":
        """The store as a backup has it that was taken when it held so many facts."""
        backup = MessageStore()
        backup.facts = self.facts[:count]
        backup.begins = [one for one in self.begins if one[0] <= count]
        return backup

    @property
    def log_time(self) -> int:
        return self.facts[-1].log_time if self.facts else 0

    def folded(self) -> MessageFold:
        """Fold of everything that is committed."""
        fold = MessageFold()
        for one in self.facts[: self.committed]:
            fold.fold(one.record, LogTime(one.log_time))
        return fold


class MessageRun:
    """One tenure of a node's machine."""

    def __init__(self, node: "MessageNode", clock: MachineClock, wall_offset: int, seed: int) -> None:
        self.node = node
        self.clock = clock
        self.wall_offset = wall_offset
        self.store = node.store
        self.fold = node.store.folded()
        self.machine = node.stage.variant.messages(
            node.id, self.fold, random.Random(f"run {seed}"), node.stage.swarm.limits
        )
        self.receivers = node.stage.variant.receivers(self.fold.inbox, node.stage.swarm.lease_ms * MS)
        self._readers: dict[str, Callable[[HandOut], None]] = {}
        self._taking: dict[tuple[MessageName, int], Callable[[], None]] = {}
        self.is_present = True
        self.is_heard = True
        """False: it is dead; a run that was taken over may be heard for a while."""
        self.began = node.stage.agenda.at
        self._log_base = node.store.log_time
        self._log_from = self.clock.local(self.began)
        self._alarm = 0

    def times(self) -> MessageTimes:
        at = self.node.stage.agenda.at
        now = self.clock.local(at)
        log_time = self._log_base + (now - self._log_from)
        return MessageTimes(now, LogTime(log_time), WallTime(at + self.wall_offset))

    def do(self, effects: list[MessageEffect]) -> None:
        """Carry out effects in their order, and arm the alarm."""
        stage = self.node.stage
        for one in effects:
            match one:
                case RecordMessage(record):
                    self._append(record)
                case SendLetter(to, letter):
                    stage.post(self.node.id, to, letter)
                case ExecuteBody() if one.name.inbox:
                    self._give(self.receivers.offer(one))
                case ExecuteBody():
                    wait_ms = stage.chance.random() * stage.swarm.device_ms
                    stage.agenda.after_ms(wait_ms, partial(self._execute, one))
                case RecoverBody(name) if name.inbox:
                    stage.agenda.after_ms(1, partial(self._report, name, self.receivers.recovered()))
                case RecoverBody(name):
                    stage.agenda.after_ms(1, partial(self._report, name, stage.ledger.recovered(name)))
                case MessageProven(receipt):
                    if self.is_present:
                        stage.ledger.told(receipt)
                case MessageDoubt():
                    stage.doubts += 1
                case StageReached():
                    pass
        self._arm()

    def _arm(self) -> None:
        due = soonest(self.machine.deadline(self.times()), self.receivers.deadline()) if self.is_heard else None
        if due is None:
            return
        at = max(self.node.stage.agenda.at + MS, self.clock.world(due))
        if not self.node.stage.agenda.at < self._alarm <= at:
            self._alarm = at
            self.node.stage.agenda.call_at(at, partial(self._ring, at))

    def _ring(self, at: int) -> None:
        if self._alarm == at and self.is_heard:
            self._alarm = 0
            self.do(self.machine.time_passed(self.times()))
            effects, ended = self.receivers.time_passed(self.times())
            self._give(effects)
            for name, end in ended:
                self.do(self.machine.executed(name, end, self.times()))
            self._fetch()

    # Programs that receive here, as the post serves them.

    def _fetch(self) -> None:
        self.do(self.machine.wants(self.receivers.wanted(), self.times()))

    def _give(self, effects: list[ReceiverEffect]) -> None:
        for one in effects:
            if isinstance(one, RecordMessage):
                self._append(one.record)
            else:
                self.node.stage.ledger.handed(one.name, one.lease)
                self._readers[one.receiver](one)

    def ready(self, receiver: Receiver, credit: int, handed: Callable[[HandOut], None]) -> None:
        """A program waits for a message."""
        self._readers[receiver.link] = handed
        self._give(self.receivers.ready(receiver, credit, self.times()))
        self._fetch()

    def lost(self, link: str) -> None:
        self._give(self.receivers.lost(link))
        self._fetch()

    def take(self, link: str, name: MessageName, lease: int, took: Callable[[], None]) -> bool:
        """Take a program's word that a message is its own; `took` once that is on record. True: it is refused."""
        if not self.machine.is_serving:
            return False
        found = self.receivers.taken(link, name, lease, b"reply")
        if found is not None:
            self._taking[name, lease] = took
            self.receivers.rests(Receiver(link, name.inbox), 0)
            self.do(self.machine.executed(*found, self.times(), lease))
        elif self.receivers.was_taken(name, lease):
            took()
        else:
            return (name, lease) not in self._taking
        return False

    def give_back(self, link: str, name: MessageName, lease: int) -> bool:
        """Take a program's word that it did nothing with a message; True: that is believed."""
        effects = self.receivers.given_back(link, name, lease, self.times()) if self.machine.is_serving else None
        if effects is None:
            return False
        self.node.stage.ledger.given_back(name, lease)
        self._give(effects)
        self._fetch()
        return True

    def _append(self, record: MessageRecord) -> None:
        if not self.is_present:
            return
        stage, times = self.node.stage, self.times()
        self.store.facts.append(LoggedFact(record, times.log_time, stage.agenda.at))
        stage.agenda.after_ms(
            stage.chance.random() * stage.swarm.commit_ms * self.node.slowness,
            partial(self._commit, len(self.store.facts)),
        )

    def _commit(self, up_to: int) -> None:
        while self.is_present and self.store.committed < up_to:
            one = self.store.facts[self.store.committed]
            self.store.committed += 1
            self.fold.fold(one.record, LogTime(one.log_time))
            stage = self.node.stage
            stage.ledger.stored(self.node.id, one.record)
            self.do(self.machine.committed(one.record, self.times()))
            if isinstance(one.record, MessageLeased):
                self._give(self.receivers.leased(one.record, self.times()))
            elif isinstance(one.record, MessageDone) and (one.record.name, one.record.lease) in self._taking:
                self._taking.pop((one.record.name, one.record.lease))()
            elif isinstance(one.record, LifeBegun):
                self._fetch()

    def _execute(self, order: ExecuteBody) -> None:
        if self.times().now >= order.not_after:
            end = MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER)
        else:
            self.node.stage.ledger.executed(order.name, order.body)
            if self.is_heard:
                self.do(self.machine.begun(order.name, self.times()))
            end = MessageEnd(outcome=MessageOutcome.VERIFIED, read_back=1.0)
        wait_ms = self.node.stage.chance.random() * self.node.stage.swarm.device_ms
        self.node.stage.agenda.after_ms(wait_ms, partial(self._report, order.name, end))

    def _report(self, name: MessageName, end: MessageEnd) -> None:
        if self.is_heard:
            self.do(self.machine.executed(name, end, self.times()))


class MessageNode:
    """One node, over all its runs and stores."""

    is_holder = False

    def __init__(self, stage: MessagesStage, node_id: str) -> None:
        self.stage = stage
        self.id = self.name = node_id
        self.store = MessageStore()
        self.slowness = 1.0
        self.was_restored = False
        self.wall_offset = 0
        self.lost_log_ns = 0
        """Time that passed while nobody served, and that log time does not know of."""
        self.runs: list[MessageRun] = []
        self._clock = MachineClock(stage.chance, stage.swarm.drift)
        self._serial = 0

    @property
    def present(self) -> MessageRun | None:
        return next((one for one in self.runs if one.is_present), None)

    def hear(self, act: Callable[[MessageRun], None]) -> None:
        """Let one of the runs that are still heard take something; most often the present one."""
        heard = [one for one in self.runs if one.is_heard]
        if heard:
            act(self.stage.chance.choice(heard))

    def start(self, *, continues: bool, other_machine: bool = False) -> None:
        """Begin a run on what is in the store: all of that is committed now.

        Args:
            continues: it is known that the store is the one of the run that ended last.
        """
        stage, store = self.stage, self.store
        if store.facts:
            self.lost_log_ns += stage.agenda.at - store.facts[-1].at
        if other_machine:
            self._clock = MachineClock(stage.chance, stage.swarm.drift)
        store.committed = len(store.facts)
        for index in range(store.committed):
            stage.ledger.stored(self.id, store.facts[index].record)
        ended_epoch = store.epoch
        store.begins.append((store.committed, store.epoch + 1))
        self._serial += 1
        run = MessageRun(self, self._clock, self.wall_offset, hash_of(stage.seed, self.id, self._serial))
        self.runs = [one for one in self.runs if one.is_heard]
        self.runs.append(run)
        life = Life(store.epoch, stage.chance.getrandbits(64))
        before = run.fold.outbox.epoch if stage.variant.claims_its_store else ended_epoch if continues else 0
        run.do(run.machine.begin(life, continues=before))
        stage.note(self.id, f"starts{' and goes on' if continues else ''}, epoch {store.epoch}")

    def end_run(self, *, lingers_ms: float = 0.0) -> None:
        """End the present run; of what is not committed some stays in the store, as chance has it."""
        run = self.present
        if run is None:
            return
        self._check_fold(run)
        run.is_present = False
        run.is_heard = lingers_ms > 0
        if lingers_ms:
            self.stage.agenda.after_ms(lingers_ms, partial(self._silence, run))
        store = self.store
        keep = self.stage.chance.randint(store.committed, len(store.facts))
        del store.facts[keep:]

    def _silence(self, run: MessageRun) -> None:
        run.is_heard = False

    def silence_all(self) -> None:
        """End every process of this node that is still heard."""
        for run in self.runs:
            run.is_heard = False

    def _check_fold(self, run: MessageRun) -> None:
        """Check that a replay of the log, and its snapshot read back, give the fold of this run."""
        if not self.stage.variant.keeps_folds:
            return
        live = _packed(run.fold)
        again = _packed(self.store.folded())
        back = _packed(MessageFold.restore(*live))
        if not live == again == back:
            self.stage.fail(f"{self.id}: the fold is not that of its log")


def _packed(fold: MessageFold) -> tuple[bytes, bytes]:
    return b"".join(fold.outbox.snapshot_slices()), b"".join(fold.inbox.snapshot_slices())


def hash_of(*parts: object) -> int:
    """A number that is the same in every process."""
    return random.Random(repr(parts)).getrandbits(48)
