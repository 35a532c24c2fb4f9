"""Topology: which nodes there are, where they stand in the tree, and what each of them runs.

Not here: reading files (codec/topology/topology.py builds these values), opening anything, protocols of adapters. The
tree lies in the ids: `root/north` is the child of `root`. Exactly one node has no parent.

A place is the place of one process tree: `root/north`, or a member of a pair, `root[primary]` or `root[backup]`.
"""

import re
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL

NODE_ID_PATTERN: Final = r"^[a-z][a-z0-9_\-]{0,31}(/[a-z][a-z0-9_\-]{0,31}){0,7}$"
"""Form of a node's id, at most eight levels: it must fit into a topic, a path and one line of a table."""
ADAPTER_NAME_PATTERN: Final = r"^[a-z][a-z0-9_\-]{0,31}$"
"""Form of an adapter's name, which names files, sockets and diagnostics items (`<name>/connected`)."""
ENDPOINT_PATTERN: Final = r"^tcp://[^\s/]+:\d{1,5}$"
VOTER_PATTERN: Final = r"^(plc:[a-z][a-z0-9_\-]{0,31}|witness:[a-z][a-z0-9_\-]{0,31})$"

NODES_MAX: Final = 1_000
ADAPTERS_MAX: Final = 256
"""Adapters of one node, each of which is a process of its own."""
ITEMS_MAX: Final = 100_000
"""Items of one node; the folds keep a dense column per item."""
VOTERS_MAX: Final = 5

_PLACE = re.compile(r"^(?P<node>[^\[\]]+)(\[(?P<member>primary|backup)\])?$")

NodeId = Annotated[str, Meta(pattern=NODE_ID_PATTERN, description="Path in the tree, such as root/north.")]
AdapterName = Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
Endpoint = Annotated[str, Meta(pattern=ENDPOINT_PATTERN, description="tcp://HOST:PORT, IPv6 hosts in brackets.")]
Voter = Annotated[str, Meta(pattern=VOTER_PATTERN, description="plc:ADAPTER or witness:NAME.")]


class Placement(StrEnum):
    """Placement of a node's actors."""

    PROCESS = "process"
    THREAD = "thread"


class LogTarget(StrEnum):
    """Destination of a node's structured log."""

    STDOUT = "stdout"
    FILE = "file"
    SYSLOG = "syslog"


class Severity(StrEnum):
    """Least severity that is written to the structured log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Guard(StrEnum):
    """Guard of an output against late orders, strongest first."""

    PLC = "plc"
    """The PLC's program: outputs are reached through mailboxes, and an order of a lower epoch is refused there."""
    GATE = "gate"
    """The only path to the PLC is a gate: ours (`albireo gate`), or one that follows the holder."""
    STAMP = "stamp"
    """Nothing refuses; epoch and count beside each value show a late write, and it is corrected."""
    LEASE = "lease"
    """Nothing refuses; a late order is prevented by time only."""


class Standby(StrEnum):
    """Work of an adapter on the passive member. It never writes there."""

    CONNECTED = "connected"
    """Keeps a connection and asks for one item now and then, so that a lost device is noticed in time."""
    POLLING = "polling"
    """Reads everything; costs the device twice the load."""
    OFF = "off"
    """No connection: for a device that takes only one."""


class Durability(StrEnum):
    """Durability of a record when its producer is told of it. Readers see it once it is on both members, either way."""

    BOTH = "both"
    """Durable on every member of the set."""
    LOCAL = "local"
    """Durable on the active member."""


class StreamReplication(StrEnum):
    """Part of a stream that the other member gets."""

    ALL = "all"
    CONFIGURATION = "configuration"
    """References to the samples only; the values stay with the member that took them."""
    NONE = "none"
    """Nothing."""


