"""Events and effects of the member machine, its states, and the tables that say what is possible at all."""

from enum import StrEnum

import msgspec

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
    Question,
    RangeAsked,
    RangeSent,
    Voted,
    Yielded,
)
from albireo.machine.kernel.permit import Permit
from albireo.model.instant import Instant, TimePassed
from albireo.model.log_view import Beginning
from albireo.model.position import EpochEntry, EpochHistory, Position


class State(StrEnum):
    JOINING = "joining"
    CATCHING_UP = "catching_up"
    READY = "ready"
    RECOVERING = "recovering"
    ACTIVE = "active"
    SOLO = "solo"
    SUSPENDED = "suspended"
    FENCED = "fenced"

    __hash__ = str.__hash__  # Enum has one of its own, a function of Python, which every question after a state calls.


ACTING = frozenset({State.ACTIVE, State.SOLO})
HOLDING = ACTING | {State.RECOVERING, State.SUSPENDED}
FOLLOWING = frozenset({State.CATCHING_UP, State.READY})
STANDS = "stands"
"""Why a member that followed joins again: it asks the voters to accept it as the one that leads."""


class MemberStarted(msgspec.Struct, frozen=True):
    """First event of a run."""


class FromVoter(msgspec.Struct, frozen=True):
    message: Voted


class FromPeer(msgspec.Struct, frozen=True):
    message: PeerMessage
    path: int = 0


class LogChanged(msgspec.Struct, frozen=True):
    """More was appended here, or is durable, or the log was cut, begun anew or repaired: its view says what holds."""


class LogBroken(msgspec.Struct, frozen=True):
    """A write or a sync failed."""

    reason: str


class Completed(msgspec.Struct, frozen=True):
    """A snapshot of this log has its folds now, so that a restart goes on from it; or none has."""

    is_complete: bool


class LevelFolded(msgspec.Struct, frozen=True):
    """Feature level of the log, now that more of it is committed, or that it was cut."""

    level: int


class SessionLost(msgspec.Struct, frozen=True):
    """The follower of this session has to ask again: its holder's log let go of what comes next, or what came does not
    fit the follower's."""

    session: int


class PeerGone(msgspec.Struct, frozen=True):
    """All connections of that run closed and a new one was refused: its process is gone (rule 12)."""

    run: int


class SwitchoverAsked(msgspec.Struct, frozen=True):
    """The lead is to be handed over: the operator asks, or the passive member has room or reaches more devices."""

    cause: str
    is_for_stop: bool = False
    """True: both members stop, and nobody takes over (ADR-0117)."""
    is_patient: bool = False
    """True: nothing urges, so it is refused while adapters of the other member still start."""


class ForceAsked(msgspec.Struct, frozen=True):
    """The operator states that the other machine is off."""


class HoldAsked(msgspec.Struct, frozen=True):
    """A hold begins or ends: no candidacy is opened meanwhile, and the member follows as before (ADR-0117)."""

    is_on: bool


class MemberStopAsked(msgspec.Struct, frozen=True):
    """An orderly stop of this member."""

    is_joint: bool = False
    """True: both logs end alike and both members stop: nobody leaves the set, nobody is waited for."""


class OutputsEnded(msgspec.Struct, frozen=True):
    """After `CloseAdmission`: this member writes no output any more, and nothing it wrote lands at or after `until`.

    Told again when that comes earlier, because the outcome of the last write is known.
    """

    until: Instant


class AdaptersSeen(msgspec.Struct, frozen=True):
    """Adapters of this member that act, or stand by; and how many devices they reach."""

    count: int
    reaches: int


Event = (
    MemberStarted | FromVoter | FromPeer | LogChanged | LogBroken | Completed | LevelFolded | SessionLost | PeerGone
    | SwitchoverAsked | ForceAsked | HoldAsked | MemberStopAsked | OutputsEnded | AdaptersSeen | TimePassed
)  # fmt: skip


class PersistStore(msgspec.Struct, frozen=True):
    """Write and sync the store header; nothing that follows in this list happens before."""

    tried_epoch: int
    accepted_epoch: int
    history: EpochHistory | None = None
    """History of the holder, after what this log had more is cut: tell `LogChanged`. None: the log's own stays."""


class AskVoter(msgspec.Struct, frozen=True):
    voter: str
    question: Question


class TellPeer(msgspec.Struct, frozen=True):
    path: int
    message: PeerMessage


class CutTo(msgspec.Struct, frozen=True):
    """Put everything above `sequence` into quarantine, delete snapshots above it, zero the rest, sync.

    A `PersistStore` with the holder's history follows in the same step.
    """

    sequence: int


