"""Events of the root machine of CORE: one struct each, and all of them as `Event`.

No event says where the log stands: its view comes with each of them.

Spec: design/log-and-feed.md, The loop of CORE; design/pair.md, rule 7.
"""

from collections.abc import Mapping, Sequence

import msgspec

from albireo.codec.frame import Frame
from albireo.codec.message import AnyMessage
from albireo.codec.record import Audited
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.permit import Permit
from albireo.machine.kernel.pull import Given
from albireo.model.access import RoleGrant
from albireo.model.instant import TimePassed
from albireo.model.position import Position
from albireo.model.settings import LimitSettings
from albireo.model.status import DoorStatus, FaceAddress, PairStatus
from albireo.model.tree.nodes import ChildConfig

OneLetter = tuple[bytes, AnyMessage, Sequence[bytes | memoryview], str]
"""One letter: sender, message, raw parts, principal (model.principal)."""


class LettersDrained(msgspec.Struct, frozen=True, eq=False):
    """All letters that one wake-up brought."""

    letters: Sequence[OneLetter]
    pair: PairStatus | None = None
    """The pair as this member sees it, if one of the letters asks for the status."""
    door: DoorStatus | None = None
    """The door of this node, likewise."""
    addresses: Mapping[bytes, str] = {}
    """Address of each sender of a question or of a follower's hello; actors of this node are left out."""


class FramesAppended(msgspec.Struct, frozen=True, eq=False):
    """The drafts of the last turn stand in the log, not yet durable."""

    frames: Sequence[Frame]


class Committed(msgspec.Struct, frozen=True):
    """More is durable wherever it must be: alone on the own disk, in a pair on every member of the set. What waited for
    it is answered."""

    is_first: bool = True
    """First of its wake-up, which may fold as much as the one before, however many commits it brings."""


class Answered(msgspec.Struct, frozen=True):
    """The answers are handed over: fold what was committed. Told right behind `Committed`, always."""


class Durable(msgspec.Struct, frozen=True):
    """The own disk has more. Told behind the commit that follows from it, if `Root.waits_for_disk`."""


class AdmissionChanged(msgspec.Struct, frozen=True):
    """The log takes records (`reason` empty), or takes none any more."""

    reason: str


class PeerLost(msgspec.Struct, frozen=True):
    """A send to this peer failed: it is gone."""

    sender: bytes
    unsent: str = ""
    """Command whose order was to be sent, and did not leave; empty: it was another message."""


class WakeUpEnded(msgspec.Struct, frozen=True):
    """The wake-up brought nothing more: followers may be given what is new. Not told while `Leader.is_quiet`."""

    busy_ns: int
    """Time spent in turns of the loop since the start."""


class FollowersServed(msgspec.Struct, frozen=True):
    """Results of the pulls of the last turn; a pull that is not named is waited for."""

    given: Sequence[Given]


class Granted(msgspec.Struct, frozen=True):
    """This node leads in the last epoch of the history, which is in the store header: append its first record."""

    reason: str
    goes_on: bool = False
    """A node alone: the store is proven to have all that was committed in the tenure before. Members of a pair prove it
    by their votes."""


class Served(msgspec.Struct, frozen=True):
    """Producers, orders and questions may be answered, once everything up to the epoch's first record is folded."""


class Suspended(msgspec.Struct, frozen=True):
    """The lease is over, or was given away: act on nothing, take nothing; what commits is still true."""

    cause: str


class HandoverBegun(msgspec.Struct, frozen=True):
    """The lead is to be given away in order: take nothing, send no order, hear what became of those that have left."""

    cause: str


class Deposed(msgspec.Struct, frozen=True):
    """This node leads no more: nothing that waits for a commit here will be answered here."""

    cause: str


class FramesFollowed(msgspec.Struct, frozen=True, eq=False):
    """Frames of the holder, or those that were found at the start, stand in the log as they are, not yet committed."""

    frames: Sequence[Frame]


class LogCut(msgspec.Struct, frozen=True):
    """The log ends earlier now; committed records are never cut."""


class Restored(msgspec.Struct, frozen=True, eq=False):
    """Other folds, as of `folded_to`: none, as the log began anew; the holder's; or rebuilt after a repair.

    The log may still end below that; what it gets up to there is in the folds already.
    """

    folds: Folds
    folded_to: Position
    has_folds: bool = True
    """False: the log begins anew, and its folds are still to come."""


class PairChanged(msgspec.Struct, frozen=True):
    """State of this member in its pair, told when it changes."""

    word: str
    """State of the member, for people."""
    members: tuple[int, ...] = ()
    """Confirmed in-sync set, if this member is the holder."""
    is_catching_up: bool = False
    """True: the log of this member is far behind the holder's."""


class Permitted(msgspec.Struct, frozen=True):
    """Output orders may leave within these bounds. Without a pair nobody says so, and nothing bounds them."""

    permit: Permit


class LevelAgreed(msgspec.Struct, frozen=True):
    """Every member knows this feature level, one above that of the log: raise it, unless that is on its way.

    Nothing happens while this node does not serve.
    """

    level: int


