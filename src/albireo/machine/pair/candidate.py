"""Candidate: when a member may ask the voters for an epoch; how READ, PREPARE and ACCEPT come to a grant or to nothing.

Invariants
    promise:    no candidacy is open, and none is opened, before `promise_until`, save when the holder is known to be
                gone or said itself that it acts no more.
    tried:      on the disk before PREPARE leaves; no epoch is ever tried twice.
    accepted:   on the disk before ACCEPT leaves; nothing lower is followed from then on.

Not decided here: what a grant means (the member begins a tenure), who is heard.
Spec: design/pair.md, rules 1, 4, 8, 12.
"""

from enum import Enum
from typing import ClassVar

from albireo.codec.pair_message import Accept, Prepare, Read, Record, Voted
from albireo.machine.pair.candidacy import Candidacy, CandidacyKind, Grant, Phase, Tally
from albireo.machine.pair.config import after
from albireo.machine.pair.events import Objection
from albireo.machine.pair.party import Party, Peer
from albireo.model.instant import Instant


class CandidacyOutcome(Enum):
    OPEN = "open"
    WITHDRAWN = "withdrawn"
    RENEWABLE = "renewable"
    """The own record is still the highest: the same epoch may be renewed."""
    ACCEPTABLE = "acceptable"
    """A majority promised; the member says when ACCEPT goes out."""


