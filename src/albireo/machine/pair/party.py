"""The two parties of a pair, as one of them knows them: itself, and the other member as it was heard.

Where the own log stands is not kept here: the log says it with each event, and what a step changes in the log is seen
in the next step.

Spec: design/pair.md, Parts; rule 13; Bad input of the pair.
"""

import random
from typing import Final, TypedDict

import msgspec

from albireo.codec.pair_message import Between, Heartbeat, PeerMessage, Question
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import AskVoter, Commit, Effect, Objection, PersistStore, Refused, TellPeer, Why
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from albireo.model.position import BEGINNING, EpochHistory, Position

RUNS_MAX: Final = 8
"""Most runs of the other member whose last heartbeat is remembered, so that a replay of it is known as one."""
LONG_AGO: Final = Instant(-(1 << 62))


class PeerHead(TypedDict):
    """First fields of each message to the other member: `Between`."""

    cluster: str
    member: int
    run: int
    store: str


class VoterHead(TypedDict):
    """First fields of each question to a voter: `ToVoter` without the round."""

    cluster: str
    generation: int
    member: int
    run: int


class MemberFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that the shell found when it opened the store."""

    index: int
    """0 primary, 1 backup: a tie-break at the first start only, and the parity of its epochs."""
    run: int
    store: str
    tried_epoch: int = 0
    accepted_epoch: int = 0
    is_complete: bool = True
    """True: the log goes on from its first record, or from a snapshot. Otherwise there is no state to go on with."""
    feature_level: int = FIRST_LEVEL
    """Highest feature level that this member knows, or is held back to."""
    log_level: int = FIRST_LEVEL
    """Feature level of the log, as far as it is committed."""


class Party:
    """This member: who it is, what it promised on its disk, its log as this step sees it, and the step's effects."""

    def __init__(self, config: PairConfig, facts: MemberFacts, chance: random.Random) -> None:
        self.config = config
        self.index = facts.index
        self.other = 1 - facts.index
        self.run = facts.run
        self.store = facts.store
        self.peer_head = PeerHead(cluster=config.cluster, member=self.index, run=self.run, store=self.store)
        self.voter_head = VoterHead(
            cluster=config.cluster, generation=config.generation, member=self.index, run=self.run
        )
        self.chance = chance
        self.log = LogView()
        """View of the log that came with the event of this step, and what the step itself commits."""
        self.tried_epoch = facts.tried_epoch
        self.accepted_epoch = facts.accepted_epoch
        self.is_complete = facts.is_complete
        """True: what the log says is known from its first record on, and would be after a restart too."""
        self.lacks_folds = not facts.is_complete
        self.folds_at = BEGINNING
        """Position of the folds that the holder gave, until a snapshot of this log has them."""
        self.feature_level = facts.feature_level
        self.log_level = facts.log_level
        self.adapters = self.reaches = 0
        """Number of adapters of this member, and of devices that they reach, for the other member."""
        self.out: list[Effect] = []
        self.is_held = False
        """True: no candidacy is opened, for maintenance or before a stop together with the other member."""
        self.path = 0
        """Path on which a heartbeat was answered last: data takes the same way."""
        self._round = 0

    @property
    def knows_log(self) -> bool:
        """True: the own log is not above the feature level that this member knows."""
        return self.log_level <= self.feature_level

    def next_round(self) -> int:
        self._round += 1
        return self._round

    def next_epoch(self, promised: int) -> int:
        """Lowest epoch of this member above everything it knows of."""
        above = max(promised, self.tried_epoch, self.accepted_epoch, self.log.history.epoch) + 1
        return above + (above % 2 != self.index)

    def completed(self, is_complete: bool) -> None:
        """Take note that a snapshot of this log has the folds, so that a restart goes on from it; or that none has."""
        self.is_complete = is_complete
        self.folds_at = BEGINNING if is_complete else self.folds_at

    def has_folds_of(self, history: EpochHistory) -> bool:
        """True: the folds that were given are of a log with this history."""
        return history.epoch_of(self.folds_at.sequence) == self.folds_at.epoch

    def commit(self, position: Position) -> None:
        """Commit up to `position`: this machine alone decides it, so the rest of its step counts on it."""
        self.log = msgspec.structs.replace(self.log, told=position)
        self.out.append(Commit(position))

    def persist(self, history: EpochHistory | None = None) -> None:
        self.out.append(PersistStore(self.tried_epoch, self.accepted_epoch, history))

    def ask_all(self, question: Question) -> None:
        self.out += [AskVoter(voter, question) for voter in self.config.voters]

    def tell(self, message: PeerMessage) -> None:
        self.out.append(TellPeer(self.path, message))

    def refuse(self, why: Why) -> None:
        self.out.append(Refused(why))


class Peer:
    """The other member as heard."""

    def __init__(self) -> None:
        self.run = 0
        self.heard_at = LONG_AGO
        """Instant of the last fresh heartbeat, on any path."""
        self.acting_at = LONG_AGO
        """Instant of the last heartbeat that said that its sender leads under its lease."""
        self.last: Heartbeat | None = None
        self.gone_run = 0
        """Run whose process is known to be gone; 0: none."""
        self._beats: dict[int, int] = {}
        self._clone_run = 0

    def why_refused(self, message: Between, own: Party) -> Objection | None:
        """Reason why the sender, or the run it means, is not the right one; None: both are."""
        if message.cluster != own.config.cluster:
            return Objection.FOREIGN_CLUSTER
        if message.member == own.index:
            return Objection.SAME_MEMBER
        if message.store == own.store:
            return Objection.CLONED_STORE
        if not isinstance(message, Heartbeat) and message.run != self.run:
            return Objection.UNKNOWN_RUN
        to_run = getattr(message, "to_run", own.run)
        return None if to_run == own.run else Objection.NOT_FOR_THIS_RUN

    def is_new_clone(self, run: int) -> bool:
        """True once for each run that has this member's own store."""
        is_new, self._clone_run = run != self._clone_run, run
        return is_new

    def hear(self, heartbeat: Heartbeat, now: Instant) -> bool:
        """Take a heartbeat; False for a copy from another path or a replay."""
        if heartbeat.beat <= self._beats.get(heartbeat.run, 0):
            return False
        self._beats.pop(heartbeat.run, None)
        self._beats[heartbeat.run] = heartbeat.beat
        while len(self._beats) > RUNS_MAX:
            del self._beats[next(iter(self._beats))]
        self.run = heartbeat.run
        self.last = heartbeat
        self.heard_at = now
        self.gone_run = 0
        if heartbeat.is_acting:
            self.acting_at = now
        return True

    def is_present(self, now: Instant, config: PairConfig) -> bool:
        return now - self.heard_at < config.silence_ns and not self.is_gone

    def is_led_by(self, now: Instant, config: PairConfig) -> bool:
        """True: the other member was heard as an acting holder a short while ago."""
        return now - self.acting_at < config.silence_ns and not self.is_gone

    @property
    def is_gone(self) -> bool:
        return self.gone_run != 0 and self.gone_run == self.run
