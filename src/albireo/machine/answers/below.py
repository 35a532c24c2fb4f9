"""Answers about nodes below: what this node knows of them."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from albireo.codec.record import Audited, Stream
from albireo.machine.access.judge import AccessJudge
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import NotAnswered, Question, Turn
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.access import AccessRole
from albireo.model.item import KnownItem
from albireo.model.refusal import Refusal, RefusalCode, ambiguous
from albireo.model.tree.message import MessageOutcome
from albireo.model.tree.node_names import NODES_TOLD, nodes_meant

_STRETCH: Final = 65_536
"""Item ids that are looked through at once for those that there are."""


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

    def owner_of(self, name: str) -> str:
        """Other node whose item is named, by its id or the end of it; empty: this one, if there is such an item at all.

        Raises:
            NotAnswered: the name means no node that is known here, or several, or an item that the node does not have.
        """
        if self._root.registry.item(name) is not None:  # One that is being forgotten is known no more.
            return ""
        head, _, local = name.rpartition(":")
        node = self._meant(head) if head else self._root.config.node
        if node == self._root.config.node:
            return ""
        if self._root.tree.all_mirrors[node].dim.by_name(f"{node}:{local}") is None:
            cause = f"{node} has no item {local!r}, as far as is known here"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_ITEM, cause, f"`albireo items '{node}:*'`"))
        return node


class RoleNeeded(msgspec.Struct, frozen=True):
    """Role that an order needs at another node, or over what is somebody else's; whoever asks is judged here."""

    node: str
    """Node at which the role is needed."""
    subject: str
    """Words for the order."""
    user: str
    """Who was claimed to ask."""
    role: AccessRole = AccessRole.OPERATE


def check_role(access: AccessJudge, question: Question, needed: RoleNeeded, turn: Turn) -> None:
    """Let whoever asks give the order, if its role suffices; a refusal is on record like each other one.

    Raises:
        NotAnswered: it does not.
    """
    if access.role_at(question.principal, needed.node) >= needed.role:
        return
    moment = question.moment
    refused = access.refused_at(
        needed.node, question.principal, needed.subject, needed.role, needed.user, moment.now, moment.wall
    )
    put_on_record(refused.entry, turn)
    raise NotAnswered(refused.refusal)


def put_on_record(entry: Audited | None, turn: Turn, *, is_open: bool = True) -> None:
    """Put a refusal for want of a role on record and into the structured log. `is_open`: records are taken."""
    if entry is None:
        return
    turn.note("warning", "access_refused", principal=entry.principal, subject=entry.subject)
    if is_open:
        turn.record(Stream.AUDIT, [entry])


def not_done(receipt: MessageReceipt, look: str) -> Refusal | None:
    """Refusal of an order to a node below that was not done, or of which nobody knows; None: it was done.

    Args:
        look: whatever shows whether it was, or helps if it was not.
    """
    end, owner = receipt.end, receipt.name.owner
    if end.outcome is MessageOutcome.EXECUTED:
        return None
    if end.outcome is MessageOutcome.REJECTED:
        return end.refusal if end.code else Refusal(RefusalCode.NOT_CARRIED_OUT, end.detail)
    if end.outcome is MessageOutcome.UNKNOWN:
        remedy = f"`albireo command show {receipt.command_id!r}`, and {look}"
        return Refusal(RefusalCode.OUTCOME_UNKNOWN, f"{owner} has not said in time what became of it", remedy)
    cause = f"{end.outcome.value}: {owner} did not take it in time, and never will"
    return Refusal(RefusalCode.NOT_CARRIED_OUT, cause, "`albireo tree`")


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
