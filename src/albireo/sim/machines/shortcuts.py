"""Parts of the pair with one rule left out, to show that the simulated world would notice.

Each is a subclass of a real part with one method replaced. None of them is reachable from a node.
Spec: design/pair.md, How it is proven; ADR-0094.
"""

from collections.abc import Sequence

import msgspec

from albireo.codec.pair_message import Accept, FollowAnswered, FollowAsked, Voted
from albireo.codec.register_block import BLOCK_REGISTERS, Ballot, encode_ballot, encode_life
from albireo.machine.pair.candidacy import Candidacy, CandidacyKind, Grant
from albireo.machine.pair.candidate import CandidacyOutcome, Candidate
from albireo.machine.pair.events import SwitchoverAsked
from albireo.machine.pair.following import Following
from albireo.machine.pair.handover import Handover
from albireo.machine.pair.holder import Holder
from albireo.machine.pair.lease import Lease
from albireo.machine.pair.party import Party
from albireo.machine.pair.set_changes import SetChanges
from albireo.machine.vote.events import Effect as RegisterEffect
from albireo.machine.vote.events import RegisterPhase
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import Effect, Voter
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING, Position
from albireo.sim.machines.plc import first_ballot


class LeadsAlone(Holder):
    """Holder that acknowledges a record before the passive member has it."""

    def _committable(self) -> int:
        return self.own.log.durable.sequence


class AsksNobody(Holder):
    """Holder that goes solo without the voters."""

    def ask_set(self, members: tuple[int, ...], now: Instant) -> None:
        super().ask_set(members, now)
        self.changes.decide()


class AddIsFree(SetChanges):
    """Set changes by which acknowledgements don't wait for a member whose add is in flight."""

    def _required(self) -> frozenset[int]:
        return frozenset(self.confirmed or self.latest.members)


class LeadsWithFreeAdd(Holder):
    changes_type = AddIsFree


class FromTheAnswer(Lease):
    """Lease that is counted from the answer instead of from the send."""

    def _counted(self, sent: Instant, now: Instant) -> Instant:
        return super()._counted(now, now)


class LeadsFromTheAnswer(Holder):
    lease_type = FromTheAnswer


class BelievesHello(Holder):
    """Holder that takes what a follower says it has for an acknowledgement."""

    def asked(self, hello: FollowAsked, now: Instant) -> None:
        super().asked(hello, now)
        if self.session == hello.session:
            self.match = max(self.match, min(hello.end.sequence, self.own.log.end.sequence))


class KeepsMatch(Holder):
    """Holder that goes on counting what the other member had in an earlier session, whatever it comes back with."""

    def asked(self, hello: FollowAsked, now: Instant) -> None:
        before = self.match
        super().asked(hello, now)
        self.match = max(self.match, before)


class ForgetsOwnPromise(Candidate):
    """Candidate that writes outputs as soon as no voter counts a lease, although its own promise still binds (4b)."""

    def _granted(self, candidacy: Candidacy, now: Instant) -> Grant:
        until, self.promise_until = self.promise_until, now
        grant = super()._granted(candidacy, now)
        self.promise_until = until
        return grant


class OneIsEnough(Candidacy):
    """Candidacy that relies on a record read at a minority."""

    @property
    def _needed(self) -> int:
        return 1


class StandsWithOne(Candidate):
    candidacy_type = OneIsEnough


class BreaksPromise(Candidate):
    """Candidate that opens a candidacy although it promised the holder none (4b)."""

    def promise(self, now: Instant) -> None:
        self.promise_until = now


class KeepsTail(Following):
    """Follower that acknowledges its own length instead of what was verified: it never cuts."""

    def answered(self, answer: FollowAnswered) -> bool:
        if answer.position < self.own.log.end.sequence:
            answer = msgspec.structs.replace(answer, position=self.own.log.end.sequence)
        return super().answered(answer)


class ActsOnPromises(Candidate):
    """Candidate that leads as soon as a majority promised: the record it found is not written back under its epoch."""

    def voted(self, voted: Voted, now: Instant) -> CandidacyOutcome | Grant:
        outcome = super().voted(voted, now)
        candidacy = self.candidacy
        if (
            outcome is not CandidacyOutcome.ACCEPTABLE
            or candidacy is None
            or candidacy.kind is not CandidacyKind.TAKEOVER
        ):
            return outcome
        self.own.accepted_epoch = candidacy.epoch
        self.own.persist()
        return self._granted(candidacy, now)


