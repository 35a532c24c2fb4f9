"""Messages of members and voters to each other. Frozen and tagged; the codec puts them on the wire as they are.

    member -> voter    Read, Prepare, Accept, Release, Install
    voter  -> member   Voted
    member <-> member  Heartbeat, HeartbeatAnswered, FollowAsked, FollowAnswered, Frames, FollowAcked, FoldsAsked,
                       FoldsSent, RangeAsked, RangeSent, Leaving, Yielded; Carried between their histories

Spec: design/pair.md, The voter protocol, exactly.
"""

import msgspec

from albireo.codec.record import Audited
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING, EpochEntry, Position


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Record on which the voters agree. Compared by (epoch, version); its epoch belongs to one run of one member."""

    cluster: str
    voters: tuple[str, ...]
    generation: int
    epoch: int
    version: int
    holder: int
    """Index of the member that holds the epoch."""
    run: int
    """Run of the holder's CORE; 0: the first record, which belongs to no run."""
    members: tuple[int, ...]
    """In-sync set, rising: members that have everything that was acknowledged, one of which may be the next holder."""
    lease_ns: int
    is_forced: bool = False
    """True: an operator stated that the other machine is off."""

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
    """Number that the answer repeats, so that it counts for a round that was sent at a known instant."""


class Read(ToVoter, frozen=True, kw_only=True, tag="pair_read"):
    """Question for the record and the promise that the voter keeps; changes nothing."""


class Prepare(ToVoter, frozen=True, kw_only=True, tag="pair_prepare"):
    """Request to promise that nothing below this epoch is accepted."""

    epoch: int


class Accept(ToVoter, frozen=True, kw_only=True, tag="pair_accept"):
    """Request to accept a record: grant, set change, renewal and repair are this one message."""

    record: Record
    floor: Position = BEGINNING
    """Commit position of the holder."""


class Release(ToVoter, frozen=True, kw_only=True, tag="pair_release"):
    """Request to end the lease of a holder that acts no more."""

    epoch: int


class Install(ToVoter, frozen=True, kw_only=True, tag="pair_install"):
    """First record of a new pair, or re-admission of a voter that lost its store. Only an empty voter takes it."""

    record: Record
    promised: int
    """Epoch below which nothing is accepted: at least the record's, higher when other voters promised more."""


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
    """Reason of a refusal, in one of the words of `voter.Refusal`."""
    promised: int = 0
    record: Record | None = None
    lease_left_ns: int = 0
    """Rest of the recorded run's lease on the voter's clock; may be above 0 although the holder's process is gone."""
    is_lease_running: bool = False
    """True: a lease of another run than the sender's bars a candidacy."""
    floor: Position = BEGINNING
    """Highest commit position reported to this voter."""


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each message between the members."""

    cluster: str
    member: int
    """Index of the sender."""
    run: int
    """Run of the sender's CORE."""
    store: str
    """Id of the sender's store: two members with one id have a cloned disk."""


class Heartbeat(Between, frozen=True, kw_only=True, tag="pair_heartbeat"):
    """State of the sender. Sent over every path, with the same `beat`."""

    beat: int
    """Number that rises by one; a heartbeat that is not higher is a copy from another path, or a replay."""
    sent: Instant
    """Instant on the sender's clock; comes back in the answer."""
    state: str
    epoch: int
    """Epoch that the sender holds or follows; 0: none."""
    is_acting: bool
    """True: the sender is a confirmed holder under a valid lease; `state` is active or solo."""
    is_holder: bool
    """True: the sender's record was confirmed, and it has seen no higher one."""
    members: tuple[int, ...] = ()
    """Confirmed in-sync set, if the sender is the holder."""
    end: Position
    sent_to: int = 0
    """Last sequence sent to the receiver in `session`, by which it knows what it missed."""
    session: int = 0
    committed: Position
    accepted_epoch: int
    """Epoch below which the sender follows nothing."""
    reaches: int = 0
    """Number of devices that the sender's adapters reach."""
    has_room: bool = True
    """True: the sender's disk has room for appends. Software that does not know this field says nothing."""
    is_held: bool = False
    """True: the sender opens no candidacy, so nobody waits for it or hands over to it."""
    cases: tuple[tuple[str, str], ...] = ()
    """Cases of the sender that are open, with details; both members show them."""
    orders: tuple[Audited, ...] = ()
    """Admin actions that people asked of the sender while it could not append; the member that can logs them."""
    orders_taken_ns: int = 0
    """Time of the latest of the receiver's `orders` whose record is committed."""
    feature_level: int = FIRST_LEVEL
    """Highest level that the sender knows, or is held back to. Software older than levels says nothing."""
    log_level: int = FIRST_LEVEL
    """Feature level of the sender's log."""


