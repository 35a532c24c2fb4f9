"""Arguments of CORE, from boot, and the configuration of its root machine that follows from them."""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.log import LogConfig
from albireo.machine.kernel.config import RootConfig
from albireo.model.feature import FEATURE_LEVEL
from albireo.model.settings import AlarmConfig, LimitSettings, StreamReplication
from albireo.model.tree.nodes import ChildConfig
from albireo.node.core.housekeeping import Retention
from albireo.node.core.uplinks import UplinkArguments
from albireo.node.membership.door import DoorArguments
from albireo.node.membership.pair_arguments import PairArguments
from albireo.node.membership.private_log import stream_numbers

SEED_BYTES: Final = 32


class CoreArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of CORE, from boot."""

    node: str
    cluster: str
    log: LogConfig = LogConfig()
    retention: Retention = Retention()
    adapters: frozenset[str] = frozenset()
    """Names of the adapters that this node's topology configures."""
    faces: frozenset[str] = frozenset()
    """Names of the faces that boot runs beside this place."""
    has_doors: bool = False
    """True: other actors than faces may open a door, so tickets are given."""
    limits: LimitSettings = LimitSettings()
    alarms: AlarmConfig = AlarmConfig()
    pair: PairArguments | None = None
    """Arguments of a member of a pair; None: this node stands alone."""
    door: DoorArguments | None = None
    """Door of a node that stands alone; None: it has none. A member's is in `pair`."""
    uplink: UplinkArguments | None = None
    """Links to the node above; None: there is no such node."""
    children: tuple[ChildConfig, ...] = ()
    """The nodes directly below."""
    topology_hash: str = ""
    """Hash of the topology that boot runs this node by, and can be asked for; empty: there is no such boot."""
    zone: str = "UTC"
    feature_level: int = FEATURE_LEVEL
    """Highest feature level that this node writes and reads; below that of the software: held back."""


def root_config(arguments: CoreArguments, log_id: bytes, entropy: Callable[[int], bytes], lacks_to: int) -> RootConfig:
    """Configuration of the root machine.

    Args:
        entropy: gives as many random bytes as it is asked for.
        lacks_to: as in `RootConfig`.
    """
    pair, uplink = arguments.pair, arguments.uplink
    local, private = (frozenset[int](), frozenset[int]()) if pair is None else stream_numbers(pair)
    return RootConfig(
        node=arguments.node,
        log_id=log_id,
        segment_bytes=arguments.log.segment_bytes,
        member=0 if pair is None else pair.member,
        is_paired=pair is not None,
        local_streams=local,
        private_streams=private,
        topics_replication=StreamReplication.ALL if pair is None else pair.topics_replication,
        adapters=arguments.adapters,
        faces=arguments.faces,
        limits=arguments.limits,
        children=arguments.children,
        parent="" if uplink is None else uplink.parent,
        parent_places=frozenset() if uplink is None else frozenset(uplink.endpoints),
        beyond=() if uplink is None else uplink.beyond,
        topology_hash=arguments.topology_hash,
        zone=arguments.zone,
        named=arguments.retention.named,
        seed=int.from_bytes(entropy(SEED_BYTES)),
        ticket_key=entropy(SEED_BYTES) if arguments.faces or arguments.has_doors else b"",
        lacks_to=lacks_to,
    )