class StartOver(msgspec.Struct, frozen=True):
    """Put the whole log into quarantine, delete all snapshots, go on behind `begin` under `history`; folds: none."""

    begin: Beginning
    history: EpochHistory


class SendFolds(msgspec.Struct, frozen=True):
    """Send that part of the folds, as they are now or were when part 0 of the session was asked for."""

    session: int
    to_run: int
    epoch: int
    part: int


class TakeFolds(msgspec.Struct, frozen=True):
    """Keep this part; with the last one the folds are those of `message.position`, and a snapshot is due.

    Tell `Completed` once that snapshot is on the disk, which needs the log up to there.
    """

    message: FoldsSent


class SendRange(msgspec.Struct, frozen=True):
    """Read committed frames behind `after` and send them to the other member as `RangeSent`."""

    session: int
    to_run: int
    epoch: int
    after: int


class RepairLog(msgspec.Struct, frozen=True):
    """Put the holder's frames where the damage begins; then `LogChanged`: the view says what is left of it."""

    payload: object


class AppendFrames(msgspec.Struct, frozen=True):
    """Write the frames of the holder as they are; tell `LogChanged` when they are durable."""

    payload: object
    last: Position


class Replicate(msgspec.Struct, frozen=True):
    """Read own frames after `after` and send them to the other member as `Frames` of this session."""

    session: int
    to_run: int
    epoch: int
    after: int


class GrantEpoch(msgspec.Struct, frozen=True):
    """Begin the epoch in the log: entry into the store header, synced; folds to the end of the log, dedup rebuilt."""

    entry: EpochEntry


class AppendNoOp(msgspec.Struct, frozen=True):
    """Append the first record of the epoch; its commit commits everything before it."""

    epoch: int


class Commit(msgspec.Struct, frozen=True):
    """Everything up to `position` is on every member that must have it: fold it, answer the producers."""

    position: Position


class RaiseLevel(msgspec.Struct, frozen=True):
    """Append the record that raises the log to this feature level, unless it is there or on its way. Comes again."""

    level: int


class Serve(msgspec.Struct, frozen=True):
    """Take batches, send orders, answer clients, under this epoch."""

    epoch: int


class StopServing(msgspec.Struct, frozen=True):
    """Stop effects first, then answers, then everything else. Comes before any message that tells of it."""

    epoch: int
    cause: str


class CloseAdmission(msgspec.Struct, frozen=True):
    """Take nothing new, send no order until `Serve` or another state; tell `OutputsEnded`."""

    cause: str


class Transitioned(msgspec.Struct, frozen=True):
    old: State
    new: State
    cause: str


class CaseTold(msgspec.Struct, frozen=True):
    """An alarm case of the pair begins or ends."""

    case: str
    is_on: bool
    detail: str = ""


class Objection(StrEnum):
    """Reason why a message, an answer or an admin action was not taken; `status` counts by its text."""

    FOREIGN_CLUSTER = "foreign_cluster"
    SAME_MEMBER = "same_member"
    CLONED_STORE = "cloned_store"
    UNKNOWN_RUN = "unknown_run"
    NOT_FOR_THIS_RUN = "not_for_this_run"
    OLD_HEARTBEAT = "old_heartbeat"
    FOREIGN_VOTER = "foreign_voter"
    VOTER_EMPTY = "voter_empty"
    VOTER_OF_OTHER_LIST = "voter_other_list"
    VOTER_OF_FOREIGN_CLUSTER = "voter_foreign_cluster"
    # Feature levels, ADR-0127.
    TOO_FAR_APART = "feature_levels_too_far_apart"
    LOG_ABOVE_OWN = "log_above_own_feature_level"
    OTHER_BELOW_LOG = "other_below_feature_level_of_log"
    # Holder and follower.
    NOT_HOLDER = "not_holder"
    OLD_SESSION = "old_session"
    OTHER_SESSION = "other_session"
    BEGINNING_UNREADABLE = "beginning_unreadable"
    IMPOSSIBLE_HISTORY = "impossible_history"
    """The epochs of the other member's log run backwards."""
    IMPOSSIBLE_ANSWER = "impossible_answer"
    IMPOSSIBLE_FRAMES = "impossible_frames"
    """Frames that do not continue this log, or do not hold what their message claims."""
    IMPOSSIBLE_COMMIT = "impossible_commit"
    """A commit position of another epoch than the log has there."""
    FOLDS_OF_ANOTHER_BRANCH = "folds_of_another_branch"
    FOLDS_FIRST = "folds_first"
    FOLDS_MOVED = "folds_moved"
    IMPOSSIBLE_FOLDS = "impossible_folds"
    OTHER_PART = "other_part"
    OTHER_RANGE = "other_range"
    # Admin actions.
    NOT_LEVEL = "not_level"
    STATE_INCOMPLETE = "state_incomplete"
    EPOCHS_FULL = "epochs_full"
    """A store header holds no more epochs than those within the records that are kept: this member stands for none."""
    OTHER_IS_HELD = "other_is_held"
    OTHER_STARTS = "other_starts"
    """Adapters of the other member do not stand by yet: its devices would be left alone until they do."""
    OTHER_IS_ALIVE = "other_is_alive"
    OTHER_NOT_IN_SET = "other_not_in_set"
    OTHER_NOT_LEVEL = "other_not_level"
    OUTPUTS_NOT_ENDED = "outputs_not_ended"
    """An adapter did not say that it writes no more, so it may stand right before a send."""
    LEASE_OVER = "lease_over"


