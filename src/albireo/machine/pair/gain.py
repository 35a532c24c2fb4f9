"""Gain: how a member outside of the set comes nearer to the one that leads, and what that costs the one that leads.

    it takes records, and is not nearer after LOOK_NS    each commit waits longer, up to SLOW_MOST_NS
    it is nearer, or near, or takes nothing              half as long; a member whose disk hangs slows nobody
    it is late by no more than `near_ns`                 commits wait for it, and it is added (holder.py)

`near_ns` is half of what commits may wait. It grows while the follower is on its heels and no nearer: on a starved
machine it may be late by a second all the time, and lack only that.

Spec: design/pair.md, rule 6; ADR-0092.
"""

from collections import deque
from typing import Final

from albireo.machine.pair.config import PairConfig
from albireo.model.instant import MS, SECOND, Duration, Instant

LOOK_NS: Final = 2 * SECOND
SLOW_FIRST_NS: Final = 25 * MS
SLOW_MOST_NS: Final = 100 * MS
LEAST: Final = 256
"""A follower gains if it comes nearer by this part of its distance in a look: all of it then takes minutes."""
STUCK: Final = 8
"""Near is a time of which this many have gone by since the follower was twice as late."""


class Gain:
    """The way of one follower into the set."""

    def __init__(self, config: PairConfig, now: Instant) -> None:
        self._config = config
        self._told: deque[tuple[Instant, int]] = deque(
            [(now, 0)], 2 + 2 * config.patience_longest_ns // config.heartbeat_ns
        )
        """Commit position at the last heartbeats, the newest last."""
        self._looked = (now, 0, 0)
        """Last look: when, how many records were behind, and up to which the follower had all."""
        self._latest = (0, now)
        """How late the follower was when it was half as late as before, and when that was."""
        self.slow_ns = 0
        """Time for which each commit waits; 0: none does."""
        self.committed_at = now
        self.behind = 0
        self.per_s = 0.0
        """Records by which the follower came nearer in a second, at the last look."""
        self.late_ns = 0

    def looks(self, told: int, match: int, now: Instant) -> None:
        """Look at the follower: it has all up to `match` of what is committed up to `told`."""
        if now - self._told[-1][0] >= self._config.heartbeat_ns:
            self._told.append((now, told))
        self.behind = max(0, told - match)
        whole_at = next((at for at, known in reversed(self._told) if known <= match), self._told[0][0])
        self.late_ns = now - whole_at if self.behind else 0
        if 2 * self.late_ns <= self._latest[0] or self.late_ns > 2 * self._latest[0]:
            self._latest = (self.late_ns, now)
        since, behind, had = self._looked
        if now - since >= LOOK_NS:
            self._looked = (now, self.behind, match)
            self.per_s = (behind - self.behind) * SECOND / (now - since)
            is_near = self.late_ns <= self._config.solo_after_ns // 2
            gains = is_near or (behind - self.behind) * LEAST >= self.behind
            longer = min(SLOW_MOST_NS, max(SLOW_FIRST_NS, 2 * self.slow_ns))
            self.slow_ns = self.slow_ns // 2 if gains or match <= had else longer

    def begins(self, told: int, match: int, now: Instant) -> None:
        """Begin anew: a session has begun."""
        self._looked, self._latest, self.slow_ns = (now, max(0, told - match), match), (0, now), 0

    def near_ns(self, patience_ns: int, now: Instant) -> Duration:
        """Time by which the follower may be late to be waited for."""
        longest = max(patience_ns, self._config.patience_longest_ns)
        return Duration(max(patience_ns // 2, min((now - self._latest[1]) // STUCK, longest // 2)))
