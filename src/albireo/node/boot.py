"""Boot: makes the actors of one node from a topology, and keeps them up until a signal or a client stops them.

    stage 0  logger            takes the others' log lines
             voter             votes for pairs above, if one lists this place; needs none of the others
    stage 1  core              log, folds, feeds
    stage 2  history           follows core; stops after the adapters, so that it gets their last sample
             topics            follows core as well, and serves the messages of topics
    stage 3  comm.<adapter>    one per adapter, and `host` for the machine itself
    stage 4  face.<face>       one per face of the topology; the node needs none of them

Stages start from first to last and stop in reverse.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.codec.questions.kind import Handled
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.topology import LoadedTopology
from albireo.log import LogConfig
from albireo.machine.kernel.named import HISTORY, TOPICS, NamedFollower, above
from albireo.machine.pair import PairConfig
from albireo.model.feature import FEATURE_LEVEL
from albireo.model.instant import SECOND
from albireo.model.topology import AdapterConfig, MemberEndpoints, NodeConfig, Place, Topology, places_of
from albireo.model.tree.nodes import asked_of_parent, child_configs, dialled
from albireo.node.apply import ReadAgain, TopologyInUse
from albireo.node.lone import logger_of, supervision_of
from albireo.node.membership.door import DoorArguments
from albireo.node.membership.pair_arguments import PairArguments
from albireo.node.vote.boot import node_voter_of
from albireo.runtime import ActorSpec
from albireo.runtime.actor.node import run_node
from albireo.runtime.actor.supervisor import BootAnswer, Supervisor

HOST: Final = "host"
"""Kind, and name by default, of the adapter that every node has for its own machine."""
MIB: Final = 1 << 20
HISTORY_NICE: Final = 10
"""Niceness of the history: on a busy machine it falls behind for a while, and neither log nor links do."""


def run(
    loaded: LoadedTopology,
    place: Place,
    data: Path,
    keys: Path | None = None,
    on_started: Callable[[Supervisor], object] | None = None,
    feature_level: int | None = None,
    read: ReadAgain | None = None,
) -> int:
    """Run one node in this process until a signal or a client stops it.

    Args:
        keys: directory of the CURVE keys; None: none, so all endpoints of a member are on loopback, and the door of
            a lone node stays closed unless the topology opens it.
        feature_level: level to which the node is held back; None: as the topology says.
        read: reads a changed topology file that the node is to take up; None: it takes up none.
    Returns:
        The exit code, as `run_node` says.
    """
    node = place.node
    level = node.feature_level if feature_level is None else feature_level
    answers: Sequence[Handled[BootAnswer]] = ()
    if read is not None:
        answers = TopologyInUse(loaded, place, read, partial(specs_of, keys=keys, feature_level=level), data).handlers
    return run_node(
        data,
        specs_of(loaded, place, keys, level),
        node.runtime.placement.value,
        config=supervision_of(node.runtime),
        on_started=on_started,
        log_level=node.runtime.log_level.value,
        answers=answers,
    )


def specs_of(
    loaded: LoadedTopology, place: Place, keys: Path | None = None, feature_level: int = FEATURE_LEVEL
) -> list[ActorSpec]:
    """The actors of a node, with all their arguments as JSON values."""
    node = place.node
    adapters = [*loaded.arguments[node.id]]
    if all(one["kind"] != HOST for one in adapters):
        adapters.append({**_all_fields(AdapterConfig(name=HOST, kind=HOST)), "items": []})
    names = [one["name"] for one in adapters]
    faces = _faces(place, keys, {"directory": loaded.directory, "zone": loaded.topology.zone})
    core = _core(loaded, place, keys) | {"feature_level": feature_level, "adapters": names}
    core |= {"faces": [one.arguments["name"] for one in faces], "has_doors": True}
    return [
        logger_of(node.runtime),
        *_voter(loaded.topology, place, keys),
        ActorSpec("core", "albireo.node.core.actor:create", core, stage=1),
        ActorSpec("history", "albireo.node.history:create", _history(node), stage=2, nice=HISTORY_NICE),
        ActorSpec("topics", "albireo.node.topics.actor:create", _topics(place, keys), stage=2, is_essential=False),
        *(_comm({**one, **_doors(place, keys)}, begins_acting=not place.member) for one in adapters),
        *faces,
    ]


def _voter(topology: Topology, place: Place, keys: Path | None) -> list[ActorSpec]:
    """VOTER, if a pair above lists the place. The first to start and the last to stop; its bugs never end the node."""
    arguments = node_voter_of(topology, place, keys)
    if arguments is None:
        return []
    spec_arguments = msgspec.to_builtins(arguments)
    return [ActorSpec("voter", "albireo.node.vote.node_voter:create", spec_arguments, stage=0, is_essential=False)]


def _history(node: NodeConfig) -> dict[str, object]:
    pace = {
        "seal_every_ns": node.history.seal_every_s * SECOND,
        "seal_rows": node.history.tail_rows_max // 2,
        "hot_rows_max": node.history.tail_rows_max,
    }
    return {"node": node.id, "pace": pace, "is_paired": node.primary is not None}


def _topics(place: Place, keys: Path | None) -> dict[str, object]:
    """Arguments of the actor `topics`."""
    node = place.node
    is_open = keys is not None or place.member or node.open_on_loopback
    return {
        "node": node.id,
        "endpoint": place.messages if is_open else "",
        "keys": "" if keys is None else str(keys),
        "is_paired": node.primary is not None,
    }


def _core(loaded: LoadedTopology, place: Place, keys: Path | None) -> dict[str, object]:
    topology, node = loaded.topology, place.node
    core: dict[str, object] = {
        "node": node.id,
        "cluster": topology.cluster,
        "zone": topology.zone,
        "log": msgspec.to_builtins(
            LogConfig(
                segment_bytes=node.log.segment_mib * MIB,
                free_bytes_min=node.log.disk_reserve_mib * MIB,
                quarantine_count_max=node.log.quarantine_count_max,
                quarantine_bytes_max=node.log.quarantine_mib_max * MIB,
                quarantine_days_max=node.log.quarantine_days_max,
            )
        ),
        "retention": {
            "keep_h": node.log.keep_h,
            "bytes_max": node.log.bytes_max_mib * MIB,
            "snapshot_every_s": node.log.snapshot_every_s,
            "scrub_bytes_per_s": round(node.log.scrub_mib_per_s * MIB),
            "named": msgspec.to_builtins(_named_followers(node)),
        },
        "limits": msgspec.to_builtins(node.limits),
        "alarms": msgspec.to_builtins(node.alarms),
        "topology_hash": topology_hash(loaded),
    }
    if node.endpoint:
        directory = "" if keys is None else str(keys)
        door = DoorArguments(endpoint=node.endpoint, keys=directory, is_open_without_keys=node.open_on_loopback)
        core["door"] = msgspec.to_builtins(door)
    core |= _tree(loaded, place, keys)
    if node.primary is not None and node.backup is not None:
        core["pair"] = msgspec.to_builtins(_pair(topology, place, node.primary, node.backup, keys))
    return core


def _named_followers(node: NodeConfig) -> list[NamedFollower]:
    """Followers for which records stay in the node's log."""
    uplink = node.uplink
    bounds = round(uplink.hold_gib * 1024 * MIB), uplink.hold_days, round(uplink.rate_mib_per_s * MIB)
    return [HISTORY, TOPICS, *([above(node.parent, *bounds)] if node.parent else [])]


