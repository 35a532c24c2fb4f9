"""Follower: pulls a log from its leader, and never misses a record without knowing it.

Messages get lost below (a reconnect, a full pipe), so position, gap detection and asking again live here. The follower
says what it has, takes only data that continues exactly there, and acknowledges what its owner has made durable.

Not decided here: what to do with the frames (the owner's), and how to cut (the owner carries out `CutTo`).

          connected: Hello           resume
    Lost ------------------> Asking ---------> Following --+ data that continues: Deliver, Ack
      ^                        ^  |                |  ^    |
      |       silence, refused |  +--silence-------+  +----+
      +------------------------+        gap: Hello

Invariants
    Following: every record of the filter up to `position` was delivered, in order, once in this life of the follower.
    Credit:    the leader never has more than `capacity_bytes` under way or undigested.
    History:   it names the epoch of `position`, so that a leader can tell which records are part of its log.
    Epoch:     nothing is taken, and nothing given up, at the word of a lower epoch than was followed once.

Spec: design/log-and-feed.md, Feed.
"""

from collections import deque
from enum import Enum
from typing import Final, assert_never

import msgspec

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, FeedState
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, EpochHistory, Position

SILENCE_NS: Final = 2 * SECOND
"""Without a word from the leader for this long, hello is said again; the leader says ALIVE every 500 ms."""
ASK_AGAIN_NS: Final = 500 * MS
"""Pause between two hellos that were not answered."""
WORTH_TELLING: Final = 4
"""Room is told of when this part of the capacity (1 / n) has become free: the leader still has the rest. State comes
ten times a second at most, and is told of each time."""


class FollowerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a follower asks for."""

    name: str
    is_named: bool = False
    """Holds back the leader's retention."""
    streams: tuple[int, ...] = ()
    """Empty: all."""
    mode: str = "log"
    capacity_bytes: int = 8 << 20
    """Bytes of frames that may be under way or received and not yet digested."""
    max_wait_ms: int = 0
    """So long the leader may keep little things back, to send them in one piece."""


class Phase(Enum):
    LOST = "lost"
    ASKING = "asking"
    FOLLOWING = "following"


class LinkUp(msgspec.Struct, frozen=True):
    """A leader may be there now: first start, or a reconnect."""


class LinkDown(msgspec.Struct, frozen=True):
    """The leader is certainly gone."""


class Received(msgspec.Struct, frozen=True):
    """One message from the leader, with the size of its raw parts."""

    message: FeedAnswer | FeedData | FeedState | FeedAlive
    size_bytes: int = 0


class Digested(msgspec.Struct, frozen=True):
    """The owner has worked off everything delivered up to `position` (its memory is free again)."""

    position: Position


class MadeDurable(msgspec.Struct, frozen=True):
    """The owner has synced everything up to `position`."""

    position: Position


class Say(msgspec.Struct, frozen=True):
    """Send to the leader."""

    message: FeedHello | FeedAck


class Deliver(msgspec.Struct, frozen=True):
    """Hand the raw parts of the message just received to the owner."""

    message: FeedData | FeedState


class CutTo(msgspec.Struct, frozen=True):
    """Put everything above `position` into quarantine; the log went another way there."""

    position: Position
    verdict: str


class StartOver(msgspec.Struct, frozen=True):
    """Too old (or nothing yet): forget the state held and take what follows as a snapshot from `position` on."""

    position: Position


class Noted(msgspec.Struct, frozen=True):
    """Something worth a line in the log: gap, refused, silence, stale epoch."""

    event: str
    detail: str = ""


Event = LinkUp | LinkDown | Received | Digested | MadeDurable | TimePassed
Effect = Say | Deliver | CutTo | StartOver | Noted


