"""Names of nodes as people give them: an id, or the end of one, such as `north` for `root/north`.

A name that begins with the id of the root is a whole id. So it means no other node that happens to be called so at the
end, also where the node of that id is not known.
"""

from collections.abc import Collection
from typing import Final

NODES_TOLD: Final = 20
"""Most nodes that a refusal lists."""


def nodes_meant(name: str, nodes: Collection[str]) -> list[str]:
    """Those of these nodes of one tree that a name may mean: the one of that id, else those whose ids end with it."""
    if name in nodes or not name or root_id(name) in map(root_id, nodes):
        return [one for one in nodes if one == name]
    return [one for one in nodes if one.endswith(f"/{name}")]


def root_id(node: str) -> str:
    """Id of the root above a node."""
    return node.partition("/")[0]
