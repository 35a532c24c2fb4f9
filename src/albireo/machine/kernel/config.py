"""Configuration of the root machine."""

import msgspec

from albireo.codec.frame import BODY_BYTES_MAX
from albireo.machine.kernel.events import TopologyTold
from albireo.machine.kernel.named import HISTORY, NamedFollower
from albireo.model.settings import LimitSettings, StreamReplication
from albireo.model.tree.nodes import ChildConfig


class RootConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of the root machine, told once at its start."""

    node: str
    log_id: bytes
    segment_bytes: int = BODY_BYTES_MAX
    """Size of a segment of the log: no frame is larger."""
    member: int = 0
    """Index in the pair."""
    is_paired: bool = False
    local_streams: frozenset[int] = frozenset()
    """Streams whose producers are answered when the own disk has a batch (durability `local`)."""
    private_streams: frozenset[int] = frozenset()
    """Streams whose samples, or messages, stay with the member that took them (replication `configuration`)."""
    topics_replication: StreamReplication = StreamReplication.ALL
    """Which member has the messages of topics that say nothing else."""
    adapters: frozenset[str] = frozenset()
    """Names of the adapters that this node's topology configures."""
    faces: frozenset[str] = frozenset()
    """Names of the faces that boot runs beside this node, or this member."""
    limits: LimitSettings = LimitSettings()
    children: tuple[ChildConfig, ...] = ()
    """The nodes directly below."""
    parent: str = ""
    """Id of the node above; empty: there is none."""
    parent_places: frozenset[str] = frozenset()
    """Names of the keys of its members."""
    beyond: tuple[str, ...] = ()
    """Nodes outside the own subtree whose states are followed at the parent."""
    topology_hash: str = ""
    """Hash of the topology that this node runs; empty: not known."""
    zone: str = "UTC"
    named: tuple[NamedFollower, ...] = (HISTORY,)
    """Followers for which records stay in the log."""
    seed: int = 0
    """Random number of this run, from which guids and nonces are drawn."""
    ticket_key: bytes = b""
    """Random bytes of this run, from which the secrets of tickets follow; empty: no face runs here that could open a
    door, and none are given."""
    lacks_to: int = 0
    """Last sequence whose effect on the folds is lost, because no snapshot could be read; 0: nothing is."""

    def with_topology(self, told: TopologyTold) -> "RootConfig":
        """This configuration with what a running node takes up of a changed topology."""
        taken = msgspec.structs.asdict(told)
        return msgspec.structs.replace(self, topology_hash=taken.pop("hash"), **taken)

    @property
    def child_places(self) -> frozenset[str]:
        """Names of the places of the nodes directly below."""
        return frozenset(place for child in self.children for place in child.places)

    @property
    def neighbours(self) -> frozenset[str]:
        """Ids of the nodes directly above and below."""
        return frozenset([self.parent, *(child.node for child in self.children)]) - {""}

    @property
    def compares(self) -> bool:
        """True: neighbours, or the other member of a pair that runs by a topology, tell which one they run."""
        return bool(self.neighbours) or (self.is_paired and bool(self.topology_hash))
