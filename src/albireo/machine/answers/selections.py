"""Answers about selections: of items of this node, and of those of the nodes below."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

from albireo.codec.questions.orders import SELECTIONS, SelectionsAsked
from albireo.machine.fold.commands.selections import SELECTIONS as SELECTION_TABLE
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.places import Places
from albireo.machine.orders.write.orders import Orders
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.command import ItemSelection, Selection
from albireo.model.instant import MS, WallTime


class SelectingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    orders: Orders


class SelectAnswers:
    """The part of the answers that is about selections."""

    def __init__(self, root: SelectingRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (handled(SELECTIONS, self._selections),)

    def _selections(self, question: Question, asked: SelectionsAsked, turn: Turn) -> None:
        mirror = self._places.mirror(asked.node)
        if mirror is None:
            rows = self._root.orders.selecting.rows(asked.after, question.moment.now)
        else:
            rows = selections_below(mirror, asked.after, question.moment.wall)
        turn.answer(question, asked.told(rows))


def selections_below(mirror: NodeMirror, after: int, wall: WallTime) -> Iterator[tuple[int, ItemSelection]]:
    """Selected items of another node with an id above `after`, by rising id.

    What is left is reckoned by the wall clocks of both nodes: elapsed time there is not known here.
    """
    for item_id, one in sorted(((each.item_id, each) for each in mirror.table(SELECTION_TABLE)), key=itemgetter(0)):
        known = mirror.dim.by_id(item_id)
        if item_id > after and known is not None:
            left_ms = min(one.for_ms, max(0, one.for_ms - (wall - one.since_ns) // MS))
            fields = {name: getattr(one, name) for name in Selection.__struct_fields__ if name != "item_id"}
            row = ItemSelection(**fields, item=known.full_name, left_ms=left_ms, stale_since_ns=mirror.stale_since_ns)
            yield item_id, row
