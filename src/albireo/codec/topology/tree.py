"""Checks of the tree in a topology: one root, a parent with an address above every other node, voters that are there.

Not here: the form of addresses (codec/topology/topology.py).
"""

from collections import Counter
from typing import Final

from albireo.codec.topology.mistakes import Findings, KeyPath, did_you_mean
from albireo.model.topology import NODE_VOTER, NodeConfig, Topology, UplinkSettings, places_of
from albireo.model.tree.nodes import is_below

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


def check_uplinks(topology: Topology, found: Findings) -> None:
    """Check that only nodes with a parent have a link upward, and that what they want from there is there."""
    known = [node.id for node in topology.node]
    for index, node in enumerate(topology.node):
        path = ("node", index, "uplink")
        if not node.parent and node.uplink != UplinkSettings():
            found.add(path, f"{node.id} is the root, there is no node above it", "Take the section away.")
        _check_dial(topology, node, (*path, "dial"), found)
        parts = node.uplink.state if isinstance(node.uplink.state, tuple) else ()
        for at, part in enumerate(parts):
            where = (*path, "state", at)
            if part in parts[:at]:
                found.add(where, f"{part} stands there twice", "Name each node once.")
            elif part not in known:
                found.add(where, f"the node {part} is not there", did_you_mean(part, known))
            elif part == node.id or is_below(part, node.id):
                text = f"{part} belongs to the subtree of {node.id}, which it holds anyway"
                found.add(where, text, 'Take it away; state = "own" is the subtree alone.')
            elif "/" not in part:
                found.add(where, f"{part} and all below it is the whole tree", 'Write state = "tree".')


def _check_dial(topology: Topology, node: NodeConfig, path: KeyPath, found: Findings) -> None:
    """Check that a node that names addresses of its parent names one for each place of it."""
    above = [place.name for one in topology.node if one.id == node.parent for place in places_of(one)]
    if node.uplink.dial and above and len(node.uplink.dial) != len(above):
        text = f"dial has {len(node.uplink.dial)} addresses, and {node.parent} has {len(above)}"
        found.add(path, text, f"Name one for each, in this order: {', '.join(above)}.")


def check_voters(topology: Topology, found: Findings) -> None:
    """Check that a pair has an odd number of voters, all of which are there, and that no other node has any.

    A node votes only for pairs above it, so that no two pairs wait for each other's votes.
    """
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
            elif voter in node.node_voters:
                _check_node_voter(topology, node, at, (*path, at), found)
            elif voter not in known:
                found.add((*path, at), f"the voter {voter} is not there", did_you_mean(voter, known))
            elif voter in adapters and adapters[voter].voter_waits is None:
                remedy = "Add voter_address to its [[node.adapter]]: the first of 64 holding registers of the PLC."
                found.add((*path, at), f"the voter {voter} has no registers", remedy)


def _check_node_voter(topology: Topology, pair: NodeConfig, at: int, path: KeyPath, found: Findings) -> None:
    """Check that the voter is one place below the pair, and that no other voter is the same node."""
    voter = pair.voters[at].removeprefix(NODE_VOTER)
    node_id, _, member = voter.rstrip("]").partition("[")
    below = [place.name for node in topology.node if is_below(node.id, pair.id) for place in places_of(node)]
    earlier = [one.partition("[")[0] for one in pair.voters[:at]]
    said = f"the voter {NODE_VOTER}{voter}"
    if node_id == pair.id:
        found.add(path, f"{said} is the pair itself, which can't vote for itself", "Name a node below it.")
    elif is_below(pair.id, node_id):
        text = f"{said} stands above {pair.id}: a node votes only for pairs above it, never for those below"
        found.add(path, text, f"Name a node below {pair.id}.")
    elif NODE_VOTER + node_id in earlier:
        text = f"{said} is a second vote of the node {node_id}, which has one"
        found.add(path, text, "Name one member of a pair below, and another voter.")
    elif voter in below:
        return
    elif f"{voter}[primary]" in below:
        text = f"{said} is a pair, and a pair votes through one of its members"
        found.add(path, text, f'Write "{NODE_VOTER}{voter}[primary]" or "{NODE_VOTER}{voter}[backup]".')
    elif member and node_id in below:
        found.add(path, f"{said}: {node_id} is no pair", f'Write "{NODE_VOTER}{node_id}".')
    elif any(node.id == node_id for node in topology.node):
        found.add(path, f"{said} does not stand below {pair.id}", "A node votes for pairs above it.")
    else:
        found.add(path, f"{said} is not there", did_you_mean(voter, below))
