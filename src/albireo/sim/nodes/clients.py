"""Clients of the simulated cluster: the real machines of producers and followers, in shells of the world's own."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from albireo.codec.frame import Frame, frames
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Appended,
    Ask,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedState,
    Successor,
)
from albireo.codec.record import Kind
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.feed.roaming import Fed, Roaming
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import Offered
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, BatchRefused, Heard, PairSender, SayTo, Superseded
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime import LinkLimits
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.link import DEFAULT_LIMITS
from albireo.sim.engine.agenda import Timer
from albireo.sim.nodes.actor import WALL_NS
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.network import Host, Parts, StagedLink
from albireo.sim.nodes.stage import NodeStage

WINDOW: Final = 6
"""Number of batches under way at which a producer offers no more."""
ROWS_MAX: Final = 5


class SimulatedClient(ABC):
    """Process that hears messages at once; when it dies, its links end as those of an actor do."""

    def __init__(self, stage: NodeStage, host: Host, name: str) -> None:
        stage.lives += 1
        self.stage = stage
        self.host = host
        self.name = name
        self.is_alive = True
        self.paused_until = self.leaves_at = 0
        self._id = stage.lives
        self.arm = Timer(stage.agenda, host, self._ring).arm
        self._links: list[StagedLink] = []

    def call(self, function: Callable[..., object], *args: object) -> bool:
        self.stage.agenda.call_at(self.stage.agenda.at, lambda: self.is_alive and function(*args))
        return self.is_alive

    def sent(self, message: AnyMessage) -> None:  # noqa: B027  # Links tell it to every process.
        """Do nothing: nobody looks at what clients say."""

    @abstractmethod
    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        """Take a message that has arrived."""

    def pass_time(self) -> None:  # noqa: B027  # Some wait for messages only.
        """Do what is due now that the instant that was armed has come."""

    def dial(self, endpoint: str, limits: LinkLimits) -> StagedLink:
        link = StagedLink(
            self.stage.network, self, self.name, f"{self.name}#{self._id}.{len(self._links)}".encode(), limits
        )
        link.endpoint = endpoint
        self.stage.network.dial(link)
        self._links.append(link)
        return link

    def dial_members(self, endpoints: Sequence[str], changed: Callable[[int, bool], object]) -> list[StagedLink]:
        links = [self.dial(endpoint, TCP_LIMITS) for endpoint in endpoints]
        for member, link in enumerate(links):
            link.on_connection = partial(changed, member)
        return links

    def die(self) -> None:
        self.is_alive = False
        for link in self._links:
            link.died(self.stage.chance, is_power=not self.host.is_on)

    def now(self) -> Instant:
        return self.host.local(self.stage.agenda.at)

    def _ring(self) -> None:
        if self.is_alive:
            self.pass_time()


class ProducerClient(SimulatedClient):
    """Producer that counts: its values are 1, 2, 3... times ten, plus its own number. It may be paused."""

    def __init__(
        self, stage: NodeStage, host: Host, number: int, endpoints: Sequence[str], ledger: NodeLedger, name: str = ""
    ) -> None:
        """`name`: name of the producer, if another program has it already."""
        super().__init__(stage, host, name or f"p{number}")
        alarm = AlarmSettings(hi=500.0, off_delay_ms=100)
        items = [
            DataItem(name=f"{self.name}/count", value_type=ValueType.INT64),
            DataItem(name=f"{self.name}/level", value_type=ValueType.FLOAT64, alarm=alarm),
        ]
        self.number = number
        self.by: Successor | None = None
        """Life that it was told has its name now."""
        self._held: list[Callable[[], object]] = []
        """Events that came while it was paused."""
        self.offered = 0
        self.acknowledged = 0
        self.is_quiet = False
        self.level: float | None = None
        """Last level that it offered; above 500 it is an alarm."""
        self.counted_acknowledged = 0
        """Highest count that it was told is recorded."""
        self._counts: deque[tuple[int, int]] = deque()
        """Batches that hold counts and are not acknowledged: number, and highest count."""
        self._values = 0
        self._ledger = ledger
        self.run = stage.chance.getrandbits(31) + 1
        self.machine = PairSender(
            self.name, items, run=self.run, config=ProducerConfig(), seek=SeekConfig(), now=self.now()
        )
        self._members = self.dial_members(endpoints, self._changed)

    @property
    def is_drained(self) -> bool:
        return self.machine.is_all_acknowledged or self.by is not None

    @property
    def counted(self) -> int:
        """Count of the last value that the producer has offered."""
        return self._values

    def offer(self) -> None:
        """Offer one or two more batches, unless too many wait already."""
        is_paused = self.paused_until > self.stage.agenda.at
        if self.is_quiet or is_paused or self.by is not None or self.offered - self.acknowledged >= WINDOW:
            return
        chance, batches = self.stage.chance, [self._counted(self.stage.chance.randint(1, ROWS_MAX))]
        if chance.random() < 0.3:
            batches.append(self._level(chance.uniform(0.0, 1000.0)))
        if self.machine.has_room(batches):
            self.offered += len(batches)
            self._perform(self.machine.step(Offered(batches=tuple(batches)), self.now()))

    def _counted(self, rows: int) -> SampleBatch:
        values = [(self._values + 1 + row) * 10 + self.number for row in range(rows)]
        self._values += rows
        self._counts.append((self.offered + 1, self._values))
        return self._batch(0, ValueType.INT64, np.array(values, np.int64))

    def _level(self, value: float) -> SampleBatch:
        self.level = value
        return self._batch(1, ValueType.FLOAT64, np.array([value], np.float64))

    def _batch(self, row: int, value_type: ValueType, values: np.ndarray) -> SampleBatch:
        times = np.full(len(values), WALL_NS + self.stage.agenda.at, np.int64)
        return SampleBatch(
            value_type=value_type,
            item_id=np.full(len(values), row, np.uint32),
            source_ns=times,
            node_ns=times,
            value=values,
            quality=np.zeros(len(values), np.uint32),
        )

    def pause(self, for_ms: float) -> None:
        """Stand still, as a process does that is stopped: what it said before is on its way."""
        self.stage.note(f"{self.name}.{self.number}", f"paused for {for_ms:.0f} ms")
        self.paused_until = self.stage.agenda.at + int(for_ms * MS)
        self.stage.agenda.call_at(self.paused_until, self._wake)

    def _wake(self) -> None:
        if self.paused_until <= self.stage.agenda.at:
            held, self._held = self._held, []
            for one in held:
                one()

    def _when_awake(self, function: Callable[..., object], *args: object) -> None:
        if self.paused_until > self.stage.agenda.at or self._held:
            self._held.append(partial(function, *args))
        else:
            function(*args)

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        self._when_awake(self._hear, self._members.index(link), message)

    def _hear(self, member: int, message: AnyMessage) -> None:
        if isinstance(message, Appended):
            self._ledger.heard(message)
        self._perform(self.machine.step(Heard(member, message), self.now()))

    def pass_time(self) -> None:
        self._when_awake(self._ripe)

    def _ripe(self) -> None:
        due = self.machine.deadline()
        if due is not None and self.now() >= due:
            self._perform(self.machine.step(TimePassed(), self.now()))
        self.arm(self.machine.deadline())

    def _changed(self, member: int, is_up: bool) -> None:
        self._when_awake(self._line, member, is_up)

    def _line(self, member: int, is_up: bool) -> None:
        self._perform(self.machine.step((LineUp if is_up else LineDown)(member), self.now()))

    def _perform(self, effects: Sequence[SayTo | Acknowledged | BatchRefused | Superseded]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message, raw):
                    self._members[member].send(message, raw)
                case Acknowledged(batch):
                    self.acknowledged = batch
                    while self._counts and self._counts[0][0] <= batch:
                        self.counted_acknowledged = self._counts.popleft()[1]
                case BatchRefused(batch):
                    raise AssertionError(f"batch {batch} of {self.name} was refused")
                case Superseded(by):
                    self.by = by
        self.arm(self.machine.deadline())


class CommittedReader:
    """Reader that compares what a follower of the committed records is given with what is committed."""

    def __init__(self, name: str, ledger: NodeLedger, fail: Callable[[str], None]) -> None:
        self.name = name
        self.position = Position()
        self.started_over = 0
        self.is_here: Callable[[Frame], bool] = lambda frame: False
        """Function that says if a reference's payload is on this machine: then the whole frame is to be given."""
        self.takes: Callable[[Frame], object] = lambda frame: None
        """Function to which each frame is handed on."""
        self._ledger = ledger
        self._fail = fail

    def delivered(self, data: FeedData, raw: Parts) -> None:
        for header, body in frames(raw[0]):
            if header.first_sequence != self.position.sequence + 1:
                self._fail(f"{self.name} is given {header.first_sequence} behind {self.position}")
            if not self._ledger.knows(Frame(header, body)):
                self._fail(f"{self.name} is given {header.last}, which nobody committed")
            if header.kind == Kind.REFERENCE and self.is_here(Frame(header, body)):
                self._fail(f"{self.name} is given {header.last} without its payload, which is here")
            self.position = header.last
            self.takes(Frame(header, body))
        if data.last != self.position:
            self._fail(f"{self.name} is at {self.position}, was told {data.last}")

    def turned(self, effect: CutBack | TakeSnapshot) -> None:
        """Start over behind missing records. To be told to forget some is a violation: committed ones stay true."""
        if isinstance(effect, CutBack):
            self._fail(f"{self.name} is told to forget what it has behind {effect.position}: {effect.verdict}")
        self.started_over += 1
        self.position = effect.position


