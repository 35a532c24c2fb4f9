"""Retelling: a node that let go of records which its parent lacks declares its items, and the nodes below it, anew.

Some of the declarations are among what went. Told again, behind the gap and in the node's own log, they name at the
parent all that follows. In slices, one for each fold, so that no turn is long.

Spec: design/tree.md, Retention; ADR-0203.
"""

from albireo.codec.record import ItemDeclared, Stream
from albireo.machine.desk.registry import DECLARED_MAX, Registry
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.turn import Turn
from albireo.model.item import KnownItem


class Retelling:
    """The machine; lives as long as a tenure."""

    def __init__(self, folds: Folds, registry: Registry) -> None:
        self._folds = folds
        self._registry = registry
        self._told_from = 0
        """First record of the last retelling; while that is in the log there is no need of another."""
        self._left: list[int] = []
        """Ids of the items that are still to be told, the next one last."""
        self._owes_origins = False

    def begin(self, turn: Turn) -> None:
        """The parent lacks records that are gone."""
        if turn.log.first_sequence <= self._told_from:
            return
        self._told_from = turn.end + 1
        self._left = sorted((int(one.item_id) for one in self._folds.dim), reverse=True)
        self._owes_origins = True

    def go_on(self, turn: Turn) -> None:
        """Declare the nodes below, then the next slice of items; only while the log takes records."""
        if self._owes_origins:
            self._owes_origins = False
            if origins := self._folds.origins.declared:
                turn.record(Stream.CONTROL, origins)
        if not self._left:
            return
        ids, self._left = self._left[-DECLARED_MAX:], self._left[:-DECLARED_MAX]
        known = [found for one in reversed(ids) if (found := self._appended(one)) is not None]
        records = [
            ItemDeclared(item_id=one.item_id, node=one.node, item=one.item, is_retired=one.is_retired) for one in known
        ]
        if records:
            turn.record(Stream.STATE, records)

    def _appended(self, item_id: int) -> KnownItem | None:
        """An item as the last record of it says, folded or not: an older word must not come behind a newer one."""
        known = self._folds.dim.by_id(item_id)
        return None if known is None else self._registry.item(known.full_name)
