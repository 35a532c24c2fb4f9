"""Answers about nodes below: what this node knows of them."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from albireo.codec.message import Answer
from albireo.codec.record import Stream
from albireo.machine.access.judge import AccessJudge
from albireo.machine.fold.dim import Dim
from albireo.machine.fold.folds import Folds
from albireo.machine.message.outbox import MessageReceipt
from albireo.machine.node.registry import Registry
from albireo.machine.node.role import RootConfig
from albireo.machine.node.turn import NotAnswered, Question, Turn
from albireo.machine.tree.mirror import NodeMirror
from albireo.machine.tree.node_tree import NodeTree
from albireo.model.access import AccessRole
from albireo.model.item import KnownItem
from albireo.model.tree.message import MessageOutcome

NODES_TOLD: Final = 20
"""Most nodes that a refusal lists."""
_STRETCH: Final = 65_536
"""Item ids that are looked through at once for those that there are."""


class NodeNotKnown(LookupError):
    """No node of that name, or no item there, is known here."""


class RootAbove(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    registry: Registry
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
        mirror = self._root.tree.all_mirrors.get(node)
        if mirror is None:
            raise NodeNotKnown(self._not_known(node))
        return mirror

    def _not_known(self, node: str) -> str:
        listed = list(self._root.tree.all_mirrors)
        more = f" and {len(listed) - NODES_TOLD} more" if len(listed) > NODES_TOLD else ""
        known = f"{', '.join(listed[:NODES_TOLD])}{more}" if listed else "no other node"
        return (
            f"nothing is known of a node {node!r} at {self._root.config.node}, which knows {known}; "
            "what to do: `albireo tree` lists them; name one by its id or the end of it, or ask at a node above"
        )

    def dim(self, node: str) -> Dim:
        """Items of this node, or of another one, with their current values. Raises NodeNotKnown."""
        mirror = self.mirror(node)
        return self._root.folds.dim if mirror is None else mirror.dim

    def owner_of(self, name: str) -> str:
        """Other node whose item is named, by its id or the end of it; empty: this one, if there is such an item at all.

        Raises:
            NodeNotKnown: the name means no node that is known here, or several, or an item that the node does not have.
        """
        if self._root.registry.item(name) is not None:  # One that is being forgotten is known no more.
            return ""
        head, _, local = name.rpartition(":")
        found = [
            node
            for node, mirror in self._root.tree.all_mirrors.items()
            if head and (node == head or node.endswith(f"/{head}")) and mirror.dim.by_name(f"{node}:{local}")
        ]
        if len(found) == 1:
            return found[0]
        if words := self._no_item(head, local):
            raise NodeNotKnown(words)
        return ""

    def _no_item(self, head: str, local: str) -> str:
        """Words for an item, with a node before it, that nobody here has; empty: it names no other node."""
        own = self._root.config.node
        found = [one for one in (own, *self._root.tree.all_mirrors) if one == head or one.endswith(f"/{head}")]
        if not head or found == [own]:
            return ""
        if not found:
            return self._not_known(head)
        if len(found) > 1:
            listed = " or ".join(found[:NODES_TOLD])
            named = f"{found[0]}:{local}"
            return f"{head}:{local} may be one of {listed}; what to do: name the node by its whole id, as in {named}"
        return f"{found[0]} has no item {local!r}, as far as is known here; what to do: `albireo items '{found[0]}:*'`"


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


def may_as_admin(access: AccessJudge, question: Question, node: str, subject: str, user: str, turn: Turn) -> bool:
    """Whether who asks is an admin of that node; if not it is told so, on record like each refusal."""
    if access.role_at(question.principal, node) >= AccessRole.ADMIN:
        return True
    moment = question.moment
    refused = access.refused_at(node, question.principal, subject, AccessRole.ADMIN, user, moment.now, moment.wall)
    turn.send(question.sender, Answer(request_id=question.request_id, error=refused.text))
    if refused.entry is not None:
        turn.record(Stream.AUDIT, [refused.entry])
    return False


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
    return f"{outcome.value}: {owner} did not take it in time, and never will; what to do: `albireo tree`"


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
