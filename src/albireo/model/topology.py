"""Topology: which nodes there are, where they stand in the tree, and what each of them runs.

Not here: reading files (codec/topology/topology.py builds these values), opening anything, protocols of adapters; who
stands above and below a node (model/tree/nodes.py). The tree lies in the ids: `root/north` is the child of `root`.
Exactly one node has no parent.

A place is the place of one process tree: `root/north`, or a member of a pair, `root[primary]` or `root[backup]`.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL
from albireo.model.settings import (
    AlarmConfig,
    Config,
    DurabilitySettings,
    HistorySettings,
    LimitSettings,
    LogSettings,
    ReplicationSettings,
    RuntimeSettings,
)

LEVELS_MAX: Final = 8
NODE_ID_PATTERN: Final = r"^[a-z][a-z0-9_\-]{0,31}(/[a-z][a-z0-9_\-]{0,31}){0,7}(?!\n)$"
"""Form of a node's id, at most eight levels: it must fit into a topic, a path and one line of a table."""
ADAPTER_NAME_PATTERN: Final = r"^[a-z][a-z0-9_\-]{0,31}(?!\n)$"
"""Form of an adapter's name, which names files, sockets and diagnostics items (`<name>/connected`)."""
ENDPOINT_PATTERN: Final = r"^tcp://[^\s/]+:[0-9]{1,5}(?!\n)$"
VOTER_PATTERN: Final = (
    r"^((plc|witness):[a-z][a-z0-9_\-]{0,31}"
    r"|node:[a-z][a-z0-9_\-]{0,31}(/[a-z][a-z0-9_\-]{0,31}){0,7}(\[(primary|backup)\])?)(?!\n)$"
)
NODE_VOTER: Final = "node:"
"""Prefix of a voter that is a node below the pair, or one member of a pair below."""

ITEM_PATTERN_PATTERN: Final = r"^[A-Za-z0-9_.\-/*?\[\]!]+(?!\n)$"
MEMBER_PATTERN: Final = (
    r"^[a-z][a-z0-9_\-]{0,31}(/[a-z][a-z0-9_\-]{0,31}){0,7}"
    r"(:[A-Za-z0-9_.\-/*?\[\]!]{1,128})?(?!\n)$"
)
"""Form of a group's member: a node, or what stands behind the colon at that node."""

NODES_MAX: Final = 1_000
OBJECTS_MAX: Final = 1_000
"""Objects of one node, and members of one group."""
GROUPS_MAX: Final = 256
ADAPTERS_MAX: Final = 256
"""Adapters of one node, each of which is a process of its own."""
FACES_MAX: Final = 32
"""Faces of one node, each of which is a process of its own as well."""
ITEMS_MAX: Final = 100_000
"""Items of one node; the folds keep a dense column per item."""
VOTERS_MAX: Final = 5

_PLACE = re.compile(r"^(?P<node>[^\[\]]+)(\[(?P<member>primary|backup)\])?$")

NodeId = Annotated[str, Meta(pattern=NODE_ID_PATTERN, description="Path in the tree, such as root/north.")]
AdapterName = Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
Endpoint = Annotated[str, Meta(pattern=ENDPOINT_PATTERN, description="tcp://HOST:PORT, IPv6 hosts in brackets.")]
Voter = Annotated[
    str,
    Meta(
        pattern=VOTER_PATTERN,
        max_length=NAME_CHARS_MAX,
        description="plc:ADAPTER, witness:NAME, or a place below the pair: node:root/north, node:root/north[primary].",
    ),
]
ItemPattern = Annotated[
    str, Meta(pattern=ITEM_PATTERN_PATTERN, max_length=128, description="Name of an item, or names: fan_*, p?_power.")
]
GroupMember = Annotated[
    str,
    Meta(
        pattern=MEMBER_PATTERN,
        description="A node (root/north), an object of it (root/north:fan_1), or items of it (root/north:co_*).",
    ),
]
Label = Annotated[str, Meta(max_length=128, description="Short name for people, on pages and in lists.")]
Description = Annotated[str, Meta(max_length=1_024)]
RestOfTable = Annotated[dict[str, Any], Meta(extra={"is_rest": True})]
"""Keys of a table that its struct does not name: those of a kind, which the kind's own struct judges."""


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


