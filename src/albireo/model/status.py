"""Status: a node in one look, as its CORE answers and `albireo status --json` prints it.

A field that ends in `_ms` is an age or a length in ms. One that ends in `_ns` is a wall time in ns; 0 means that it
never happened. None means that nobody knows.
"""

import msgspec

from albireo.model.bounded import Text
from albireo.model.name_status import NameStatus


class VoterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record on which the voters agree, as one of them has it."""

    epoch: int
    version: int
    holder: int
    run: int
    members: tuple[int, ...]
    is_forced: bool


class VoterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A voter as a member knows it. One that never answered has nothing but that."""

    answered_ms: int | None = None
    promised: int | None = None
    """Highest epoch that it has promised."""
    record: VoterRecord | None = None
    is_lease_running: bool = False
    lease_left_ms: int | None = None
    floor: tuple[int, int] | None = None
    """Highest commit position that was reported to it: epoch, sequence."""
    reason: str = ""
    """Reason why it last refused; empty: it granted."""
    refused: dict[str, int] = {}
    """Refusals by reason."""


class PlcVoterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A voter in registers of a PLC, as the member that drives it knows it."""

    connected: bool
    phase: str
    trouble: str
    refused: dict[str, int]


class OtherMember(msgspec.Struct, frozen=True, kw_only=True):
    """The other member of a pair as this one last heard it."""

    place: str
    client: str
    """Its endpoint for programs."""
    heard_ms: int | None
    is_present: bool
    answers_ms: int | None
    """Age of its last answer to a heartbeat."""
    paths_ms: tuple[int | None, ...]
    """Age of what came last on each path."""
    state: str
    cases: dict[str, str]
    epoch: int | None = None
    run: int | None = None
    end: int | None = None
    committed: int | None = None
    accepted_epoch: int | None = None
    is_held: bool | None = None
    feature_level: int | None = None
    topology_hash: str = ""


class CatchingUp(msgspec.Struct, frozen=True, kw_only=True):
    """Way of the other member into the set, as the member says that leads."""

    behind: int
    """Committed records that it lacks."""
    late_ms: int
    """How long ago it would have been whole; beyond the last seconds at least so long."""
    gains_per_s: float
    """Records by which it came nearer in a second, of late."""
    whole_in_s: float | None
    """Time until it is whole, as it went of late; None: it does not come nearer."""
    slowed_ms: int
    """Time that each commit waits for its sake."""
    not_before_s: float
    """Time for which it is not added, because it was lost again and again."""


class PairStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pair as one of its members sees it."""

    member: int
    """Index of this member: 0 the primary, 1 the backup."""
    place: str
    state: str
    cause: str
    """Cause of the last change of state, which was at `since_ns`."""
    since_ns: int
    epoch: int
    run: int
    members: tuple[int, ...]
    """In-sync set, as far as it is known here; `set` has the places."""
    set: tuple[str, ...]
    end: int
    """Sequence of the last record of its log; `durable`, `committed`: of the last that is so."""
    durable: int
    committed: int
    accepted_epoch: int
    feature_level: int
    log_level: int
    apart: str
    """Why the members can't have one log; empty: they can."""
    lag: int | None
    """Records that the other member lacks; None: this one does not lead."""
    catching_up: CatchingUp | None = None
    """None: this member does not lead, or nobody follows it who is not in the set."""
    lease_left_ms: int | None
    client: str
    peer: tuple[str, ...]
    """Endpoints of the paths between the members."""
    guards: dict[str, str]
    """By adapter what holds off late orders to its outputs."""
    other: OtherMember
    voters: tuple[str, ...]
    voters_seen: dict[str, VoterStatus]
    maintenance_since_ns: int
    at_risk_since_ns: int
    cases: dict[str, str]
    cases_since_ns: dict[str, int]
    refused: dict[str, int]
    """Messages that were not taken, by reason."""
    plc_voters: dict[str, PlcVoterStatus] = {}
    topology_hash: str = ""


