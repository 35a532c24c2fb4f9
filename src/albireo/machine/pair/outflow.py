"""Outflow: how far the follower of the present session was sent the log, and how much of it is under way.

The member machine says that there is more (`Replicate`); this says which piece goes next. A gap that the follower
reports sets it back to what arrived. What is committed and not yet at the follower is old: nobody waits for it, so it
goes at a pace (`machine.feed.pace`). A follower in the set lacks nothing that is committed, and is never kept waiting.

Invariants
    sent:    every frame of the session up to `sent` was handed to a link, in order, since the session or its last gap.
    flight:  not more than WINDOW_BYTES, save for one frame that is larger.

Spec: design/log-and-feed.md, Feed (bounded catch-up); design/pair.md, rule 6.
"""

from collections import deque
from typing import Final

from albireo.machine.feed.pace import Pace, Seen
from albireo.machine.pair.events import Replicate
from albireo.model.instant import MS, Instant

WINDOW_BYTES: Final = 8 << 20
"""Most bytes sent and not yet durable at the follower: some 70 ms of a gigabit link, and less than a log queues."""
PIECE_BYTES: Final = 256 << 10
NEAR_PIECES: Final = WINDOW_BYTES // PIECE_BYTES
"""Pieces from the commit position within which nothing is old: before the set grows commits wait for the follower."""
AGAIN_NS: Final = 100 * MS
"""Time for which reports of a gap are one: every piece behind it reports it."""


class Outflow:
    """The sending side of one tenure; a new session begins it anew."""

    def __init__(self) -> None:
        self.session = 0
        self.to_run = 0
        self.epoch = 0
        self.sent = 0
        self._pace = Pace()
        self._piece_records = 0
        """Number of records in the last piece."""
        self._flight: deque[tuple[int, int]] = deque()
        self._flight_bytes = 0
        self._set_back_to = -1
        self._set_back_at = Instant(0)

    def asked(self, more: Replicate, now: Instant) -> None:
        """Take note that there is more to send; behind a gap, or in a new session, from `more.after` on."""
        if (more.session, more.to_run, more.epoch) != (self.session, self.to_run, self.epoch):
            self.session, self.to_run, self.epoch = more.session, more.to_run, more.epoch
            self._pace = Pace()
            self._set_back(more.after, now)
        elif more.after < self.sent:
            is_known = more.after == self._set_back_to and now - self._set_back_at < AGAIN_NS
            if not is_known:
                self._set_back(more.after, now)

    def _set_back(self, after: int, now: Instant) -> None:
        self.sent = after
        self._flight.clear()
        self._flight_bytes = 0
        self._set_back_to, self._set_back_at = after, now

    def acked(self, session: int, durable: int) -> None:
        """Take note that the follower has everything up to `durable` on its disk."""
        if session != self.session:
            return
        while self._flight and self._flight[0][0] <= durable:
            self._flight_bytes -= self._flight.popleft()[1]

    def passed(self, end: int, committed: int, busy_ns: int, now: Instant) -> None:
        """Let the pace look: the log ends at `end`; the loop spent `busy_ns` in turns in its life."""
        if self.session:
            self._pace.passed(Seen(end, committed, self.sent, busy_ns), now)

    def lacks(self, end: int) -> bool:
        """True: there is a follower, and not all was sent to it of a log that ends at `end`."""
        return bool(self.session) and self.sent < end

    def wanted(self, end: int, committed: int) -> int:
        """Bytes to read behind `sent` and send now; 0: nothing."""
        if not self.lacks(end) or (self._is_old(committed) and not self._pace.allows):
            return 0
        return max(0, min(PIECE_BYTES, WINDOW_BYTES - self._flight_bytes))

    def _is_old(self, committed: int) -> bool:
        return committed - self.sent > NEAR_PIECES * self._piece_records

    def took(self, last: int, size_bytes: int) -> None:
        """Take note that the piece up to `last` was handed to the link."""
        self._piece_records = last - self.sent
        self._pace.took(self._piece_records)
        self.sent = last
        self._flight.append((last, size_bytes))
        self._flight_bytes += size_bytes

    def end(self) -> None:
        """End the session: nobody is led any more."""
        self.session = 0
        self._set_back(0, Instant(0))
