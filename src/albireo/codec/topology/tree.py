"""Checks of the tree in a topology: one root, a parent with an address above every other node, voters that are there.

Not here: the form of addresses (codec/topology/topology.py).
"""

from collections import Counter
from typing import Final

from albireo.codec.topology.mistakes import Findings, KeyPath, did_you_mean
from albireo.model.topology import NodeConfig, Topology, places_of

WILDCARDS: Final = frozenset({"*", "0.0.0.0", "[::]"})
"""Hosts that mean every interface: one can listen there, nobody can dial them. Compared with, never bound."""


def check_tree(topology: Topology, found: Findings) -> None:
    """Check that ids are unique, that there is one root, and that every parent is there and has an address."""
    known = {node.id for node in topology.node}
    first: dict[str, int] = {}
    roots = [node.id for node in topology.node if not node.parent]
    parents = {node.parent for node in topology.node}
    for index, node in enumerate(topology.node):
        path = ("node", index, "id")
        if node.id in first:
            text = f"{node.id} is there twice, first as node[{first[node.id]}]"
            found.add(path, text, "Each node has an id of its own.")
        first.setdefault(node.id, index)
        if node.parent and node.parent not in known:
            text = f"{node.id} hangs below {node.parent}, which is not there"
            found.add(path, text, f"Add a [[node]] with that id. {did_you_mean(node.parent, known - {node.id})}")
        if not node.parent and node.id != roots[0]:
            found.add(path, f"{node.id} is a second root beside {roots[0]}", f"Name it {roots[0]}/{node.id}.")
        if node.id in parents:
            _check_dialled(node, ("node", index), found)


def _check_dialled(node: NodeConfig, path: KeyPath, found: Findings) -> None:
    """Check that the nodes below can dial the node: it has addresses, and none that is only good for listening."""
    if not node.endpoint and not node.is_pair:
        text = f"{node.id} has nodes below it, but no address they could connect to"
        found.add(path, text, 'Add endpoint = "tcp://HOST:PORT".')
    for place in places_of(node):
        host = place.endpoint.removeprefix("tcp://").rpartition(":")[0]
        if host in WILDCARDS:
            text = f"{place.name} has nodes below it, and {place.endpoint} is no address they could connect to"
            key = (*path, place.member, "client") if place.member else (*path, "endpoint")
            found.add(key, text, "Name the host or its address, as the nodes below reach it.")


def check_voters(topology: Topology, found: Findings) -> None:
    """Check that a pair has an odd number of voters, all of which are there, and that no other node has any."""
    witnesses = [witness.name for witness in topology.witness]
    for name, count in Counter(witnesses).items():
        if count > 1:
            index = len(witnesses) - 1 - witnesses[::-1].index(name)
            found.add(("witness", index, "name"), f"the witness {name} is there twice", "Rename one.")
    for index, node in enumerate(topology.node):
        path = ("node", index, "voters")
        adapters = {f"plc:{adapter.name}": adapter for one in topology.node for adapter in one.adapter}
        known = [*adapters, *(f"witness:{name}" for name in witnesses)]
        if node.voters and not node.is_pair:
            found.add(path, f"{node.id} is no pair, so nobody asks its voters", "Take them away.")
        if node.voters and len(node.voters) % 2 == 0:
            text = f"{len(node.voters)} voters: an even number can split in half"
            found.add(path, text, "Take 1, 3 or 5.")
        if node.is_pair and not node.voters:
            text = f"the pair {node.id} has no voters, so it never promotes itself"
            found.add(path[:2], text, 'Add voters = ["witness:NAME"].', is_warning=True)
        for at, voter in enumerate(node.voters):
            if voter in node.voters[:at]:
                found.add((*path, at), f"{voter} votes twice", "Name each voter once.")
            elif voter not in known:
                found.add((*path, at), f"the voter {voter} is not there", did_you_mean(voter, known))
            elif voter in adapters and adapters[voter].voter_address is None:
                remedy = "Add voter_address to its [[node.adapter]]: the first of 64 holding registers of the PLC."
                found.add((*path, at), f"the voter {voter} has no registers", remedy)
