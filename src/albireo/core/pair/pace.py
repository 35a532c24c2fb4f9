"""Pace: how much of old records goes to a follower that catches up, while the live path works.

For each record that the live path appends, the follower is given `share` old ones. A share is always above 1, so the
follower gains whatever the rate of the live path; how far above is looked at every LOOK_NS:

    nothing was appended                                    MOST
    the follower has not come nearer for PATIENCE_NS        it grows, up to MOST
    the loop has time                                       it grows, up to MOST
    else                                                    it shrinks, down to LEAST

A live path of few records must not mean a catch-up of few: one piece per REST_NS goes in any case.

Invariants
    share:     LEAST <= share <= MOST; MOST is no limit.
    saved up:  not more than what SAVED_LOOKS earned: a follower that stood still makes up for it, within bounds.

Not decided here: what is old, and how much may be under way (`core.pair.outflow`).
Spec: design/log-and-feed.md, Feed (bounded catch-up); ADR-0129.
"""

from typing import Final

from albireo.model.instant import MS, SECOND, Instant

LEAST: Final = 1.25
"""A follower 1 GiB behind a live path of 40 MB/s is there after 100 s."""
MOST: Final = 16.0
GROWTH: Final = 1.5
SAVED_LOOKS: Final = 4
LOOK_NS: Final = 200 * MS
"""Two heartbeats: a sender of few records looks often enough by these."""
PATIENCE_NS: Final = 2 * SECOND
"""A follower that syncs its disk stands still for some looks, and needs no larger share for it."""
BUSY: Final = 0.35
"""Of all time, that in turns of the loop, waits for a core included: from here on the live path is in need."""
REST_NS: Final = 32 * MS
"""8 MB/s, with pieces of 256 KiB."""
RESTS_MAX: Final = 4
"""Pieces that may go at once after a pause, between two heartbeats say."""


class Pace:
    """One session's."""

    def __init__(self) -> None:
        self.share = LEAST
        self._credit = 0.0
        """Old records that may go."""
        self._rested_ns = RESTS_MAX * REST_NS
        self._seen: tuple[int, Instant] | None = None
        """End of the log, and when, as of the last call."""
        self._looked: tuple[int, int, Instant] = (0, 0, Instant(0))
        """Of the last look: end of the log, time in turns, when."""
        self._nearest: tuple[int, Instant] = (0, Instant(0))
        """Shortest distance so far, and when."""

    @property
    def allows(self) -> bool:
        """An old piece may go now."""
        return self.share >= MOST or self._credit > 0 or self._rested_ns >= REST_NS

    def passed(self, end: int, sent: int, busy_ns: int, now: Instant) -> None:
        """The log ends at `end`, the follower was sent up to `sent`; the loop spent `busy_ns` in turns in its life."""
        distance = end - sent
        if self._seen is None:
            self._looked, self._nearest = (end, busy_ns, now), (distance, now)
        else:
            self._credit += (end - self._seen[0]) * self.share
            self._rested_ns = min(self._rested_ns + now - self._seen[1], RESTS_MAX * REST_NS)
            if distance < self._nearest[0]:
                self._nearest = (distance, now)
            if now - self._looked[2] >= LOOK_NS:
                self._look(end, busy_ns, now)
        self._seen = (end, now)

    def _look(self, end: int, busy_ns: int, now: Instant) -> None:
        end_before, busy_before, at = self._looked
        appended = end - end_before
        gains = now - self._nearest[1] < PATIENCE_NS
        is_busy = busy_ns - busy_before >= BUSY * (now - at)
        if appended <= 0:
            self.share = MOST
        elif gains and is_busy:
            self.share = max(LEAST, self.share / GROWTH)
        else:
            self.share = min(MOST, self.share * GROWTH)
        self._credit = min(self._credit, SAVED_LOOKS * appended * self.share)
        self._looked = (end, busy_ns, now)

    def took(self, records: int) -> None:
        """A piece of so many old records has gone."""
        self._credit = max(self._credit - records, -float(records))
        self._rested_ns = max(0, self._rested_ns - REST_NS)