class MemberSaid(msgspec.Struct, frozen=True):
    """Last word of a member of a neighbour in the tree, or of the other member of this pair, about itself."""

    topology_hash: str
    """Hash of the topology that it runs; empty: not told."""
    clock_ahead_s: float
    """Its wall clock less the own one when its word came, seconds; 0 also if it told none."""


class PairFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the pair as its active member sees it; each number is an item, and a case when it is not 0."""

    at_risk: float
    """1: records exist on one member only."""
    other_lost: float
    """1: the other member is not heard."""
    voters_silent: float
    """Voters without an answer for some seconds."""
    taken_over: float
    """1: this member leads because the other member was lost, until that is in the set again."""
    store_refused: float
    """1: a member came back with less than it had acknowledged, or damaged, or with a copy of the other's store."""
    tail_quarantined: float
    """1: a member's log was cut when it came back, and nobody has said that it was looked at."""
    history_at_risk: float
    """1: acknowledged records may be lost, by force or because of a disk that forgot; until somebody has looked."""
    history_incomplete: float
    """Files of the stored history that one member still lacks."""
    disk_refuses: float
    """1: the disk of a member takes no more of the log, or has no room to keep what has to be cut from it."""
    other_said: MemberSaid | None = None
    """Last word of the other member, which is compared like that of neighbours; None: it was not heard yet."""


class Measured(msgspec.Struct, frozen=True):
    """Measurements that the shell takes once a second; they become samples of CORE's diagnostics items."""

    turn_ms: float
    """Longest turn of the last ten to twenty seconds."""
    log_bytes: int
    corrupt_ranges: int = 0
    """Number of known damaged ranges of committed records."""
    room_bytes: int = 0
    """Bytes that the log may still take before its disk reserve is touched."""
    messages_lacking: int = 0
    """Stretches of the log whose messages the files of this member lack."""
    seal_trouble: str | None = None
    """Why the history was not written when that was tried last; empty: it was; None: it has not said yet."""
    keys_unreadable: float = 0.0
    """1: the key directory can't be read any more; the node runs on with the keys that it knew."""
    held_percent: dict[str, float] = {}
    """Used part of the bounds of each named follower that has some, percent, by its name; NaN: nothing is held."""
    pair: PairFigures | None = None
    """Figures of the pair; None: this node stands alone."""

    @property
    def other_said(self) -> MemberSaid | None:
        """Last word of the other member; None: there is none, or it was not heard yet."""
        return None if self.pair is None else self.pair.other_said


class ActorTold(msgspec.Struct, frozen=True, kw_only=True):
    """An actor of this node, as boot sees it."""

    name: str
    state: str
    """waiting, starting, running, ending, ended"""
    last_end: str = ""
    """Cause of its last death; empty: it has not died since the node started."""
    ends_lately: int = 0
    """Deaths within the last minute."""
    was_killed: bool = False
    """True: its last death was that of a process that answered no more, or never became ready."""
    is_stopping: bool = False
    """True: the node stops. Its actors end one after the other, and their silence is no trouble."""
    since_ns: int = 0
    """Instant (boot clock) of the last change of its state."""
    address: FaceAddress = FaceAddress()


class ActorsTold(msgspec.Struct, frozen=True):
    """Boot's word on the actors of this node, which the root machine wants while an adapter is not heard, and of
    faces always."""

    actors: Sequence[ActorTold]


class TopologyTold(msgspec.Struct, frozen=True):
    """Boot's word on the topology that this node runs by now: `topology apply` changes it."""

    hash: str
    limits: LimitSettings
    children: tuple[ChildConfig, ...]
    """The nodes directly below."""
    beyond: tuple[str, ...]
    """Nodes outside the own subtree whose states are followed at the parent."""
    zone: str = "UTC"


class DamagePassed(msgspec.Struct, frozen=True):
    """A named follower, such as the history, went past committed records that can't be read any more."""

    from_ns: int
    to_ns: int
    """Node times of the last record before the damage and of the first one after it."""


class OrdersGiven(msgspec.Struct, frozen=True):
    """Audit entries of what admin actions people asked of this pair, and of what became of them."""

    records: Sequence[Audited]


class KeysListed(msgspec.Struct, frozen=True):
    """The programs whose keys are trusted, and the role that the key directory gives each; told when that changes."""

    roles: Mapping[str, RoleGrant]


class Stopping(msgspec.Struct, frozen=True):
    """A clean stop: the last record follows."""


OfTheLog = FramesAppended | FramesFollowed | LogCut | Committed | Answered | Durable | Restored
OfTheHouse = AdmissionChanged | Measured | DamagePassed | OrdersGiven | KeysListed | Stopping
OfTheRole = Granted | Served | Suspended | HandoverBegun | Deposed | PairChanged | Permitted | LevelAgreed
Event = (
    OfTheLog
    | OfTheHouse
    | OfTheRole
    | LettersDrained
    | ActorsTold
    | TopologyTold
    | WakeUpEnded
    | FollowersServed
    | PeerLost
    | TimePassed
)
