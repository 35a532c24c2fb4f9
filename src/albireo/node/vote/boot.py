"""Boot of a witness, from a topology: one process, LOGGER and WITNESS as two threads under boot.

The witness is supervised like a node's actors, but without restart: a witness that forgot a promise, or can't say
whether it is on the disk, must not come back by itself within the lease; the service manager or an operator starts it
again.
"""

from pathlib import Path
from typing import Final

import msgspec

from albireo.machine.pair import PairConfig
from albireo.model.topology import NodeConfig, Place, Topology
from albireo.node.lone import run_alone
from albireo.node.vote.witness import WitnessArguments, WitnessMember, WitnessPair
from albireo.runtime import ActorSpec

PREFIX: Final = "witness:"
"""Prefix of a witness' name in a voter list."""


class NoSuchWitness(LookupError):
    """No witness of that name is in this topology."""

    def __init__(self, wanted: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no witness {wanted!r} in the topology; it has {', '.join(known) or 'none'}")
        self.wanted = wanted
        self.known = known


class NoPairs(LookupError):
    """The witness is listed by no pair."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"no pair lists {PREFIX}{wanted} as a voter")


def arguments_of(topology: Topology, name: str, keys: Path | None = None) -> WitnessArguments:
    """Arguments of the witness `name`.

    Raises:
        NoSuchWitness, NoPairs: the topology has no such witness, or no pair for it.
    """
    endpoints = {one.name: one.endpoint for one in topology.witness}
    if name not in endpoints:
        raise NoSuchWitness(name, tuple(endpoints))
    voter = PREFIX + name
    pairs = tuple(_pair(topology, node) for node in topology.node if node.is_pair and voter in node.voters)
    if not pairs:
        raise NoPairs(name)
    directory = str(keys.absolute()) if keys is not None else ""
    return WitnessArguments(voter=voter, endpoint=endpoints[name], keys=directory, pairs=pairs)


def _pair(topology: Topology, node: NodeConfig) -> WitnessPair:
    config = PairConfig(cluster=f"{topology.cluster}/{node.id}", voters=node.voters)
    members = []
    for member, endpoints in (("primary", node.primary), ("backup", node.backup)):
        peer = endpoints.peer if endpoints is not None else ()
        members.append(WitnessMember(place=Place(node=node, member=member).name, peer=peer))
    return WitnessPair(
        node=node.id, cluster=config.cluster, voters=config.voters, members=tuple(members), drift=config.drift
    )


def run(topology: Topology, name: str, data: Path, keys: Path | None = None) -> int:
    """Run a witness in this process until a signal stops it.

    Args:
        keys: directory of its CURVE keys; None: no keys, its endpoint on loopback.
    Returns:
        The exit code, as `run_node` says; 1 after a disk error.
    Raises:
        NoSuchWitness, NoPairs: before anything was started.
        DataLocked, DirectoryUnsafe: as `run_node` says.
    """
    arguments = arguments_of(topology, name, keys)
    spec = ActorSpec("witness", "albireo.node.vote.witness:create", msgspec.to_builtins(arguments), stage=1)
    return run_alone(spec, data, topology.runtime)
