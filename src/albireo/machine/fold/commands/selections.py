"""Selections: the fold of the items that are selected, and the watch over how old each selection is.

    not selected --ItemSelected--> selected --SelectionEnded, or the item is forgotten--> not selected

The fold decides nothing: what ends a selection is a record, which CORE appends. So a log never has an order behind the
end of the selection that it used. How old a selection is the watch knows, by the clock of its own process: log time
stands still while nobody leads, and wall clocks may be wrong.

Spec: ADR-0209.
"""

from collections.abc import Iterator, Sequence

import msgspec

from albireo.codec.record import ItemSelected, SelectionEnded
from albireo.machine.fold.columns import unsliced
from albireo.model.command import Selection
from albireo.model.instant import Instant, LogTime


class SelectionState(msgspec.Struct, frozen=True, array_like=True):
    """A selection by the committed records."""

    selection: Selection
    selected_at: int
    """Log time of its record, ns."""


class Selections:
    """The fold; bounded by who appends (model/command.py)."""

    def __init__(self) -> None:
        self._known: dict[int, SelectionState] = {}
        self._changed: dict[int, int] = {}
        """Sequence of the latest record about each item, in this run. As many as items were selected."""
        self._changed_at = 0
        self.changes = 0
        """Number of records in this run about selections."""

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[SelectionState]:
        return iter(self._known.values())

    def fold(self, record: ItemSelected | SelectionEnded, log_time: LogTime, sequence: int = 0) -> None:
        state = self._known.get(record.item_id)
        if isinstance(record, ItemSelected):
            fields = {name: getattr(record, name) for name in Selection.__struct_fields__}
            self._known[record.item_id] = SelectionState(Selection(**fields), log_time)
        elif state is not None and state.selection.selection_id == record.selection_id:
            del self._known[record.item_id]
        self._changed[record.item_id] = self._changed_at = sequence
        self.changes += 1

    def fold_forgotten(self, item_ids: Sequence[int], sequence: int = 0) -> None:
        """These items are not known any more."""
        for one in item_ids:
            if self._known.pop(one, None) is not None:
                self._changed[one] = self._changed_at = sequence
                self.changes += 1

    def changed_since(self, sequence: int) -> list[tuple[int, Selection | None]]:
        """Items by id that were selected after `sequence`, or are not any more (None); -1: all that are selected."""
        if sequence < 0:
            return [(one.selection.item_id, one.selection) for one in self]
        if self._changed_at <= sequence:
            return []
        changed = [item_id for item_id, at in self._changed.items() if at > sequence]
        return [(one, state.selection if (state := self._known.get(one)) else None) for one in changed]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode([self._known[one] for one in sorted(self._known)])

    @classmethod
    def restore(cls, section: bytes) -> "Selections":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        self._known = {one.selection.item_id: one for one in unsliced(section, list[SelectionState])}
        return self


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
    return [(one.selection.item_id, one.selection.selection_id) for one in selections]
