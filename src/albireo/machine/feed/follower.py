"""Follower: pulls a log from its leader, and never misses a record without knowing it.

Messages get lost below (a reconnect, a full pipe), so position, gap detection and asking again live here. The follower
says how far it has come, takes only data that continues exactly there, and acknowledges the records that its owner has
made durable.

Not decided here: the use of the frames, and how to cut (the owner carries out `CutBack`).

          connected: Hello           resume
    Lost ------------------> Asking ---------> Following --+ data that continues: Deliver, Ack
      ^                        ^  |                |  ^    |
      |       silence, refused |  +--silence-------+  +----+
      +------------------------+        gap: Hello

Invariants
    Following: every record of the filter up to `position` was delivered, in order, once by this follower.
    Credit:    the leader never has more than `capacity_bytes` under way or undigested.
    History:   `history` names the epoch of `position`, so that a leader can tell which records are part of its log.
    Epoch:     no message of an epoch below the highest followed one makes the follower take or give up anything.

Spec: design/log-and-feed.md, Feed.
"""

from collections import deque
from enum import Enum
from typing import Final, assert_never

import msgspec

from albireo.codec.delta import StateDelta
from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, FeedState
from albireo.machine.feed.window import FeedWindow
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, EpochHistory, Position

SILENCE_NS: Final = 2 * SECOND
"""After this long without a message of the leader, hello is said again; the leader says ALIVE every 500 ms."""
ASK_AGAIN_NS: Final = 500 * MS
"""Pause before a hello that was not answered is said again; it doubles, and is above what an answer took before."""
DOUBLINGS_MAX: Final = 3
WORTH_TELLING: Final = 4
"""The leader is told of free room once this part of the window (1 / n) has become free; until then it has the rest.
State comes ten times a second at most, and each time is acknowledged."""


class FollowerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Wishes of a follower: name, filter, mode, bounds."""

    name: str
    streams: tuple[int, ...] = ()
    """Streams of the filter; empty: all."""
    mode: str = "log"
    of: str = ""
    """Mode `state`: node below the leader's whose state is wanted; empty: that of the leader's node."""
    channel: int = 0
    """Number of this feed among those of one link."""
    capacity_bytes: int = 8 << 20
    """Bytes of frames that may be under way or received and not yet digested."""
    window_bytes: int = 0
    """Bytes of this capacity that are used at first; it goes with what the link carries (window.py). 0: all."""
    max_wait_ms: int = 0
    """Longest time for which the leader may keep few records back, to send them in one piece."""
    subscription_id: int = 0
    """Subscription whose messages are wanted of the actor `topics`."""
    not_before: Position = BEGINNING
    """Position that the actor has to have come to before it serves."""
    program: int = 0
    line: int = 0
    """Numbers of the program, and of its line, for the actor."""
    in_pieces: bool = False
    """Mode `log`: large frames may come in pieces, which the owner puts together."""
    ask_again_ns: int = 0
    """Time without an answer after which hello is said again; 0: ASK_AGAIN_NS."""
    silence_ns: int = 0
    """Time without a message of the leader after which hello is said again; 0: SILENCE_NS."""


class FollowPhase(Enum):
    LOST = "lost"
    ASKING = "asking"
    FOLLOWING = "following"


class LinkUp(msgspec.Struct, frozen=True):
    """A leader may be there now: this is the first start, or a reconnect."""


class LinkDown(msgspec.Struct, frozen=True):
    """The leader is certainly gone."""


class Received(msgspec.Struct, frozen=True):
    """One message from the leader, with the size of its raw parts."""

    message: FeedAnswer | FeedData | FeedState | FeedAlive
    size_bytes: int = 0


class Digested(msgspec.Struct, frozen=True):
    """The owner has worked off every delivery up to `position`; its memory is free again."""

    position: Position


class MadeDurable(msgspec.Struct, frozen=True):
    """The owner has synced every record up to `position`."""

    position: Position


class TellLeader(msgspec.Struct, frozen=True):
    """Effect: send this to the leader."""

    message: FeedHello | FeedAck


class Deliver(msgspec.Struct, frozen=True):
    """Effect: hand the raw parts of the message just received to the owner."""

    message: FeedData | FeedState


class CutBack(msgspec.Struct, frozen=True):
    """Effect: put every record above `position` into quarantine; the log went another way there."""

    position: Position
    verdict: str


class TakeSnapshot(msgspec.Struct, frozen=True):
    """Effect: forget the state held, and take the data that follows as a snapshot from `position` on.

    The follower has nothing yet, or the records that it wants are pruned.
    """

    position: Position


class Noted(msgspec.Struct, frozen=True):
    """Effect: write a line into the journal: gap, refused, silence, stale epoch."""

    event: str
    detail: str = ""


Event = LinkUp | LinkDown | Received | Digested | MadeDurable | TimePassed
Effect = TellLeader | Deliver | CutBack | TakeSnapshot | Noted


class Follower:
    """The machine of one followed log."""

    def __init__(self, config: FollowerConfig, durable: Position = BEGINNING, log_id: bytes = b"") -> None:
        self.config = config
        self._window = FeedWindow(config.window_bytes or config.capacity_bytes, config.capacity_bytes)
        self.phase = FollowPhase.LOST
        self.log_id = log_id
        self.history = EpochHistory()
        self.epoch = durable.epoch
        self.position = durable
        """Last record delivered."""
        self.durable = durable
        self.committed = Position()
        """The leader's commit position, as last heard: `committed - position` is the lag."""
        self.gaps = 0
        self._pieces = 0
        """Pieces that have come of a frame of the log."""
        self._delta: StateDelta | None = None
        """Delta behind `position` of which pieces were delivered; None: none was."""
        self._undigested: deque[tuple[Position, int]] = deque()
        self._undigested_bytes = 0
        self._freed_bytes = 0
        """Bytes digested since the leader was last told of free room."""
        self._in_pieces = config.in_pieces or config.mode == "state"
        self._ask_at: Instant | None = None
        self._asked_at: Instant | None = None
        """When hello was said, first since the last answer; None: it was answered."""
        self._asks = 0
        """Number of hellos without an answer."""
        self._is_level = False

    @property
    def is_level(self) -> bool:
        """The leader has said since the last hello that it has nothing more for this follower."""
        return self._is_level and self.phase is FollowPhase.FOLLOWING

    def deadline(self) -> Instant | None:
        return self._ask_at

    def step(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case LinkUp():
                self._asked_at, self._asks = None, 0
                return self._ask(now)
            case LinkDown():
                self.phase = FollowPhase.LOST
                self._ask_at = None
                return []
            case TimePassed():
                if self._ask_at is None or now < self._ask_at:
                    return []
                silent = self.phase is FollowPhase.FOLLOWING
                noted: list[Effect] = [Noted("leader_silent")] if silent else []
                return noted + self._ask(now)
            case Digested(position):
                return self._digested(position)
            case MadeDurable(position):
                self.durable = max(self.durable, position)
                return [self._ack()] if self.phase is FollowPhase.FOLLOWING else []
            case Received(message, size):
                return self._received(message, size, now)
            case _:
                assert_never(event)

    def _ask(self, now: Instant) -> list[Effect]:
        self.phase = FollowPhase.ASKING
        self._is_level = False
        self._pieces = 0
        self._asked_at = self._asked_at or now
        again_ns = max(self.config.ask_again_ns or ASK_AGAIN_NS, 2 * self._window.round_trip_ns)
        self._ask_at = Instant(now + (again_ns << min(self._asks, DOUBLINGS_MAX)))
        self._asks += 1
        hello = FeedHello(
            follower=self.config.name,
            log_id=self.log_id,
            history=self.history.entries,
            position=self.position,
            streams=self.config.streams,
            mode=self.config.mode,
            credit_bytes=self._credit(),
            max_wait_ms=self.config.max_wait_ms,
            of=self.config.of,
            in_pieces=self._in_pieces,
            delta=self._delta,
            channel=self.config.channel,
            subscription_id=self.config.subscription_id,
            not_before=self.config.not_before,
            program=self.config.program,
            line=self.config.line,
        )
        return [TellLeader(hello)]

    def _received(
        self, message: FeedAnswer | FeedData | FeedState | FeedAlive, size_bytes: int, now: Instant
    ) -> list[Effect]:
        if self.phase is FollowPhase.LOST:
            return []
        match message:
            case FeedAnswer():
                return self._answered(message, now)
            case FeedAlive():
                if self._is_stale(message.epoch):
                    return [Noted("stale_epoch", f"alive of epoch {message.epoch}")]
                self.committed = message.committed
                self._is_level = message.sent <= self.position and message.scanned >= message.committed.sequence
                return self._alive(message.sent, message.pieces, now) if self.phase is FollowPhase.FOLLOWING else []
            case FeedData() | FeedState():
                return self._data(message, size_bytes, now)
            case _:
                assert_never(message)

    def _alive(self, sent: Position, pieces: int, now: Instant) -> list[Effect]:
        if (sent, pieces) > (self.position, 0 if self._delta is None else self._delta.pieces):
            return self._missed(sent, now)
        self._ask_at = Instant(now + (self.config.silence_ns or SILENCE_NS))
        return [self._ack()]  # An acknowledgement can get lost too, and credit with it.

    def _missed(self, previous: Position, now: Instant) -> list[Effect]:
        self.gaps += 1
        return [Noted("feed_gap", f"{self.position} .. {previous}"), *self._ask(now)]

    def _answered(self, answer: FeedAnswer, now: Instant) -> list[Effect]:
        if self.phase is not FollowPhase.ASKING:
            return []
        self._window.answered(now - (self._asked_at or now))
        self._asked_at, self._asks = None, 0
        if answer.verdict in ("refused", "behind"):
            return [Noted(answer.verdict, str(answer.refusal))]
        is_other_log = self.log_id not in (b"", answer.log_id)
        history = EpochHistory.told(answer.history)
        if history is None:
            return [Noted("refused", "the epoch history of the answer goes backwards")]
        if answer.verdict != "resume" and not is_other_log and self._is_stale(history.epoch):
            return [Noted("stale_epoch", f"{answer.verdict} of epoch {history.epoch}")]
        self.phase = FollowPhase.FOLLOWING
        self._ask_at = Instant(now + (self.config.silence_ns or SILENCE_NS))
        self.log_id = answer.log_id
        self.history = history
        self.epoch = history.epoch if is_other_log else max(self.epoch, history.epoch)
        if answer.verdict == "resume":
            return []
        self.position, self._delta = answer.position, None
        self.durable = min(self.durable, answer.position)
        self._undigested.clear()
        self._undigested_bytes = 0
        if answer.verdict == "snapshot":
            return [TakeSnapshot(answer.position)]
        return [CutBack(answer.position, answer.verdict)]

    def _data(self, data: FeedData | FeedState, size_bytes: int, now: Instant) -> list[Effect]:
        if self.phase is not FollowPhase.FOLLOWING:
            return []
        if self._is_stale(data.epoch):
            return [Noted("stale_epoch", f"data of epoch {data.epoch}")]
        last = data.last if isinstance(data, FeedData) else data.position
        if data.previous != self.position:
            if last <= self.position:
                return []  # An earlier hello asked for this repeat.
            return self._missed(data.previous, now)
        if isinstance(data, FeedState):
            had, after = self._delta, data.after
            if data.piece and (had is None or (last, data.behind) != (had.position, had.after)):
                return self._missed(data.previous, now)
            self._delta = None if after is None else StateDelta(last, data.piece + 1, after, data.is_snapshot)
            goes_on = self._delta is not None
        else:
            if data.piece not in (0, self._pieces):
                return self._missed(data.previous, now)
            self._pieces = data.piece + 1 if data.goes_on else 0
            goes_on = data.goes_on
        self.epoch = max(self.epoch, data.epoch)
        self.position = self.position if goes_on else last
        self.committed = max(self.committed, last)
        self._ask_at = Instant(now + (self.config.silence_ns or SILENCE_NS))
        self._window.took(size_bytes, now)
        if isinstance(data, FeedData) and data.goes_on:  # Its frame is whole, and digested, only with what is to come.
            self._freed_bytes += size_bytes
            return [Deliver(data), *self._freed()]
        self._undigested.append((last, size_bytes))
        self._undigested_bytes += size_bytes
        if isinstance(data, FeedData) and 0 < self.history.epoch < data.epoch:
            return [Deliver(data), *self._ask(now)]  # The begin of the new epoch must be known, should the log fork.
        return [Deliver(data)]

    def _digested(self, position: Position) -> list[Effect]:
        while self._undigested and self._undigested[0][0] <= position:
            size_bytes = self._undigested.popleft()[1]
            self._undigested_bytes -= size_bytes
            self._freed_bytes += size_bytes
        return self._freed()

    def _freed(self) -> list[Effect]:
        is_worth_it = WORTH_TELLING * self._freed_bytes >= self._window.size or self.config.mode == "state"
        return [self._ack()] if is_worth_it and self.phase is FollowPhase.FOLLOWING else []

    def _ack(self) -> TellLeader:
        self._freed_bytes = 0
        ack = FeedAck(
            received=self.position,
            durable=self.durable,
            credit_bytes=self._credit(),
            pieces=self._pieces if self._delta is None else self._delta.pieces,
            channel=self.config.channel,
        )
        return TellLeader(ack)

    def _credit(self) -> int:
        return max(0, self._window.size - self._undigested_bytes)

    def _is_stale(self, epoch: int) -> bool:
        return epoch < self.epoch
