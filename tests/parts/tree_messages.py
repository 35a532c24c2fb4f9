"""Parts that tests share: programs send messages from node to node, and take them from the inbox of theirs."""

from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode
from tests.parts.tree_orders import ROOT


def joined(nodes: dict[str, TreeNode]) -> None:
    """Wait until the root knows the lowest node."""
    with nodes[ROOT].program() as program:
        asked_until(program, lambda rows: all(row["stale_since_ns"] is None for row in rows), "tree")
