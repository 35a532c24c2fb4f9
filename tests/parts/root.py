"""Parts that tests share: cORE's root machine over a log in memory."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from albireo.codec import record, samples
from albireo.codec.frame import Frame, body_crc
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Append,
    AppendEntry,
    Ask,
    ProducerHello,
    ProducerWelcome,
)
from albireo.codec.record import Kind, Record, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Answered,
    Committed,
    Event,
    FramesAppended,
    Granted,
    LettersDrained,
    Served,
    WakeUpEnded,
)
from albireo.machine.kernel.named import HISTORY, above
from albireo.machine.kernel.turn import Moment
from albireo.machine.root.root import Root
from albireo.model.instant import SECOND, Instant, TimePassed, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.samples import SampleBatch
from albireo.model.settings import LimitSettings
from albireo.model.value import ValueType
from tests.parts.drafted import end_of, frames_of, view_of

LOG = b"L" * 16


T0 = 1_800_000_000 * SECOND


NOW = Instant(5 * SECOND)


class World:
    """A root machine, a log that lives in memory, and a clock that the test moves."""

    def __init__(
        self,
        folds: Folds | None = None,
        frames: list[Frame] | None = None,
        epoch: int = 1,
        now: Instant = NOW,
        segment_bytes: int = 1 << 26,
        adapters: frozenset[str] = frozenset(),
        private_streams: frozenset[int] = frozenset(),
        limits: LimitSettings | None = None,
        **place: Any,
    ) -> None:
        """`place`: where the node stands in a tree, as `RootConfig` has it."""
        self.frames = frames or []
        self.now = now
        self.wall_began = T0
        """Wall time at instant 0: a test that moves it makes the clock jump."""
        self.sent: list[tuple[bytes, AnyMessage]] = []
        self.notes: list[str] = []
        self.committed = self.end
        first = self.end.sequence + 1
        self.history = EpochHistory(tuple(EpochEntry(n, 1 if n == 1 else first, n) for n in range(1, epoch + 1)))
        config = RootConfig(
            node="root",
            log_id=LOG,
            segment_bytes=segment_bytes,
            adapters=adapters,
            limits=limits or LimitSettings(),
            private_streams=private_streams,
            **{"named": (HISTORY, above(place["parent"])) if "parent" in place else (HISTORY,), **place},
        )
        self.root = Root(config, folds or Folds(), self.end, self.moment())
        self.step(Granted("standalone start"))
        self.step(Served())
        self.sync()

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(self.wall_began + self.now))

    @property
    def end(self) -> Position:
        return end_of(self.frames)

    def step(self, event: Event) -> None:
        moment = self.moment()
        turn = self.root.step(event, view_of(self.frames, self.history, self.committed), moment)
        self.sent += [(one.to, one.message) for one in turn.sends]
        self.notes += [one.event for one in turn.notes]
        last = self.frames[-1] if self.frames else None
        added = frames_of(turn, LOG, last, self.history.epoch, moment)
        self.frames += added
        if added:
            self.step(FramesAppended(added))

    def sync(self) -> None:
        """Everything appended becomes durable, and what follows from that too."""
        while self.root.folded_to != self.end:
            self.commit()
            self.step(Answered())
            self.step(WakeUpEnded(0))

    def commit(self) -> None:
        self.committed = self.end
        self.step(Committed())

    def letter(self, sender: bytes, message: AnyMessage, raw: Sequence[bytes] = (), principal: str = "local:0") -> None:
        self.step(LettersDrained([(sender, message, raw, principal)]))

    def pass_time(self, ns: int) -> None:
        self.now = Instant(self.now + ns)
        self.step(TimePassed())
        self.sync()

    def take(self, kind: type[msgspec.Struct]) -> list[AnyMessage]:
        """Messages of one type sent so far; they are gone then."""
        found = [message for _, message in self.sent if isinstance(message, kind)]
        self.sent = [one for one in self.sent if not isinstance(one[1], kind)]
        return found

    def ask(self, what: str, **arguments: object) -> Answer:
        self.letter(b"cli", Ask(request_id=7, what=what, arguments=arguments))
        self.sync()
        (answer,) = self.take(Answer)
        assert isinstance(answer, Answer)
        return answer

    def records(self, kind: type[Record]) -> list[Record]:
        """Records of one type in the whole log."""
        found: list[Record] = []
        for frame in self.frames:
            if frame.header.kind == Kind.RECORDS:
                found += record.decode_records(frame.body, frame.header.record_count)
        return [one for one in found if isinstance(one, kind)]


ITEMS = (
    DataItem(name="co_1", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=50.0, hysteresis=5.0)),
    DataItem(name="fan_set", value_type=ValueType.FLOAT64, is_writable=True, minimum=0.0, maximum=100.0),
    DataItem(name="door", value_type=ValueType.BOOL),
)


def hello(world: World, run: int = 1, name: str = "p1") -> ProducerWelcome:
    world.letter(b"plc", ProducerHello(producer=name, items=ITEMS, run=run, takes_orders=True))
    world.sync()
    (welcome,) = world.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    return welcome


def batch(world: World, item_id: int, values: Sequence[float]) -> SampleBatch:
    times = np.full(len(values), T0 + world.now, np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.full(len(values), item_id, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array(values, np.float64),
        quality=np.zeros(len(values), np.uint32),
    )


def append(
    world: World,
    welcome: ProducerWelcome,
    sequence: int,
    values: Sequence[float],
    item: int = 0,
    principal: str = "local:0",
) -> None:
    body = samples.encode_body(welcome.producer_id, sequence, batch(world, welcome.item_ids[item], values))
    entry = AppendEntry(Stream.SAMPLES, Kind.FLOAT64, len(values), body_crc(body))
    world.letter(b"plc", Append(entries=(entry,)), [body], principal)


def order(world: World, command_id: str, value: object = 40.0, expires_ms: int = 1000) -> None:
    arguments = {"item": "fan_set", "value": value, "command_id": command_id, "user": "ann", "expires_ms": expires_ms}
    world.letter(b"cli", Ask(request_id=1, what="write", arguments=arguments))
