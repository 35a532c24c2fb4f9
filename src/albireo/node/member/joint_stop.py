"""Both members stop with logs that end alike: three steps, asked by `albireo stop --all` of one member after the other.

    passive   stop_hold    stands for nothing from now on, for HOLD_NS at most
    active    stop_level   takes nothing new; both logs end at one committed position; leads no more
    passive   stop_now     it has exactly that: stops, and leaves the set to nobody
    active    stop_now     the same

Whatever breaks in between heals itself: the hold ends, and an active member that is not told to stop leads on after
`handover_ns`. The set of the voters' record stays as it was, both members, so either store may lead at the next start.

Spec: design/pair.md, rule 8; ADR-0117.
"""

from collections.abc import Callable
from typing import Final

from albireo.codec.questions.kind import UserAsked
from albireo.codec.questions.pair import StopNowAsked
from albireo.machine.pair.events import Event, Objection, State, SwitchoverAsked, Why
from albireo.machine.pair.member import Member
from albireo.model.instant import SECOND, Instant
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.node.member.action_replies import GIVEN_UP, Poll, Reply

HOLD_NS: Final = 30 * SECOND
"""Longest hold: a member that nobody tells to stop by then stands again."""
LEVEL_NS: Final = 2 * SECOND
"""Longest wait of `stop_now`: the commit position reaches the passive member with the next heartbeat."""


class JointStop:
    """This member's part in a joint stop; one per run of CORE."""

    def __init__(
        self,
        member: Member,
        log: Callable[[], LogView],
        step: Callable[[Event], list[Why]],
        stop_node: Callable[[], object],
        hold: Callable[[], object],
    ) -> None:
        self.shutdown_id = ""
        """Not empty: this node stops together with the other member."""
        self._member = member
        self._log = log
        self._step = step
        self._stop_node = stop_node
        self._hold = hold
        self._held_until: Instant | None = None

    @property
    def is_holding(self) -> bool:
        """True: this member may not stand, because both are about to stop."""
        return self._held_until is not None or bool(self.shutdown_id)

    def deadline(self) -> Instant | None:
        return self._held_until

    def ticked(self, now: Instant) -> None:
        if self._held_until is not None and now >= self._held_until:
            self._held_until = None
            self._hold()

    def hold(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        state = self._member.state
        if state is not State.READY:
            return Refusal(RefusalCode.NOT_POSSIBLE, f"this member is {state.value}, not ready", _NOT_BOTH)
        self._held_until = Instant(now + HOLD_NS)
        self._hold()
        return {"end": self._log().end}

    def level(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        refused = self._step(SwitchoverAsked("stop", is_for_stop=True))
        if refused:
            cause = f"this member is {self._member.state.value}, alone in the set"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause, _NOT_BOTH)
        member = self._member
        holder = member.holder
        assert holder is not None

        def outcome(now: Instant) -> Reply | None:
            if member.holder is holder and holder.has_yielded:
                return {"position": self._log().end}
            if member.holder is holder and member.handover.until is not None:
                return None
            return GIVEN_UP[member.handover.given_up or Objection.OTHER_NOT_LEVEL]

        return outcome

    def now(self, asked: StopNowAsked, now: Instant) -> Reply | Poll:
        until = Instant(now + LEVEL_NS)

        def outcome(now: Instant) -> Reply | None:
            why_not = self._why_not(asked.position)
            if not why_not:
                self.shutdown_id = asked.shutdown_id
                self._stop_node()
                return {"shutdown_id": asked.shutdown_id}
            return Refusal(RefusalCode.OTHER_MEMBER, why_not, _AGAIN) if now >= until else None

        return outcome(now) or outcome

    def _why_not(self, position: Position) -> str:
        """Reason why this member can't stop level with the other member; empty: it can."""
        member, log = self._member, self._log()
        is_passive = member.state is State.READY and self._held_until is not None
        is_active = member.state is State.SUSPENDED and member.holder is not None and member.holder.has_yielded
        if not (is_passive or is_active):
            return f"this member is {member.state.value} and was not made ready for it"
        if not log.end == log.committed == position:
            return f"this log ends at {log.end}, committed {log.committed}; the other member's at {position}"
        return ""


_NOT_BOTH: Final = "wait until `albireo status` shows both in the set, or stop one alone with `albireo node stop`"
_AGAIN: Final = "try again; `albireo status` shows how far the other member is behind"
