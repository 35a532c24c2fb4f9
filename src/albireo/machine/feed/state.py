"""State feed: the latest value per key, for followers that want to see and not to store.

The first change after a silence leaves at once; while changes go on they are joined, and leave once per tick. A tick is
short as long as what leaves costs little. A slow follower gets conflated state, never a growing queue: everything that
changed since its last position, once it has room. A long delta goes in pieces (state_piece.py), so that CORE does other
work between them; followers at the same point of the same delta share one encoding.

    tick --> round: each viewer that lags and has room is queued --> per turn, the queue up to so many bytes
                        ^                                                    |
                        +---------- the delta goes on, there is room --------+

A follower that comes back goes on from the position that it has, and behind the pieces that it has of the next delta,
if they are of this log's present epoch; else it takes the whole state.

Not decided here: the content of the state (the folds, the mirrors).
Spec: design/log-and-feed.md, Feed, mode `state`; ADR-0200.
"""

from collections import deque
from typing import Final

import msgspec

from albireo.codec import message as codec
from albireo.codec.delta import StateCursor
from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedHello
from albireo.machine.feed.beat import Beat
from albireo.machine.feed.credit import Credit
from albireo.machine.feed.leader import FOLLOWERS_MAX, GONE_NS, LogFacts, bad_follower, crowded
from albireo.machine.fold.state_piece import PIECE_BYTES, START, WHOLE, StateAsked, StatePiece, StateSource
from albireo.machine.kernel.turn import Turn
from albireo.model.instant import MS, Instant
from albireo.model.position import Position
from albireo.model.principal import ANYBODY

TICK_LEAST_NS: Final = 20 * MS
"""Least time between two deltas of a steady stream of few changes: two levels up it is seen before an eye notices."""
TICK_NS: Final = 100 * MS
"""Least time between two deltas where they cost much: as often as an eye can follow."""
MESSAGE_COST_NS: Final = 600_000
"""Part of the tick that each message adds: ten times what it costs to send and to take one."""
BYTE_COST_NS: Final = 500
"""Part of the tick that each byte adds: ten times what it costs a client in Python to take it."""
MESSAGE_BYTES: Final = 1 << 10
"""Bytes by which a message counts beyond its own, where bytes bound a turn."""
UNBOUNDED: Final = 1 << 40


class _Delta(msgspec.Struct):
    """A delta of which some pieces have gone."""

    position: Position
    since: int
    after: StateCursor = START
    number: int = 0
    """Number of the next piece."""


class _Viewer:
    __slots__ = ("credit", "delta", "heard_at", "is_owed", "is_queued", "previous", "since", "takes_pieces", "who")

    def __init__(self, who: tuple[str, str], hello: FeedHello, now: Instant) -> None:
        """`who`: principal and name of the follower."""
        self.who = who
        self.previous = Position()
        self.since = WHOLE
        """Sequence of `previous`; WHOLE: nothing of the state is there."""
        self.is_owed = True
        """A delta is due though nothing may have changed: by it the follower learns that it has all."""
        self.is_queued = False
        self.delta: _Delta | None = None
        self.takes_pieces = hello.in_pieces
        self.credit = Credit(hello.credit_bytes)
        self.heard_at = now

    def takes(self, committed: Position) -> bool:
        """True if it lags and has room."""
        lags = self.is_owed or self.delta is not None or self.previous < committed
        return lags and self.credit.left > 0


