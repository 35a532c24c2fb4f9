"""Member: one of the two nodes of a pair, as a machine.

It hears the other member over several paths and the voters, and decides which of the eight states holds. Everything
that touches a disk, a socket or a client is an effect, carried out in order by the shell: a `TellPeer` or `AskVoter`
after a `PersistStore` leaves only once that is durable.

    joining -> catching_up -> ready                       follows (following.py)
       |            |           |
       +------------+-----------+--> grant                stands (candidate.py, candidacy.py)
                                       |
                                   recovering -> active <-> solo      leads (holder.py)
                                       |           |         |
                                       +------- suspended ---+        lease over: acts on nothing
    a write or sync error, in any state: fenced           a node without a pair has no such machine (node/core/actor.py)

Invariants
    acting (active, solo):  the record is confirmed, the no-op of this epoch is committed, and one of the
               three grounds of the lease holds.
    following (catching_up, ready):  `following` is verified; `accepted_epoch` is not above its epoch.
    fenced:    nothing leaves any more.

Not decided here: where records are (log), what they mean (folds), who may connect (runtime).
Spec: design/pair.md.
"""

import random
from typing import ClassVar, Final

from albireo.codec.pair_message import (
    FoldsAsked,
    FoldsSent,
    FollowAcked,
    FollowAnswered,
    FollowAsked,
    Frames,
    Heartbeat,
    HeartbeatAnswered,
    Leaving,
    PeerMessage,
    RangeAsked,
    RangeSent,
    Voted,
    Yielded,
)
from albireo.machine.kernel.permit import Permit
from albireo.machine.pair.candidacy import CandidacyKind, Grant
from albireo.machine.pair.candidate import CandidacyOutcome, Candidate
from albireo.machine.pair.config import PairConfig, after
from albireo.machine.pair.events import (
    ACTING,
    FOLLOWING,
    HEARS,
    HOLDING,
    MOVES,
    STANDS,
    TAKES,
    AdaptersSeen,
    AppendNoOp,
    CaseTold,
    Completed,
    Effect,
    Event,
    ForceAsked,
    FromPeer,
    FromVoter,
    GrantEpoch,
    HoldAsked,
    LevelFolded,
    LogBroken,
    LogChanged,
    MemberStopAsked,
    Objection,
    OutputsEnded,
    PeerGone,
    Serve,
    SessionLost,
    State,
    StopServing,
    SwitchoverAsked,
    TellPeer,
    Transitioned,
    Untimely,
    Why,
)
from albireo.machine.pair.following import Following
from albireo.machine.pair.handover import Handover
from albireo.machine.pair.heartbeat import answer_of, heartbeat_of
from albireo.machine.pair.hold_off import HoldOff
from albireo.machine.pair.holder import Holder
from albireo.machine.pair.levels import why_apart
from albireo.machine.pair.party import MemberFacts, Party, Peer
from albireo.machine.vote.voter import VoterRefusal
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry

COUNTED: Final = {
    VoterRefusal.EMPTY.value: Objection.VOTER_EMPTY,
    VoterRefusal.OTHER_LIST.value: Objection.VOTER_OF_OTHER_LIST,
    VoterRefusal.FOREIGN_CLUSTER.value: Objection.VOTER_OF_FOREIGN_CLUSTER,
}
"""Refusals of voters, by word, that somebody has to do something about."""


