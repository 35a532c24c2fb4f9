"""Boot of voters, from a topology: arguments of a node's VOTER, and a witness as one process, LOGGER and WITNESS as two
threads under boot.

The witness is supervised like a node's actors, but without restart: a witness that forgot a promise, or can't say
whether it is on the disk, must not come back by itself within the lease; the service manager or an operator starts it
again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from albireo.machine.pair import PairConfig
from albireo.model.topology import NODE_VOTER, MemberEndpoints, NodeConfig, Place, Topology
from albireo.node.lone import run_alone
from albireo.node.vote.node_voter import NodeVoterArguments
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import WitnessArguments
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
    pairs = _pairs(topology, voter, lambda member: member.peer)
    if not pairs:
        raise NoPairs(name)
    directory = str(keys.absolute()) if keys is not None else ""
    return WitnessArguments(voter=voter, endpoint=endpoints[name], keys=directory, pairs=pairs)


def node_voter_of(topology: Topology, place: Place, keys: Path | None = None) -> NodeVoterArguments | None:
    """Arguments of the actor that votes at a place for pairs above it; None: no pair lists the place."""
    voter = NODE_VOTER + place.name
    pairs = _pairs(topology, voter, lambda member: (member.client,))
    directory = str(keys.absolute()) if keys is not None else ""
    return NodeVoterArguments(voter=voter, keys=directory, pairs=pairs) if pairs else None


def _pairs(topology: Topology, voter: str, of: Callable[[MemberEndpoints], tuple[str, ...]]) -> tuple[AskingPair, ...]:
    """Pairs that list the voter; `of` gives the endpoints of a member to which it connects."""
    return tuple(_pair(topology, node, of) for node in topology.node if node.is_pair and voter in node.voters)


def _pair(topology: Topology, node: NodeConfig, of: Callable[[MemberEndpoints], tuple[str, ...]]) -> AskingPair:
    config = PairConfig(cluster=f"{topology.cluster}/{node.id}", voters=node.voters)
    members = []
    for member, endpoints in (("primary", node.primary), ("backup", node.backup)):
        reached = of(endpoints) if endpoints is not None else ()
        members.append(AskingMember(place=Place(node=node, member=member).name, endpoints=reached))
    return AskingPair(
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