class StateFeed:
    """The machine; leader of all followers in mode `state`."""

    def __init__(self, source: StateSource, piece_bytes: int = PIECE_BYTES) -> None:
        self.followers_max = FOLLOWERS_MAX
        self._source = source
        self._piece_bytes = piece_bytes
        self._viewers: dict[bytes, _Viewer] = {}
        self._queue: deque[bytes] = deque()
        """Viewers to be given something in this round."""
        self._tick_at = Instant(0)
        self._round_at = Instant(0)
        self._round_cost_ns = 0
        self._beat: Beat[bytes] = Beat()
        self.credit_cut = 0
        """Number of times that a follower gave credit out of bounds."""

    def hello(self, to: bytes, hello: FeedHello, facts: LogFacts, now: Instant, principal: str = ANYBODY) -> FeedAnswer:
        """Answer a hello: with `resume` if all that the follower lacks are changes, else with a snapshot."""
        if (bad := bad_follower(hello)) is not None:
            return FeedAnswer(verdict="refused", refusal=bad)
        who = (principal, hello.follower)
        for other in [sender for sender, viewer in self._viewers.items() if viewer.who == who]:
            del self._viewers[other]
        full = crowded([one.who[0] for one in self._viewers.values()], principal, self.followers_max)
        if full is not None:
            return FeedAnswer(verdict="refused", refusal=full)
        self._viewers[to] = viewer = _Viewer(who, hello, now)
        self.credit_cut += viewer.credit.given != hello.credit_bytes
        verdict = "snapshot"
        if _goes_on(hello, facts):
            verdict, viewer.previous, viewer.since = "resume", hello.position, hello.position.sequence or WHOLE
            if (had := hello.delta) is not None:
                since = WHOLE if had.is_whole else viewer.since
                viewer.delta = _Delta(had.position, since, had.after, had.pieces)
        return FeedAnswer(verdict=verdict, position=viewer.previous, log_id=facts.log_id, history=facts.history.entries)

    def ack(self, to: bytes, ack: FeedAck, now: Instant) -> bool:
        viewer = self._viewers.get(to)
        if viewer is None:
            return False
        viewer.heard_at = now
        self.credit_cut += not viewer.credit.give(ack.credit_bytes)
        viewer.credit.received(ack.received, ack.pieces)
        if viewer.delta is not None:
            self._enqueue(to, viewer)
        return True

    def lost(self, to: bytes) -> None:
        self._viewers.pop(to, None)

    def deadline(self, committed: Position) -> Instant | None:
        """When `time_passed` is due."""
        if not self._viewers:
            return None
        if self._queue:
            return min(self._round_at, self._beat.at)
        is_owing = any(viewer.takes(committed) for viewer in self._viewers.values())
        return min(self._tick_at, self._beat.at) if is_owing else self._beat.at

    def time_passed(
        self,
        epoch: int,
        committed: Position,
        end: Position,
        now: Instant,
        turn: Turn,
        *,
        is_acting: bool,
        room_bytes: int = PIECE_BYTES,
    ) -> int:
        """A delta to each viewer that lags and has room, once per tick; a life sign now and then.

        Args:
            room_bytes: bytes at which the turn leaves the rest to the next one.
        Returns:
            Bytes that were encoded and sent.
        """
        if now >= self._tick_at and not self._queue:
            self._begin_round(committed, now)
        spent = self._serve(epoch, committed, turn, room_bytes)
        if self._viewers and now >= self._beat.at:
            told = self._beat.due(now, self._viewers)
            for gone in [to for to, viewer in self._viewers.items() if now - viewer.heard_at > GONE_NS]:
                del self._viewers[gone]
            for to, viewer in ((to, self._viewers[to]) for to in told if to in self._viewers):
                alive = FeedAlive(epoch=epoch, is_acting=is_acting, committed=committed, end=end, sent=viewer.previous)
                pieces = 0 if viewer.delta is None else viewer.delta.number
                turn.send(to, msgspec.structs.replace(alive, pieces=pieces))
        return spent

    def _begin_round(self, committed: Position, now: Instant) -> None:
        for to, viewer in self._viewers.items():
            if viewer.takes(committed):
                self._enqueue(to, viewer)
        if self._queue:
            # A tick that comes late doesn't put off the next: changes that come once per tick would be joined now and
            # then.
            self._round_at = self._tick_at if now - self._tick_at < TICK_LEAST_NS else now
            self._round_cost_ns = 0

    def _enqueue(self, to: bytes, viewer: _Viewer) -> None:
        if not viewer.is_queued:
            viewer.is_queued = True
            self._queue.append(to)

    def _serve(self, epoch: int, committed: Position, turn: Turn, room_bytes: int) -> int:
        """Give the queued viewers a piece each, as far as the room goes."""
        spent = 0
        encoded: dict[StateAsked, tuple[StatePiece, int]] = {}
        while self._queue and spent < room_bytes:
            to = self._queue.popleft()
            viewer = self._viewers.get(to)
            if viewer is None:
                continue
            viewer.is_queued = False
            if not viewer.takes(committed):
                continue
            asked = self._ask(viewer, epoch, committed)
            if asked not in encoded:
                piece = self._piece(viewer, asked, committed)
                size = sum(len(part) for part in codec.encode(piece.message, piece.raw))
                encoded[asked] = piece, size
                spent += size
            piece, size = encoded[asked]
            spent += MESSAGE_BYTES
            self._round_cost_ns += MESSAGE_COST_NS + BYTE_COST_NS * size
            turn.send(to, piece.message, piece.raw)
            self._given(to, viewer, piece, size)
        if spent:
            rest = min(max(self._round_cost_ns, TICK_LEAST_NS), TICK_NS)
            self._tick_at = Instant(self._round_at + rest)
        return spent

    def _ask(self, viewer: _Viewer, epoch: int, committed: Position) -> StateAsked:
        delta = viewer.delta or _Delta(committed, viewer.since)
        return StateAsked(
            since=delta.since,
            epoch=epoch,
            position=delta.position,
            previous=viewer.previous,
            after=delta.after,
            number=delta.number,
            bytes_max=viewer.credit.piece(MESSAGE_BYTES, self._piece_bytes) if viewer.takes_pieces else UNBOUNDED,
        )

    def _piece(self, viewer: _Viewer, asked: StateAsked, committed: Position) -> StatePiece:
        piece = self._source.state_piece(asked)
        if piece is None:
            viewer.delta = None
            anew = msgspec.structs.replace(asked, since=WHOLE, position=committed, after=START, number=0)
            piece = self._source.state_piece(anew)
        assert piece is not None, "the first piece of a delta can always be told"
        return piece

    def _given(self, to: bytes, viewer: _Viewer, piece: StatePiece, size_bytes: int) -> None:
        message = piece.message
        viewer.credit.sent(message.position, size_bytes, message.piece)
        if piece.after is None:
            viewer.previous, viewer.since, viewer.delta = message.position, message.position.sequence, None
            viewer.is_owed = message.piece > 0  # It may have been long on its way.
        else:
            viewer.delta = _Delta(message.position, piece.since, piece.after, message.piece + 1)
            if viewer.credit.left > 0:
                self._enqueue(to, viewer)


def _goes_on(hello: FeedHello, facts: LogFacts) -> bool:
    """The follower has the state at a position of this log's present epoch, from which changes can be told.

    Within an epoch nothing that was committed is taken back. A position of an epoch before is not looked into: a
    takeover, or a start of a node that stands alone, costs a snapshot.
    """
    last = facts.history.entries[-1:]
    is_here = bool(hello.log_id) and hello.log_id == facts.log_id and bool(last) and hello.history[-1:] == last
    ahead = hello.position if hello.delta is None else max(hello.position, hello.delta.position)
    return hello.in_pieces and is_here and 0 < ahead.sequence <= facts.committed.sequence
