"""Answers about the nodes and the items that are known here."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np
from msgspec.structs import replace

from albireo.codec.message import AnyMessage
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.node import FORGET, ITEMS, ORIGINS, READ, TREE, ForgetAsked, Forgotten, ItemsAsked
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.forgetting import Forgetting
from albireo.machine.desk.registry import Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.orders.places import Places
from albireo.model.item import KnownItem
from albireo.model.refusal import Refusal, RefusalCode

_STRETCH: Final = 65_536
"""Item ids that are looked through at once for those that there are."""
MISSING_TOLD: Final = 20
"""Most names that a refusal repeats."""


class ItemsRoot(Protocol):
    """The root machine, as far as these answers need it."""

    folds: Folds
    registry: Registry
    forgetting: Forgetting
    tree: NodeTree

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class ItemAnswers:
    """The part of the answers that is about nodes and items."""

    def __init__(self, root: ItemsRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (
            handled(TREE, self._tree),
            handled(ITEMS, self._items),
            handled(READ, self._read),
            handled(ORIGINS, self._origins),
            handled(FORGET, self._forget),
        )

    def _tree(self, question: Question, _: Nothing, turn: Turn) -> None:
        rows, wall = self._root.tree.seen(), question.moment.wall  # The own clock may have been set back since.
        turn.answer(question, [replace(one, complete_to_ns=min(one.complete_to_ns, wall)) for one in rows])

    def _items(self, question: Question, asked: ItemsAsked, turn: Turn) -> None:
        turn.answer(question, asked.told(self._rows(asked)))

    def _read(self, question: Question, asked: ItemsAsked, turn: Turn) -> None:
        dim = self._places.dim(asked.node)
        found = ((item_id, dim.index_of(item_id)) for item_id, _ in self._rows(asked))
        turn.answer(question, asked.told((item_id, dim.reading_at(at)) for item_id, at in found if at is not None))

    def _rows(self, asked: ItemsAsked) -> Iterator[tuple[int, KnownItem]]:
        """The items that are meant, with their ids: those of a piece by rising id."""
        if asked.names:
            named = self._named(asked)
            return named_behind(named, asked.after) if asked.is_piece else ((one.item_id, one) for one in named)
        dim = self._places.dim(asked.node)
        if asked.is_piece:
            return items_behind(dim, asked.after)
        return ((one.item_id, one) for one in sorted(dim, key=lambda one: one.item.name))

    def _named(self, asked: ItemsAsked) -> list[KnownItem]:
        dim, mirror = self._places.dim(asked.node), self._places.mirror(asked.node)
        if mirror is None:
            found = [(name, self._root.registry.find(name)) for name in asked.names]
        else:
            prefix = f"{mirror.node}:"
            found = [(name, dim.by_name(prefix + name.removeprefix(prefix))) for name in asked.names]
        # Without an index: its declaration is not committed yet.
        missing = [name for name, item in found if item is None or dim.index_of(item.item_id) is None]
        if missing:
            more = f" and {len(missing) - MISSING_TOLD} more" if len(missing) > MISSING_TOLD else ""
            cause = f"no item {', '.join(missing[:MISSING_TOLD])}{more}"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_ITEM, cause, "`albireo items` lists them"))
        return [item for _, item in found if item is not None]

    def _origins(self, question: Question, _: Nothing, turn: Turn) -> None:
        turn.answer(question, self._root.folds.origins.declared)

    def _forget(self, question: Question, asked: ForgetAsked, turn: Turn) -> None:
        granted(self._root.forgetting.asked(asked, question.principal, question.moment, turn))
        told = Forgotten(producers=asked.producers, items=asked.items)
        self._root.after(turn.end, question.sender, answer_to(question.request_id, told), turn)


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
