"""Orders of people: switchover, drain, force, stop. Each gives something up before it asks for anything.

    switchover   admission closed, outputs stopped -> the last write has landed -> both logs end at one committed
                 position -> RELEASE -> Yielded
    stop         out of the set first; a holder hands over first; of both at once: level first, and nobody leaves
    hold         no candidacy, until it is over
    force        own promise over, no sign of life of the other -> an epoch far ahead, set {me}, audited

A handover that is not through after `drain_ns`, or loses its ground before, is given up with a reason, and the member
leads on. `outputs_not_ended`: an adapter did not say that it writes no more, so it may stand right before a send.

Spec: design/pair.md, rules 8, 9, 11; ADR-0121.
"""

from typing import TYPE_CHECKING, Final

from albireo.codec.pair_message import Leaving, Release, Yielded
from albireo.machine.pair.candidacy import forced_grant
from albireo.machine.pair.config import after
from albireo.machine.pair.events import (
    ACTING,
    CaseTold,
    CloseAdmission,
    ForceAsked,
    HoldAsked,
    OutputsEnded,
    Serve,
    State,
    StopAsked,
    StopNow,
    StopServing,
    SwitchoverAsked,
)
from albireo.model.instant import Instant

if TYPE_CHECKING:
    from albireo.machine.pair.holder import Holder
    from albireo.machine.pair.member import Member

FORCE_JUMP: Final = 2_000_000
"""A forced epoch lies this far ahead: whatever was tried meanwhile elsewhere is lower."""
OUTPUTS_NOT_ENDED: Final = "outputs_not_ended"
OTHER_NOT_LEVEL: Final = "other_not_level"
OTHER_NOT_IN_SET: Final = "other_not_in_set"
LEASE_OVER: Final = "lease_over"
"""Why a handover is given up."""


class Handover:
    """What was ordered and is not through yet."""

    def __init__(self, member: "Member") -> None:
        self.member = member
        self.drain_until: Instant | None = None
        self.writes_until: Instant | None = None
        """Of this drain: nothing that was written lands at or after it. None: an adapter may still write."""
        self.given_up = ""
        """Why the last drain was."""
        self.force_at: Instant | None = None
        self.stop_until: Instant | None = None
        self.is_for_stop = False
        """What is drained for: both members stop, so nobody is told to take over."""
        self.is_joint = False
        """The stop is one of both members, and both logs end alike."""

    def asked(self, order: SwitchoverAsked | OutputsEnded | ForceAsked | HoldAsked | StopAsked, now: Instant) -> None:
        member = self.member
        match order:
            case OutputsEnded(until):
                self.outputs_ended(until)
            case SwitchoverAsked(cause, is_for_stop):
                self.drain(cause, now, is_for_stop=is_for_stop)
            case ForceAsked() if not member.own.is_complete:
                member.own.refuse("state_incomplete")
            case ForceAsked():
                self.force_at = max(after(now, member.config.silence_ns), member.candidate.promise_until)
            case HoldAsked(is_on):
                member.own.is_held = is_on
            case StopAsked(is_joint):
                self.stop_until, self.is_joint = after(now, member.config.drain_ns), is_joint

    @property
    def keeps_back(self) -> bool:
        """No candidacy is to be opened."""
        return self.member.own.is_held or self.stop_until is not None

    def drain(self, cause: str, now: Instant, *, is_for_stop: bool = False) -> None:
        holder = self.member.holder
        if holder is None or holder.changes.confirmed != (0, 1) or holder.changes.has_unresolved:
            self.member.own.refuse(OTHER_NOT_IN_SET)
            return
        other = self.member.peer.last
        if other is not None and other.is_held and not is_for_stop:
            self.member.own.refuse("other_is_held")
            return
        if self.drain_until is None:
            self.writes_until, self.given_up = None, ""
        self.drain_until = after(now, self.member.config.drain_ns)
        self.is_for_stop = is_for_stop
        self.member.own.out.append(CloseAdmission(cause))

    def outputs_ended(self, until: Instant) -> None:
        """Nothing is written any more; what was written lands before `until`."""
        if self.drain_until is not None:
            self.writes_until = until

    def deadline(self) -> Instant:
        """When a drain may go on by itself; in the past: nothing is due."""
        return Instant(0) if self.drain_until is None or self.writes_until is None else self.writes_until

    def _why_not_yet(self, holder: "Holder", now: Instant) -> str:
        """What the lead is not given away for; empty: nothing."""
        own = self.member.own
        if self.writes_until is None or now < self.writes_until:
            return OUTPUTS_NOT_ENDED
        is_level = own.committed == own.end and holder.match >= own.end.sequence
        return "" if is_level else OTHER_NOT_LEVEL

    def yield_if_level(self, now: Instant) -> None:
        """Switchover: no write under way, both logs end at one committed position, RELEASE, then the other stands."""
        holder = self.member.holder
        if holder is None or self.drain_until is None or holder.has_yielded:
            return
        state = self.member.state
        if state is not State.ACTIVE:
            self._give_up(OTHER_NOT_IN_SET if state is State.SOLO else LEASE_OVER)
        elif not (why_not := self._why_not_yet(holder, now)):
            self._yield(holder, now)
        elif now >= self.drain_until:
            self._give_up(why_not)

    def _yield(self, holder: "Holder", now: Instant) -> None:
        own = self.member.own
        holder.has_yielded = True
        holder.lease.drop(now)
        self.member.move(State.SUSPENDED, "yielded")
        holder.may_renew = False
        pause_ns = self.member.config.drain_ns if self.is_for_stop else 2 * self.member.config.lease_and_drift
        self.member.candidate.retry_at = after(now, pause_ns)
        own.ask_all(Release(**own.voter_head, round=own.next_round(), epoch=holder.epoch))
        if not self.is_for_stop:
            own.tell(Yielded(**own.peer_head, epoch=holder.epoch, position=own.end))

    def _give_up(self, reason: str) -> None:
        """Lead on. Under a lease that is over nothing is served, and a later one begins without this drain."""
        own, holder = self.member.own, self.member.holder
        assert holder is not None
        self.drain_until, self.given_up = None, reason
        own.refuse(reason)
        if self.member.state in ACTING:
            own.out.append(Serve(holder.epoch))

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
            self.member.candidate.candidacy = None
            own.out.append(CaseTold("history_at_risk", True, f"forced to lead from {own.end} on"))
            self.member.begin(forced_grant(epoch, own.index), now)

    def _is_counted_on(self, now: Instant) -> bool:
        """A holder waits for this member: it has just taken over from it, or has not noticed that it leaves."""
        own, peer = self.member.own, self.member.peer
        is_led = self.member.holder is None and peer.is_led_by(now, own.config)
        return is_led and peer.last is not None and own.index in peer.last.members

    def stop(self, now: Instant) -> None:
        """Out of the set first; a holder hands over first (rule 8)."""
        assert self.stop_until is not None
        own, holder = self.member.own, self.member.holder
        in_set = self.member.state in (State.READY, State.ACTIVE) or self._is_counted_on(now)
        if in_set and not self.is_joint and now < self.stop_until:
            if self.member.state is State.ACTIVE and self.drain_until is None:
                self.drain("stop", now)
            elif self.member.state is State.READY:
                own.tell(Leaving(**own.peer_head))
            return
        if self.member.state is State.SUSPENDED and not self.is_joint and now < self.stop_until:
            return
        if holder is not None:
            own.out.append(StopServing(holder.epoch, "stop"))
            holder.has_yielded = True
            holder.lease.drop(now)
        own.out.append(StopNow())
        self.stop_until = None
