"""Piece pace: how much is asked for at once over a link, by what the link has shown.

Whatever is on its way delays all that comes behind it, orders and life signs too, and no queue of ours can be passed
by them once libzmq or a kernel has it. So pieces begin small, one at a time. They grow while one takes a link's round
trip and little more, and shrink when it takes long beyond that: what is on its way is half a second of the link.

    asked --came within the nearest time seen + QUICK_NS--> twice as much
          --came after the nearest time seen + SLOW_NS----> half

Spec: ADR-0218, ADR-0267.
"""

from typing import Final

from albireo.model.instant import SECOND

QUICK_NS: Final = SECOND // 4
SLOW_NS: Final = SECOND * 3 // 4
SPARE: Final = 4
"""A piece is asked for again after so many times of the last piece: half of that wait is drawn."""


class PiecePace:
    """The pace of all pieces over one link."""

    def __init__(self, least: int, most: int) -> None:
        self.size = least
        """Bytes of the next piece."""
        self.took_ns = 0
        """Time of the last piece; 0: none came yet."""
        self._least, self._most = least, most
        self._nearest_ns: int | None = None

    def carried(self, size_bytes: int, took_ns: int) -> None:
        """A piece came; a short one says nothing of a longer one."""
        self.took_ns = took_ns
        if self._nearest_ns is None or took_ns < self._nearest_ns or self._is_farther(took_ns - self._nearest_ns):
            self._nearest_ns = took_ns
        carrying_ns = took_ns - self._nearest_ns
        if carrying_ns > SLOW_NS:
            self.slowed()
        elif carrying_ns < QUICK_NS and 2 * size_bytes > self.size:
            self.size = min(2 * self.size, self._most)

    def _is_farther(self, carrying_ns: int) -> bool:
        """True: no piece is small enough for so long, so the link has become a farther one, or a slower one."""
        return carrying_ns > SLOW_NS and self.size == self._least

    def slowed(self) -> None:
        """A piece came late, or not in time."""
        self.size = max(self.size // 2, self._least)