class Untimely(msgspec.Struct, frozen=True):
    """An event or a message that the state does not take, by `TAKES` and `HEARS`."""

    what: type
    state: State

    def __str__(self) -> str:
        return f"{self.what.__name__} while {self.state.value}"


Why = Objection | Untimely


class Refused(msgspec.Struct, frozen=True):
    """An event or a message was not taken; counted by the text of `why`, shown in `status`."""

    why: Why


class StopNow(msgspec.Struct, frozen=True):
    """An orderly stop may end the process now."""


Effect = (
    PersistStore
    | AskVoter
    | TellPeer
    | CutTo
    | StartOver
    | SendFolds
    | TakeFolds
    | SendRange
    | RepairLog
    | AppendFrames
    | Replicate
    | GrantEpoch
    | AppendNoOp
    | Commit
    | RaiseLevel
    | Serve
    | StopServing
    | CloseAdmission
    | Permit
    | Transitioned
    | CaseTold
    | Refused
    | StopNow
)

_ALL = frozenset(State)
_LIVE = _ALL - {State.FENCED}

TAKES: dict[type[Event], frozenset[State]] = {
    MemberStarted: frozenset({State.JOINING}),
    FromVoter: _LIVE,
    FromPeer: _LIVE,
    LogChanged: _LIVE,
    LogBroken: _LIVE,
    Completed: _LIVE,
    LevelFolded: _ALL,
    SessionLost: _LIVE,
    PeerGone: _LIVE,
    SwitchoverAsked: frozenset({State.ACTIVE}),
    ForceAsked: frozenset({State.JOINING, State.CATCHING_UP, State.READY, State.SUSPENDED}),
    HoldAsked: _ALL,
    MemberStopAsked: _ALL,
    OutputsEnded: _ALL,
    AdaptersSeen: _ALL,
    TimePassed: _LIVE,
}
"""States in which an event is looked at; in all others it is refused by name. Complete over states x events."""

HEARS: dict[type[PeerMessage], frozenset[State]] = {
    Heartbeat: _LIVE,
    HeartbeatAnswered: _LIVE,
    FollowAsked: HOLDING & _LIVE,
    FollowAnswered: frozenset({State.JOINING, *FOLLOWING}),
    Frames: FOLLOWING,
    FollowAcked: HOLDING & _LIVE,
    FoldsAsked: HOLDING & _LIVE,
    FoldsSent: FOLLOWING,
    RangeAsked: HOLDING & _LIVE,
    RangeSent: FOLLOWING,
    Leaving: HOLDING & _LIVE,
    Yielded: frozenset({State.READY}),
}
"""States in which a message of the other member is looked at. A late one is no error: it is refused and forgotten."""

MOVES: dict[State, frozenset[State]] = {
    State.JOINING: frozenset({State.CATCHING_UP, State.RECOVERING, State.FENCED}),
    State.CATCHING_UP: frozenset({State.READY, State.JOINING, State.RECOVERING, State.FENCED}),
    State.READY: frozenset({State.CATCHING_UP, State.JOINING, State.RECOVERING, State.FENCED}),
    State.RECOVERING: frozenset({State.ACTIVE, State.SOLO, State.SUSPENDED, State.JOINING, State.FENCED}),
    State.ACTIVE: frozenset({State.SOLO, State.SUSPENDED, State.JOINING, State.FENCED}),
    State.SOLO: frozenset({State.ACTIVE, State.SUSPENDED, State.JOINING, State.FENCED}),
    State.SUSPENDED: frozenset({State.ACTIVE, State.SOLO, State.RECOVERING, State.JOINING, State.FENCED}),
    State.FENCED: frozenset(),
}
"""States to which each state may change."""
