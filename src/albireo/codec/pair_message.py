"""What members and voters say to each other. Frozen and tagged; the codec puts them on the wire as they are.

    member -> voter    Read, Prepare, Accept, Release, Install
    voter  -> member   Voted
    member <-> member  Heartbeat, HeartbeatAnswered, FollowAsked, FollowAnswered, Frames, FollowAcked, FoldsAsked,
                       FoldsSent, RangeAsked, RangeSent, Leaving, Yielded; Carried between their histories

Spec: design/pair.md, The voter protocol, exactly.
"""

from typing import Final

import msgspec

from albireo.codec.record import Audited
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING, EpochEntry, Position

NOBODY: Final = -1


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the voters agree on. Ordered by (epoch, version); its epoch belongs to one run of one member."""

    cluster: str
    voters: tuple[str, ...]
    generation: int
    epoch: int
    version: int
    holder: int
    """Index of the member that leads."""
    run: int
    """Life of that member's CORE; 0: of the first record, which nobody lives."""
    members: tuple[int, ...]
    """In-sync set, rising: who has everything that was acknowledged, so who may lead next."""
    lease_ns: int
    is_forced: bool = False
    """An operator stated that the other machine is off."""

    @property
    def rank(self) -> tuple[int, int]:
        return (self.epoch, self.version)


