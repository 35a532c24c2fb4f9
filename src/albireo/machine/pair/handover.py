"""Switchover, force, hold and stop, as people ask for them. Each gives something up before it asks for anything.

    switchover   admission closed, outputs stopped -> the last write has landed -> both logs end at one committed
                 position -> RELEASE -> Yielded
    stop         out of the set first; a holder hands over first; of both at once: level first, and nobody leaves
    hold         no candidacy, until it ends (maintenance)
    force        own promise over, no sign of life of the other member -> an epoch far ahead, set {me}, audited

A handover that is not through after `handover_ns`, or loses its ground before, is given up with a reason, and the
member leads on.

Spec: design/pair.md, rules 8, 9, 11; ADR-0121.
"""

from typing import Final

from albireo.codec.pair_message import Leaving, Release, Yielded
from albireo.machine.pair.candidacy import Grant, forced_grant
from albireo.machine.pair.candidate import Candidate
from albireo.machine.pair.config import after
from albireo.machine.pair.events import (
    ACTING,
    CaseTold,
    CloseAdmission,
    ForceAsked,
    HoldAsked,
    MemberStopAsked,
    Objection,
    OutputsEnded,
    Serve,
    State,
    StopNow,
    StopServing,
    SwitchoverAsked,
)
from albireo.machine.pair.holder import Holder
from albireo.machine.pair.party import Party, Peer
from albireo.model.instant import Instant

FORCE_JUMP: Final = 2_000_000
"""Distance of a forced epoch: whatever was tried meanwhile elsewhere is lower."""