class HandedOn(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of the door that CORE hands to the history."""

    handed_on: int = 0
    refused: int = 0
    late: int = 0
    under_way: int = 0


class Knock(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is not trusted, whose holder wanted to be let in at a door."""

    public: str
    """64 hexadecimal digits; whoever knocked has proven that it is his."""
    address: str
    """Network address of the last time."""
    at_ns: int
    """Wall time of the last time."""
    times: int


class DoorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint for programs of other machines, and the names of those that the node dials."""

    endpoint: str
    """Empty: it has none."""
    closed_because: str
    with_keys: bool
    key_trouble: str
    """Why the key directory can't be read any more; empty: it can, or there is none."""
    not_heard: int
    """Messages of senders that are not heard."""
    history: HandedOn
    names: dict[str, NameStatus] = {}
    knocks: tuple[Knock, ...] = ()
    """Keys that were refused there since CORE runs, the latest ones, the last one last."""


class LogStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The log. `epoch` and `sequence`: the position up to which everything is committed and folded."""

    log_id: str
    epoch: int
    sequence: int
    end: int
    log_time_ms: int
    feature_level: int
    admission: str
    """Why nothing is taken in; empty: it is."""
    lacks_to: int
    """Sequence up to which the state is missing; 0: none is."""


class NodesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Other nodes: the number of those below, and names of those of them that are not heard, 20 at most."""

    below: int
    silent: tuple[str, ...]
    above: str = ""
    """The node directly above; empty: there is none."""
    unreached_since_ns: int | None = None
    """Wall time since which no member of the node above is heard, at the earliest that of the start; null: one is."""
    set_back: tuple[str, ...] = ()
    """Nodes below that came back, in the last hour, with less than is known of them; 20 at most."""


class CaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of alarm cases."""

    open: int
    unacked: int
    raised: int


class BadItems(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one adapter that have no usable value, all for one reason."""

    node: str
    adapter: str
    reason: str
    """Quality; `NaN`: a number that is none."""
    items: int
    watched: int
    """Number of those with a limit, of which no alarm can be judged."""
    names: tuple[str, ...]
    """Local names of some, watched ones first."""


class CommitDelay(msgspec.Struct, frozen=True, kw_only=True):
    """Time from the acquisition of a sample to its commit, in ms; None: nothing was committed lately."""

    p50: float | None = None
    p99: float | None = None


class AdapterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter, or a program that has produced."""

    name: str
    connected: bool
    """It is heard, and says that its device answers or has none to speak of."""
    heard: bool
    device: bool | None
    silent_ms: int
    trouble: str
    """Why one of the topology does not run; empty: it does."""


class FaceAddress(msgspec.Struct, frozen=True):
    """Where programs that know nothing of Albireo find an actor, as it said when it was ready; empty: nowhere."""

    url: Text = ""
    fingerprint: Text = ""
    """SHA-256 of the certificate that it shows there, as browsers write it: AB:CD:..."""

    def __str__(self) -> str:
        return f"{self.url}, certificate SHA-256 {self.fingerprint}" if self.fingerprint else self.url


class FaceStatus(msgspec.Struct, frozen=True):
    """A face, why it does not run, and where it is found."""

    name: str
    trouble: str
    address: FaceAddress = FaceAddress()


class ProducerLife(msgspec.Struct, frozen=True):
    """A run of a program that has, or had, a producer's name."""

    life: int
    run: int


class ProducerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a producer's name, and who had it before."""

    name: str
    life: int
    run: int
    since_ns: int
    last: int
    """Number of its last batch that was taken."""
    earlier: tuple[ProducerLife, ...]


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """Head of the chain over the audit records: whoever notes it can prove later that none of them was changed."""

    first_sequence: int
    count: int
    sequence: int
    head: str


class FollowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A follower of the log. `lag`: records that were not offered to it yet."""

    name: str
    lag: int
    durable: str
    """Position up to which it has everything on its disk."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    node: str
    role: str
    pair: PairStatus | None
    """None: it stands alone."""
    door: DoorStatus | None
    durability: dict[str, str]
    """By stream when a record is acknowledged: `both`, `local`; empty for a node that stands alone."""
    replication: dict[str, str]
    """By stream which members have it: `all`, `configuration`; likewise."""
    log: LogStatus
    wall_ns: int
    topology_hash: str
    """Hash of the topology by which it runs; empty: without a file."""
    zone: str
    """Time zone of the plant by that topology."""
    items: int
    bad_items: int
    bad: tuple[BadItems, ...]
    """Those that are watched, here and below, or long bad: 20 rows at most."""
    nodes: NodesStatus
    forced_items: int
    sessions: int
    sessions_left_out: int
    cases: CaseCounts
    commands_open: int
    samples_committed: int
    refused: int
    """Batches that were not taken, by kind: this and the next three."""
    malformed: int
    repeated: int
    superseded: int
    credit_cut: int
    """Times that a follower's credit was cut."""
    acquire_to_commit_ms: CommitDelay
    adapters: tuple[AdapterStatus, ...]
    faces: tuple[FaceStatus, ...]
    producers: tuple[ProducerStatus, ...]
    """The 64 whose names were taken last."""
    audit: AuditHead
    followers: tuple[FollowerStatus, ...]
