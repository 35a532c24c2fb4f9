"""Parts that tests share: cORE's root machine as one of two."""

from collections.abc import Sequence

import numpy as np

from albireo.codec import samples
from albireo.codec.frame import Frame, body_crc
from albireo.codec.message import (
    AnyMessage,
    Append,
    AppendEntry,
    Ask,
    ProducerHello,
    ProducerWelcome,
)
from albireo.codec.record import Kind, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Answered,
    Committed,
    Event,
    FramesAppended,
    FramesFollowed,
    Granted,
    LettersDrained,
    Served,
    WakeUpEnded,
)
from albireo.machine.kernel.turn import Moment
from albireo.machine.root.root import Root
from albireo.model.instant import SECOND, Instant, TimePassed, WallTime
from albireo.model.item import DataItem
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.drafted import end_of, frames_of, view_of

LOG = b"P" * 16


T0 = 1_800_000_000 * SECOND


ITEMS = (DataItem(name="fan", value_type=ValueType.FLOAT64, is_writable=True),)


ALONE = RootConfig(node="root", log_id=LOG)


class Side:
    """One member: a root machine and its log, which a test commits, cuts and copies by hand."""

    def __init__(self, config: RootConfig = ALONE) -> None:
        self.now = Instant(5 * SECOND)
        self.frames: list[Frame] = []
        self.history = EpochHistory()
        self.sent: list[AnyMessage] = []
        self.committed = Position()
        self.root = Root(config, Folds(), self.committed, self.moment())

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(T0 + self.now))

    @property
    def end(self) -> Position:
        return end_of(self.frames)

    def view(self) -> LogView:
        return view_of(self.frames, self.history, self.committed)

    def step(self, event: Event) -> None:
        moment = self.moment()
        turn = self.root.step(event, self.view(), moment)
        self.sent += [one.message for one in turn.sends]
        last = self.frames[-1] if self.frames else None
        added = frames_of(turn, LOG, last, self.history.epoch, moment)
        self.frames += added
        if added:
            self.step(FramesAppended(added))

    def lead(self) -> None:
        epoch = self.history.epoch + 1
        self.history = self.history.granted(EpochEntry(epoch, self.end.sequence + 1, epoch * 7))
        self.step(Granted("test"))
        self.commit()
        self.step(Served())
        self.commit()

    def commit(self) -> None:
        while self.root.folded_to != self.end:
            self.commit_to(self.end)

    def commit_to(self, position: Position) -> None:
        self.committed = position
        self.step(Committed())
        self.step(Answered())
        self.step(WakeUpEnded(0))

    def follow(self, other: "Side") -> None:
        """Take from the other whatever is missing here."""
        self.history = other.history
        missing = other.frames[len(self.frames) :]
        self.frames += missing
        self.step(FramesFollowed(missing))

    def letter(
        self, message: AnyMessage, raw: Sequence[bytes] = (), sender: bytes = b"plc", principal: str = "local:0"
    ) -> None:
        self.step(LettersDrained([(sender, message, raw, principal)]))

    def take(self, kind: type[AnyMessage]) -> list[AnyMessage]:
        found = [one for one in self.sent if isinstance(one, kind)]
        self.sent = [one for one in self.sent if one not in found]
        return found

    def hello(self, run: int = 1) -> ProducerWelcome:
        self.letter(ProducerHello(producer="p", items=ITEMS, run=run, takes_orders=True))
        self.commit()
        (welcome,) = self.take(ProducerWelcome)
        assert isinstance(welcome, ProducerWelcome)
        return welcome

    def append(self, welcome: ProducerWelcome, sequence: int, value: float = 1.0, *, sender: bytes = b"plc") -> None:
        times = np.array([T0 + self.now], np.int64)
        rows = SampleBatch(
            value_type=ValueType.FLOAT64,
            item_id=np.array([welcome.item_ids[0]], np.uint32),
            source_ns=times,
            node_ns=times,
            value=np.array([value]),
            quality=np.zeros(1, np.uint32),
        )
        body = samples.encode_body(welcome.producer_id, sequence, rows)
        self.letter(Append(entries=(AppendEntry(Stream.SAMPLES, Kind.FLOAT64, 1, body_crc(body)),)), [body], sender)

    def ask_write(self, command_id: str, value: float) -> None:
        self.say_write(command_id, value)
        self.commit()

    def say_write(self, command_id: str, value: float) -> None:
        ask = Ask(request_id=1, what="write", arguments={"item": "fan", "value": value, "command_id": command_id})
        self.letter(ask, sender=b"cli")

    def pass_to(self, seconds: int) -> None:
        """So many seconds after the beginning."""
        self.now = Instant((5 + seconds) * SECOND)
        self.step(TimePassed())


def pair() -> tuple[Side, Side]:
    one, two = Side(), Side()
    one.lead()
    return one, two