class PlcWaits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times that `albireo doctor plc-voter` measured of one PLC, as the topology has them."""

    settle_ms: int = 50
    dead_time_ms: int = 2_000


class AdapterConfig(Config, frozen=True):
    """`[[node.adapter]]`: one connection to a device, run by an actor of its own.

    These are the keys of every kind. A kind that has keys of its own declares a struct below this one, and answers
    there what the node wants to know of it.
    """

    KNOWN_ELSEWHERE: ClassVar[frozenset[str]] = frozenset({"kind", "guard", "write_max_ms"})
    """Keys that CORE, members or a gate read too, at their start. The others an adapter alone reads, at its own."""

    name: AdapterName
    kind: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    """Kind of adapter: `modbus`, `host`, or one that another distribution offers."""
    label: Label = ""
    description: Description = ""
    url: Annotated[str, Meta(max_length=512)] = ""
    """Address of the device, such as tcp://10.0.2.5:502; none for `host`."""
    items: Annotated[str, Meta(max_length=512)] = ""
    """CSV item table, relative to the topology file; none for `host`, which knows its own items."""
    poll_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 1_000
    """Time from one poll of all items to the next."""
    backoff_min_ms: Annotated[int, Meta(ge=10, le=600_000)] = 500
    """First pause between two attempts to connect; doubled each time, jittered."""
    backoff_max_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 2_000
    """Longest pause between two attempts to connect; values of a device that is back stay bad for so long."""
    standby: Standby = Standby.CONNECTED
    """Work on the passive member of a pair: `connected`, `polling` or `off`; it never writes there."""
    guard: Guard = Guard.LEASE
    """Guard of outputs against late orders: `plc`, `gate`, `stamp` or `lease` (docs/plc-voter.md)."""
    write_max_ms: Annotated[int, Meta(ge=1, le=60_000)] = 300
    """Longest way of a write to its device in a pair, by default half the lease: with `stamp` and `lease` none starts
    with less of it left, and what the device has not taken by then the kernel throws away."""

    def __post_init__(self) -> None:
        if self.backoff_max_ms < self.backoff_min_ms:
            raise ValueError("backoff_max_ms must not be below backoff_min_ms")

    @property
    def device(self) -> tuple[str, int]:
        """Device behind the address: two adapters with the same one poll it twice."""
        return self.url, 0

    @property
    def voter_waits(self) -> PlcWaits | None:
        """Times of the PLC that votes; None: it can't vote."""
        return None

    @property
    def device_behind_gate(self) -> str:
        """Address of the device behind an `albireo gate`; empty: no gate of ours stands before it."""
        return ""

    @property
    def must_run_on(self) -> bool:
        """True: a vote or a gate depends on it, or on its table, so that it is not started anew as the node runs."""
        return self.voter_waits is not None or bool(self.device_behind_gate)


class FaceConfig(Config, frozen=True, kw_only=True):
    """`[[node.face]]`: a server of another protocol beside the node, run by an actor of its own."""

    name: AdapterName
    kind: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    """Kind of face: `chp`, `pubsub`, or one that another distribution offers."""
    label: Label = ""
    description: Description = ""
    member: Literal["", "primary", "backup"] = ""
    """Member of a pair beside which it runs; without it one runs beside each."""
    settings: RestOfTable = msgspec.field(default_factory=dict)
    """The kind's own keys, those that say the default left out."""


class MemberEndpoints(Config, frozen=True):
    """Addresses of one member of a pair."""

    client: Endpoint
    """Address to which clients and other nodes connect."""
    peer: Annotated[tuple[Endpoint, ...], Meta(min_length=1, max_length=4)]
    """Addresses to which the other member connects; more than one for separate cables."""
    messages: Endpoint | None = None
    """Address at which programs read messages of topics; none: a free port of the host of `client`."""


class WitnessConfig(Config, frozen=True):
    """`[[witness]]`: a machine that votes and holds no data."""

    name: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    endpoint: Endpoint


class ObjectConfig(Config, frozen=True, kw_only=True):
    """`[[node.object]]`: a thing of the plant, such as a fan, and the items of the node that belong to it."""

    name: Annotated[str, Meta(pattern=ADAPTER_NAME_PATTERN)]
    label: Label = ""
    description: Description = ""
    items: Annotated[tuple[ItemPattern, ...], Meta(min_length=1, max_length=256)]
    """Names of items, or patterns of names as `albireo items` takes them; an item may belong to several objects."""


class GroupConfig(Config, frozen=True, kw_only=True):
    """`[[group]]`: an entry of the navigation, which leads people to nodes, objects and items of the whole tree."""

    label: Annotated[str, Meta(min_length=1, max_length=128)]
    """Text of the entry; no other group has the same."""
    description: Description = ""
    members: Annotated[tuple[GroupMember, ...], Meta(min_length=1, max_length=OBJECTS_MAX)]
    """Nodes, objects and items behind the entry, in the order in which they are shown."""


class UplinkSettings(Config, frozen=True):
    """`[node.uplink]`: link of a node to the node above it, which follows its log and may hand state down to it."""

    hold_gib: Annotated[float, Meta(ge=0, le=1_048_576)] = 8.0
    """Size up to which records that the parent lacks stay in the log, whatever `[log]` says; 0 keeps nothing for it."""
    hold_days: Annotated[float, Meta(ge=0, le=3_650)] = 30.0
    """Log time for which they stay; beyond either limit the parent takes the files of the history, or has a gap."""
    rate_mib_per_s: Annotated[float, Meta(ge=0, le=1_024)] = 0.0
    """Most of what lies behind that is sent upward per second; 0: as fast as the parent takes it. Live values are not
    counted: they go first."""
    state: Literal["own", "tree"] | Annotated[tuple[NodeId, ...], Meta(min_length=1, max_length=NODES_MAX)] = "own"
    """Current values that the node holds: `own`, those of its own subtree; `tree`, those of the whole tree; or a list
    of nodes, whose subtrees it holds beside its own. What is not its own comes from its parent."""
    dial: Annotated[tuple[Endpoint, ...], Meta(max_length=2)] = ()
    """Addresses at which this node reaches its parent, of a pair the primary's first, where they are not those at which
    the parent listens: those of a gateway, or of forwarded ports."""


