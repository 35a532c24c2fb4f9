"""Feature levels of the two members: who may follow whom, and what the log may be raised to.

    raise    the holder, one step at a time, once both are in the set and both say that they know the next level
    apart    who knows less than the log holds does not follow it; nor does a member more than one step from the other

None of it changes who leads: a member that is apart is out of the set, and stays what else it is.

Spec: design/pair.md, rule 11; ADR-0127.
"""

from albireo.codec.pair_message import Heartbeat
from albireo.machine.pair.events import Objection, RaiseLevel
from albireo.machine.pair.party import Party


class Levels:
    """Judgement of the other member's feature level by the holder of one tenure."""

    def __init__(self, own: Party, other: Heartbeat | None) -> None:
        self.own = own
        self.apart = None if other is None else why_apart(own, other)
        """Reason why the other member can't follow this log; None: it can."""
        self._raises_to = 0
        """Level that was asked for; a member that does not know it follows no more."""

    def compare(self, other: Heartbeat, *, are_in: bool) -> None:
        """Judge what the other member says it knows; `are_in`: both are in the set, so the log may be raised."""
        own, level = self.own, self.own.log_level + 1
        if are_in and min(own.feature_level, other.feature_level) >= level:
            self._raises_to = level
            own.out.append(RaiseLevel(level))
        self.apart = why_apart(own, other, self._raises_to)


def why_apart(own: Party, other: Heartbeat, raises_to: int = 0) -> Objection | None:
    """Reason why two members can't have one log; None: they can. `raises_to`: level of the own log, soon."""
    if abs(own.feature_level - other.feature_level) > 1:
        return Objection.TOO_FAR_APART
    if own.feature_level < other.log_level:
        return Objection.LOG_ABOVE_OWN
    return Objection.OTHER_BELOW_LOG if other.feature_level < max(own.log_level, raises_to) else None