class Follower:
    """The machine; one per followed log."""

    def __init__(self, config: FollowerConfig, durable: Position = BEGINNING, log_id: bytes = b"") -> None:
        self.config = config
        self.phase = Phase.LOST
        self.log_id = log_id
        self.history = EpochHistory()
        self.epoch = durable.epoch
        self.position = durable
        """Last record delivered."""
        self.durable = durable
        self.committed = Position()
        """Of the leader, as last heard: `committed - position` is the lag."""
        self.gaps = 0
        self._undigested: deque[tuple[Position, int]] = deque()
        self._undigested_bytes = 0
        self._freed_bytes = 0
        """Digested since the leader was told last."""
        self._ask_at: Instant | None = None
        self._is_level = False

    @property
    def is_level(self) -> bool:
        """The leader has said since the last hello that it has nothing more for us."""
        return self._is_level and self.phase is Phase.FOLLOWING

    def deadline(self) -> Instant | None:
        return self._ask_at

    def step(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case LinkUp():
                return self._ask(now)
            case LinkDown():
                self.phase = Phase.LOST
                self._ask_at = None
                return []
            case TimePassed():
                if self._ask_at is None or now < self._ask_at:
                    return []
                silent = self.phase is Phase.FOLLOWING
                noted: list[Effect] = [Noted("leader_silent")] if silent else []
                return noted + self._ask(now)
            case Digested(position):
                return self._digested(position)
            case MadeDurable(position):
                self.durable = max(self.durable, position)
                return [self._ack()] if self.phase is Phase.FOLLOWING else []
            case Received(message, size):
                return self._received(message, size, now)
            case _:
                assert_never(event)

    def _ask(self, now: Instant) -> list[Effect]:
        self.phase = Phase.ASKING
        self._is_level = False
        self._ask_at = Instant(now + ASK_AGAIN_NS)
        hello = FeedHello(
            follower=self.config.name,
            is_named=self.config.is_named,
            log_id=self.log_id,
            history=self.history.entries,
            position=self.position,
            streams=self.config.streams,
            mode=self.config.mode,
            credit_bytes=self._credit(),
            max_wait_ms=self.config.max_wait_ms,
        )
        return [Say(hello)]

    def _received(
        self, message: FeedAnswer | FeedData | FeedState | FeedAlive, size_bytes: int, now: Instant
    ) -> list[Effect]:
        if self.phase is Phase.LOST:
            return []
        match message:
            case FeedAnswer():
                return self._answered(message, now)
            case FeedAlive():
                if self._is_stale(message.epoch):
                    return [Noted("stale_epoch", f"alive of epoch {message.epoch}")]
                self.committed = message.committed
                self._is_level = message.sent <= self.position and message.scanned >= message.committed.sequence
                return self._alive(message.sent, now) if self.phase is Phase.FOLLOWING else []
            case FeedData() | FeedState():
                return self._data(message, size_bytes, now)
            case _:
                assert_never(message)

    def _alive(self, sent: Position, now: Instant) -> list[Effect]:
        if sent > self.position:
            return self._missed(sent, now)
        self._ask_at = Instant(now + SILENCE_NS)
        return [self._ack()]  # An acknowledgement can get lost too, and credit with it.

    def _missed(self, previous: Position, now: Instant) -> list[Effect]:
        self.gaps += 1
        return [Noted("feed_gap", f"{self.position} .. {previous}"), *self._ask(now)]

    def _answered(self, answer: FeedAnswer, now: Instant) -> list[Effect]:
        if self.phase is not Phase.ASKING:
            return []
        if answer.verdict in ("refused", "behind"):
            return [Noted(answer.verdict, answer.reason)]
        is_other_log = self.log_id not in (b"", answer.log_id)
        history = EpochHistory(answer.history)
        if answer.verdict != "resume" and not is_other_log and self._is_stale(history.epoch):
            return [Noted("stale_epoch", f"{answer.verdict} of epoch {history.epoch}")]
        self.phase = Phase.FOLLOWING
        self._ask_at = Instant(now + SILENCE_NS)
        self.log_id = answer.log_id
        self.history = history
        self.epoch = history.epoch if is_other_log else max(self.epoch, history.epoch)
        if answer.verdict == "resume":
            return []
        self.position = answer.position
        self.durable = min(self.durable, answer.position)
        self._undigested.clear()
        self._undigested_bytes = 0
        if answer.verdict == "snapshot":
            return [StartOver(answer.position)]
        return [CutTo(answer.position, answer.verdict)]

    def _data(self, data: FeedData | FeedState, size_bytes: int, now: Instant) -> list[Effect]:
        if self.phase is not Phase.FOLLOWING:
            return []
        if self._is_stale(data.epoch):
            return [Noted("stale_epoch", f"data of epoch {data.epoch}")]
        last = data.last if isinstance(data, FeedData) else data.position
        if data.previous != self.position:
            if last <= self.position:
                return []  # A repeat that an earlier hello asked for.
            return self._missed(data.previous, now)
        self.epoch = max(self.epoch, data.epoch)
        self.position = last
        self.committed = max(self.committed, last)
        self._ask_at = Instant(now + SILENCE_NS)
        self._undigested.append((last, size_bytes))
        self._undigested_bytes += size_bytes
        if isinstance(data, FeedData) and 0 < self.history.epoch < data.epoch:
            return [Deliver(data), *self._ask(now)]  # Where the new epoch began must be known, should the log fork.
        return [Deliver(data)]

    def _digested(self, position: Position) -> list[Effect]:
        while self._undigested and self._undigested[0][0] <= position:
            size_bytes = self._undigested.popleft()[1]
            self._undigested_bytes -= size_bytes
            self._freed_bytes += size_bytes
        is_worth_it = WORTH_TELLING * self._freed_bytes >= self.config.capacity_bytes or self.config.mode == "state"
        return [self._ack()] if is_worth_it and self.phase is Phase.FOLLOWING else []

    def _ack(self) -> Say:
        self._freed_bytes = 0
        return Say(FeedAck(received=self.position, durable=self.durable, credit_bytes=self._credit()))

    def _credit(self) -> int:
        return max(0, self.config.capacity_bytes - self._undigested_bytes)

    def _is_stale(self, epoch: int) -> bool:
        return epoch < self.epoch
