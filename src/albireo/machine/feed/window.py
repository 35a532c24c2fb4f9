"""Feed window: how much a follower lets be on the way to it, by what its link carries.

Over a slow link, whatever is on the way delays what comes behind it. If that takes longer than a follower is patient,
it asks again for what is coming already, and the link carries nothing but repeats. So no more is asked for than comes
within a second, as far as the last quarter of a second tells.

Spec: design/log-and-feed.md, Feed; ADR-0205.
"""

from typing import Final

from albireo.model.instant import MS, SECOND, Instant

MEASURED_NS: Final = 250 * MS
"""Shortest time over which the pace of a link is measured."""
ON_THE_WAY_NS: Final = SECOND
"""Time that everything on the way may take at the pace measured."""


class FeedWindow:
    """Window of one follower."""

    def __init__(self, least: int, most: int) -> None:
        """
        Args:
            least: bytes that may be on the way before anything is measured, and on the slowest link.
            most: bytes that may be on the way on the fastest.
        """
        self.size = least
        self._least = least
        self._most = most
        self._taken = 0
        self._since = Instant(0)

    def took(self, size_bytes: int, now: Instant) -> None:
        """So much has arrived."""
        self._taken += size_bytes
        passed = now - self._since
        if passed >= MEASURED_NS:
            self.size = min(max(self._taken * ON_THE_WAY_NS // passed, self._least), self._most)
            self._taken, self._since = 0, now