class WritesAtOnce(Candidate):
    """Candidate that writes outputs from the grant on, although the old holder's lease may still run (rule 12)."""

    def _granted(self, candidacy: Candidacy, now: Instant) -> Grant:
        return msgspec.structs.replace(super()._granted(candidacy, now), not_before=Instant(0))


class LowCandidacy(Candidacy):
    @property
    def floor(self) -> Position:
        return BEGINNING


class IgnoresFloor(Candidate):
    """Candidate that stands with a log that ends below what was committed: an old disk."""

    candidacy_type = LowCandidacy


class YieldsOverWrites(Handover):
    """Handover that gives the lead away while an output write may be under way."""

    def begin(self, holder: Holder | None, order: SwitchoverAsked, now: Instant) -> None:
        super().begin(holder, order, now)
        self.writes_until = now


class TakesTheWordForTheEnd(Handover):
    """Handover that waits until nothing is written any more, and not until what was written has landed."""

    def outputs_ended(self, until: Instant) -> None:
        super().outputs_ended(Instant(0))


class TakesSilenceForTheEnd(Handover):
    """Handover that waits for the end of the permit only, as a takeover does, though an adapter has not said a word."""

    def begin(self, holder: Holder | None, order: SwitchoverAsked, now: Instant) -> None:
        super().begin(holder, order, now)
        if self.writes_until is None and holder is not None:
            self.writes_until = holder.permit(now).not_after


class NeverWaits(Voter):
    """Voter that starts without waiting for a lease that it may have granted."""

    def _start_wait(self, now: Instant, drift: float) -> Instant:
        return now


class IgnoresLease(Voter):
    """Voter that promises at any time: the lease keeps nobody away."""

    def _accept(self, question: Accept, now: Instant) -> list[Effect]:
        effects = super()._accept(question, now)
        self.lease_end = now
        return effects


class BreaksItsPromise(Voter):
    """Voter that accepts a record of a lower epoch than it promised."""

    def _accept(self, question: Accept, now: Instant) -> list[Effect]:
        store = self.store
        assert store is not None
        if store.record.epoch <= question.record.epoch < store.promised:
            self.store = msgspec.structs.replace(store, promised=question.record.epoch)
        return super()._accept(question, now)


class ForgetsVersions(Voter):
    """Voter to which set changes have no version: the last message of an epoch wins."""

    def _accept(self, question: Accept, now: Instant) -> list[Effect]:
        store = self.store
        assert store is not None
        if question.record.epoch == store.record.epoch:
            self.store = msgspec.structs.replace(store, record=msgspec.structs.replace(store.record, version=0))
        return super()._accept(question, now)


class ZeroIsInitial(RegisterVoter):
    """Register voter that reads a block of zeros as one that nobody wrote yet."""

    def _other(self, words: Sequence[int]) -> Ballot | str:
        found = super()._other(words)
        return first_ballot(self.config, 1 - self.config.member) if found == "other_zero" else found


class NoReadBack(RegisterVoter):
    """Register voter that takes the answer to a write for the write: it does not look if its own block shows it."""

    def _read(self, words: Sequence[int], now: Instant) -> list[RegisterEffect]:
        if self.state.phase is not RegisterPhase.LOOKING and self.state.copy is not None:
            start = self.config.member * BLOCK_REGISTERS
            own = (*encode_ballot(self.state.copy.ballot), 0, *encode_life(self.state.life))
            words = (*words[:start], *own, *words[start + len(own) :])
        return super()._read(words, now)


class NoDeadTime(RegisterVoter):
    """Register voter that goes on at once after its connection broke: an old write may still be on its way."""

    def _lost(self, now: Instant) -> list[RegisterEffect]:
        effects = super()._lost(now)
        self._become(silent_until=now)
        return effects


class ReusesEpoch(Party):
    """Party that continues with the epoch that the run before had."""

    def next_epoch(self, promised: int) -> int:
        last = max((e.epoch for e in self.log.history.entries if e.epoch % 2 == self.index), default=0)
        return last or super().next_epoch(promised)
