"""Parts that tests share: a site that dials its parent by a cable that can be cut, or is slow."""

import msgspec

from albireo.drill.relay import Relay
from tests.parts.lone import asked_until
from tests.parts.port import free_ports
from tests.parts.tree import TreeNode, only
from tests.parts.tree_orders import NORTH, ROOT


def behind_a_cable(nodes: dict[str, TreeNode]) -> Relay:
    """The relay by which the site dials its parent from now on; not begun."""
    root, north = nodes[ROOT], nodes[NORTH]
    (port,) = free_ports(1)
    uplink = north.arguments.uplink
    assert uplink is not None
    uplink = msgspec.structs.replace(uplink, endpoints={ROOT: f"tcp://127.0.0.1:{port}"})
    north.arguments = msgspec.structs.replace(north.arguments, uplink=uplink)
    return Relay(port, int(root.endpoint.rpartition(":")[2]))


def is_heard(node: TreeNode, below: str, wanted: bool) -> None:
    with node.program() as program:
        asked_until(program, lambda rows: (only(rows, below)["stale_since_ns"] is None) is wanted, "tree")