class Candidate:
    """Candidacies of one run, one at a time."""

    candidacy_type: ClassVar[type[Candidacy]] = Candidacy

    def __init__(self, own: Party, peer: Peer, now: Instant) -> None:
        self.own = own
        self.peer = peer
        self.started_at = now
        self.promise_until = after(now, own.config.lease_and_drift)
        """Instant until which the promise (4b) binds; at first, because one of the run before may still hold."""
        self.retry_at = now
        self.candidacy: Candidacy | None = None
        self.outputs_from = Instant(0)
        """Instant until which earlier holders may write, whatever this run is granted meanwhile."""
        self.yielded_until = now
        """Instant until which this member stands without waiting, as the holder said that it acts no more."""
        self.is_warm = False
        """True: this run has followed or led, and knows of no reason to wait for the other member."""
        self.is_out_of_reach = False
        """True: the last attempt found no majority of voters."""
        self.last_stop = ""

    def promise(self, now: Instant) -> None:
        """Open no candidacy before lease + drift from now, so that the holder may act on this promise (4b)."""
        self.promise_until = max(self.promise_until, after(now, self.own.config.lease_and_drift))

    def is_free(self, now: Instant) -> bool:
        """True: a candidacy could be opened: none is, and the pause after the last one is over."""
        return bool(self.own.config.voters) and self.candidacy is None and now >= self.retry_at

    def may_stand(self, now: Instant) -> bool:
        """True: a takeover or switchover may be opened now."""
        own = self.own
        if not (own.log.is_whole and own.is_complete and own.knows_log) or not self.is_free(now):
            return False
        if now < self.yielded_until or self.peer.is_gone:
            return True
        return now >= self.promise_until and not self.peer.is_led_by(now, own.config)

    def _why_not(self, candidacy: Candidacy, now: Instant) -> str:
        """Reason against preparing, now that a majority was read; empty: none."""
        own, record = self.own, candidacy.highest
        if record is None:
            return "no_record"
        if own.index not in record.members:
            return "not_in_set"
        if candidacy.floor > own.log.end:
            return "below_floor"
        if candidacy.is_lease_running:
            return "lease_runs"
        if candidacy.kind is CandidacyKind.SWITCHOVER:
            return ""
        if self.peer.is_led_by(now, own.config):
            return "holder_heard"
        return "" if self.is_warm else self._why_wait(record, now)

    def _why_wait(self, record: Record, now: Instant) -> str:
        """Reason for a run's first candidacy to wait, if any: the better store leads, and alone only after a while."""
        own, other = self.own, self.peer.last
        if record.members == (own.index,) or now - self.started_at >= own.config.cold_wait_ns:
            return ""
        if other is None or not self.peer.is_present(now, own.config):
            return "cold_wait"
        if other.is_held:
            return ""  # Both are in the set, so what the other has more was never acknowledged.
        return "" if (own.log.end, -own.index) > (other.end, -own.other) else "other_is_higher"

    def begin(self, kind: CandidacyKind, now: Instant) -> None:
        self.candidacy = self.candidacy_type(kind, self.own.config, now)
        self._send(Phase.READ, now)

    def _send(self, phase: Phase, now: Instant) -> None:
        """Enter a phase, or send its question again."""
        own, candidacy = self.own, self.candidacy
        assert candidacy is not None
        number = own.next_round()
        if phase is candidacy.phase and candidacy.first_round:
            candidacy.sent_again(number, now)
        else:
            candidacy.enter(phase, number, now)
        match phase:
            case Phase.READ:
                own.ask_all(Read(**own.voter_head, round=number))
            case Phase.PREPARE:
                own.ask_all(Prepare(**own.voter_head, round=number, epoch=candidacy.epoch))
            case Phase.ACCEPT:
                assert candidacy.proposed is not None
                own.ask_all(Accept(**own.voter_head, round=number, record=candidacy.proposed, floor=own.log.told))

    def withdraw(self, reason: str, now: Instant) -> CandidacyOutcome:
        """End the attempt; the next one comes after a drawn pause, so that two members do not keep each other out."""
        self.candidacy = None
        self.last_stop = reason
        beat = self.own.config.heartbeat_ns
        self.retry_at = after(now, self.own.chance.randrange(beat // 2, beat * 3 // 2))
        return CandidacyOutcome.WITHDRAWN

    def tick(self, now: Instant) -> CandidacyOutcome:
        """Send ACCEPT again; withdraw what found no majority, or what the holder's voice has made needless."""
        candidacy, config = self.candidacy, self.own.config
        if candidacy is None:
            return CandidacyOutcome.OPEN
        if candidacy.phase is Phase.ACCEPT:
            if now - candidacy.sent_at >= config.renew_ns:
                self._send(Phase.ACCEPT, now)
            return CandidacyOutcome.OPEN
        if candidacy.kind is CandidacyKind.TAKEOVER and self.peer.is_led_by(now, config):
            return self.withdraw("holder_heard", now)
        if now - candidacy.phase_at >= config.attempt_ns:
            self.is_out_of_reach = True
            return self.withdraw("no_majority", now)
        return CandidacyOutcome.OPEN

    def voted(self, voted: Voted, now: Instant) -> CandidacyOutcome | Grant:
        candidacy = self.candidacy
        if candidacy is None:
            return CandidacyOutcome.OPEN
        tally = candidacy.take(voted)
        if tally is Tally.OPEN:
            return CandidacyOutcome.OPEN
        self.is_out_of_reach = False
        if tally is Tally.FAILED:
            self.own.tried_epoch = max(self.own.tried_epoch, candidacy.promised)
            return self.withdraw("refused", now)
        match candidacy.phase:
            case Phase.READ:
                return self._read(candidacy, now)
            case Phase.PREPARE:
                return self._prepared(candidacy, now)
            case Phase.ACCEPT:
                return self._granted(candidacy, now)

    def _read(self, candidacy: Candidacy, now: Instant) -> CandidacyOutcome:
        if candidacy.kind in (CandidacyKind.RENEWAL, CandidacyKind.RAISE):
            record = candidacy.highest
            if record is None or record.run != self.own.run:
                return self.withdraw("higher_record", now)
            if candidacy.kind is CandidacyKind.RENEWAL and candidacy.promised <= record.epoch:
                self.candidacy = None
                return CandidacyOutcome.RENEWABLE
            candidacy.kind = CandidacyKind.RAISE
        else:
            reason = self._why_not(candidacy, now)
            if reason:
                self.withdraw(reason, now)
                if reason == "lease_runs" and candidacy.kind is CandidacyKind.SWITCHOVER:
                    # The holder's RELEASE left before its word came here, and may still be on its way to the voters.
                    self.retry_at = after(now, self.own.config.heartbeat_ns // 10)
                return CandidacyOutcome.WITHDRAWN
        own = self.own
        if not own.log.takes_epoch:
            own.refuse(Objection.EPOCHS_FULL)
            return self.withdraw(Objection.EPOCHS_FULL.value, now)
        candidacy.epoch = own.tried_epoch = own.next_epoch(candidacy.promised)
        own.persist()
        self._send(Phase.PREPARE, now)
        return CandidacyOutcome.OPEN

    def _prepared(self, candidacy: Candidacy, now: Instant) -> CandidacyOutcome:
        own, record = self.own, candidacy.highest
        if record is None or own.index not in record.members:
            return self.withdraw("not_in_set", now)
        if candidacy.floor > own.log.end:
            return self.withdraw("below_floor", now)
        if candidacy.kind is CandidacyKind.RAISE and record.run != own.run:
            return self.withdraw("higher_record", now)
        keeps_set = candidacy.kind in (CandidacyKind.RAISE, CandidacyKind.SWITCHOVER)
        candidacy.proposed = Record(
            cluster=own.config.cluster,
            voters=own.config.voters,
            generation=own.config.generation,
            epoch=candidacy.epoch,
            version=1,
            holder=own.index,
            run=own.run,
            members=record.members if keeps_set else (own.index,),
            lease_ns=own.config.lease_ns,
        )
        return CandidacyOutcome.ACCEPTABLE

    def accept(self, now: Instant) -> None:
        """Send ACCEPT, the point of no return, once the epoch is on the disk."""
        assert self.candidacy is not None
        own = self.own
        own.accepted_epoch = self.candidacy.epoch
        own.persist()
        self._send(Phase.ACCEPT, now)

    def _granted(self, candidacy: Candidacy, now: Instant) -> Grant:
        config = self.own.config
        assert candidacy.proposed is not None
        if candidacy.kind is CandidacyKind.TAKEOVER:
            left_ns = max(candidacy.lease_left_ns - (now - candidacy.phase_at), self.promise_until - now, 0)
            if left_ns:
                self.outputs_from = max(self.outputs_from, after(now, config.with_drift(left_ns)))
        self.candidacy = None
        return Grant(
            epoch=candidacy.epoch,
            members=candidacy.proposed.members,
            accepted_by=tuple(answer.voter for answer in candidacy.granted),
            from_voters=after(candidacy.phase_at, config.lease_ns),
            not_before=self.outputs_from,
        )

    def deadline(self) -> Instant:
        """Instant at which the candidacy under way is due again, or the next one may be opened."""
        candidacy, config = self.candidacy, self.own.config
        if candidacy is None:
            return self.retry_at
        wait = config.renew_ns if candidacy.phase is Phase.ACCEPT else config.attempt_ns
        return after(candidacy.sent_at, wait)
