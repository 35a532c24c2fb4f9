"""Answers about nodes below: what this node knows of them."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from albireo.machine.access.judge import AccessJudge
from albireo.machine.fold.dim import Dim
from albireo.machine.fold.folds import Folds
from albireo.machine.message.outbox import MessageReceipt
from albireo.machine.node.role import RootConfig
from albireo.machine.node.turn import NotAnswered, Question
from albireo.machine.tree.mirror import NodeMirror
from albireo.machine.tree.node_tree import NodeTree
from albireo.model.access import AccessRole
from albireo.model.item import KnownItem
from albireo.model.tree.message import MessageOutcome

_STRETCH: Final = 65_536
"""Item ids that are looked through at once for those that there are."""


class NodeNotKnown(LookupError):
    """The state of a node of that name is not followed here."""


class RootAbove(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    tree: NodeTree


class AnswersBelow:
    """The part of the answers that looks below."""

    def __init__(self, root: RootAbove) -> None:
        self._root = root

    def mirror(self, node: str) -> NodeMirror | None:
        """The state of another node; None: this node is meant.

        Raises:
            NodeNotKnown: there is no such node.
        """
        if node in ("", self._root.config.node):
            return None
        mirrors = self._root.tree.all_mirrors
        mirror = mirrors.get(node)
        if mirror is None:
            known = ", ".join(mirrors) or "none"
            raise NodeNotKnown(f"nothing is known of a node {node!r} at {self._root.config.node}; other nodes: {known}")
        return mirror

    def dim(self, node: str) -> Dim:
        """Items of this node, or of another one, with their current values. Raises NodeNotKnown."""
        mirror = self.mirror(node)
        return self._root.folds.dim if mirror is None else mirror.dim

    def owner_of(self, name: str) -> str:
        """Other node whose item is named, by its id or the end of it; empty: none, or several."""
        head, _, local = name.rpartition(":")
        found = [
            node
            for node, mirror in self._root.tree.all_mirrors.items()
            if head and (node == head or node.endswith(f"/{head}")) and mirror.dim.by_name(f"{node}:{local}")
        ]
        return found[0] if len(found) == 1 else ""


def check_role(
    access: AccessJudge, what: str, question: Question, owner: str, needed: AccessRole = AccessRole.OPERATE
) -> None:
    """Let whoever asks give orders at a node below, if its role there suffices.

    Raises:
        NotAnswered: it does not.
    """
    role = access.role_at(question.principal, owner)
    if role < needed:
        raise NotAnswered(f"{what} needs the role {needed.word} at {owner}; {question.principal!r} has {role.word}")


def not_done(receipt: MessageReceipt, look: str) -> str:
    """Words for an order to a node below that was not done, or of which nobody knows.

    Args:
        look: command that shows whether it was.
    """
    outcome, owner = receipt.end.outcome, receipt.name.owner
    if outcome is MessageOutcome.REJECTED:
        return receipt.end.detail
    if outcome is MessageOutcome.UNKNOWN:
        return (
            f"{owner} has not said in time what became of it; nobody here knows whether it was done; "
            f"what to do: `albireo command show {receipt.command_id!r}`, and {look}"
        )
    return f"{outcome.value}: {owner} did not take it in time, and never will; what to do: see `albireo topology show`"


def items_behind(dim: Dim, after: int) -> Iterator[tuple[int, KnownItem]]:
    """Items with an id above `after`, by rising id."""
    for begin in range(after + 1, len(dim.row_of), _STRETCH):
        stretch = dim.row_of[begin : begin + _STRETCH]
        for at in np.flatnonzero(stretch >= 0).tolist():
            yield begin + at, dim.item_at(int(stretch[at]))


def named_behind(items: Sequence[KnownItem], after: int) -> Iterator[tuple[int, KnownItem]]:
    """Those of the items with an id above `after`, by rising id, each once."""
    by_id = {int(one.item_id): one for one in items if one.item_id > after}
    return iter(sorted(by_id.items(), key=lambda one: one[0]))