class RoamingReader(SimulatedClient):
    """Reader that follows the pair on either member."""

    def __init__(self, stage: NodeStage, host: Host, endpoints: Sequence[str], ledger: NodeLedger) -> None:
        super().__init__(stage, host, "reader")
        self.reading = CommittedReader("the reader", ledger, stage.fail)
        self._machine = Roaming(FollowerConfig(name="reader", capacity_bytes=1 << 16))
        self._members = self.dial_members(endpoints, self._changed)

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if isinstance(message, FeedAnswer | FeedData | FeedState | FeedAlive):
            size = sum(map(len, raw))
            self._perform(self._machine.step(Fed(self._members.index(link), message, size), self.now()), raw)

    def pass_time(self) -> None:
        self._perform(self._machine.step(TimePassed(), self.now()), [])

    def _changed(self, member: int, is_up: bool) -> None:
        self._perform(self._machine.step((LineUp if is_up else LineDown)(member), self.now()), [])

    def _perform(self, effects: Sequence[SayTo | Deliver | CutBack | TakeSnapshot | Noted], raw: Parts) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message):
                    self._members[member].send(message)
                case Deliver(FeedData() as data):
                    self.reading.delivered(data, raw)
                    self._perform(self._machine.step(MadeDurable(data.last), self.now()), [])
                    self._perform(self._machine.step(Digested(data.last), self.now()), [])
                case CutBack() | TakeSnapshot():
                    self.reading.turned(effect)
                case _:
                    pass
        self.arm(self._machine.deadline())