VOTER_REGISTERS: Final = 64
"""Two blocks of `codec.register_block`, one per member."""
MAILBOX_AREA_REGISTERS: Final = 28
"""Two mailboxes and the guard's status of `machine.output.mailbox`."""
_REGISTERS: Final = 65_536


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every table of the file: a key that nobody reads is a mistake, never a silent default."""


class LogSettings(Config, frozen=True):
    """`[log]`: the store of a node. Retention ends at whole segments."""

    segment_mib: Annotated[int, Meta(ge=1, le=256)] = 64
    """Size of a segment. 64: a new one each quarter of an hour at 5,000 samples/s; smaller for small disks."""
    disk_reserve_mib: Annotated[int, Meta(ge=0, le=1_048_576)] = 64
    """Space left free: a segment that would leave less is not prepared, and admission stops until there is room."""
    snapshot_every_s: Annotated[int, Meta(ge=1, le=86_400)] = 300
    """Time between snapshots; bounds the replay after a crash."""
    scrub_mib_per_s: Annotated[float, Meta(ge=0, le=1_024)] = 4.0
    """Speed of the scrub, the slow check of sealed segments; 0 switches it off."""
    keep_h: Annotated[float, Meta(ge=0, le=87_600)] = 24.0
    """Time that records stay in the log after the history has them; records that it or a snapshot lacks stay anyway."""
    bytes_max_mib: Annotated[int, Meta(ge=16, le=16_777_216)] = 65_536
    """Size of the whole log; above it the oldest records that the history has go before their time."""
    quarantine_count_max: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Cuts kept for people; beyond this or the next two bounds the oldest cut goes, but never the newest one."""
    quarantine_mib_max: Annotated[int, Meta(ge=0, le=16_777_216)] = 4_096
    """Size of all cuts on the disk."""
    quarantine_days_max: Annotated[int, Meta(ge=1, le=36_500)] = 90
    """Age of a cut, by the wall clock."""

    def __post_init__(self) -> None:
        if self.bytes_max_mib < 4 * self.segment_mib:
            raise ValueError("bytes_max_mib must be at least 4 x segment_mib: one open, one prepared, two kept")


class HistorySettings(Config, frozen=True):
    """`[history]`: samples as Parquet files."""

    seal_every_s: Annotated[int, Meta(ge=1, le=3_600)] = 60
    """Age at which the hot tail becomes a file; readers of files wait at most so long."""
    tail_rows_max: Annotated[int, Meta(ge=1_000, le=50_000_000)] = 2_000_000
    """Rows of the hot tail in memory (about 50 bytes each); more are sealed early."""


class DurabilitySettings(Config, frozen=True):
    """`[node.durability]` of a pair: for each stream, when the sender of a record is told that it is recorded."""

    samples: Durability = Durability.BOTH
    """`both`: on the disks of both members. `local`: on the disk of the active member; until the other member has the
    record a takeover may cut it."""
    cases: Durability = Durability.BOTH
    """Only `both`."""
    state: Durability = Durability.BOTH
    """Only `both`."""
    command: Durability = Durability.BOTH
    """Only `both`."""
    audit: Durability = Durability.BOTH
    """Only `both`."""
    control: Durability = Durability.BOTH
    """Only `both`."""

    @property
    def local_streams(self) -> tuple[str, ...]:
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is Durability.LOCAL)


class ReplicationSettings(Config, frozen=True):
    """`[node.replication]` of a pair: for each stream, which part of it the other member gets."""

    samples: StreamReplication = StreamReplication.ALL
    """`all`: everything. `configuration`: items, producers and the numbers of their batches; the values stay in the
    private log of the member that took them. After a takeover they are still there, and the other member has a gap."""
    cases: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    state: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    command: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    audit: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    control: StreamReplication = StreamReplication.ALL
    """Only `all`."""

    @property
    def private_streams(self) -> tuple[str, ...]:
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not StreamReplication.ALL)


class LimitSettings(Config, frozen=True):
    """`[limits]`: sizes of the tables in which every name takes a place."""

    producers_max: Annotated[int, Meta(ge=1, le=16_384)] = 4_096
    """Names of producers; the hello of one more is refused. Every name is part of every snapshot."""
    items_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000_000
    """Items; a hello with one more is refused."""
    forget_producers_days: Annotated[int, Meta(ge=0, le=3_650)] = 90
    """Time without a record after which a producer that owns no items is forgotten, of the wall clock and of time that
    the node ran, both; 0: never. A program that sends again after that has to be started anew."""


class RuntimeSettings(Config, frozen=True):
    """`[runtime]`: actors and their supervision."""

    placement: Placement = Placement.PROCESS
    """`thread` runs the whole node in one process, for small edge boxes and tests."""
    alive_every_ms: Annotated[int, Meta(ge=50, le=60_000)] = 1_000
    """Time between two questions DEAD? to an actor."""
    alive_timeout_ms: Annotated[int, Meta(ge=200, le=600_000)] = 5_000
    """Silence after which an actor is restarted; well above the longest allowed turn (20 ms) and a busy disk."""
    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """Restarts of core and history within `restarts_within_s` before the node gives up (OTP: intensity)."""
    restarts_within_s: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """Time within which restarts are counted (OTP: period)."""
    stop_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    """Time that an actor may take to stop before it is killed."""
    log_target: LogTarget = LogTarget.STDOUT
    log_level: Severity = Severity.INFO
    log_file_mib: Annotated[int, Meta(ge=1, le=1_024)] = 10
    """Size at which the log file is rotated; five old ones are kept."""

    def __post_init__(self) -> None:
        if self.alive_timeout_ms < 3 * self.alive_every_ms:
            raise ValueError("alive_timeout_ms must be at least 3 x alive_every_ms: one lost answer is not a death")


