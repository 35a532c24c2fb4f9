"""Mirror: the latest state of one node below, as its state feed tells it; what is shown of that node here.

A cache, and no record: it begins with the items that are known from the log, without values, and is whole once the
first state came. Positions are the mirror's own: they count the changes that it took.

    known by name --state--> live --the node is not heard--> stale: values stay, and none looks live --state--> live

Spec: design/tree.md, Links.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from albireo.codec import samples
from albireo.codec.message import FeedState
from albireo.machine.feed.viewing import decode_state
from albireo.machine.fold.dim import Dim
from albireo.model import quality as q
from albireo.model.case import Case
from albireo.model.force import Force
from albireo.model.item import KnownItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch

EPOCH = 1
"""Epoch of a mirror's positions."""


class NodeMirror:
    """The machine; a source of state for viewers."""

    def __init__(self, node: str, items: Iterable[KnownItem] = ()) -> None:
        self.node = node
        self.dim = Dim()
        self.cases: dict[int, Case] = {}
        """Open cases by id."""
        self.forces: dict[int, Force] = {}
        """Forced items by id."""
        self._forced_at: dict[int, int] = {}
        """Change that forced or released each item, by id."""
        self.stale_since_ns: int | None = 0
        """Wall time since which nothing was heard; 0: never in this run; None: the state is live."""
        self.refused = 0
        """Number of declarations of other nodes' items, which are not taken."""
        self._changes = 1
        self._whole_at = 1
        self._closed_at: dict[int, int] = {}
        """Change that closed or changed each case, by id."""
        self._closed: dict[int, Case] = {}
        for one in items:
            self.dim.fold_item(one, 1)

    @property
    def position(self) -> Position:
        return Position(EPOCH, self._changes)

    def take(self, state: FeedState, raw: Sequence[bytes | memoryview]) -> None:
        """Take one delta, or the whole state.

        Raises:
            DecodeError: the parts do not fit their description; nothing was taken.
        """
        batches = decode_state(state, raw)
        self._changes += 1
        if state.is_snapshot:
            self.dim, self.cases, self.forces = Dim(), {}, {}
            self._forced_at.clear()
            self._whole_at = self._changes
            self._closed_at.clear()
            self._closed.clear()
        self.stale_since_ns = None
        for item in state.items:
            if item.node == self.node:
                self.dim.fold_item(item, self._changes)
            else:
                self.refused += 1
        for batch in batches:
            self._store(batch)
        for case in state.cases:
            self._closed_at[case.case_id] = self._changes
            if case.lifecycle_status == "closed":
                self.cases.pop(case.case_id, None)
                self._closed[case.case_id] = case
            else:
                self.cases[case.case_id] = case

        for force in state.forces:
            self.forces[force.item_id] = force
            self._forced_at[force.item_id] = self._changes
        for item_id in state.released:
            self.forces.pop(item_id, None)
            self._forced_at[item_id] = self._changes

    def _store(self, batch: SampleBatch) -> None:
        dim = self.dim
        index = dim.row_of.take(np.minimum(batch.item_id, len(dim.row_of) - 1))
        fits = (batch.item_id < len(dim.row_of)) & (index >= 0)
        fits &= dim.live.value_type.take(index) == batch.value_type
        rows = np.flatnonzero(fits)
        index = index[rows]
        rows = rows[dim.is_last(index)]
        index = dim.row_of.take(batch.item_id[rows])
        dim.store(batch.take(rows), index, np.full(len(rows), self._changes))

    def unheard(self, wall_ns: int) -> None:
        """Nothing is heard of the node any more: no value looks live from now on."""
        if self.stale_since_ns is not None:
            return
        self._changes += 1
        self.stale_since_ns = wall_ns
        live = self.dim.live
        usable = np.flatnonzero(live.quality[: live.count] < q.BAD)
        live.quality[usable] = q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
        live.changed_at[usable] = self._changes

    def state_since(
        self, sequence: int, epoch: int, position: Position, previous: Position
    ) -> tuple[FeedState, list[bytes | memoryview]]:
        """Every change after `sequence` (-1: the whole state), for the state feed."""
        if sequence < self._whole_at:
            sequence = -1
        changed = [case_id for case_id, at in self._closed_at.items() if at > sequence]
        cases = [self.cases.get(one) or self._closed[one] for one in changed]
        batches = self.dim.batches(self.dim.changed_since(sequence))
        moved = [item_id for item_id, at in self._forced_at.items() if at > sequence]
        state = FeedState(
            epoch=epoch,
            position=position,
            previous=previous,
            is_snapshot=sequence < 0,
            items=tuple(self.dim.declared_since(sequence)),
            cases=tuple(self.cases.values()) if sequence < 0 else tuple(cases),
            forces=tuple(self.forces[one] for one in moved if one in self.forces),
            released=() if sequence < 0 else tuple(one for one in moved if one not in self.forces),
            value_parts=tuple((int(one.value_type), len(one)) for one in batches),
        )
        return state, [samples.encode(one) for one in batches]
