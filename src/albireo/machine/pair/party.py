"""What a member knows of itself and of the other one: its store and log by position, and when the other was heard.

Spec: design/pair.md, Parts; rule 13; Bad input of the pair.
"""

import random
from typing import Final, TypedDict

import msgspec

from albireo.codec.pair_message import Between, Heartbeat, PeerMessage, Question
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    AskVoter,
    BeginMoved,
    Completed,
    Effect,
    LevelFolded,
    PersistStore,
    Refused,
    TellPeer,
)
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant
from albireo.model.log_view import Beginning
from albireo.model.position import BEGINNING, EpochEntry, EpochHistory, Position

RUNS_MAX: Final = 8
"""Runs of the other member whose last heartbeat is remembered, so that a replay of it is known as one."""
LONG_AGO: Final = Instant(-(1 << 62))


class PeerHead(TypedDict):
    """What each message to the other member begins with: `Between`."""

    cluster: str
    member: int
    run: int
    store: str


class VoterHead(TypedDict):
    """What each question to a voter begins with: `ToVoter` without the round."""

    cluster: str
    generation: int
    member: int
    run: int


class MemberFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the shell found when it opened the store."""

    index: int
    """0 primary, 1 backup: a tie-break at the first start only, and the parity of its epochs."""
    run: int
    store: str
    history: EpochHistory
    end: Position
    durable: Position
    committed: Position
    tried_epoch: int = 0
    accepted_epoch: int = 0
    is_whole: bool = True
    """Opened without loss or damage at or below the commit position."""
    damaged_from: int = 0
    """First damaged sequence that stands below the log's end; 0: none does."""
    is_complete: bool = True
    """The log goes on from its first record, or from a snapshot. Otherwise there is no state to go on with."""
    begin: Beginning = Beginning()
    """Where the log begins."""
    feature_level: int = FIRST_LEVEL
    """The highest that this member knows, or is held back to."""
    log_level: int = FIRST_LEVEL
    """Feature level of the log, as far as it is committed."""


class Party:
    """This member: its positions, its promises on disk, and the effects of the step under way."""

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
        self.history = facts.history
        self.end = facts.end
        self.durable = facts.durable
        self.committed = facts.committed
        self.tried_epoch = facts.tried_epoch
        self.accepted_epoch = facts.accepted_epoch
        self.is_whole = facts.is_whole
        self.damaged_from = facts.damaged_from
        self.is_complete = facts.is_complete
        """What the log says is known from its first record on, and would be after a restart too."""
        self.lacks_folds = not facts.is_complete
        self.folds_at = BEGINNING
        """Where the folds that the holder gave stand, until a snapshot of this log has them."""
        self.begin = facts.begin
        self.feature_level = facts.feature_level
        self.log_level = facts.log_level
        self.reaches = 0
        """Devices that its adapters reach, for the other member."""
        self.has_room = True
        """Its disk takes what is appended, for the other member."""
        self.out: list[Effect] = []
        self.is_held = False
        """Stands for nothing: drained, or about to stop together with the other."""
        self.path = 0
        """Where the other was heard last: data takes the same way back."""
        self._round = 0

    @property
    def knows_log(self) -> bool:
        """Nothing in the own log is above what this member knows."""
        return self.log_level <= self.feature_level

    def next_round(self) -> int:
        self._round += 1
        return self._round

    def next_epoch(self, promised: int) -> int:
        """Lowest epoch of this member above everything it knows of."""
        above = max(promised, self.tried_epoch, self.accepted_epoch, self.history.epoch) + 1
        return above + (above % 2 != self.index)

    def granted(self, epoch: int) -> EpochEntry:
        """Extend the history by an epoch that begins after the last record; entries without a record go."""
        first = self.end.sequence + 1
        entry = EpochEntry(epoch, first, self.chance.getrandbits(64))
        kept = tuple(one for one in self.history.entries if one.first_sequence < first)
        self.history = EpochHistory(kept).granted(entry)
        return entry

    def cut(self, sequence: int) -> None:
        """The log now ends at `sequence`."""
        at = self.position(sequence)
        self.end = at
        self.durable = at if self.durable.sequence > sequence else self.durable
        self.committed = at if self.committed.sequence > sequence else self.committed

    def damaged(self, first_sequence: int) -> None:
        """0: not any more."""
        self.damaged_from = first_sequence
        self.is_whole = not first_sequence

    def told(self, event: Completed | BeginMoved | LevelFolded) -> None:
        """What the shell says of the own log."""
        match event:
            case Completed(is_complete):  # A snapshot of this log has the folds, so that a restart goes on from it.
                self.is_complete = is_complete
                self.folds_at = BEGINNING if is_complete else self.folds_at
            case BeginMoved(begin):
                self.begin = begin
            case LevelFolded(level):
                self.log_level = level

    def has_folds_of(self, history: EpochHistory) -> bool:
        """The folds that were given are of a log with this history."""
        return history.epoch_of(self.folds_at.sequence) == self.folds_at.epoch

    def position(self, sequence: int) -> Position:
        return Position(self.history.epoch_of(sequence), sequence) if sequence else Position()

    def persist(self) -> None:
        self.out.append(PersistStore(self.tried_epoch, self.accepted_epoch, self.history))

    def ask_all(self, question: Question) -> None:
        self.out += [AskVoter(voter, question) for voter in self.config.voters]

    def tell(self, message: PeerMessage) -> None:
        self.out.append(TellPeer(self.path, message))

    def refuse(self, reason: str) -> None:
        self.out.append(Refused(reason))


class Peer:
    """The other member as heard."""

    def __init__(self) -> None:
        self.run = 0
        self.heard_at = LONG_AGO
        """Any fresh heartbeat, on any path."""
        self.acting_at = LONG_AGO
        """A heartbeat that said it leads under its lease."""
        self.last: Heartbeat | None = None
        self.gone_run = 0
        """Its process is known to be gone."""
        self._beats: dict[int, int] = {}
        self._clone_run = 0

    def why_refused(self, message: Between, own: Party) -> str:
        """Name of what is wrong with the sender; empty if nothing is."""
        if message.cluster != own.config.cluster:
            return "foreign_cluster"
        if message.member == own.index:
            return "same_member"
        if message.store == own.store:
            return "cloned_store"
        if not isinstance(message, Heartbeat) and message.run != self.run:
            return "unknown_run"
        to_run = getattr(message, "to_run", own.run)
        return "" if to_run == own.run else "not_for_this_run"

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
        """It was heard as an acting holder a short while ago."""
        return now - self.acting_at < config.silence_ns and not self.is_gone

    @property
    def is_gone(self) -> bool:
        return self.gone_run != 0 and self.gone_run == self.run
