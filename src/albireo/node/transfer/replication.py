"""Replication: sends the follower what it lacks of the log, piece by piece, out of the turns of CORE; takes a piece.

How far it got and how much is under way `machine.pair.outflow` knows; here the pieces are read and sent.

Spec: design/pair.md, rule 3; design/log-and-feed.md, Feed.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.frame import Frame, FrameHeader, last_of
from albireo.codec.pair_message import Frames, Heartbeat
from albireo.log import Backlogged, Corrupted, FramesRefused, Pruned, ReadFailed
from albireo.log.log import Log
from albireo.machine.pair.events import Replicate
from albireo.machine.pair.outflow import Outflow
from albireo.machine.pair.party import Party
from albireo.model.instant import Instant
from albireo.model.position import Position
from albireo.runtime import ActorContext, Link

PIECES_PER_TURN: Final = 4
FRAMES_PER_TURN: Final = 2_000
"""Frames at which a turn leaves the next piece to a turn of its own: to read and to check that many takes some 6 ms."""


class Replication:
    """The sending side; one per run of CORE."""

    def __init__(
        self,
        actor: ActorContext,
        log: Log,
        own: Party,
        links: list[Link],
        refuse: Callable[[str], None],
        lost: Callable[[int], object],
    ) -> None:
        """`refuse`: told why nothing more is sent in this session; `lost`: told the session if only a new one helps."""
        self._actor = actor
        self._log = log
        self._own = own
        self._links = links
        self._refuse = refuse
        self._lost = lost
        self._outflow = Outflow()
        self._is_posted = False

    def asked(self, more: Replicate, now: Instant) -> None:
        """Send more, as the member machine asks for."""
        self._outflow.asked(more, now)
        self.pump()

    def acked(self, session: int, durable: int) -> None:
        self._outflow.acked(session, durable)

    def end(self) -> None:
        """End the session: nobody is led any more."""
        self._outflow.end()

    def marked(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat, saying what was sent instead of what is to be sent: a follower that catches up has no gap."""
        outflow = self._outflow
        if beat.session and beat.session == outflow.session:
            return msgspec.structs.replace(beat, sent_to=min(beat.sent_to, outflow.sent))
        return beat

    def pump(self) -> None:
        """Send what fits; the rest in a turn of its own, before which no letter of this one has more sent."""
        end, committed = self._log.end.sequence, self._log.committed.sequence
        if self._is_posted or not self._outflow.lacks(end):
            return
        self._outflow.passed(end, committed, self._actor.turns.total_ns, self._actor.now())
        sent = 0
        for _ in range(PIECES_PER_TURN):
            size = self._wanted()
            piece = self._read(size) if size else b""
            last, count = last_of(piece) if piece else (None, 0)
            if last is None or not self._send(piece, last):
                return  # A piece that no link takes now goes with the next heartbeat's turn.
            sent += count
            if sent >= FRAMES_PER_TURN:
                break
        if self._wanted():
            self._is_posted = True
            self._actor.call(self._pump_more)

    def _wanted(self) -> int:
        return self._outflow.wanted(self._log.end.sequence, self._log.committed.sequence)

    def _pump_more(self) -> None:
        self._is_posted = False
        self.pump()

    def _read(self, size: int) -> bytes:
        """Read the next piece; end the session where the log can't go on: the follower only stays behind then."""
        try:
            return self._log.read_appended(self._outflow.sent, size)
        except (Pruned, Corrupted, ReadFailed) as error:
            self._refuse(f"{type(error).__name__.lower()}: no more of the log")
            self._actor.log.error("follower_not_served", after=self._outflow.sent, reason=str(error))
            session = self._outflow.session
            self._outflow.end()
            if isinstance(error, Pruned):
                self._lost(session)
            return b""

    def _send(self, piece: bytes, header: FrameHeader) -> bool:
        """Send a piece whose last frame has this header; False: no link takes it."""
        own, outflow, last = self._own, self._outflow, header.last
        message = Frames(
            **own.peer_head,
            to_run=outflow.to_run,
            epoch=outflow.epoch,
            session=outflow.session,
            previous=outflow.sent,
            last=last,
            committed=self._log.committed,
        )
        if not self._links[own.path].send(message, [piece]):
            return False
        outflow.took(last.sequence, len(piece))
        return True


def received(log: Log, payload: object, last: Position) -> tuple[list[Frame], str]:
    """Append frames of the holder, which are said to end at `last`.

    Returns:
        what was appended, and why that is not what was said; empty: it is.
    """
    assert isinstance(payload, bytes | memoryview)
    try:
        appended = log.append_raw(payload)
    except (FramesRefused, Backlogged) as error:
        return [], str(error)
    return appended, "" if log.end == last else f"the frames end at {log.end}, their message says {last}"
