"""Feed window: how much a follower lets be on the way to it, by what its link carries.

Over a slow link, whatever is on the way delays what comes behind it. If that takes longer than a follower is patient,
it asks again for what is coming already, and the link carries nothing but repeats. So no more is asked for than comes
within the round trip and half a second, as far as the last quarter of a second tells.

Spec: design/log-and-feed.md, Feed; ADR-0205.
"""

from typing import Final

from albireo.model.instant import MS, SECOND, Instant

MEASURED_NS: Final = 250 * MS
"""Shortest time over which the pace of a link is measured."""
QUEUED_NS: Final = SECOND // 2
"""Time that everything on the way may take at the pace measured, beside the round trip itself."""


class FeedWindow:
    """Window of one follower."""

    def __init__(self, least: int, most: int) -> None:
        """
        Args:
            least: bytes that may be on the way before anything is measured, and on the slowest link.
            most: bytes that may be on the way on the fastest.
        """
        self.size = least
        self.round_trip_ns = 0
        """Least time after which a leader answered."""
        self._least = least
        self._most = most
        self._taken = 0
        self._since = Instant(0)

    def answered(self, took_ns: int) -> None:
        """The leader has answered after this time."""
        self.round_trip_ns = min(took_ns, self.round_trip_ns or took_ns)

    def took(self, size_bytes: int, now: Instant) -> None:
        """So much has arrived."""
        self._taken += size_bytes
        passed = now - self._since
        if passed >= MEASURED_NS:
            on_way = self._taken * (QUEUED_NS + self.round_trip_ns) // passed
            self.size = min(max(on_way, self._least), self._most)
            self._taken, self._since = 0, now