class Member:
    """The machine of one member; one per run of CORE.

    Args:
        facts: what the shell found in the store.
        chance: seeded by the shell; draws branch ids, sessions and pauses.
    """

    party_type: ClassVar[type[Party]] = Party
    holder_type: ClassVar[type[Holder]] = Holder
    following_type: ClassVar[type[Following]] = Following
    candidate_type: ClassVar[type[Candidate]] = Candidate
    handover_type: ClassVar[type[Handover]] = Handover
    """Types of the parts; the simulator puts broken ones in their place, to show that it would notice."""

    def __init__(self, config: PairConfig, facts: MemberFacts, chance: random.Random, now: Instant) -> None:
        self.config = config
        self.state = State.JOINING
        self.own = self.party_type(config, facts, chance)
        self.peer = Peer()
        self.candidate = self.candidate_type(self.own, self.peer, now)
        self.holder: Holder | None = None
        self.following: Following | None = None
        self.hold_off = HoldOff()
        self.handover = self.handover_type(self.own, self.peer, self.candidate)
        self._beat = 0
        self._beat_at = now
        self._stepped_at = now
        self._stand_again_at = now
        self._permit: Permit | None = None

    def step(self, event: Event, log: LogView, now: Instant) -> list[Effect]:
        """Take one event; returns the effects, to be carried out in order.

        Args:
            log: as it is now, with all that earlier steps had done to it.
        """
        own = self.own
        own.log, own.out = log, []
        self._stepped_at = now
        if self.state not in TAKES[type(event)]:
            own.refuse(Untimely(type(event), self.state))
            return own.out
        self._take(event, now)
        if self.state is not State.FENCED:
            self._settle(now)
        return own.out

    def _take(self, event: Event, now: Instant) -> None:
        own = self.own
        match event:
            case FromPeer(message, path):
                self._from_peer(message, path, now)
            case FromVoter(message):
                self._voted(message, now)
            case LogChanged() if self.holder is not None:
                self.holder.send_more()
            case LogChanged() if self.following is not None:
                self.following.log_changed()
            case LogBroken(reason):
                self._fence(reason)
            case Completed(is_complete):
                own.completed(is_complete)
            case LevelFolded(level):
                own.log_level = level
            case AdaptersSeen(count, reaches):
                own.adapters, own.reaches = count, reaches
            case SessionLost(session) if self.holder is not None:
                self.holder.lost(session)
            case SessionLost(session) if self.following is not None and self.following.session == session:
                self._unfollow("the holder's frames do not fit")
            case PeerGone(run):
                self.peer.gone_run = run
            case SwitchoverAsked() | OutputsEnded() | ForceAsked() | HoldAsked() | MemberStopAsked():
                self.handover.asked(event, self.holder, now)
            case _:
                pass  # MemberStarted and TimePassed: what they bring is done in `_settle`.

    def permit(self, now: Instant) -> Permit | None:
        """Permit that an output order made now carries; None: no order may be made. The adapter checks it again."""
        if self.holder is None or self.state not in ACTING:
            return None
        permit = self.holder.permit(now)
        return permit if permit.allows(now) else None

    def deadline(self) -> Instant:
        """Instant at which `TimePassed` is due. What was due at the last step is looked at again by the next beat."""
        due = [self.candidate.deadline(), self.candidate.promise_until, self.handover.deadline()]
        if self.holder is not None:
            due += [self.holder.renew_at, self.holder.lease.until]
        return Instant(min((at for at in due if self._stepped_at < at < self._beat_at), default=self._beat_at))

    def _from_peer(self, message: PeerMessage, path: int, now: Instant) -> None:
        own = self.own
        why: Why | None = self.peer.why_refused(message, own)
        if why is None and self.state not in HEARS[type(message)]:
            why = Untimely(type(message), self.state)
        if why is not None:
            own.refuse(why)
            if why is Objection.CLONED_STORE and self.peer.is_new_clone(message.run):
                own.out.append(CaseTold("store_refused", True, "the other member has a copy of this store"))
            return
        match message:
            case Heartbeat():
                self._heartbeat(message, path, now)
            case HeartbeatAnswered():
                self._answered(message, path, now)
            case FollowAsked() | FollowAcked() | FoldsAsked() | RangeAsked() | Leaving():
                if self.holder is not None:
                    self.holder.hears(message, now)
            case FollowAnswered():
                if self.following is not None and self.following.answered(message):
                    self.candidate.is_warm = True
                    self._move(State.CATCHING_UP, f"follows epoch {message.epoch}")
            case Frames() | FoldsSent() | RangeSent():
                if self.following is not None:
                    self.following.hears(message, now)
            case Yielded():
                self._yielded(message, now)

    def _heartbeat(self, heartbeat: Heartbeat, path: int, now: Instant) -> None:
        if self.peer.hear(heartbeat, now):
            self._consider(heartbeat, now)
        elif heartbeat != self.peer.last:
            self.own.refuse(Objection.OLD_HEARTBEAT)
            return
        self.own.out.append(TellPeer(path, self._answer_to(heartbeat, now)))

    def _consider(self, heartbeat: Heartbeat, now: Instant) -> None:
        """Follow a holder, give way to a higher one, leave one that restarted."""
        own, holder, following = self.own, self.holder, self.following
        if holder is not None:
            holder.compare(heartbeat)
            if heartbeat.is_holder and heartbeat.epoch > holder.epoch:
                self._depose(f"holder of epoch {heartbeat.epoch} heard")
            elif heartbeat.accepted_epoch > holder.epoch:
                holder.must_raise = True
        if following is not None and following.run != heartbeat.run:
            self._unfollow("holder restarted")
        if self.holder is None and (apart := why_apart(own, heartbeat)):
            own.refuse(apart)
            self._unfollow(apart)
        elif self.holder is None and heartbeat.is_holder and heartbeat.epoch >= own.accepted_epoch:
            self._follow(heartbeat, now)
        elif self.following is not None:
            self.following.heartbeat(heartbeat, now)

    def _follow(self, holder: Heartbeat, now: Instant) -> None:
        if self.candidate.candidacy is not None:
            self.candidate.withdraw("holder_heard", now)
        if self.state in HOLDING:
            self._depose(f"holder of epoch {holder.epoch} heard")
        following = self.following
        if following is None or not following.is_of(holder):
            self._unfollow(f"holder of epoch {holder.epoch} heard")
            self.following = following = self.following_type(self.own, holder, now)
        following.heartbeat(holder, now)
        if not following.is_verified:
            if now >= following.ask_at:
                following.ask(now)
        elif holder.session != following.session and holder.session:
            self._unfollow("session lost")
        else:
            is_in = self.own.index in holder.members
            self._move(State.READY if is_in else State.CATCHING_UP, "in the set" if is_in else "out of the set")

    def _answer_to(self, heartbeat: Heartbeat, now: Instant) -> HeartbeatAnswered:
        own, candidate, following = self.own, self.candidate, self.following
        follows = following is not None and following.is_verified and following.is_of(heartbeat)
        is_leading = heartbeat.is_acting or (heartbeat.is_holder and candidate.is_out_of_reach)
        is_promised = follows and is_leading and candidate.candidacy is None and self.handover.force_at is None
        if is_promised:
            candidate.promise(now)
        return answer_of(own, heartbeat, follows=follows, is_promised=is_promised)

    def _answered(self, answer: HeartbeatAnswered, path: int, now: Instant) -> None:
        self.own.path, holder = path, self.holder
        if holder is None:
            return
        if answer.is_promised and answer.following_epoch == holder.epoch:
            holder.lease.promised(answer.echo, now)
        elif answer.accepted_epoch > holder.epoch:
            holder.must_raise = True

    def _yielded(self, message: Yielded, now: Instant) -> None:
        own, following = self.own, self.following
        is_level = own.log.end == own.log.durable == message.position
        if following is None or following.epoch != message.epoch or not is_level:
            own.refuse(Objection.NOT_LEVEL)
            return
        self.candidate.yielded_until = after(now, self.config.lease_ns)
        self.candidate.retry_at = now

    def _voted(self, voted: Voted, now: Instant) -> None:
        if voted.cluster != self.config.cluster or voted.voter not in self.config.voters:
            self.own.refuse(Objection.FOREIGN_VOTER)
            return
        if voted.to_run != self.own.run:
            self.own.refuse(Objection.NOT_FOR_THIS_RUN)
            return
        if voted.reason in COUNTED:
            self.own.refuse(COUNTED[voted.reason])
        holder = self.holder
        if holder is not None and voted.question == "pair_accept":
            cause = holder.voted(voted, now)
            if cause:
                self._depose(cause)
        outcome = self.candidate.voted(voted, now)
        if isinstance(outcome, Grant):
            self._begin(outcome, now)
        else:
            self._proceed(outcome, now)

    def _proceed(self, outcome: CandidacyOutcome, now: Instant) -> None:
        match outcome:
            case CandidacyOutcome.RENEWABLE if self.holder is not None:
                self.holder.may_renew = True
                self.holder.has_yielded = False
                self.handover.until = None
                self.candidate.retry_at = self._stand_again_at = after(now, self.config.attempt_ns)
                self.holder.renew(now)
            case CandidacyOutcome.ACCEPTABLE:
                self._unfollow(STANDS)
                if self.holder is not None:
                    self.hold_off = self.holder.hold_off
                    self._move(State.SUSPENDED, "prepares again")
                    self.holder = None
                self.candidate.accept(now)
            case CandidacyOutcome.WITHDRAWN if self.holder is not None and self.candidate.last_stop == "higher_record":
                self._depose("higher record read")
            case CandidacyOutcome.WITHDRAWN if self.state in FOLLOWING and self.candidate.last_stop == "not_in_set":
                if self.state is State.READY or self.following is None or not self.following.is_fed(now):
                    self._unfollow("out of the set, as a majority of voters says")
            case CandidacyOutcome.WITHDRAWN if self.holder is None and self.state is State.SUSPENDED:
                self._move(State.JOINING, "could not prepare again")
            case _:
                pass

    def _begin(self, grant: Grant, now: Instant) -> None:
        """Begin a tenure, as the record is confirmed: own log to its end, then the no-op of the new epoch (rule 7)."""
        self.following = None
        self.handover.until = None
        self.candidate.is_warm = True
        if self.holder is not None:
            self.hold_off = self.holder.hold_off
        self.holder = self.holder_type(self.own, self.peer, grant, self.hold_off, now)
        entry = EpochEntry(grant.epoch, self.own.log.end.sequence + 1, self.own.chance.getrandbits(64))
        self._move(State.RECOVERING, f"epoch {grant.epoch} {'taken by force' if grant.is_forced else 'granted'}")
        self.own.out += [GrantEpoch(entry), AppendNoOp(grant.epoch)]

    def _depose(self, cause: str) -> None:
        if self.holder is not None:
            self.hold_off = self.holder.hold_off
        self._move(State.JOINING, cause)
        self.holder = None
        self.handover.until = None

    def _unfollow(self, cause: str) -> None:
        self.following = None
        if self.state in FOLLOWING:
            self._move(State.JOINING, cause)

    def _fence(self, reason: str) -> None:
        self._move(State.FENCED, reason)
        self.holder = self.following = None
        self.candidate.candidacy = None

    def _settle(self, now: Instant) -> None:
        outcome = self.candidate.tick(now)
        if outcome is not CandidacyOutcome.OPEN:
            self._proceed(outcome, now)
        if self.following is not None and self.following.has_new_damage:
            self._unfollow("records are damaged")  # Out of the set first, so ask anew.
        forced = self.handover.forced(now)
        if forced is not None:
            self._begin(forced, now)
        if self.holder is not None:
            self._lead(self.holder, now)
        elif self.state not in HOLDING and not self.handover.keeps_back and self.candidate.may_stand(now):
            has_yielded = now < self.candidate.yielded_until
            self.candidate.begin(CandidacyKind.SWITCHOVER if has_yielded else CandidacyKind.TAKEOVER, now)
        self.handover.stop(self.holder, self.state, now)
        if now >= self._beat_at:
            self._beat_all(now)
        self._tell_permit(now)

    def _lead(self, holder: Holder, now: Instant) -> None:
        """Lead: stop effects first if the lease is over; renew, change the set, commit; then take the new state."""
        self._show(holder, now)
        holder.tick(now)
        holder.commit(now)
        self._show(holder, now)
        if self.handover.is_due(holder, self.state, now):
            self._move(State.SUSPENDED, "yielded")
            self.handover.give_away(holder, now)
        if not self.candidate.is_free(now) or holder.is_stalled(now):
            return
        if holder.must_raise:
            holder.must_raise = False
            self.candidate.begin(CandidacyKind.RAISE, now)
        elif not holder.may_renew or (self.state is State.SUSPENDED and now >= self._stand_again_at):
            holder.may_renew = False
            self.candidate.begin(CandidacyKind.RENEWAL, now)

    def _show(self, holder: Holder, now: Instant) -> None:
        """Take the state that the tenure amounts to."""
        new = holder.state(now)
        if new is State.SUSPENDED and self.state is not State.SUSPENDED:
            holder.may_renew = False  # Not before a READ shows that nobody else holds.
            self._move(new, "lease over")
        elif new is not State.SUSPENDED:
            self._move(new, "in charge" if new in ACTING else "epoch granted")

    def _beat_all(self, now: Instant) -> None:
        """Send a heartbeat over every path, with the same number; none while a holder's disk hangs (rule 5)."""
        self._beat_at = after(now, self.config.heartbeat_ns)
        if self.holder is None or not self.holder.is_stalled(now):  # Beats keep the other from standing.
            self._beat += 1
            beat = heartbeat_of(self.own, self.state, self.holder, self.following, self._beat, now)
            self.own.out += [TellPeer(path, beat) for path in range(self.config.paths)]

    def _tell_permit(self, now: Instant) -> None:
        permit = self.permit(now)
        if permit is not None and permit != self._permit:
            self.own.out.append(permit)
        self._permit = permit

    def _move(self, new: State, cause: str) -> None:
        old = self.state
        if new is old:
            return
        assert new in MOVES[old], f"{old} -> {new}: {cause}"
        out = self.own.out
        epoch = self.holder.epoch if self.holder is not None else self.own.log.history.epoch
        if old in ACTING and new not in ACTING:
            out.append(StopServing(epoch, cause))
        self.state = new
        out.append(Transitioned(old, new, cause))
        if new in ACTING and old not in ACTING:
            out.append(Serve(epoch))
        if (old is State.SOLO) != (new is State.SOLO):
            out.append(CaseTold("at_risk", new is State.SOLO, f"since {self.own.log.told}"))
