"""Feature levels of the two members: who may follow whom, and what the log may be raised to.

    raise    the holder, one step at a time, once both are in the set and both say that they know the next level
    apart    who knows less than the log holds does not follow it; nor does a member more than one step from the other

None of it changes who leads: a member that is apart is out of the set, and stays what else it is.

Spec: design/pair.md, rule 11; ADR-0127.
"""

from typing import Final

from albireo.codec.pair_message import Heartbeat
from albireo.machine.pair.events import RaiseLevel
from albireo.machine.pair.party import Party

TOO_FAR_APART: Final = "feature_levels_too_far_apart"
LOG_ABOVE_OWN: Final = "log_above_own_feature_level"
OTHER_BELOW_LOG: Final = "other_below_feature_level_of_log"


class Levels:
    """What the holder of one tenure makes of the other one's level."""

    def __init__(self, own: Party, other: Heartbeat | None) -> None:
        self.own = own
        self.apart = "" if other is None else why_apart(own, other)
        """Why the other can't follow this log; empty: it can."""
        self._raises_to = 0
        """What was asked for: whoever does not know it follows no more."""

    def compare(self, other: Heartbeat, *, are_in: bool) -> None:
        """It says what it knows; `are_in`: both are in the set."""
        own, level = self.own, self.own.log_level + 1
        if are_in and min(own.feature_level, other.feature_level) >= level:
            self._raises_to = level
            own.out.append(RaiseLevel(level))
        self.apart = why_apart(own, other, self._raises_to)


def why_apart(own: Party, other: Heartbeat, raises_to: int = 0) -> str:
    """Why these two can't have one log; empty: they can. `raises_to`: of the own log, soon."""
    if abs(own.feature_level - other.feature_level) > 1:
        return TOO_FAR_APART
    if own.feature_level < other.log_level:
        return LOG_ABOVE_OWN
    return OTHER_BELOW_LOG if other.feature_level < max(own.log_level, raises_to) else ""
