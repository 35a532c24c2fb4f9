"""Beat: when followers hear a life sign. Each hears one every `ALIVE_NS`; of many, so many at a time and no more."""

from collections.abc import Collection
from itertools import islice
from typing import Final, Generic, TypeVar

from albireo.model.instant import MS, Instant

ALIVE_NS: Final = 500 * MS
ALIVE_PER_TURN: Final = 64
"""Most life signs of one beat: each is answered, so a thousand at once would be a long turn at both ends."""


_Who = TypeVar("_Who")


class Beat(Generic[_Who]):
    """The machine."""

    def __init__(self, period_ns: int | None = None) -> None:
        """`period_ns`: time between two life signs for one follower; none: `ALIVE_NS`."""
        self._period_ns = ALIVE_NS if period_ns is None else period_ns
        self.at = Instant(0)
        """When the next beat is due."""
        self._part = 0
        self._new: dict[_Who, None] = {}

    def added(self, to: _Who, now: Instant) -> None:
        """A new follower hears at once whether there is anything for it."""
        self._new[to] = None
        self.at = now

    def due(self, now: Instant, followers: Collection[_Who]) -> list[_Who]:
        """Followers that hear a life sign now; none between two beats."""
        if now < self.at:
            return []
        parts = -(-len(followers) // ALIVE_PER_TURN) or 1
        self._part %= parts
        told = list(islice(followers, self._part, None, parts))
        told += [to for to in self._new if to in followers and to not in told]
        self._new.clear()
        self._part += 1
        self.at = Instant(now + self._period_ns // parts)
        return told
