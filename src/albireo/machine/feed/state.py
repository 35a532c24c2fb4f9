"""State feed: the latest value per key, for followers that want to see and not to store.

The first change after a silence leaves at once; while changes go on they are joined, and leave once per tick. A slow
follower gets conflated state, never a growing queue: everything that changed since its last position, once it has room.
Followers at the same position share one encoding.

Not decided here: the content of the state (the folds).
Spec: design/log-and-feed.md, Feed, mode `state`.
"""

from typing import Final, Protocol

from albireo.codec import message as codec
from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedHello, FeedState
from albireo.machine.feed.leader import ALIVE_NS, GONE_NS, Credit, LogFacts, crowded
from albireo.machine.node.turn import Turn
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import MS, Instant
from albireo.model.position import Position
from albireo.model.principal import ANYBODY

TICK_NS: Final = 100 * MS
"""Least time between two deltas of a steady stream of changes: as often as an eye can follow."""


class StateSource(Protocol):
    """Source of the state: the folds in CORE, a plain table in tests."""

    def state_since(
        self, sequence: int, epoch: int, position: Position, previous: Position
    ) -> tuple[FeedState, list[bytes | memoryview]]:
        """Every change after `sequence`, as one message with its raw parts; the whole state for sequence -1."""
        ...


class _Viewer:
    __slots__ = ("credit", "heard_at", "is_new", "previous", "who")

    def __init__(self, who: tuple[str, str], credit_bytes: int, now: Instant) -> None:
        """`who`: principal and name of the follower."""
        self.who = who
        self.previous = Position()
        self.is_new = True
        self.credit = Credit(credit_bytes)
        self.heard_at = now

    def takes(self, committed: Position) -> bool:
        """True if it lags and has room."""
        return (self.is_new or self.previous < committed) and self.credit.left > 0


class StateFeed:
    """The machine; leader of all followers in mode `state`."""

    def __init__(self, source: StateSource) -> None:
        self._source = source
        self._viewers: dict[bytes, _Viewer] = {}
        self._tick_at = Instant(0)
        self._alive_at = Instant(0)
        self.credit_cut = 0
        """Number of times that a follower gave credit out of bounds."""

    def hello(self, to: bytes, hello: FeedHello, facts: LogFacts, now: Instant, principal: str = ANYBODY) -> FeedAnswer:
        """Answer a hello, always with a snapshot: the state is small, and the asker has missed changes."""
        if not 0 < len(hello.follower) <= NAME_CHARS_MAX:
            reason = f"a name of {len(hello.follower)} characters, not 1..{NAME_CHARS_MAX}"
            return FeedAnswer(verdict="refused", reason=reason)
        who = (principal, hello.follower)
        for other in [sender for sender, viewer in self._viewers.items() if viewer.who == who]:
            del self._viewers[other]
        full = crowded([one.who[0] for one in self._viewers.values()], principal)
        if full:
            return FeedAnswer(verdict="refused", reason=full)
        self._viewers[to] = viewer = _Viewer(who, hello.credit_bytes, now)
        self.credit_cut += viewer.credit.given != hello.credit_bytes
        return FeedAnswer(verdict="snapshot", log_id=facts.log_id, history=facts.history.entries)

    def ack(self, to: bytes, ack: FeedAck, now: Instant) -> bool:
        viewer = self._viewers.get(to)
        if viewer is None:
            return False
        viewer.heard_at = now
        self.credit_cut += not viewer.credit.give(ack.credit_bytes)
        viewer.credit.received(ack.received)
        return True

    def lost(self, to: bytes) -> None:
        self._viewers.pop(to, None)

    def deadline(self, committed: Position) -> Instant | None:
        """When `time_passed` is due."""
        if not self._viewers:
            return None
        is_owing = any(viewer.takes(committed) for viewer in self._viewers.values())
        return min(self._tick_at, self._alive_at) if is_owing else self._alive_at

    def time_passed(
        self, epoch: int, committed: Position, end: Position, now: Instant, turn: Turn, *, is_acting: bool
    ) -> None:
        """A delta to each viewer that lags and has room, once per tick; a life sign now and then."""
        if now >= self._tick_at:
            self._deliver(epoch, committed, now, turn)
        if self._viewers and now >= self._alive_at:
            self._alive_at = Instant(now + ALIVE_NS)
            for gone in [to for to, viewer in self._viewers.items() if now - viewer.heard_at > GONE_NS]:
                del self._viewers[gone]
            for to, viewer in self._viewers.items():
                alive = FeedAlive(epoch=epoch, is_acting=is_acting, committed=committed, end=end, sent=viewer.previous)
                turn.send(to, alive)

    def _deliver(self, epoch: int, committed: Position, now: Instant, turn: Turn) -> None:
        owed = [(to, viewer) for to, viewer in self._viewers.items() if viewer.takes(committed)]
        if not owed:
            return
        # A tick that comes late doesn't put off the next: changes that come once per tick would be joined now and then.
        is_steady = now - self._tick_at < TICK_NS
        self._tick_at = Instant((self._tick_at if is_steady else now) + TICK_NS)
        encoded: dict[int, tuple[FeedState, list[bytes | memoryview], int]] = {}
        for to, viewer in owed:
            since = -1 if viewer.is_new else viewer.previous.sequence
            if since not in encoded:
                message, raw = self._source.state_since(since, epoch, committed, viewer.previous)
                size = sum(len(part) for part in codec.encode(message, raw))
                encoded[since] = message, raw, size
            message, raw, size = encoded[since]
            turn.send(to, message, raw)
            viewer.previous, viewer.is_new = committed, False
            viewer.credit.sent(committed, size)