class AdapterConfig(Config, frozen=True):
    """`[[node.adapter]]`: one connection to a device, run by an actor of its own."""

    name: AdapterName
    kind: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    """Kind of adapter: `modbus`, `host`."""
    url: Annotated[str, Meta(max_length=512)] = ""
    """Address of the device, such as tcp://10.0.2.5:502; none for `host`."""
    items: Annotated[str, Meta(max_length=512)] = ""
    """CSV item table, relative to the topology file; none for `host`, which knows its own items."""
    device_id: Annotated[int, Meta(ge=0, le=255)] = 1
    """Modbus unit; most devices with one unit answer to 1."""
    poll_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 1_000
    """Time from one poll of all items to the next."""
    timeout_ms: Annotated[int, Meta(ge=10, le=600_000)] = 1_000
    """Longest wait for one answer."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 1
    """Repeats of one read before the device counts as lost."""
    backoff_min_ms: Annotated[int, Meta(ge=10, le=600_000)] = 500
    """First pause between two attempts to connect; doubled each time, jittered."""
    backoff_max_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 2_000
    """Longest pause between two attempts to connect; values of a device that is back stay bad for so long."""
    read_gap_max: Annotated[int, Meta(ge=0, le=100)] = 8
    """Unused registers that one block read may span."""
    read_count_max: Annotated[int, Meta(ge=1, le=2_000)] = 120
    """Registers of one block read; Modbus allows 125, some devices less."""
    standby: Standby = Standby.CONNECTED
    """Work on the passive member of a pair: `connected`, `polling` or `off`; it never writes there."""
    guard: Guard = Guard.LEASE
    """Guard of outputs against late orders: `plc`, `gate`, `stamp` or `lease` (docs/plc-voter.md)."""
    write_max_ms: Annotated[int, Meta(ge=1, le=60_000)] = 300
    """Longest time of a write in a pair; with `stamp` and `lease` no write starts with less of the lease left."""
    mailbox_address: Annotated[int, Meta(ge=0, le=_REGISTERS - MAILBOX_AREA_REGISTERS)] | None = None
    """First of the 28 holding registers of the output mailboxes; `guard = "plc"` needs it, and `albireo gate`."""
    gated_url: Annotated[str, Meta(max_length=512)] = ""
    """The PLC behind `albireo gate`, as the gate reaches it; `url` is then the address of the gate."""
    voter_address: Annotated[int, Meta(ge=0, le=_REGISTERS - VOTER_REGISTERS)] | None = None
    """First of the 64 holding registers of the voter's two blocks; a voter `plc:NAME` needs it."""
    settle_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50
    """Time until the PLC's other connections see a write; measured by `albireo doctor plc-voter`."""
    dead_time_ms: Annotated[int, Meta(ge=0, le=60_000)] = 2_000
    """Time until a write of a broken connection has landed or never will: `timeout_ms` and the PLC's queue."""

    def __post_init__(self) -> None:
        if self.backoff_max_ms < self.backoff_min_ms:
            raise ValueError("backoff_max_ms must not be below backoff_min_ms")
        if self.guard is Guard.PLC and self.mailbox_address is None:
            raise ValueError('guard = "plc" needs mailbox_address: where the PLC has its mailboxes')
        self._check_gate()
        if self.voter_address is not None and self.mailbox_address is not None:
            distance = self.mailbox_address - self.voter_address
            if -MAILBOX_AREA_REGISTERS < distance < VOTER_REGISTERS:
                raise ValueError("voter_address and mailbox_address overlap: 64 and 28 registers")

    def _check_gate(self) -> None:
        if self.guard is Guard.GATE and (self.mailbox_address is None) is not (not self.gated_url):
            raise ValueError(
                'guard = "gate" with a gate of ours needs both: gated_url, where it finds the PLC, and '
                "mailbox_address, where it shows its mailboxes; a gate of others needs neither"
            )
        if self.gated_url and self.guard is not Guard.GATE:
            raise ValueError(f'gated_url names the PLC behind a gate, and guard is "{self.guard.value}"')
        if self.gated_url and self.voter_address is not None:
            raise ValueError(
                "gated_url and voter_address: a PLC behind a gate can't vote, for the gate refuses plain writes"
            )

    @property
    def has_own_gate(self) -> bool:
        """True: outputs are reached through an `albireo gate`."""
        return bool(self.gated_url)


class MemberEndpoints(Config, frozen=True):
    """Addresses of one member of a pair."""

    client: Endpoint
    """Address to which clients and other nodes connect."""
    peer: Annotated[tuple[Endpoint, ...], Meta(min_length=1, max_length=4)]
    """Addresses to which the other member connects; more than one for separate cables."""