class NodeConfig(Config, frozen=True):
    """`[[node]]`: one node of the tree, alone (`endpoint`) or a pair (`primary`, `backup`)."""

    id: NodeId
    endpoint: Endpoint | None = None
    """Address at which programs reach a node that stands alone; it needs keys (docs/keys.md)."""
    messages: Endpoint | None = None
    """Address at which programs read messages of its topics; none: a free port of the host of `endpoint`."""
    open_on_loopback: bool = False
    """Without keys, let in every program of this machine at `endpoint`, which must be tcp://127.0.0.1:PORT then."""
    primary: MemberEndpoints | None = None
    backup: MemberEndpoints | None = None
    voters: Annotated[tuple[Voter, ...], Meta(max_length=VOTERS_MAX)] = ()
    """Voters that decide which member of a pair leads: none, or an odd number."""
    feature_level: Annotated[int, Meta(ge=OLDEST_LEVEL, le=FEATURE_LEVEL)] = FEATURE_LEVEL
    """Highest level that is written into the log; the previous one keeps the log readable for the previous version."""
    label: Label = ""
    description: Description = ""
    items: Annotated[str, Meta(max_length=512)] = ""
    """CSV item table for all adapters of the node; its column `adapter` names the owner of each row."""
    adapter: Annotated[tuple[AdapterConfig, ...], Meta(max_length=ADAPTERS_MAX)] = ()
    face: Annotated[tuple[FaceConfig, ...], Meta(max_length=FACES_MAX)] = ()
    """Servers of other protocols; the node needs none of them."""
    object: Annotated[tuple[ObjectConfig, ...], Meta(max_length=OBJECTS_MAX)] = ()
    """Things of the plant, each with its items; for people, nothing is measured or written because of it."""
    uplink: UplinkSettings = UplinkSettings()
    """Link to the node above; the root has none."""
    log: LogSettings = LogSettings()
    durability: DurabilitySettings = DurabilitySettings()
    """Durability of each stream of a pair."""
    replication: ReplicationSettings = ReplicationSettings()
    """Replication of each stream of a pair."""
    history: HistorySettings = HistorySettings()
    limits: LimitSettings = LimitSettings()
    """Sizes of the tables of names."""
    alarms: AlarmConfig = AlarmConfig()
    """How alarms are judged."""
    runtime: RuntimeSettings = RuntimeSettings()

    @property
    def parent(self) -> str:
        """Id of the node above; empty for the root."""
        return self.id.rpartition("/")[0]

    @property
    def is_pair(self) -> bool:
        return self.primary is not None or self.backup is not None

    @property
    def node_voters(self) -> tuple[str, ...]:
        """Voters that are nodes below the pair."""
        return tuple(voter for voter in self.voters if voter.startswith(NODE_VOTER))


class Topology(Config, frozen=True):
    """Content of the whole file."""

    cluster: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\n)$")]
    """UUID, written once, so that stores of two clusters never mix."""
    node: Annotated[tuple[NodeConfig, ...], Meta(min_length=1, max_length=NODES_MAX)]
    witness: Annotated[tuple[WitnessConfig, ...], Meta(max_length=64)] = ()
    group: Annotated[tuple[GroupConfig, ...], Meta(max_length=GROUPS_MAX)] = ()
    """Entries of the navigation, in the order in which they are shown."""
    zone: str = "UTC"
    """Time zone of the plant, such as Europe/Vienna: of pages, of hours for notification, of days in `history`."""
    log: LogSettings = LogSettings()
    """Defaults for every node; a node's own `[node.log]` changes single keys."""
    history: HistorySettings = HistorySettings()
    limits: LimitSettings = LimitSettings()
    """Sizes of the tables of names."""
    alarms: AlarmConfig = AlarmConfig()
    """How alarms are judged."""
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
        return self._own.client if self._own else self.node.endpoint or ""

    @property
    def messages(self) -> str:
        """Address at which its clients read messages, port `*` for a free one; empty when it has no endpoint."""
        said = (self._own or self.node).messages
        return said or (f"{self.endpoint.rpartition(':')[0]}:*" if self.endpoint else "")

    @property
    def _own(self) -> MemberEndpoints | None:
        return {"primary": self.node.primary, "backup": self.node.backup}.get(self.member)


class UnknownPlace(LookupError):
    """The topology has no place of that name."""

    def __init__(self, wanted: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no place {wanted!r} in the topology; it has {', '.join(known)}")
        self.wanted = wanted
        self.known = known


def places(topology: Topology) -> tuple[Place, ...]:
    """Every place, in the order of the file."""
    return tuple(place for node in topology.node for place in places_of(node))


def places_of(node: NodeConfig) -> tuple[Place, ...]:
    """The node itself, or the members of a pair, primary first."""
    members = [name for name in ("primary", "backup") if getattr(node, name) is not None]
    return tuple(Place(node=node, member=name) for name in members) or (Place(node=node),)


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
