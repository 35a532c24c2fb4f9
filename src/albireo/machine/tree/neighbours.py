"""Neighbours: what the nodes directly above and below say of themselves, each second, and how it differs from this one.

Two things are compared: the topology, of which every node of a tree is to run the same, and the wall clock. Neither
decides anything here. Records keep the times that their node claims, and the order of its log; people are told.

The last word of a member counts until its next one, also while it is away.

Spec: design/tree.md, Links; ADR-0204.
"""

from collections.abc import Container, Mapping

import msgspec

from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.machine.node.turn import Moment
from albireo.model.instant import SECOND


class NeighbourSaid(msgspec.Struct, frozen=True):
    """Last word of one member of a neighbour."""

    topology_hash: str
    clock_ahead_s: float
    """Its wall clock less the own one when its word came, seconds."""


class NeighbourWatch:
    """The machine; lives as long as the process."""

    def __init__(self, topology_hash: str = "") -> None:
        self.topology_hash = topology_hash
        """Hash of the topology that this node runs; empty: not known."""
        self._said: dict[tuple[str, int], NeighbourSaid] = {}

    @property
    def said(self) -> Mapping[tuple[str, int], NeighbourSaid]:
        """By node and member."""
        return self._said

    def take_up(self, topology_hash: str, neighbours: Container[str]) -> None:
        """This node runs another topology, with these neighbours."""
        self.topology_hash = topology_hash
        self._said = {one: said for one, said in self._said.items() if one[0] in neighbours}

    def heard(self, hello: ChildHello | ParentHello, moment: Moment) -> None:
        ahead_s = (hello.wall_ns - moment.wall) / SECOND if hello.wall_ns else 0.0
        self._said[hello.node, hello.member] = NeighbourSaid(hello.topology_hash, ahead_s)

    def figures(self) -> tuple[float, float]:
        """Number of members that run another topology, and how far the farthest of their clocks is ahead, seconds."""
        own = self.topology_hash
        others = [one for one in self._said.values() if own and one.topology_hash not in ("", own)]
        ahead = (one.clock_ahead_s for one in self._said.values())
        return float(len(others)), max(ahead, key=abs, default=0.0)
