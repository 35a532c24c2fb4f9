"""Patience: how long a peer may take to answer, and to prove its key, by what the way to it has shown.

A handshake takes some four round trips, so a fixed time for it is one for the farthest peer that is ever heard. And a
dialer that hangs up early is no better off by dialling again: the next handshake takes as long.

    least --handshake not done in time--> GROWTH times as long, up to most
          --done after t----------------> SPARE times t, within both

Whoever listens can't tell who knocks, so a listener waits as long as the most patient dialer may.

Decision: ADR-0102.
"""

from typing import Final

import msgspec

from albireo.model.instant import MS, Instant
from albireo.model.settings import LimitSettings

CONNECT_MS: Final = 1000
"""Time after which an attempt that nobody answers is given up; the kernel alone would try for two minutes."""
CONNECT_FAR_MS: Final = 4000
"""The same of each second attempt in a row, if the peer may be far: it lets the kernel ask three times."""
GROWTH: Final = 3
LATE: Final = 0.8
"""Part of its time after which an end counts as that time's: the news of a begin may come late."""
SPARE: Final = 4
"""A way that is busy later takes longer than it did."""


class PatienceBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Least and most time for a handshake."""

    least_ms: int
    most_ms: int


def bounds_of(limits: LimitSettings) -> PatienceBounds:
    """The bounds that a topology names."""
    return PatienceBounds(least_ms=limits.handshake_least_ms, most_ms=limits.handshake_most_ms)


BOUNDS: Final = bounds_of(LimitSettings())
"""Those of whoever has no topology."""


class Patience:
    """Patience of one dialer."""

    def __init__(self, bounds: PatienceBounds, *, is_near: bool = False) -> None:
        """`is_near`: an attempt to connect never takes longer than `CONNECT_MS`."""
        self.handshake_ms = bounds.least_ms
        self.connect_ms = CONNECT_MS
        self._bounds = bounds
        self._is_near = is_near
        self._since = Instant(0)
        """Begin of the attempt, or of the handshake, that is under way."""

    def begin(self, now: Instant) -> None:
        """An attempt begins, or the handshake on the connection that it made."""
        self._since = now

    def unanswered(self, now: Instant) -> bool:
        """An attempt has failed; True: nobody answered, and the next one is to have another time."""
        is_late = now - self._since >= LATE * self.connect_ms * MS
        if is_late and not self._is_near:
            self.connect_ms = CONNECT_FAR_MS if self.connect_ms == CONNECT_MS else CONNECT_MS
        return is_late and not self._is_near

    def broken_off(self, now: Instant) -> bool:
        """A handshake was broken off; True: it was not done in time, and the next one has more."""
        is_late = now - self._since >= LATE * self.handshake_ms * MS
        if is_late:
            self.handshake_ms = min(GROWTH * self.handshake_ms, self._bounds.most_ms)
        return is_late

    def proven(self, now: Instant) -> None:
        """A handshake is done."""
        took_ms = (now - self._since) // MS
        self.handshake_ms = max(self._bounds.least_ms, min(SPARE * took_ms, self._bounds.most_ms))
