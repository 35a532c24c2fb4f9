"""Detours: where the samples of forced items go, by the appended view.

A batch is looked up whole: rows of a forced item get the id of the item under which its measured value is recorded,
and nothing else of them changes. While nothing is forced, and no copy is owed, a batch passes as it came.

A copy is owed to a series that goes on from another one: to the measured series when an item is forced, to the item's
own when that ends. The value to be copied is known once the record is folded, with all that stands before it in the
log; a sample of the series that was appended meanwhile is newer, and takes its place.

Spec: ADR-0181.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.record import GapFound
from albireo.model.force import Force
from albireo.model.samples import SampleBatch

Cell = TypeVar("Cell", bound=np.generic)


class Detours:
    """Detours of one tenure; rebuilt from the folds with it."""

    def __init__(self, forces: Iterable[Force], items_of: Callable[[str], Sequence[int]]) -> None:
        """
        Args:
            items_of: gives the ids of all items of an adapter, which a gap record of it concerns if it names none.
        """
        self._items_of = items_of
        self._to: NDArray[np.uint32] = np.zeros(1, np.uint32)
        """Item that the samples of an item go to, by its id; 0: they stay, as those of ids beyond, which are clipped
        to the last entry, do."""
        self._is_owed: NDArray[np.bool_] = np.zeros(1, np.bool_)
        """True: a copy is owed to the item, by its id."""
        self._forced = 0
        self._owed = 0
        for one in forces:
            self.begin(one)

    def begin(self, force: Force) -> None:
        """Samples of the item are measured ones from here on."""
        self._to = _reaching(self._to, force.item_id)
        self._forced += not self._to[force.item_id]
        self._to[force.item_id] = force.measured_id

    def end(self, item_id: int) -> None:
        """Samples of the item are its own again."""
        self._to = _reaching(self._to, item_id)
        self._forced -= bool(self._to[item_id])
        self._to[item_id] = 0

    def owe(self, item_id: int) -> None:
        """A copy is owed to this item, unless a sample of it comes first."""
        self._is_owed = _reaching(self._is_owed, item_id)
        self._owed += not self._is_owed[item_id]
        self._is_owed[item_id] = True

    def takes_copy(self, item_id: int) -> bool:
        """True once, if a copy is still owed to this item."""
        if item_id >= len(self._is_owed) or not self._is_owed[item_id]:
            return False
        self._is_owed[item_id] = False
        self._owed -= 1
        return True

    def divert(self, batch: SampleBatch) -> SampleBatch:
        """The batch with samples of forced items as measured ones. Cost: O(n), whole columns; nothing forced: O(1)."""
        if not self._forced and not self._owed:
            return batch
        to = self._to.take(batch.item_id, mode="clip")
        if to.any():
            batch = msgspec.structs.replace(batch, item_id=np.where(to > 0, to, batch.item_id))
        if self._owed:
            known = batch.item_id[batch.item_id < len(self._is_owed)]
            self._is_owed[known] = False
            self._owed = int(self._is_owed.sum())
        return batch

    def divert_gaps(self, gaps: list[GapFound]) -> list[GapFound]:
        """Gaps that concern forced items, as gaps of what is measured of them: the forced values were there."""
        if not self._forced:
            return gaps
        diverted = [self._diverted_gap(one) for one in gaps]
        return gaps if diverted == gaps else diverted

    def _diverted_gap(self, gap: GapFound) -> GapFound:
        ids = np.asarray(gap.item_ids or self._items_of(gap.source), np.uint32)
        to = self._to.take(ids, mode="clip")
        return msgspec.structs.replace(gap, item_ids=tuple(np.where(to > 0, to, ids).tolist())) if to.any() else gap


def _reaching(column: NDArray[Cell], item_id: int) -> NDArray[Cell]:
    """The column, grown so that it has a cell for `item_id`, and one more behind it that stays empty."""
    if item_id < len(column) - 1:
        return column
    grown = np.zeros(max(2 * len(column), item_id + 2), column.dtype)
    grown[: len(column)] = column
    return grown
