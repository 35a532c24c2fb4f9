"""Messages of members and voters to each other. Frozen and tagged; the codec puts them on the wire as they are.

    member -> voter    Read, Prepare, Accept, Release, Install
    voter  -> member   Voted; VoterHello before the first question, of a voter that dials
    member <-> member  Heartbeat, HeartbeatAnswered, FollowAsked, FollowAnswered, Frames, FollowAcked, FoldsAsked,
                       FoldsSent, RangeAsked, RangeSent, Leaving, Yielded; Carried between their actors

Spec: design/pair.md, The voter protocol, exactly.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.record import Audited
from albireo.model.bounded import INT64_MAX, INT64_MIN, Count, Members, Name, Number32, Seat, Signed, Text, Word
from albireo.model.instant import Instant
from albireo.model.position import BEGINNING, Epochs, Position

VOTERS_MAX: Final = 16
"""Most voters that a message names; a topology has five at most."""
CASES_MAX: Final = 64
ORDERS_MAX: Final = 64
"""Most cases and admin actions in one heartbeat; a member tells four actions at a time."""


class CopyTold(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a member's history that copies files from the other member's history."""

    is_incomplete: bool = False
    """True: this history lacks files that the other member may have."""
    files: Count = 0
    """Number of files to copy; 0: not counted yet."""
    done: Count = 0
    """Number of files copied."""
    trouble: Text = ""
    """Reason why the copying stands still; empty: it goes on."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Record on which the voters agree. Compared by (epoch, version); its epoch belongs to one run of one member."""

    cluster: Name
    voters: Annotated[tuple[Name, ...], Meta(max_length=VOTERS_MAX)]
    generation: Word
    epoch: Count
    version: Count
    holder: Seat
    """Index of the member that holds the epoch."""
    run: Word
    """Run of the holder's CORE; 0: the first record, which belongs to no run."""
    members: Members
    """In-sync set, rising: members that have everything that was acknowledged, one of which may be the next holder."""
    lease_ns: Count
    is_forced: bool = False
    """True: an operator stated that the other machine is off."""

    @property
    def rank(self) -> tuple[int, int]:
        return (self.epoch, self.version)