class Handover:
    """The handover, force, hold or stop that this member was asked for and that is not through yet."""

    def __init__(self, own: Party, peer: Peer, candidate: Candidate) -> None:
        self.own = own
        self.peer = peer
        self.candidate = candidate
        self.until: Instant | None = None
        """Instant at which a handover under way is given up; None: none is under way."""
        self.writes_until: Instant | None = None
        """No write that has left lands at or after this instant. None: an adapter may still write."""
        self.given_up: Objection | None = None
        """Reason why the last handover was given up; None: it was not."""
        self.force_at: Instant | None = None
        self.is_force_given_up = False
        """The other member showed signs of life since force was asked for."""
        self.stop_until: Instant | None = None
        self.is_for_stop = False
        """The handover is for a stop of both members, so nobody is told to take over."""
        self.is_joint = False
        """The stop is one of both members, and both logs end alike."""

    def asked(
        self,
        order: SwitchoverAsked | OutputsEnded | ForceAsked | HoldAsked | MemberStopAsked,
        holder: Holder | None,
        now: Instant,
    ) -> None:
        own = self.own
        match order:
            case OutputsEnded(until):
                self.outputs_ended(until)
            case SwitchoverAsked():
                self.begin(holder, order, now)
            case ForceAsked() if not own.is_complete:
                own.refuse(Objection.STATE_INCOMPLETE)
            case ForceAsked() if not own.log.takes_epoch:
                own.refuse(Objection.EPOCHS_FULL)
            case ForceAsked():
                self.is_force_given_up = False
                self.force_at = max(after(now, own.config.silence_ns), self.candidate.promise_until)
            case HoldAsked(is_on):
                own.is_held = is_on
            case MemberStopAsked(is_joint):
                self.stop_until, self.is_joint = after(now, own.config.handover_ns), is_joint

    @property
    def keeps_back(self) -> bool:
        """No candidacy is to be opened."""
        return self.own.is_held or self.stop_until is not None

    def begin(self, holder: Holder | None, order: SwitchoverAsked, now: Instant) -> None:
        own, other = self.own, self.peer.last
        if holder is None or holder.changes.confirmed != (0, 1) or holder.changes.has_unresolved:
            own.refuse(Objection.OTHER_NOT_IN_SET)
            return
        if other is not None and other.is_held and not order.is_for_stop:
            own.refuse(Objection.OTHER_IS_HELD)
            return
        if other is not None and other.adapters < own.adapters and order.is_patient:
            own.refuse(Objection.OTHER_STARTS)
            return
        if self.until is None:
            self.writes_until = self.given_up = None
        self.until = after(now, own.config.handover_ns)
        self.is_for_stop = order.is_for_stop
        own.out.append(CloseAdmission(order.cause))

    def outputs_ended(self, until: Instant) -> None:
        """Take note that the adapters write no more, and that their writes have landed before `until`."""
        if self.until is not None:
            self.writes_until = until

    def deadline(self) -> Instant:
        """Instant at which a handover may go on by itself; in the past: nothing is due."""
        return Instant(0) if self.until is None or self.writes_until is None else self.writes_until

    def _why_not_yet(self, holder: Holder, now: Instant) -> Objection | None:
        """Reason why the lead is not given away yet; None: nothing is in its way."""
        log = self.own.log
        if self.writes_until is None or now < self.writes_until:
            return Objection.OUTPUTS_NOT_ENDED
        is_level = log.told == log.end and holder.match >= log.end.sequence and holder.is_followed
        return None if is_level else Objection.OTHER_NOT_LEVEL

    def is_due(self, holder: Holder, state: State, now: Instant) -> bool:
        """True: the lead is to be given away now; no write is under way, both logs end at one committed position.

        A handover that can't go through any more is given up here.
        """
        if self.until is None or holder.has_yielded:
            return False
        if state is not State.ACTIVE:
            self._give_up(Objection.OTHER_NOT_IN_SET if state is State.SOLO else Objection.LEASE_OVER, holder, state)
            return False
        why_not = self._why_not_yet(holder, now)
        if why_not is not None and now >= self.until:
            self._give_up(why_not, holder, state)
        return why_not is None

    def give_away(self, holder: Holder, now: Instant) -> None:
        """Release the lease and tell the other member to stand; nothing is served here any more."""
        own, config = self.own, self.own.config
        holder.has_yielded = True
        holder.lease.drop(now)
        holder.may_renew = False
        pause_ns = config.handover_ns if self.is_for_stop else 2 * config.lease_and_drift
        self.candidate.retry_at = after(now, pause_ns)
        own.ask_all(Release(**own.voter_head, round=own.next_round(), epoch=holder.epoch))
        if not self.is_for_stop:
            own.tell(Yielded(**own.peer_head, epoch=holder.epoch, position=own.log.end))

    def _give_up(self, why: Objection, holder: Holder, state: State) -> None:
        """Lead on. Under a lease that is over nothing is served, and a later one begins without this handover."""
        self.until, self.given_up = None, why
        self.own.refuse(why)
        if state in ACTING:
            self.own.out.append(Serve(holder.epoch))

    def forced(self, now: Instant) -> Grant | None:
        """Lead by force, as the operator says that the other machine is off; any sign of life says otherwise."""
        own = self.own
        if self.force_at is None:
            return None
        if self.peer.is_present(now, own.config):
            self.force_at, self.is_force_given_up = None, True
            own.refuse(Objection.OTHER_IS_ALIVE)
            return None
        if now < self.force_at:
            return None
        self.force_at = None
        epoch = own.next_epoch(own.tried_epoch + FORCE_JUMP)
        own.tried_epoch = own.accepted_epoch = epoch
        own.persist()
        self.candidate.candidacy = None
        own.out.append(CaseTold("history_at_risk", True, f"forced to lead from {own.log.end} on"))
        return forced_grant(epoch, own.index)

    def _is_counted_on(self, now: Instant) -> bool:
        """True: a holder waits for this member; it has just taken over, or has not noticed that this one leaves."""
        peer = self.peer
        is_led = peer.is_led_by(now, self.own.config)
        return is_led and peer.last is not None and self.own.index in peer.last.members

    def stop(self, holder: Holder | None, state: State, now: Instant) -> None:
        """Stop once out of the set; a holder hands over first (rule 8)."""
        if self.stop_until is None:
            return
        own = self.own
        in_set = state in (State.READY, State.ACTIVE) or (holder is None and self._is_counted_on(now))
        if in_set and not self.is_joint and now < self.stop_until:
            if state is State.ACTIVE and self.until is None:
                self.begin(holder, SwitchoverAsked("stop"), now)
            elif state is State.READY:
                own.tell(Leaving(**own.peer_head))
            return
        if state is State.SUSPENDED and not self.is_joint and now < self.stop_until:
            return
        if holder is not None:
            own.out.append(StopServing(holder.epoch, "stop"))
            holder.has_yielded = True
            holder.lease.drop(now)
        own.out.append(StopNow())
        self.stop_until = None
