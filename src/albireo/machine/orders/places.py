"""Places: which node is meant by a name, whose item it is, and what is known here of that node."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import NotAnswered
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.item import name_parts
from albireo.model.refusal import Refusal, RefusalCode, ambiguous
from albireo.model.tree.node_names import NODES_TOLD, nodes_meant, root_id
from albireo.model.tree.nodes import is_below


class Aim(msgspec.Struct, frozen=True):
    """Owner of what an order is about."""

    node: str
    is_here: bool
    """True: the order is carried out by this node."""
    mirror: NodeMirror | None = None
    """State of another node, as far as it is known here."""
    name: str = ""
    """Item that is meant, by a name that its owner knows; empty: none is."""

    @property
    def full_name(self) -> str:
        return f"{self.node}:{self.name.removeprefix(f'{self.node}:')}"


class MirrorsKnown(Protocol):
    """The tree, as far as places need it."""

    @property
    def all_mirrors(self) -> Mapping[str, NodeMirror]:
        """States of other nodes, by id."""


class RootAbove(Protocol):
    """The root machine, as far as places need it."""

    config: RootConfig
    folds: Folds
    registry: Registry

    @property
    def tree(self) -> MirrorsKnown: ...


class Places:
    """The machine; it keeps nothing."""

    def __init__(self, root: RootAbove) -> None:
        self._root = root

    def mirror(self, node: str) -> NodeMirror | None:
        """The state of another node, which is named by its id or the end of it; None: this node is meant.

        Raises:
            NotAnswered: there is no such node, or there are several.
        """
        return self._root.tree.all_mirrors.get(self._meant(node)) if node else None

    def _meant(self, name: str) -> str:
        """Id of the node that is meant, by its id or the end of it.

        Raises:
            NotAnswered: no node that is known here is called so, or several.
        """
        found = nodes_meant(name, [self._root.config.node, *self._root.tree.all_mirrors])
        if len(found) > 1:
            raise NotAnswered(ambiguous(name, found))
        if not found:
            raise NotAnswered(self._not_known(name))
        return found[0]

    def _not_known(self, node: str) -> Refusal:
        listed = list(self._root.tree.all_mirrors)
        more = f" and {len(listed) - NODES_TOLD} more" if len(listed) > NODES_TOLD else ""
        known = f"{', '.join(listed[:NODES_TOLD])}{more}" if listed else "no other node"
        return Refusal(
            RefusalCode.UNKNOWN_NODE,
            f"nothing is known of a node {node!r} at {self._root.config.node}, which knows {known}",
            "`albireo tree` lists them; name one by its id or the end of it, or ask at a node above",
        )

    def dim(self, node: str) -> Dim:
        """Items of this node, or of another one, with their current values. Raises NotAnswered."""
        mirror = self.mirror(node)
        return self._root.folds.dim if mirror is None else mirror.dim

    def of_node(self, node: str) -> Aim:
        """The order is about something of this node, which is named by its id or the end of it; empty: of this one.

        Raises:
            NotAnswered: there is no such node, or there are several.
        """
        mirror = self.mirror(node)
        return Aim(self._root.config.node, True) if mirror is None else Aim(mirror.node, False, mirror)

    def of_item(self, name: str) -> Aim:
        """The order is about an item of this node, whether there is one or not, or of another one.

        Raises:
            NotAnswered: the name means no node that is known here, or several, or an item that the node does not have.
        """
        here = Aim(self._root.config.node, True, name=name)
        if self._root.registry.item(name) is not None:  # One that is being forgotten is known no more.
            return here
        head, local = name_parts(name)
        node = self._meant(head) if head else here.node
        if node == here.node:
            return here
        mirror = self._root.tree.all_mirrors[node]
        if mirror.dim.by_name(f"{node}:{local}") is None:
            cause = f"{node} has no item {local!r}, as far as is known here"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_ITEM, cause, f"`albireo items '{node}:*'`"))
        return Aim(node, False, mirror, local)

    def of_any(self, node: str) -> Aim:
        """Another node is meant: one that is known here by its id or the end of it, any other one by its id.

        Raises:
            NotAnswered: there is none, or there are several.
        """
        config, known = self._root.config, self._root.tree.all_mirrors
        found = nodes_meant(node, [config.node, *known])
        if len(found) > 1:
            raise NotAnswered(ambiguous(node, found))
        if found and found != [config.node]:
            return Aim(found[0], False)
        is_elsewhere = node != config.node and not is_below(node, config.node)
        if config.parent and is_elsewhere and root_id(node) == root_id(config.node):
            return Aim(node, False)
        listed = ", ".join(known) or "none"
        cause = f"no other node {node!r} is known at {config.node}; nodes known: {listed}"
        raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NODE, cause))
