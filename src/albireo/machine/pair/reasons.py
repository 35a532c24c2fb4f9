"""Reasons for which a member hands the lead over by itself: how long each has to last, and how often it counts."""

from collections.abc import Mapping
from typing import Final

import msgspec

from albireo.codec.pair_message import Heartbeat
from albireo.model.instant import SECOND, Duration, Instant


class Reason(msgspec.Struct, frozen=True):
    """One thing that the other member can do and this member can't."""

    cause: str
    lasts_ns: Duration
    """Time for which the reason holds before it counts."""
    again_ns: Duration
    """Shortest time between two handovers for this reason."""


FULL: Final = Reason("the disk of this member takes nothing more", Duration(SECOND), Duration(15 * SECOND))
"""Reason of a full disk; the next segment may be a moment late."""
FEWER: Final = Reason("the other member reaches more devices", Duration(5 * SECOND), Duration(60 * SECOND))
"""Reason of lost devices. One that both lose is lost at different moments; its adapters try again within this time."""


def holding(other: Heartbeat, reaches: int, *, has_room: bool) -> dict[Reason, bool]:
    """True for each reason that holds, for a member that reaches so many devices."""
    return {FULL: not has_room, FEWER: other.reaches > reaches}


class Reasons:
    """Choice of the reason that is acted on."""

    def __init__(self) -> None:
        self._since: dict[Reason, Instant] = {}
        self._not_before: dict[Reason, Instant] = {}

    def cause(self, given: Mapping[Reason, bool], now: Instant, *, is_taken: bool) -> str:
        """Cause of the first reason that has lasted and was not acted on for a while, and is now; empty: none.

        Args:
            is_taken: the other member can take the lead; without room it would only hand it back.
        """
        self._since = {one: self._since.get(one, now) for one, is_so in given.items() if is_so}
        for reason, since in self._since.items():
            if is_taken and now >= since + reason.lasts_ns and now >= self._not_before.get(reason, now):
                self._not_before[reason] = Instant(now + reason.again_ns)
                return reason.cause
        return ""