class HistoryReader(SimulatedClient):
    """Stand-in for a member's history: a named follower on the same machine, on whose word records are let go."""

    def __init__(
        self, stage: NodeStage, host: Host, core: str, ledger: NodeLedger, durable: Position, log_id: bytes
    ) -> None:
        super().__init__(stage, host, "history")
        self.reading = CommittedReader(f"the history of {host.name}", ledger, stage.fail)
        self.reading.position = durable
        self.durable = durable
        self.machine = Follower(FollowerConfig(name="history", capacity_bytes=1 << 16), durable, log_id)
        self._core = self.dial(core, DEFAULT_LIMITS)
        self._perform(self.machine.step(LinkUp(), self.now()), [])

    def forget(self) -> None:
        """Forget what was durable: the disk was exchanged for another."""
        self.durable, self.machine.log_id = Position(), b""

    def keep(self) -> None:
        """Make durable what was delivered, and say so."""
        self.durable = self.machine.position
        self._perform(self.machine.step(MadeDurable(self.durable), self.now()), [])

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if isinstance(message, FeedAnswer | FeedData | FeedState | FeedAlive):
            self._perform(self.machine.step(Received(message, sum(map(len, raw))), self.now()), raw)

    def pass_time(self) -> None:
        self._perform(self.machine.step(TimePassed(), self.now()), [])

    def _perform(self, effects: Sequence[object], raw: Parts) -> None:
        for effect in effects:
            match effect:
                case TellLeader(message):
                    self._core.send(message)
                case Deliver(FeedData() as data):
                    self.reading.delivered(data, raw)
                    self._perform(self.machine.step(Digested(data.last), self.now()), [])
                case CutBack() | TakeSnapshot():
                    self.reading.turned(effect)
                    self.durable = min(self.durable, self.machine.position)
                case _:
                    pass
        self.arm(self.machine.deadline())


class Boot(SimulatedClient):
    """Process that stops a node's process when that asks for it."""

    def __init__(self, stage: NodeStage, host: Host, endpoint: str, stop: Callable[[], None]) -> None:
        super().__init__(stage, host, "boot")
        self._stop = stop
        link = StagedLink(stage.network, self, "boot", b"", DEFAULT_LIMITS)
        stage.network.listen(link, endpoint)
        self._links.append(link)

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if isinstance(message, Ask) and message.what == "stop":
            self._stop()


class Operator(SimulatedClient):
    """Operator who asks one member for admin actions, on the machine of that member."""

    def __init__(self, stage: NodeStage, host: Host, core: str) -> None:
        super().__init__(stage, host, "cli")
        self._core = self.dial(core, DEFAULT_LIMITS)
        self._then: dict[int, Callable[[Answer], object]] = {}
        self._asked = 0

    def order(self, what: str, then: Callable[[Answer], object], **arguments: object) -> None:
        self._asked += 1
        self._then[self._asked] = then
        self._core.send(Ask(request_id=self._asked, what=what, arguments=arguments))

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if isinstance(message, Answer) and message.request_id in self._then:
            self._then.pop(message.request_id)(message)