class HeartbeatAnswered(Between, frozen=True, kw_only=True, tag="pair_heartbeat_answered"):
    """Answer: the heartbeat of `to_run` sent at `echo` was heard."""

    to_run: int
    echo: Instant
    following_epoch: int
    """Epoch that the sender follows; 0: it follows nobody."""
    is_promised: bool
    """True: no candidacy of the sender is open, and none will be for lease + drift on its clock."""
    accepted_epoch: int


class FollowAsked(Between, frozen=True, kw_only=True, tag="pair_follow"):
    """Hello of a follower with the state of its log; a claim, never an acknowledgement."""

    to_run: int
    epoch: int
    """Epoch of the holder that the sender wants to follow."""
    session: int
    """Number that rises within a run of the follower and shows late hellos. Acknowledgements count in one session."""
    history: tuple[EpochEntry, ...]
    end: Position
    is_damaged: bool = False
    """True: records at or below the sender's commit position are unreadable."""
    lacks_folds: bool = False
    """True: the sender's log does not begin at the first record, and it has no earlier state: only a snapshot helps."""


class FollowAnswered(Between, frozen=True, kw_only=True, tag="pair_follow_answered"):
    """Answer: cut back to `position`, the last record that both histories prove equal; frames follow from there.

    With `is_snapshot` the next records are pruned at the holder: put the whole log away, begin behind `position`, where
    the holder's log begins, and ask for the folds (`FoldsAsked`) before anything else.
    """

    to_run: int
    epoch: int
    session: int
    position: int
    history: tuple[EpochEntry, ...]
    is_snapshot: bool = False
    header_crc: int = 0
    """With `is_snapshot`: CRC of the header of the frame that ends at `position`, to which the next frame chains."""
    log_time_ms: int = 0
    """With `is_snapshot`: log time at `position`."""


class Frames(Between, frozen=True, kw_only=True, tag="pair_frames"):
    """Raw frames from the holder's log, committed or not."""

    to_run: int
    epoch: int
    session: int
    previous: int
    """Sequence before the first record, at which the receiver's log must end."""
    last: Position
    committed: Position
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class FollowAcked(Between, frozen=True, kw_only=True, tag="pair_follow_acked"):
    """Acknowledgement of records that the follower verified in this session and epoch."""

    to_run: int
    epoch: int
    session: int
    received: int
    durable: int
    has_gap: bool = False
    """True: send again from `received` on."""
    is_complete: bool = True
    """True: the follower also has every retained frame below. The history's files are copied later (ADR-0124)."""


class FoldsAsked(Between, frozen=True, kw_only=True, tag="pair_folds_asked"):
    """Request for a part of the folds that belong to `session`; one part is under way at a time."""

    to_run: int
    epoch: int
    session: int
    part: int
    """Index of the part, from 0."""


class FoldsSent(Between, frozen=True, kw_only=True, tag="pair_folds"):
    """A part of the holder's folds as they were at one commit position, the same for all parts of a session."""

    to_run: int
    epoch: int
    session: int
    part: int
    parts: int
    position: Position
    log_time_ms: int
    """Log time at `position`."""
    payload: object = None
    """Slices of sections; opaque here."""


class RangeAsked(Between, frozen=True, kw_only=True, tag="pair_range_asked"):
    """Request for committed frames behind `after` once more, because the sender's frames are damaged there."""

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
    """True: the frames are pruned at the holder, and nothing follows."""
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class Leaving(Between, frozen=True, kw_only=True, tag="pair_leaving"):
    """Request to take the sender out of the set before it stops cleanly."""


class Yielded(Between, frozen=True, kw_only=True, tag="pair_yielded"):
    """The holder of `epoch` acts no more, and both logs end at `position`: the receiver may be a candidate at once."""

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
