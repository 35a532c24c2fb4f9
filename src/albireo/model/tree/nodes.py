"""Tree of the nodes: who stands above a node, who below, and where a child dials its parent.

The tree lies in the ids (`root/north` is the child of `root`), so a topology is searched, nothing is kept. A topology
that was loaded has one root, and a parent with an address for every other node (codec/topology/tree.py).
"""

import msgspec

from albireo.model.topology import NodeConfig, Place, Topology, places_of


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to which a node has a link."""

    parent: tuple[Place, ...]
    """Places that the node dials: its parent, or both members of it if it is a pair; empty for the root."""
    children: tuple[NodeConfig, ...]
    """Nodes that dial this one, in the order of the file."""


class ChildConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One child, from the topology."""

    node: str
    places: tuple[str, ...]
    """Names of its members' keys by index; one name for a node that stands alone."""
    nodes: tuple[str, ...] = ()
    """Nodes further below it."""

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """The child and the nodes below it."""
        return (self.node, *self.nodes)


def find_node(topology: Topology, node_id: str) -> NodeConfig:
    """Node of that id. Raises LookupError: the topology has none."""
    for node in topology.node:
        if node.id == node_id:
            return node
    raise LookupError(f"no node {node_id!r} in the topology")


def is_below(node_id: str, above: str) -> bool:
    """Whether `node_id` stands somewhere below `above`, judged by the ids alone."""
    return node_id.startswith(f"{above}/")


def ancestors(node_id: str) -> tuple[str, ...]:
    """Ids above a node, the parent first and the root last."""
    parts = node_id.split("/")
    return tuple("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))


def children(topology: Topology, node_id: str) -> tuple[NodeConfig, ...]:
    """Nodes directly below `node_id`, in the order of the file."""
    return tuple(node for node in topology.node if node.parent == node_id)


def child_configs(topology: Topology, node_id: str) -> tuple[ChildConfig, ...]:
    """The nodes directly below `node_id` as it is told of them, in the order of the file."""
    return tuple(
        ChildConfig(
            node=child.id,
            places=tuple(one.name for one in places_of(child)),
            nodes=tuple(one.id for one in subtree(topology, child.id)[1:]),
        )
        for child in children(topology, node_id)
    )


def subtree(topology: Topology, node_id: str) -> tuple[NodeConfig, ...]:
    """The node and everything below it: each node before what is below it, else in the order of the file.

    Cost: O(n log n) for n nodes of the topology.
    """
    order: dict[str, tuple[int, ...]] = {}
    places = {node.id: index for index, node in enumerate(topology.node)}
    for node in topology.node:
        above = reversed(ancestors(node.id))
        order[node.id] = (*(places[one] for one in above if one in places), places[node.id])
    within = [node for node in topology.node if node.id == node_id or is_below(node.id, node_id)]
    return tuple(sorted(within, key=lambda node: order[node.id]))


def parent_places(topology: Topology, node_id: str) -> tuple[Place, ...]:
    """Places that a node dials, primary first; each has an endpoint, and a name that its key must have."""
    parent = find_node(topology, node_id).parent
    return places_of(find_node(topology, parent)) if parent else ()


def dialled(topology: Topology, node_id: str) -> dict[str, str]:
    """Endpoint at which a node dials each place of its parent, by the place's name: its own word, else the parent's."""
    above = parent_places(topology, node_id)
    said = find_node(topology, node_id).uplink.dial or tuple(one.endpoint for one in above)
    return {one.name: endpoint for one, endpoint in zip(above, said, strict=True)}


def neighbours(topology: Topology, node_id: str) -> Neighbours:
    """Nodes to which `node_id` has a link."""
    return Neighbours(parent=parent_places(topology, node_id), children=children(topology, node_id))


def wanted_from_above(topology: Topology, node_id: str) -> tuple[NodeConfig, ...]:
    """Nodes outside the subtree of `node_id` whose current values it asks its parent for, in the order of the file."""
    match find_node(topology, node_id).uplink.state:
        case "own":
            parts: tuple[str, ...] = ()
        case "tree":
            parts = tuple(node.id for node in topology.node if not node.parent)
        case parts:
            pass
    wanted = {node.id for part in parts for node in subtree(topology, part)}
    wanted -= {node.id for node in subtree(topology, node_id)}
    return tuple(node for node in topology.node if node.id in wanted)


def asked_of_parent(topology: Topology, node_id: str) -> tuple[NodeConfig, ...]:
    """Nodes outside the subtree of `node_id` whose current values it asks its parent for, in the order of the file.

    It wants them itself, or a node below it does, which has them through it.
    """
    within = subtree(topology, node_id)
    asking = [node.id for node in within if node.uplink.state != "own"]
    wanted = {one.id for node in asking for one in wanted_from_above(topology, node)} - {node.id for node in within}
    return tuple(node for node in topology.node if node.id in wanted)
