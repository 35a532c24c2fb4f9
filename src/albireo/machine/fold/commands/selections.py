"""Selections: the fold of the items that are selected, and the watch over how old each selection is.

    not selected --ItemSelected--> selected --SelectionEnded, or the item is forgotten--> not selected

The fold decides nothing: what ends a selection is a record, which CORE appends. So a log never has an order behind the
end of the selection that it used. How old a selection is the watch knows, by the clock of its own process: log time
stands still while nobody leads, and wall clocks may be wrong.

Spec: ADR-0209.
"""

from typing import Final

from albireo.codec.frame import FrameHeader
from albireo.codec.record import ItemForgotten, ItemSelected, SelectionEnded
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import Count
from albireo.model.command import SELECTIONS_MAX, Selection
from albireo.model.instant import MS, Instant


class SelectionState(Selection, frozen=True, kw_only=True):
    """A selection by the committed records."""

    selected_at: Count
    """Log time of its record at the node that owns the item, ns."""


SELECTIONS: Final = TableShape("selections", SelectionState, lambda one: one.item_id, SELECTIONS_MAX)


class Selections(TableFold[int, SelectionState]):
    """The fold."""

    shape = SELECTIONS
    records = (ItemSelected, SelectionEnded, ItemForgotten)

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        """Number of records in this run about selections."""

    def fold(self, record: ItemSelected | SelectionEnded | ItemForgotten, sequence: int, header: FrameHeader) -> None:
        match record:
            case ItemSelected():
                fields = {name: getattr(record, name) for name in Selection.__struct_fields__}
                self.table.put(SelectionState(**fields, selected_at=header.log_time_ms * MS), sequence)
            case SelectionEnded(item_id=item_id, selection_id=selection_id):
                state = self.table.get(item_id)
                if state is not None and state.selection_id == selection_id:
                    self.table.remove(item_id, sequence)
            case ItemForgotten(item_ids=item_ids):
                for one in item_ids:
                    self.table.remove(one, sequence)
        self.changes += 1


class SelectionWatch:
    """Since when this process knows each selection; it outlives a tenure."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, str], Instant | None] = {}
        """By item and selection; None: it was read from a store or a snapshot, so nobody here knows how old it is."""
        self._selections: Selections | None = None
        self._changes = 0

    def watch(self, selections: Selections) -> None:
        """Go on with this fold; another one than before was rebuilt, or given."""
        if selections is not self._selections:
            self._since = {key: self._since.get(key) for key in _keys(selections)}
            self._selections, self._changes = selections, selections.changes

    def followed(self, selections: Selections, now: Instant) -> None:
        """Take what was folded as it was committed."""
        if selections.changes != self._changes:
            self._since = {key: self._since.get(key, now) for key in _keys(selections)}
            self._changes = selections.changes

    def since(self, selection: Selection) -> Instant | None:
        """Instant at or after which it began; None: not known."""
        return self._since.get((selection.item_id, selection.selection_id))


def _keys(selections: Selections) -> list[tuple[int, str]]:
    return [(one.item_id, one.selection_id) for one in selections]