def _tree(loaded: LoadedTopology, place: Place, keys: Path | None) -> dict[str, object]:
    """Arguments of CORE about the node above and those below."""
    topology, node = loaded.topology, place.node
    found: dict[str, object] = {"children": msgspec.to_builtins(child_configs(topology, node.id))}
    if node.parent:
        found["uplink"] = {
            "parent": node.parent,
            "endpoints": dialled(topology, node.id),
            "keys": "" if keys is None else str(keys),
            "member": 1 if place.member == "backup" else 0,
            "beyond": [one.id for one in asked_of_parent(topology, node.id)],
        }
    return found


def _pair(
    topology: Topology, place: Place, primary: MemberEndpoints, backup: MemberEndpoints, keys: Path | None
) -> PairArguments:
    node = place.node
    own, other = (primary, backup) if place.member == "primary" else (backup, primary)
    return PairArguments(
        member=0 if own is primary else 1,
        place=place.name,
        config=PairConfig(
            cluster=f"{topology.cluster}/{node.id}", voters=node.voters, paths=min(len(own.peer), len(other.peer))
        ),
        witnesses={
            f"witness:{one.name}": one.endpoint for one in topology.witness if f"witness:{one.name}" in node.voters
        },
        client=own.client,
        peer=own.peer,
        other=other.peer,
        other_place=f"{node.id}[{'backup' if own is primary else 'primary'}]",
        other_client=other.client,
        waits={f"plc:{one.name}": one.voter_waits for one in node.adapter if one.voter_waits is not None},
        guards={one.name: one.guard.value for one in node.adapter if one.kind != HOST},
        local_streams=node.durability.local_streams,
        private_streams=node.replication.private_streams,
        topics_replication=node.replication.topics,
        keys="" if keys is None else str(keys),
    )


def _comm(arguments: Mapping[str, Any], *, begins_acting: bool) -> ActorSpec:
    """One adapter; its bugs never end the node."""
    spec_arguments = msgspec.to_builtins({**arguments, "begins_acting": begins_acting})
    return ActorSpec(
        f"comm.{arguments['name']}", "albireo.field.comm:create", spec_arguments, stage=3, is_essential=False
    )


def _faces(place: Place, keys: Path | None, common: Mapping[str, object]) -> list[ActorSpec]:
    """The faces of a place. A process of its own for each: their code may be that of others."""
    common = {**common, "node": place.node.id, **_doors(place, keys)}
    return [
        ActorSpec(
            f"face.{one.name}",
            "albireo.face.actor:create",
            {**common, "name": one.name, "kind": one.kind, "settings": one.settings},
            stage=4,
            is_essential=False,
            is_apart=True,
        )
        for one in place.node.face
        if one.member in ("", place.member)
    ]


def _doors(place: Place, keys: Path | None) -> dict[str, object]:
    """The ways of a client that runs at this place."""
    doors = [
        {"endpoint": "" if one.member == place.member else one.endpoint, "peer": one.name}
        for one in places_of(place.node)
    ]
    return {"doors": doors, "keys": "" if keys is None else str(keys)}


def _all_fields(config: msgspec.Struct) -> dict[str, Any]:
    """Every field, defaults too: an actor must not need to know them."""
    return {field: getattr(config, field) for field in config.__struct_fields__}
