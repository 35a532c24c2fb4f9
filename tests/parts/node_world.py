"""Parts that tests share: a whole node in one process, from a seed."""

import random
import uuid
from collections.abc import Sequence

import numpy as np

from albireo.codec.frame import Frame, frames
from albireo.codec.message import (
    AnyMessage,
    Appended,
    AppendRefused,
    Ask,
    FeedData,
    ProducerWelcome,
    WriteDone,
    WriteOrder,
)
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    LinkUp,
    MadeDurable,
    Received,
    TellLeader,
)
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Answered,
    Committed,
    FollowersServed,
    FramesAppended,
    Granted,
    LettersDrained,
    OneLetter,
    PeerLost,
    Served,
    WakeUpEnded,
)
from albireo.machine.kernel.events import Event as RootEvent
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Offered, Producer
from albireo.machine.root.root import Root
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.drafted import end_of, frames_of, view_of
from tests.parts.pulled import pulled

LOG = b"L" * 16


T0 = 1_800_000_000 * SECOND


class Disk:
    """Frames in order; those above `durable` are gone after a crash."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.durable = 0
        self.entries: list[EpochEntry] = []

    @property
    def end(self) -> Position:
        return end_of(self.frames)


class Plc:
    """A producer with its machine and a queue towards CORE; carries out orders, each at most once."""

    def __init__(self, name: str, run: int, now: Instant) -> None:
        items = (
            DataItem(name=f"{name}_x", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=50.0)),
            DataItem(name=f"{name}_set", value_type=ValueType.FLOAT64, is_writable=True),
        )
        self.name = name
        self.identity = f"{name}#{run}".encode()
        self.machine = Producer(name, items, run=run, config=ProducerConfig(), takes_orders=True)
        self.to_core: list[tuple[AnyMessage, tuple[bytes, ...]]] = []
        self.offered: list[float] = []
        self.feed(LinkOpened(), now)

    def feed(self, event: object, now: Instant) -> None:
        sends = self.machine.step(event, now)  # type: ignore[arg-type]  # Only its own events reach it.
        self.to_core += [(one.message, one.raw) for one in sends]


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.loss = self.random.choice([0.0, 0.05, 0.3])
        self.crash = self.random.choice([0.0, 0.01, 0.05])
        self.lag = self.random.choice([0.0, 0.3, 0.8])
        self.now = Instant(SECOND)
        self.disk = Disk()
        self.plcs = [Plc(name, run=1, now=self.now) for name in ("a", "b")]
        self.runs = 1
        self.ghosts: list[Plc] = []
        """Dead runs of which something may still be on its way to CORE."""
        self.follower = Follower(FollowerConfig(name="history", capacity_bytes=4096))
        self.to_leader: list[AnyMessage] = []
        self.followed: list[tuple[int, int]] = []
        self.sent_orders: list[str] = []
        self.asked: list[str] = []
        self.acknowledged: dict[int, int] = {}
        """Highest number that each life was told of."""
        self.start_core()
        self.say(self.follower.step(LinkUp(), self.now))

    def start_core(self) -> None:
        epoch = len(self.disk.entries) + 1
        self.disk.entries.append(EpochEntry(epoch, self.disk.end.sequence + 1, self.random.getrandbits(63)))
        folds = Folds()
        for frame in self.disk.frames:
            folds.replay(frame)
        history = EpochHistory(tuple(self.disk.entries))
        self.history, self.committed = history, self.disk.end
        config = RootConfig(node="root", log_id=LOG, segment_bytes=1 << 26)
        self.root = Root(config, folds, self.disk.end, self.moment())
        self.inbox: list[OneLetter] = []
        self.outbox: list[tuple[bytes, AnyMessage, Sequence[bytes | memoryview]]] = []
        self.step(Granted("standalone start"))
        self.step(Served())

    def kill_core(self) -> None:
        """What was not durable is gone, and so is every message that was on its way from CORE."""
        self.disk.frames = [one for one in self.disk.frames if one.header.last_sequence <= self.disk.durable]
        self.start_core()

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(T0 + self.now))

    def step(self, event: RootEvent) -> Turn:
        durable = self.history.position(self.disk.durable)
        turn = self.root.step(event, view_of(self.disk.frames, self.history, self.committed, durable), self.moment())
        last = self.disk.frames[-1] if self.disk.frames else None
        folded_to = self.root.folded_to.sequence
        added = frames_of(turn, LOG, last, self.history.epoch, self.moment(), folded_to)
        self.disk.frames += added
        if added:
            self.step(FramesAppended(added))
        self.outbox += [(one.to, one.message, one.raw) for one in turn.sends]
        self.sent_orders += [one.message.command_id for one in turn.sends if isinstance(one.message, WriteOrder)]
        return turn

    def sync(self) -> None:
        if self.disk.end.sequence > self.disk.durable:
            self.disk.durable = self.disk.end.sequence
            self.committed = self.disk.end
            self.step(Committed())
            self.step(Answered())
            self.step(WakeUpEnded(0))

    def serve(self) -> None:
        given = []
        for pull in self.step(WakeUpEnded(0)).pulls:
            folded = [one for one in self.disk.frames if one.header.last_sequence <= self.root.folded_to.sequence]
            outcome, data, raw = pulled(folded, pull, self.history.epoch)
            given.append(outcome)
            if data is not None:
                self.outbox.append((pull.to, data, [raw]))
        self.step(FollowersServed(given))

    def say(self, effects: Sequence[object]) -> None:
        self.to_leader += [one.message for one in effects if isinstance(one, TellLeader)]

    def offer(self, plc: Plc) -> None:
        count = self.random.randint(1, 4)
        values = self.random.random() * 100 + np.arange(count, dtype=np.float64)
        plc.offered += values.tolist()
        times = np.full(count, T0 + self.now, np.int64)
        batch = SampleBatch(
            value_type=ValueType.FLOAT64,
            item_id=np.zeros(count, np.uint32),
            source_ns=times,
            node_ns=times,
            value=values,
            quality=np.zeros(count, np.uint32),
        )
        plc.feed(Offered(batches=(batch,)), self.now)

    def order(self) -> None:
        command_id = str(uuid.UUID(int=self.random.getrandbits(128)))
        self.asked.append(command_id)
        item = self.random.choice(["a_set", "b_set"])
        arguments = {"item": item, "value": 1.0, "command_id": command_id, "user": "sim", "expires_ms": 2_000}
        self.inbox.append((b"cli", Ask(request_id=len(self.asked), what="write", arguments=arguments), (), "local:0"))

    def deliver(self) -> None:
        """What is on its way arrives, or does not, or does so twice; some of it later, but in order."""
        for plc in [*self.plcs, *self.ghosts]:
            for message, raw in self._surviving(plc.to_core):
                self.inbox.append((plc.identity, message, raw, "local:0"))
        for message in self._surviving(self.to_leader):
            self.inbox.append((b"history", message, (), "local:0"))
        letters, self.inbox = self.inbox, []
        if letters:
            self.step(LettersDrained(letters))
        self.serve()
        for to, message, raw in self._surviving(self.outbox):
            self.arrive(to, message, raw)

    def _surviving(self, queue: list) -> list:  # type: ignore[type-arg]  # Any direction.
        count = len(queue) if self.random.random() >= self.lag else self.random.randint(0, len(queue))
        arrived = []
        for one in queue[:count]:
            if self.random.random() >= self.loss:
                arrived += [one] * (2 if self.random.random() < self.loss / 3 else 1)
        del queue[:count]
        return arrived

    def arrive(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> None:
        if to == b"history":
            effects = self.follower.step(Received(message, sum(map(len, raw))), self.now)  # type: ignore[arg-type]
            for effect in effects:
                if isinstance(effect, Deliver) and isinstance(effect.message, FeedData):
                    self.followed += [(h.first_sequence, h.header_crc) for h, _ in frames(raw[0])]
            self.say(effects)
            return
        plc = next((one for one in self.plcs if one.identity == to), None)
        if plc is None:
            if to != b"cli":
                self.step(PeerLost(to))
            return
        if isinstance(message, WriteOrder):
            receipt = Receipt(command_id=message.command_id, outcome=Outcome.VERIFIED, read_back=message.value)
            plc.to_core.append((WriteDone(receipt=receipt), ()))
        elif isinstance(message, Appended):
            before = self.acknowledged.get(message.producer_id, 0)
            self.acknowledged[message.producer_id] = max(before, message.producer_sequence)
            plc.feed(message, self.now)
        elif isinstance(message, ProducerWelcome | AppendRefused):
            plc.feed(message, self.now)
            if plc.machine.last_word is not None:
                self.begin_again(self.plcs.index(plc))  # By what a dead run still had on its way.

    def pass_time(self, ns: int) -> None:
        self.now = Instant(self.now + ns)
        self.step(TimePassed())
        for plc in self.plcs:
            plc.feed(TimePassed(), self.now)
        self.say(self.follower.step(TimePassed(), self.now))

    def begin_again(self, place: int) -> None:
        self.runs += 1
        self.ghosts.append(self.plcs[place])
        self.plcs[place] = Plc(self.plcs[place].name, self.runs, self.now)

    def turn(self) -> None:
        draw = self.random.random()
        if draw < self.crash:
            self.kill_core()
        elif draw < 2 * self.crash:
            self.begin_again(self.random.randrange(len(self.plcs)))
        elif draw < 0.3:
            self.offer(self.random.choice(self.plcs))
        elif draw < 0.35:
            self.order()
        elif draw < 0.7:
            self.deliver()
        elif draw < 0.85:
            self.sync()
        else:
            self.pass_time(self.random.choice([1, 10, 50, 200, 1000]) * MS)
        if self.random.random() < 0.3:
            self.say(self.follower.step(Digested(self.follower.position), self.now))
            self.say(self.follower.step(MadeDurable(self.follower.position), self.now))

    def settle(self) -> None:
        """The faults stop: everything that can end must end."""
        self.loss = self.crash = self.lag = 0.0
        for _ in range(400):
            self.deliver()
            self.sync()
            self.pass_time(100 * MS)
            self.say(self.follower.step(Digested(self.follower.position), self.now))
