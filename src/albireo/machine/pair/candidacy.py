"""Candidacy: READ, PREPARE, ACCEPT at a majority of the voters; what the answers of one phase add up to.

    READ ----majority----> PREPARE ----majority----> ACCEPT ----majority----> holder
      |  stop, no majority    |  stop, no majority      |  a higher record, a majority that promised more
      +----> withdrawn        +----> withdrawn          +----> lost; nothing lower is followed any more

Not decided here: whether the member may stand, what it does with the answers (the member machine).
Spec: design/pair.md, rule 1.
"""

from enum import Enum

import msgspec

from albireo.codec.pair_message import Record, Voted
from albireo.machine.pair.config import PairConfig
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING, Position


class CandidacyKind(Enum):
    TAKEOVER = "takeover"
    SWITCHOVER = "switchover"
    """The holder yielded."""
    RENEWAL = "renewal"
    """A holder whose lease ended reads before it renews."""
    RAISE = "raise"
    """A holder prepares again, because a voter promised more to a candidacy that came to nothing."""


class Phase(Enum):
    READ = "pair_read"
    PREPARE = "pair_prepare"
    ACCEPT = "pair_accept"


class Tally(Enum):
    OPEN = "open"
    CARRIED = "carried"
    FAILED = "failed"


class Candidacy:
    """One attempt to get an epoch; `epoch` is 0 until PREPARE."""

    def __init__(self, kind: CandidacyKind, config: PairConfig, now: Instant) -> None:
        self.kind = kind
        self.phase = Phase.READ
        self.epoch = 0
        self.proposed: Record | None = None
        self.phase_at = now
        """Instant at which the first message of the phase was sent: the lease of a grant counts from here."""
        self.sent_at = now
        self.round = 0
        self.first_round = 0
        self.lease_left_ns = 0
        """Longest rest of the old holder's lease that a voter which granted PREPARE still counted."""
        self._config = config
        self._answers: dict[str, Voted] = {}

    def enter(self, phase: Phase, round_number: int, now: Instant) -> None:
        self.phase = phase
        self.phase_at = self.sent_at = now
        self.round = self.first_round = round_number
        self._answers = {}

    def sent_again(self, round_number: int, now: Instant) -> None:
        self.sent_at = now
        self.round = round_number

    def take(self, voted: Voted) -> Tally:
        """Count an answer of this phase, whichever of its repeats it belongs to."""
        if voted.question != self.phase.value or voted.round < self.first_round:
            return Tally.OPEN
        self._answers[voted.voter] = voted
        if voted.is_granted and self.phase is Phase.PREPARE:
            self.lease_left_ns = max(self.lease_left_ns, voted.lease_left_ns)
        if len(self.granted) >= self._needed:
            return Tally.CARRIED
        refused = len(self._answers) - len(self.granted)
        return Tally.FAILED if refused > len(self._config.voters) - self._config.majority else Tally.OPEN

    @property
    def _needed(self) -> int:
        return self._config.majority

    @property
    def granted(self) -> list[Voted]:
        return [answer for answer in self._answers.values() if answer.is_granted]

    @property
    def highest(self) -> Record | None:
        """Highest record among the answers, granted or not."""
        records = [answer.record for answer in self._answers.values() if answer.record is not None]
        return max(records, key=lambda record: record.rank, default=None)

    @property
    def floor(self) -> Position:
        return max((answer.floor for answer in self._answers.values()), default=BEGINNING)

    @property
    def promised(self) -> int:
        return max((answer.promised for answer in self._answers.values()), default=0)

    @property
    def is_lease_running(self) -> bool:
        return any(answer.is_lease_running for answer in self._answers.values())


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Grant of an epoch, by which a tenure begins."""

    epoch: int
    members: tuple[int, ...]
    accepted_by: tuple[str, ...]
    from_voters: Instant
    """End of the lease that the grant itself gave."""
    not_before: Instant = Instant(0)
    """Instant before which no output is written: the old holder's lease may still run (fast takeover)."""
    is_forced: bool = False
    is_decided: bool = False
    """True: no voter confirms the grant, because a member leads by force."""


def forced_grant(epoch: int, index: int) -> Grant:
    """Grant by the operator's word instead of the voters'."""
    return Grant(epoch=epoch, members=(index,), accepted_by=(), from_voters=Instant(0), is_forced=True, is_decided=True)
