"""Watch over the outputs of this member: when its writes have landed, and whether the other member could do better.

A handover, whoever asked for it, waits until the last output write of this member has landed and its outcome stands in
the log. The active member hands over by itself when the other member can do what this member can't:

    its disk takes nothing more
    it reaches fewer devices

The other member's heartbeats say whether it has room and how many devices it reaches; without room it is handed
nothing. Each reason has to last, and none is acted on again for a while: two members with a bad cable each must not
swap for ever. With a full disk the while is short, for nothing is served by this member meanwhile.

Spec: design/pair.md, rule 11; Outputs; ADR-0121.
"""

from typing import Final

from albireo.log.log import Log
from albireo.machine.pair.events import AdaptersSeen, Event, OutputsEnded, State, SwitchoverAsked
from albireo.machine.pair.member import Member
from albireo.machine.pair.reasons import Reasons, holding
from albireo.machine.root.root import Root
from albireo.model import quality
from albireo.model.instant import SECOND, Instant

LOOK_NS: Final = SECOND // 2


class OutputWatch:
    """See the module; one per run of CORE."""

    def __init__(self, member: Member, log: Log, root: Root) -> None:
        self._member = member
        self._log = log
        self._root = root
        self._look_at = Instant(0)
        self._reasons = Reasons()
        self._told: tuple[int, Instant] | None = None
        """Stand-down, and by when all its writes have landed, as the member machine was told."""

    def events(self, now: Instant) -> list[Event]:
        """Events that the member machine is to be told now."""
        ended = self._outputs_ended()
        return [*([] if ended is None else [ended]), *(self._looked(now) if now >= self._look_at else [])]

    def _looked(self, now: Instant) -> list[Event]:
        """Events of a look: adapters and the devices they reach, if that is new, and a switchover, if one is due."""
        self._look_at = Instant(now + LOOK_NS)
        member, seen = self._member, AdaptersSeen(self.running(), self.reached())
        other = member.peer.last
        if other is None or member.state is not State.ACTIVE:
            cause = self._reasons.cause({}, now, is_taken=False)
        else:
            held = holding(other, seen.reaches, has_room=not self._log.admission())
            cause = self._reasons.cause(held, now, is_taken=other.has_room)
        news = [] if (seen.count, seen.reaches) == (member.own.adapters, member.own.reaches) else [seen]
        return [*news, *([SwitchoverAsked(cause)] if cause else [])]

    def deadline(self) -> Instant | None:
        """At once when there is news of the outputs; else None: looks come with the member's other wake-ups."""
        return None if self._news() is None else Instant(0)

    def _outputs_ended(self) -> OutputsEnded | None:
        """Event that tells by when the last output write has landed, if that is news."""
        news = self._news()
        if news is not None or not self._root.role.is_handing_over:
            self._told = news
        return None if news is None else OutputsEnded(news[1])

    def _news(self) -> tuple[int, Instant] | None:
        root = self._root
        if not root.role.is_handing_over or not root.has_all_folded:
            return None  # What is not folded yet may be an order that was to leave, or the outcome of one.
        until = root.outputs.until()
        news = None if until is None else (root.role.stand_down, until)
        return None if news == self._told else news

    def running(self) -> int:
        """Number of adapters here that stand by, or act."""
        role = self._root.role
        if not role.is_serving:
            return len(role.reaches)
        return sum(one.sender is not None and one.name in role.reaches for one in self._root.registry.adapters())

    def reached(self) -> int:
        """Number of devices that adapters here reach: as they say while standing by, as items say while acting."""
        role = self._root.role
        if not role.is_serving:
            return sum(reaches is True for reaches in role.reaches.values())
        names = [f"{self._root.config.node}:{one.name}/connected" for one in self._root.registry.adapters()]
        items = [known for name in names if (known := self._root.folds.dim.by_name(name)) is not None]
        readings = self._root.folds.readings(items)
        return sum(bool(one.value) and quality.is_good(one.quality) for one in readings)
