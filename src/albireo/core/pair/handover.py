"""Orders of people: switchover, drain, force, stop. Each gives something up before it asks for anything.

    switchover   admission closed -> both logs end at one committed position -> effects stopped -> RELEASE -> Yielded
    stop         out of the set first; a holder hands over first; of both at once: level first, and nobody leaves
    hold         no candidacy, until it is over
    force        own promise over, no sign of life of the other -> an epoch far ahead, set {me}, audited

Spec: design/pair.md, rules 8, 9, 11.
"""

from typing import TYPE_CHECKING, Final

from albireo.codec.pair_message import Leaving, Release, Yielded
from albireo.core.pair.config import after
from albireo.core.pair.events import (
    ACTING,
    CaseTold,
    CloseAdmission,
    ForceAsked,
    HoldAsked,
    Serve,
    State,
    StopAsked,
    StopNow,
    StopServing,
    SwitchoverAsked,
)
from albireo.core.pair.grant import forced_grant
from albireo.model.instant import Instant

if TYPE_CHECKING:
    from albireo.core.pair.member import Member

FORCE_JUMP: Final = 2_000_000
"""A forced epoch lies this far ahead: whatever was tried meanwhile elsewhere is lower."""


class Handover:
    """What was ordered and is not through yet."""

    def __init__(self, member: "Member") -> None:
        self.member = member
        self.drain_until: Instant | None = None
        self.force_at: Instant | None = None
        self.stop_until: Instant | None = None
        self.is_for_stop = False
        """What is drained for: both members stop, so nobody is told to take over."""
        self.is_joint = False
        """The stop is one of both members, and both logs end alike."""

    def asked(self, order: SwitchoverAsked | ForceAsked | HoldAsked | StopAsked, now: Instant) -> None:
        member = self.member
        match order:
            case SwitchoverAsked(cause, is_for_stop):
                self.drain(cause, now, is_for_stop=is_for_stop)
            case ForceAsked() if not member.own.is_complete:
                member.own.refuse("state_incomplete")
            case ForceAsked():
                self.force_at = max(after(now, member.config.silence_ns), member.standing.promise_until)
            case HoldAsked(is_on):
                member.own.is_held = is_on
            case StopAsked(is_joint):
                self.stop_until, self.is_joint = after(now, member.config.drain_ns), is_joint

    @property
    def keeps_back(self) -> bool:
        """No candidacy is to be opened."""
        return self.member.own.is_held or self.stop_until is not None

    def drain(self, cause: str, now: Instant, *, is_for_stop: bool = False) -> None:
        leading = self.member.leading
        if leading is None or leading.changes.confirmed != (0, 1) or leading.changes.has_unresolved:
            self.member.own.refuse("other_not_in_set")
            return
        other = self.member.peer.last
        if other is not None and other.is_held and not is_for_stop:
            self.member.own.refuse("other_is_held")
            return
        self.drain_until = after(now, self.member.config.drain_ns)
        self.is_for_stop = is_for_stop
        self.member.own.out.append(CloseAdmission(cause))

    def yield_if_level(self, now: Instant) -> None:
        """Switchover: both logs end at one committed position, effects stopped, RELEASE, then the other stands."""
        own, leading = self.member.own, self.member.leading
        if leading is None or self.drain_until is None or leading.has_yielded:
            return
        if now >= self.drain_until or leading.changes.confirmed != (0, 1):
            self.drain_until = None
            if self.member.state in ACTING:
                own.out.append(Serve(leading.epoch))
            return
        if own.committed != own.end or leading.match < own.end.sequence or self.member.state is not State.ACTIVE:
            return
        leading.has_yielded = True
        leading.lease.drop(now)
        self.member.move(State.SUSPENDED, "yielded")
        leading.may_renew = False
        pause_ns = self.member.config.drain_ns if self.is_for_stop else 2 * self.member.config.lease_and_drift
        self.member.standing.retry_at = after(now, pause_ns)
        own.ask_all(Release(**own.voter_head, round=own.next_round(), epoch=leading.epoch))
        if not self.is_for_stop:
            own.tell(Yielded(**own.peer_head, epoch=leading.epoch, position=own.end))

    def force(self, now: Instant) -> None:
        """The operator says that the other machine is off; any sign of life says otherwise."""
        assert self.force_at is not None
        if self.member.peer.is_present(now, self.member.config):
            self.force_at = None
            self.member.own.refuse("other_is_alive")
        elif now >= self.force_at:
            self.force_at = None
            own = self.member.own
            epoch = own.next_epoch(own.tried_epoch + FORCE_JUMP)
            own.tried_epoch = own.accepted_epoch = epoch
            own.persist()
            self.member.standing.candidacy = None
            own.out.append(CaseTold("history_at_risk", True, f"forced to lead from {own.end} on"))
            self.member.begin(forced_grant(epoch, own.index), now)

    def _is_counted_on(self, now: Instant) -> bool:
        """A holder waits for this member: it has just taken over from it, or has not noticed that it leaves."""
        own, peer = self.member.own, self.member.peer
        is_led = self.member.leading is None and peer.is_led_by(now, own.config)
        return is_led and peer.last is not None and own.index in peer.last.members

    def stop(self, now: Instant) -> None:
        """Out of the set first; a holder hands over first (rule 8)."""
        assert self.stop_until is not None
        own, leading = self.member.own, self.member.leading
        in_set = self.member.state in (State.READY, State.ACTIVE) or self._is_counted_on(now)
        if in_set and not self.is_joint and now < self.stop_until:
            if self.member.state is State.ACTIVE and self.drain_until is None:
                self.drain("stop", now)
            elif self.member.state is State.READY:
                own.tell(Leaving(**own.peer_head))
            return
        if self.member.state is State.SUSPENDED and not self.is_joint and now < self.stop_until:
            return
        if leading is not None:
            own.out.append(StopServing(leading.epoch, "stop"))
            leading.has_yielded = True
            leading.lease.drop(now)
        own.out.append(StopNow())
        self.stop_until = None