class ToVoter(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each question to a voter."""

    cluster: Name
    generation: Word
    member: Seat
    run: Word
    round: Count
    """Number that the answer repeats, so that it counts for a round that was sent at a known instant."""


class Read(ToVoter, frozen=True, kw_only=True, tag="pair_read"):
    """Question for the record and the promise that the voter keeps; changes nothing."""


class Prepare(ToVoter, frozen=True, kw_only=True, tag="pair_prepare"):
    """Request to promise that nothing below this epoch is accepted."""

    epoch: Count


class Accept(ToVoter, frozen=True, kw_only=True, tag="pair_accept"):
    """Request to accept a record: grant, set change, renewal and repair are this one message."""

    record: Record
    floor: Position = BEGINNING
    """Commit position of the holder."""


class Release(ToVoter, frozen=True, kw_only=True, tag="pair_release"):
    """Request to end the lease of a holder that acts no more."""

    epoch: Count


class Install(ToVoter, frozen=True, kw_only=True, tag="pair_install"):
    """First record of a new pair, or re-admission of a voter that lost its store. Only an empty voter takes it."""

    record: Record
    promised: Count
    """Epoch below which nothing is accepted: at least the record's, higher when other voters promised more."""


class Voted(msgspec.Struct, frozen=True, kw_only=True, tag="pair_voted"):
    """Answer of a voter to any question."""

    voter: Name
    cluster: Name
    generation: Word
    to_run: Word
    round: Count
    question: Name
    """Tag of the question."""
    is_granted: bool
    reason: Text = ""
    """Reason of a refusal, in one of the words of `voter.Refusal`."""
    promised: Count = 0
    record: Record | None = None
    lease_left_ns: Signed = 0
    """Rest of the recorded run's lease on the voter's clock; may be above 0 although the holder's process is gone."""
    is_lease_running: bool = False
    """True: a lease of another run than the sender's bars a candidacy."""
    floor: Position = BEGINNING
    """Highest commit position reported to this voter."""


class VoterHello(msgspec.Struct, frozen=True, kw_only=True, tag="voter_hello"):
    """A node that votes for a pair above it, to each member, each second, on the link that it dialled: ask me here."""

    voter: Name
    """Its name in the voter list: `node:root/north`."""
    cluster: Name
    """Identity of the pair."""


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """Head of each message between the members."""

    cluster: Name
    member: Seat
    """Index of the sender."""
    run: Word
    """Run of the sender's CORE."""
    store: Name
    """Id of the sender's store: two members with one id have a cloned disk."""


class Heartbeat(Between, frozen=True, kw_only=True, tag="pair_heartbeat"):
    """State of the sender. Sent over every path, with the same `beat`."""

    beat: Count
    """Number that rises by one; a heartbeat that is not higher is a copy from another path, or a replay."""
    sent: Annotated[Instant, Meta(ge=INT64_MIN, le=INT64_MAX)]
    """Instant on the sender's clock; comes back in the answer."""
    state: Name
    epoch: Count
    """Epoch that the sender holds or follows; 0: none."""
    is_acting: bool
    """True: the sender is a confirmed holder under a valid lease; `state` is active or solo."""
    is_holder: bool
    """True: the sender's record was confirmed, and it has seen no higher one."""
    members: Members = ()
    """Confirmed in-sync set, if the sender is the holder."""
    end: Position
    sent_to: Count = 0
    """Last sequence sent to the receiver in `session`, by which it knows what it missed."""
    session: Annotated[int, Meta(ge=-1, le=INT64_MAX)] = 0
    """-1: nothing more comes in the last session; ask again."""
    committed: Position
    accepted_epoch: Count
    """Epoch below which the sender follows nothing."""
    reaches: Count = 0
    """Number of devices that the sender's adapters reach."""
    adapters: Count = 0
    """Number of the sender's adapters that act, or stand by."""
    has_room: bool = True
    """True: the sender's disk has room for appends."""
    is_held: bool = False
    """True: the sender opens no candidacy, so nobody waits for it or hands over to it."""
    cases: Annotated[tuple[tuple[Name, Text], ...], Meta(max_length=CASES_MAX)] = ()
    """Cases of the sender that are open, with details; both members show them."""
    orders: Annotated[tuple[Audited, ...], Meta(max_length=ORDERS_MAX)] = ()
    """Admin actions that people asked of the sender while it could not append; the member that can logs them."""
    orders_taken_ns: Signed = 0
    """Time of the latest of the receiver's `orders` whose record is committed."""
    feature_level: Count
    """Highest level that the sender knows, or is held back to."""
    log_level: Count
    """Feature level of the sender's log."""
    topology_hash: Name = ""
    """Hash of the topology that the sender runs."""
    wall_ns: Signed = 0
    """Wall clock of the sender. The machine leaves both to the shell."""


class HeartbeatAnswered(Between, frozen=True, kw_only=True, tag="pair_heartbeat_answered"):
    """Answer: the heartbeat of `to_run` sent at `echo` was heard."""

    to_run: Word
    echo: Annotated[Instant, Meta(ge=INT64_MIN, le=INT64_MAX)]
    following_epoch: Count
    """Epoch that the sender follows; 0: it follows nobody."""
    is_promised: bool
    """True: no candidacy of the sender is open, and none will be for lease + drift on its clock."""
    accepted_epoch: Count


class FollowAsked(Between, frozen=True, kw_only=True, tag="pair_follow"):
    """Hello of a follower with the state of its log; a claim, never an acknowledgement."""

    to_run: Word
    epoch: Count
    """Epoch of the holder that the sender wants to follow."""
    session: Count
    """Number that rises within a run of the follower and shows late hellos. Acknowledgements count in one session."""
    history: Epochs
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

    to_run: Word
    epoch: Count
    session: Count
    position: Count
    history: Epochs
    is_snapshot: bool = False
    header_crc: Number32 = 0
    """With `is_snapshot`: CRC of the header of the frame that ends at `position`, to which the next frame chains."""
    log_time_ms: Count = 0
    """With `is_snapshot`: log time at `position`."""


class Frames(Between, frozen=True, kw_only=True, tag="pair_frames"):
    """Raw frames from the holder's log, committed or not."""

    to_run: Word
    epoch: Count
    session: Count
    previous: Count
    """Sequence before the first record, at which the receiver's log must end."""
    last: Position
    committed: Position
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class FollowAcked(Between, frozen=True, kw_only=True, tag="pair_follow_acked"):
    """Acknowledgement of records that the follower verified in this session and epoch."""

    to_run: Word
    epoch: Count
    session: Count
    received: Count
    durable: Count
    has_gap: bool = False
    """True: send again from `received` on."""
    is_complete: bool = True
    """True: the follower also has every retained frame below. The history's files are copied later (ADR-0124)."""


class FoldsAsked(Between, frozen=True, kw_only=True, tag="pair_folds_asked"):
    """Request for a part of the folds that belong to `session`; one part is under way at a time."""

    to_run: Word
    epoch: Count
    session: Count
    part: Count
    """Index of the part, from 0."""


class FoldsSent(Between, frozen=True, kw_only=True, tag="pair_folds"):
    """A part of the holder's folds as they were at one commit position, the same for all parts of a session."""

    to_run: Word
    epoch: Count
    session: Count
    part: Count
    parts: Count
    position: Position
    log_time_ms: Count
    """Log time at `position`."""
    payload: object = None
    """Slices of sections; opaque here."""


class RangeAsked(Between, frozen=True, kw_only=True, tag="pair_range_asked"):
    """Request for committed frames behind `after` once more, because the sender's frames are damaged there."""

    to_run: Word
    epoch: Count
    session: Count
    after: Count


class RangeSent(Between, frozen=True, kw_only=True, tag="pair_range"):
    """The frames that were asked for, or the first of them."""

    to_run: Word
    epoch: Count
    session: Count
    after: Count
    is_gone: bool = False
    """True: the frames are pruned at the holder, and nothing follows."""
    payload: object = None
    """Frames as they stand in the log; opaque here."""


class Leaving(Between, frozen=True, kw_only=True, tag="pair_leaving"):
    """Request to take the sender out of the set before it stops cleanly."""


class Yielded(Between, frozen=True, kw_only=True, tag="pair_yielded"):
    """The holder of `epoch` acts no more, and both logs end at `position`: the receiver may be a candidate at once."""

    epoch: Count
    position: Position


class Carried(Between, frozen=True, kw_only=True, tag="pair_carried"):
    """Raw parts from an actor of one member to the same one of the other. No message of the member machine."""

    actor: Name = "history"


Question = Read | Prepare | Accept | Release | Install
VoteMessage = Question | VoterHello | Voted
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