class WitnessConfig(Config, frozen=True):
    """`[[witness]]`: a machine that votes and holds no data."""

    name: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    endpoint: Endpoint


class NodeConfig(Config, frozen=True):
    """`[[node]]`: one node of the tree, alone (`endpoint`) or a pair (`primary`, `backup`)."""

    id: NodeId
    endpoint: Endpoint | None = None
    """Address at which programs reach a node that stands alone; it needs keys (docs/keys.md)."""
    open_on_loopback: bool = False
    """Without keys, let in every program of this machine at `endpoint`, which must be tcp://127.0.0.1:PORT then."""
    primary: MemberEndpoints | None = None
    backup: MemberEndpoints | None = None
    voters: Annotated[tuple[Voter, ...], Meta(max_length=VOTERS_MAX)] = ()
    feature_level: Annotated[int, Meta(ge=OLDEST_LEVEL, le=FEATURE_LEVEL)] = FEATURE_LEVEL
    """Highest level that is written into the log; the previous one keeps the log readable for the previous version."""
    description: Annotated[str, Meta(max_length=1_024)] = ""
    items: Annotated[str, Meta(max_length=512)] = ""
    """CSV item table for all adapters of the node; its column `adapter` names the owner of each row."""
    adapter: Annotated[tuple[AdapterConfig, ...], Meta(max_length=ADAPTERS_MAX)] = ()
    log: LogSettings = LogSettings()
    durability: DurabilitySettings = DurabilitySettings()
    """Durability of each stream of a pair."""
    replication: ReplicationSettings = ReplicationSettings()
    """Replication of each stream of a pair."""
    history: HistorySettings = HistorySettings()
    limits: LimitSettings = LimitSettings()
    """Sizes of the tables of names."""
    runtime: RuntimeSettings = RuntimeSettings()

    @property
    def parent(self) -> str:
        """Id of the node above; empty for the root."""
        return self.id.rpartition("/")[0]

    @property
    def is_pair(self) -> bool:
        return self.primary is not None or self.backup is not None


class Topology(Config, frozen=True):
    """Content of the whole file."""

    cluster: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    """UUID, written once, so that stores of two clusters never mix."""
    node: Annotated[tuple[NodeConfig, ...], Meta(min_length=1, max_length=NODES_MAX)]
    witness: Annotated[tuple[WitnessConfig, ...], Meta(max_length=64)] = ()
    log: LogSettings = LogSettings()
    """Defaults for every node; a node's own `[node.log]` changes single keys."""
    history: HistorySettings = HistorySettings()
    limits: LimitSettings = LimitSettings()
    """Sizes of the tables of names."""
    runtime: RuntimeSettings = RuntimeSettings()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Place of one process tree: a node that stands alone, or a member of a pair."""

    node: NodeConfig
    member: str = ""
    """`primary` or `backup` in a pair, empty for a node that stands alone."""

    @property
    def name(self) -> str:
        """Name as a user writes it: `root[primary]`, `root/north`."""
        return f"{self.node.id}[{self.member}]" if self.member else self.node.id

    @property
    def directory_name(self) -> str:
        """Name as one component of a path."""
        return self.node.id.replace("/", "~") + (f".{self.member}" if self.member else "")

    @property
    def endpoint(self) -> str:
        """Address to which its clients connect; empty when it has none."""
        member = {"primary": self.node.primary, "backup": self.node.backup}.get(self.member)
        return member.client if member else self.node.endpoint or ""


class UnknownPlace(LookupError):
    """The topology has no place of that name."""

    def __init__(self, wanted: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no place {wanted!r} in the topology; it has {', '.join(known)}")
        self.wanted = wanted
        self.known = known


def places(topology: Topology) -> tuple[Place, ...]:
    """Every place, in the order of the file."""
    found: list[Place] = []
    for node in topology.node:
        members = [name for name in ("primary", "backup") if getattr(node, name) is not None]
        found += [Place(node=node, member=name) for name in members] or [Place(node=node)]
    return tuple(found)


def find_place(topology: Topology, wanted: str) -> Place:
    """The place that `wanted` names, such as `root[primary]` or `root/north`.

    Raises:
        UnknownPlace: no such node, or the member is missing or too much.
    """
    every = places(topology)
    if _PLACE.match(wanted):
        for place in every:
            if place.name == wanted:
                return place
    raise UnknownPlace(wanted, tuple(place.name for place in every))


def children(topology: Topology, node_id: str) -> tuple[NodeConfig, ...]:
    """Nodes directly below `node_id`, in the order of the file."""
    return tuple(node for node in topology.node if node.parent == node_id)
