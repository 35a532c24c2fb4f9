"""Pace: how many old records go to a follower that catches up, while the live path works.

For each record that the live path appends, the follower is given `share` old ones. A share is always above 1, so the
follower gains whatever the rate of the live path. Every LOOK_NS decides how far above:

    nothing was appended, all is committed                  idle: no limit until something is appended
    nothing was appended, records wait for their commit     it stays: the disk is in need, and so is the live path
    the follower has not come nearer for PATIENCE_NS        it grows, up to MOST
    the loop has time                                       it grows, up to MOST
    else                                                    it shrinks, down to LEAST

A live path of few records must not slow the catch-up down: one piece per REST_NS goes in any case.

Invariants
    share:     LEAST <= share <= MOST; MOST is no limit.
    credit:    not more than SAVED_LOOKS earned: a follower that stood still makes up for it, within bounds.

Not decided here: which records are old, and how many bytes may be under way (`machine.pair.outflow`,
`machine.feed.leader`). Spec: design/log-and-feed.md, Feed (bounded catch-up); ADR-0129.
"""

from typing import Final

import msgspec

from albireo.model.instant import MS, SECOND, Instant

LEAST: Final = 1.125
"""A follower 1 GiB behind a live path of 40 MB/s has caught up after 200 s, or sooner by the pieces of each REST_NS."""
MOST: Final = 16.0
GROWTH: Final = 1.5
SAVED_LOOKS: Final = 4
LOOK_NS: Final = 200 * MS
"""Time between two looks: two heartbeats, at which even a sender of few records looks."""
PATIENCE_NS: Final = 2 * SECOND
"""A follower that syncs its disk stands still for some looks, and needs no larger share for it."""
BUSY: Final = 0.25
"""Share of the time spent in turns of the loop, waits for a CPU included, from which the live path is in need."""
REST_NS: Final = 32 * MS
"""A piece goes in any case after this time: 8 MB/s, with pieces of 256 KiB."""
RESTS_MAX: Final = 4
"""Pieces that may go at once after a pause, such as that between two heartbeats."""


class Seen(msgspec.Struct, frozen=True):
    """Figures that a pace decides by."""

    end: int
    """Last record in the log."""
    committed: int
    sent: int
    """Last record that was sent to the follower."""
    busy_ns: int
    """Time spent in turns of the loop since the start."""


class Pace:
    """The pace of one session."""

    def __init__(self) -> None:
        self.share = LEAST
        self._credit = 0.0
        """Old records that may go."""
        self._rested_ns = RESTS_MAX * REST_NS
        self._is_idle = False
        """Nothing was appended since the last look, nor between the two looks before."""
        self._seen: tuple[Seen, Instant] | None = None
        """Figures of the last call."""
        self._looked: tuple[Seen, Instant] | None = None
        self._nearest: tuple[int, Instant] = (0, Instant(0))
        """Shortest distance so far, and the time of it."""

    @property
    def allows(self) -> bool:
        """An old piece may go now."""
        return self._is_idle or self.share >= MOST or self._credit > 0 or self._rested_ns >= REST_NS

    def passed(self, seen: Seen, now: Instant) -> None:
        """Time has passed, and the log has perhaps grown."""
        distance = seen.end - seen.sent
        if self._seen is None or self._looked is None:
            self._looked, self._nearest = (seen, now), (distance, now)
        else:
            before, at = self._seen
            self._credit += (seen.end - before.end) * self.share
            self._rested_ns = min(self._rested_ns + now - at, RESTS_MAX * REST_NS)
            self._is_idle = self._is_idle and seen.end == before.end
            if distance < self._nearest[0]:
                self._nearest = (distance, now)
            if now - self._looked[1] >= LOOK_NS:
                self._look(seen, *self._looked, now)
                self._looked = (seen, now)
        self._seen = (seen, now)

    def _look(self, seen: Seen, before: Seen, at: Instant, now: Instant) -> None:
        appended = seen.end - before.end
        if appended <= 0:
            self._is_idle = seen.committed >= seen.end
            return
        gains = now - self._nearest[1] < PATIENCE_NS
        is_busy = seen.busy_ns - before.busy_ns >= BUSY * (now - at)
        if gains and is_busy:
            self.share = max(LEAST, self.share / GROWTH)
        else:
            self.share = min(MOST, self.share * GROWTH)
        self._credit = min(self._credit, SAVED_LOOKS * appended * self.share)

    def took(self, records: int) -> None:
        """A piece of so many old records has gone."""
        self._credit = max(self._credit - records, -float(records))
        self._rested_ns = max(0, self._rested_ns - REST_NS)