class ToVoter(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each question to a voter."""

    cluster: str
    generation: int
    member: int
    run: int
    round: int
    """Echoed, so that an answer is counted for the round that was sent at a known instant."""


class Read(ToVoter, frozen=True, kw_only=True, tag="pair_read"):
    """What do you hold? Changes nothing."""


class Prepare(ToVoter, frozen=True, kw_only=True, tag="pair_prepare"):
    """Promise to accept nothing below this epoch."""

    epoch: int


class Accept(ToVoter, frozen=True, kw_only=True, tag="pair_accept"):
    """Take this record: grant, set change, renewal and repair are this one message."""

    record: Record
    floor: Position = BEGINNING
    """Commit position of the holder."""


class Release(ToVoter, frozen=True, kw_only=True, tag="pair_release"):
    """The holder acts no more: end its lease."""

    epoch: int


class Install(ToVoter, frozen=True, kw_only=True, tag="pair_install"):
    """First record of a new pair, or re-admission of a voter that lost its store. Only an empty voter takes it."""

    record: Record
    promised: int
    """Nothing below this is accepted: at least the record's epoch, more when others promised more."""


class Voted(msgspec.Struct, frozen=True, kw_only=True, tag="pair_voted"):
    """Answer of a voter to any question."""

    voter: str
    cluster: str
    generation: int
    to_run: int
    round: int
    question: str
    """Tag of the question."""
    is_granted: bool
    reason: str = ""
    """Why not, in one of the words of `voter.Refusal`."""
    promised: int = 0
    record: Record | None = None
    lease_left_ns: int = 0
    """Of the recorded run's lease, on the voter's clock; above 0 also when the holder's process is known to be gone."""
    is_lease_running: bool = False
    """A lease of another run than the asker's keeps a candidacy away."""
    floor: Position = BEGINNING
    """Highest commit position reported to this voter."""


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each message between the members."""

    cluster: str
    member: int
    """Sender."""
    run: int
    """Of the sender."""
    store: str
    """Id of the sender's store: two members with one id have a cloned disk."""


class Heartbeat(Between, frozen=True, kw_only=True, tag="pair_heartbeat"):
    """Where the sender stands. Sent over every path, with the same `beat`."""

    beat: int
    """Rises by one; a lower or equal one is a copy from another path, or a replay."""
    sent: Instant
    """Sender's clock; comes back in the answer."""
    state: str
    epoch: int
    """Held or followed; 0 none."""
    is_acting: bool
    """Holder, confirmed, under its lease: `state` active or solo."""
    is_holder: bool
    """Its record was confirmed and no higher one was seen."""
    members: tuple[int, ...] = ()
    """Confirmed in-sync set, if holder."""
    end: Position
    sent_to: int = 0
    """Last sequence sent to the other in `session`: tells it what it missed."""
    session: int = 0
    committed: Position
    accepted_epoch: int
    """The sender follows nothing lower."""
    reaches: int = 0
    """Devices that its adapters reach."""
    has_room: bool = True
    """Its disk takes what is appended. Software that does not know this says nothing."""
    is_held: bool = False
    """The sender stands for nothing: nobody needs to wait for it, nor can hand over to it."""
    cases: tuple[tuple[str, str], ...] = ()
    """Cases that stand at the sender, with details: both members show them."""
    orders: tuple[Audited, ...] = ()
    """What people ordered of the sender while it could not append: for the log, by the member that can."""
    orders_taken_ns: int = 0
    """The latest of the receiver's `orders`, by its time, whose record is committed."""
    feature_level: int = FIRST_LEVEL
    """The highest that the sender knows, or is held back to. Software from before there were levels says nothing."""
    log_level: int = FIRST_LEVEL
    """Feature level of its log."""


class HeartbeatAnswered(Between, frozen=True, kw_only=True, tag="pair_heartbeat_answered"):
    """The heartbeat of `to_run` sent at `echo` was heard."""

    to_run: int
    echo: Instant
    following_epoch: int
    """0: follows nobody."""
    is_promised: bool
    """No candidacy is open, and none will be for lease + drift on the sender's clock."""
    accepted_epoch: int


class FollowAsked(Between, frozen=True, kw_only=True, tag="pair_follow"):
    """Hello of a follower: what it has. A claim, never an acknowledgement."""

    to_run: int
    epoch: int
    """Of the holder that it wants to follow."""
    session: int
    """Rises within a run of the follower: a late hello is known as one. Acknowledgements count for this one only."""
    history: tuple[EpochEntry, ...]
    end: Position
    is_damaged: bool = False
    """Records at or below its commit position are unreadable."""
    lacks_folds: bool = False
    """Its log does not begin at the first record, and it has no state of before: only a snapshot helps."""


class FollowAnswered(Between, frozen=True, kw_only=True, tag="pair_follow_answered"):
    """Cut back to `position`, the last record that both histories prove equal; frames follow from there.

    With `is_snapshot` the holder has let go of what comes next: put the whole log away, begin behind `position`, where
    the holder's log begins, and ask for the folds (`FoldsAsked`) before anything else.
    """

    to_run: int
    epoch: int
    session: int
    position: int
    history: tuple[EpochEntry, ...]
    is_snapshot: bool = False
    header_crc: int = 0
    """With `is_snapshot`: of the frame that ends at `position`, which the next one chains to."""
    log_time_ms: int = 0
    """With `is_snapshot`: log time at `position`."""


class Frames(Between, frozen=True, kw_only=True, tag="pair_frames"):
    """Raw frames from the holder's log, committed or not."""

    to_run: int
    epoch: int
    session: int
    previous: int
    """Sequence before the first record: data continues exactly there."""
    last: Position
    committed: Position
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class FollowAcked(Between, frozen=True, kw_only=True, tag="pair_follow_acked"):
    """What the follower verified in this session and epoch."""

    to_run: int
    epoch: int
    session: int
    received: int
    durable: int
    has_gap: bool = False
    """Send again from `received` on."""
    is_complete: bool = True
    """It also holds every retained frame below. Not the history's files: these come behind (ADR-0124)."""


class FoldsAsked(Between, frozen=True, kw_only=True, tag="pair_folds_asked"):
    """Send this part of the folds that belong to `session`; one part is under way at a time."""

    to_run: int
    epoch: int
    session: int
    part: int
    """From 0 on."""


class FoldsSent(Between, frozen=True, kw_only=True, tag="pair_folds"):
    """A part of the holder's folds as they were at one commit position, the same for all parts of a session."""

    to_run: int
    epoch: int
    session: int
    part: int
    parts: int
    position: Position
    log_time_ms: int
    """At `position`."""
    payload: object = None
    """Slices of sections; opaque here."""


class RangeAsked(Between, frozen=True, kw_only=True, tag="pair_range_asked"):
    """Send committed frames behind `after` once more: the sender's are damaged there."""

    to_run: int
    epoch: int
    session: int
    after: int


class RangeSent(Between, frozen=True, kw_only=True, tag="pair_range"):
    """The frames that were asked for, or the first of them."""

    to_run: int
    epoch: int
    session: int
    after: int
    is_gone: bool = False
    """The holder has let go of them: nothing follows."""
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class Leaving(Between, frozen=True, kw_only=True, tag="pair_leaving"):
    """The sender stops in order: take it out of the set first."""


class Yielded(Between, frozen=True, kw_only=True, tag="pair_yielded"):
    """The holder of `epoch` acts no more and both logs end at `position`: the receiver may stand at once."""

    epoch: int
    position: Position


class Carried(Between, frozen=True, kw_only=True, tag="pair_carried"):
    """Raw parts from one member's history to the other's (codec/history_copy.py). No message of the member machine."""


Question = Read | Prepare | Accept | Release | Install
PeerMessage = (
    Heartbeat
    | HeartbeatAnswered
    | FollowAsked
    | FollowAnswered
    | Frames
    | FollowAcked
    | FoldsAsked
    | FoldsSent
    | RangeAsked
    | RangeSent
    | Leaving
    | Yielded
)
FromFollower = FollowAsked | FollowAcked | FoldsAsked | RangeAsked | Leaving
FromHolder = Frames | FoldsSent | RangeSent
