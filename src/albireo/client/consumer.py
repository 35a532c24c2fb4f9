"""A consumer of a client: reads every committed record of a node or a pair, once and in order.

    with client.consumer("archive", after=position) as consumer:
        for one in consumer.take(1.0): ...

Both members serve the same records under the same positions, so the consumer follows either, and goes on with the other
one where it stopped. The node sends no more than fits into `capacity_bytes` ahead of the reader.

The machine: machine/feed/roaming.py. Decision: ADR-0115, ADR-0156.
"""

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from albireo.client.engine import Engine, log
from albireo.client.errors import AnswerNotUnderstood, ClientClosed, session_over
from albireo.client.inbox import Inbox
from albireo.client.way import Target, Way
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, frames
from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedState
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    FollowerConfig,
    MadeDurable,
    Noted,
    TakeSnapshot,
)
from albireo.machine.feed.roaming import Fed, Roaming
from albireo.machine.producer.seeking import LineDown, LineUp
from albireo.machine.producer.sending import SayTo
from albireo.model.instant import Instant, TimePassed
from albireo.model.position import Position
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.lines import LineNews


class Delivered(msgspec.Struct, frozen=True, eq=False):
    """Committed frames, in log order, behind everything delivered before."""

    position: Position
    """Position of the last record."""
    frames: Sequence[Frame]


class Rewound(msgspec.Struct, frozen=True):
    """Records delivered behind `position` are to be forgotten."""

    position: Position
    verdict: str
    """`snapshot`: the wanted records are pruned, and the next delivery begins behind `position`. `fork`: the log goes
    another way behind `position`, after a forced promotion or because a disk forgot; that way is delivered next."""


Deliveries = list[Delivered | Rewound]


class _DeliveryInbox(Inbox[Deliveries]):
    """Deliveries that nobody has taken yet; the credit of the feed bounds them."""

    def __init__(self) -> None:
        super().__init__()
        self._deliveries: deque[Delivered | Rewound] = deque()

    def put(self, one: Delivered | Rewound) -> None:
        with self._lock:
            self._deliveries.append(one)
        self.tell()

    def _is_empty(self) -> bool:
        return not self._deliveries

    def _taken(self) -> Deliveries:
        taken = list(self._deliveries)
        self._deliveries.clear()
        return taken


class ConsumerPart:
    """The part. Its methods run in the engine's thread."""

    def __init__(self, target: Target, config: FollowerConfig, after: Position, log_id: bytes) -> None:
        """Raises: as `Lines`."""
        self.lines = Way(target)
        self.name = config.name
        self.inbox = _DeliveryInbox()
        self.machine = Roaming(config, after, log_id)

    def deadline(self) -> Instant | None:
        return self.machine.deadline()

    def heard(self, news: LineNews, now: Instant) -> None:
        if news.is_up is not None:
            self._perform(self.machine.step((LineUp if news.is_up else LineDown)(news.line), now), ())
        elif isinstance(news.message, FeedAnswer | FeedData | FeedState | FeedAlive):
            if isinstance(news.message, FeedAnswer) and (over := session_over("consumer", news.message)) is not None:
                self.inbox.fail(over)
            size_bytes = sum(len(part) for part in news.raw)
            self._perform(self.machine.step(Fed(news.line, news.message, size_bytes), now), news.raw)

    def ticked(self, now: Instant) -> None:
        self._perform(self.machine.step(TimePassed(), now), ())

    def digested(self, position: Position) -> None:
        """The reader has taken everything up to here, and keeps it in its own memory."""
        now = boot_ns()
        self._perform(self.machine.step(MadeDurable(position), now), ())
        self._perform(self.machine.step(Digested(position), now), ())

    def ended(self, error: ClientClosed) -> None:
        self.inbox.fail(error)

    def _delivered(self, data: FeedData, raw: Sequence[bytes | memoryview]) -> None:
        try:
            decoded = [Frame(*one) for part in raw for one in frames(part)]
        except DecodeError as error:
            self.inbox.fail(AnswerNotUnderstood("feed", str(error)))
        else:
            self.inbox.put(Delivered(data.last, decoded))

    def _perform(self, effects: Sequence[object], raw: Sequence[bytes | memoryview]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message):
                    self.lines.send(member, message)
                case Deliver(FeedData() as data):
                    self._delivered(data, raw)
                case TakeSnapshot(position):
                    self.inbox.put(Rewound(position, "snapshot"))
                case CutBack(position, verdict):
                    self.inbox.put(Rewound(position, verdict))
                case Noted(event, detail):
                    log.info("consumer %s: %s %s", self.name, event, detail)
                case _:
                    pass


class Reader:
    """Front of a consumer, before the engine. For any thread."""

    def __init__(self, engine: Engine, part: ConsumerPart, after: Position) -> None:
        self.part = part
        self.position = after
        self._engine = engine
        self.is_closed = False

    def taken(self, deliveries: Deliveries) -> Deliveries:
        """Take note of what the reader has now, so that more may come."""
        for one in deliveries:
            self.position = one.position
        if any(isinstance(one, Delivered) for one in deliveries):
            self._engine.call(lambda: self.part.digested(self.position))
        return deliveries

    def leave(self) -> None:
        """Close the lines."""
        if not self.is_closed:
            self.is_closed = True
            self._engine.call(lambda: self._engine.remove(self.part)).result()
            self.part.ended(ClientClosed("the consumer is closed"))


class RecordConsumer:
    """Follows the committed records of a node, on either member of a pair. For one thread at a time."""

    def __init__(self, reader: Reader) -> None:
        """Use `Client.consumer`."""
        self._reader = reader

    @property
    def position(self) -> Position:
        """Position of the last record taken; it means the same on both members."""
        return self._reader.position

    @property
    def member(self) -> int | None:
        """Index of the member that is followed now; None: neither."""
        return self._reader.part.machine.member

    def take(self, timeout_s: float) -> Deliveries:
        """Deliveries since the last call, at once if there are any; empty after `timeout_s`."""
        return self._reader.taken(self._reader.part.inbox.wait(timeout_s))

    def close(self) -> None:
        self._reader.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
