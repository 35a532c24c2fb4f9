"""Below: the nodes below this one, by the children through which they are reached.

Spec: design/tree.md, Links.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from albireo.codec.frame import BODY_BYTES_MAX, HEADER_BYTES
from albireo.codec.message import AnyMessage
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.machine.fold.origins import Origins
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import PairFigures
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.tree.child import Child
from albireo.machine.tree.copier import Copier
from albireo.machine.tree.followed_states import Raw
from albireo.machine.tree.mirror import NodeMirror
from albireo.machine.tree.neighbours import NeighbourWatch
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import Instant, soonest
from albireo.model.principal import UNKEYED, kind_of
from albireo.model.quality import is_good
from albireo.model.tree.node_row import NodeRow
from albireo.model.tree.nodes import ChildConfig

NO_MIRRORS: Final[Mapping[str, NodeMirror]] = {}


def mirrors_of(
    children: Iterable[ChildConfig], origins: Origins, run: bytes, before: Mapping[str, NodeMirror] = NO_MIRRORS
) -> dict[str, NodeMirror]:
    """A mirror for each node below, by its id, with the items that are known of it.

    Args:
        run: as in `NodeMirror`, of those that are new.
        before: mirrors that there are already.
    """
    found: dict[str, NodeMirror] = {}
    for node in (one for config in children for one in config.all_nodes):
        known = origins.of_node(node)
        items = () if known is None else known.items.values()
        found[node] = before[node] if node in before else NodeMirror(node, items, run)
    return found


_FIGURES: Final = tuple(name for name in PairFigures.__struct_fields__ if name != "other_said")


class Below:
    """The machine; lives as long as a tenure."""

    def __init__(
        self, config: RootConfig, origins: Origins, mirrors: Mapping[str, NodeMirror], neighbours: NeighbourWatch
    ) -> None:
        """`mirrors`: of every node below; they outlive the tenure, like `neighbours`."""
        self._node, self._member = config.node, config.member
        self._neighbours = neighbours
        self._origins = origins
        self._copier = Copier(origins, min(BODY_BYTES_MAX, config.segment_bytes - HEADER_BYTES))
        self._is_following = False
        self._children: dict[str, Child] = {}
        self._take_up(config.children, mirrors)

    def _take_up(self, children: Iterable[ChildConfig], mirrors: Mapping[str, NodeMirror]) -> list[Child]:
        """Know these children and no others; returns those that are new, or have other places or nodes below."""
        self._mirrors, before, self._children = mirrors, self._children, {}
        begun = []
        for config in children:
            child = before.get(config.node)
            if child is None or child.config != config:
                own = {one: mirrors[one] for one in config.all_nodes}
                child = Child(config, self._node, own, self._copier)
                begun.append(child)
            self._children[config.node] = child
        return begun

    def take_up(
        self, children: Iterable[ChildConfig], mirrors: Mapping[str, NodeMirror], moment: Moment, turn: Turn
    ) -> list[bytes]:
        """Follow these children from now on, as before those that did not change; returns links that count no more.

        One that is new, or has other places or nodes below, is heard with its next hello.
        """
        before = dict(self._children)
        begun = self._take_up(children, mirrors)
        if self._is_following:
            for child in begun:
                child.follow_log(moment, turn)
        left = (child for node, child in before.items() if child is not self._children.get(node))
        return [child.line for child in left if child.line is not None]

    def deadline(self) -> Instant | None:
        """When `time_passed` is due."""
        return soonest(*(one.deadline() for one in self._children.values()))

    def serve(self, moment: Moment, turn: Turn, *, is_open: bool) -> None:
        """Follow the logs of the children while this node serves, and its log takes records."""
        if not is_open:
            self.stand_by()
        elif not self._is_following:
            self._is_following = True
            for child in self._children.values():
                child.follow_log(moment, turn)

    def stand_by(self) -> None:
        """Record nothing of the children until `serve`."""
        if self._is_following:
            self._is_following = False
            for child in self._children.values():
                child.leave_log()

    def hears(self, sender: bytes, message: AnyMessage, raw: Raw, principal: str, moment: Moment, turn: Turn) -> None:
        """Take what a child says."""
        if isinstance(message, ChildHello):
            self._hello(sender, message, principal, moment, turn)
            return
        for child in self._children.values():
            if child.knows(sender):  # If none does, its hello comes within a second.
                child.heard(sender, message, raw, moment, turn)
                return

    def _hello(self, sender: bytes, hello: ChildHello, principal: str, moment: Moment, turn: Turn) -> None:
        child = self._children.get(hello.node)
        places = () if child is None else child.config.places
        is_meant = hello.member < len(places) and (kind_of(principal) in UNKEYED or principal == places[hello.member])
        if child is None or not is_meant:
            name = hello.node[:NAME_CHARS_MAX]
            turn.note("limited", "child_unknown", key=name, node=name, member=hello.member, principal=principal)
            return
        child.said_hello(sender, hello, moment, turn)
        if not hello.is_bulk:
            own = self._neighbours
            own.heard(hello, moment)
            told = ParentHello(
                node=self._node, member=self._member, topology_hash=own.topology_hash, wall_ns=moment.wall
            )
            turn.send(sender, told)

    def child_of(self, sender: bytes) -> str | None:
        """Child that speaks on this link; None: no child does."""
        return next((node for node, child in self._children.items() if child.knows(sender)), None)

    def line_to(self, child: str) -> bytes | None:
        """Link to the acting member of a child; None: it is not in reach, or no child."""
        known = self._children.get(child)
        return None if known is None else known.line

    def log_line_of(self, node: str) -> bytes | None:
        """Link for the log of the child by which a node is reached, to the member that acts; None: there is none."""
        child = next((one for one in self._children.values() if node in one.config.all_nodes), None)
        return None if child is None else child.log_line

    def speaks_for(self, sender: bytes, node: str) -> bool:
        """Whether the child that speaks on this link stands at this node or above it."""
        return any(one.knows(sender) and node in one.config.all_nodes for one in self._children.values())

    def committed(self, sequence: int, moment: Moment, turn: Turn) -> None:
        """The own log is committed, and folded, up to `sequence`."""
        for child in self._children.values():
            child.committed(sequence, moment, turn)

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        for child in self._children.values():
            child.time_passed(moment, turn)

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """A send to this peer failed."""
        for child in self._children.values():
            if child.knows(sender):
                child.lost(sender, moment, turn)

    def seen(self) -> list[NodeRow]:
        """Every node below, in the order of the topology."""
        return [self._seen(node, child) for child in self._children.values() for node in child.config.all_nodes]

    def _seen(self, node: str, child: Child) -> NodeRow:
        mirror, origin = self._mirrors[node], self._origins.of_node(node)
        hello = child.hello if node == child.config.node else None
        return NodeRow(
            node=node,
            by=child.config.node,
            stale_since_ns=mirror.stale_since_ns,
            items=len(mirror.dim),
            position="" if origin is None else str(origin.last),
            complete_to_ns=0 if origin is None else origin.complete_to_ns,
            stores=len(self._origins.stores_of(node)),
            set_back_ns=0 if origin is None else origin.set_back_ns,
            missing=0 if origin is None else origin.missing,
            behind=child.behind,
            feature_level=0 if hello is None else hello.feature_level,
            topology_hash="" if hello is None else hello.topology_hash,
            refused=child.refused + mirror.refused,
            trouble=child.trouble,
            leads=child.leads if node == child.config.node else "",
            pair=pair_figures(mirror),
        )


def pair_figures(mirror: NodeMirror) -> dict[str, float | None]:
    """Figures of a pair by the items in which it tells them; None: not known now. Empty: it has no such items."""
    found: dict[str, float | None] = {}
    for name in _FIGURES:
        index = mirror.dim.index_named(f"{mirror.node}:pair/{name}")
        if index is not None and not mirror.dim.item_at(index).is_retired:
            told = mirror.dim.reading_at(index)
            found[name] = told.value if is_good(told.quality) and isinstance(told.value, float) else None
    return found
