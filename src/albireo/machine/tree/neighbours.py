"""Neighbours: what the nodes directly above and below, and the other member, say of themselves, and how it differs.

Two things are compared: the topology, of which every node of a tree and both members of a pair are to run the same, and
the wall clock. Neither decides anything here. Records keep the times that their node claims, and the order of its log;
people are told.

The last word of a member counts until its next one, also while it is away.

Spec: design/tree.md, Links; ADR-0204, ADR-0208.
"""

from collections.abc import Container

from albireo.codec.pair_message import Heartbeat
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.machine.kernel.events import MemberSaid
from albireo.machine.kernel.turn import Moment
from albireo.model.instant import SECOND, WallTime


class NeighbourWatch:
    """The machine; lives as long as the process."""

    def __init__(self, topology_hash: str = "") -> None:
        self.topology_hash = topology_hash
        """Hash of the topology that this node runs; empty: not known."""
        self._said: dict[tuple[str, int], MemberSaid] = {}
        """By node and member."""

    def take_up(self, topology_hash: str, neighbours: Container[str]) -> None:
        """This node runs another topology, with these neighbours."""
        self.topology_hash = topology_hash
        self._said = {one: said for one, said in self._said.items() if one[0] in neighbours}

    def heard(self, hello: ChildHello | ParentHello, moment: Moment) -> None:
        self._said[hello.node, hello.member] = said_by(hello, moment.wall)

    def figures(self, other: MemberSaid | None = None) -> tuple[float, float]:
        """Number of members that run another topology, and how far the farthest of their clocks is ahead, seconds.

        Args:
            other: last word of the other member of this pair; None: there is none.
        """
        own = self.topology_hash
        every = [*self._said.values(), *(() if other is None else (other,))]
        others = [one for one in every if own and one.topology_hash not in ("", own)]
        return float(len(others)), max((one.clock_ahead_s for one in every), key=abs, default=0.0)


def said_by(told: ChildHello | ParentHello | Heartbeat, wall: WallTime) -> MemberSaid:
    """Word of a message's sender about itself, which came when the own wall clock showed `wall`."""
    return MemberSaid(told.topology_hash, (told.wall_ns - wall) / SECOND)
