"""Staleness: which items had no usable value for too long; `conditions` makes it a judgement.

The idea: beside each item stands the log time of its last usable value. A sample that is bad, or no number, confirms
nothing, so whoever watches an item hears that it is blind, whatever the reason.

    device lost    An item that its device left without a value is not stale while a `device_lost` case of its adapter
                   tells it. One that the device refuses is.
    begins anew    Where an adapter, or its device, begins anew the item has its whole time again. It has so once until
                   its next usable value: what begins again and again hides nothing.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.machine.fold.alarms.rules import IS_ANEW, IS_FORCED, IS_LOST, SLOT_OF, STALE, Rules, WatchedItems
from albireo.machine.fold.columns import NEVER
from albireo.machine.fold.items.dim import Dim
from albireo.model import quality as q
from albireo.model.instant import LogTime
from albireo.model.item import Condition, KnownItem

Rows = NDArray[np.intp]
_CODE: Final = np.uint32(0xFFFF_0000)


class Staleness:
    """Times of the items with a stale rule, over the columns of `Conditions`."""

    def __init__(self, dim: Dim, rules: Rules, watched: WatchedItems) -> None:
        self._dim, self._rules, self._watched = dim, rules, watched
        self._adapter: dict[int, str] = {}
        """Adapter of each item that has, or had, a stale rule; by dense index."""
        self.at = NEVER
        """No item becomes stale before this log time."""
        self.shortest = NEVER
        """Shortest time without a usable value that makes an item stale."""

    def declared(self, index: int, known: KnownItem) -> None:
        """Take an item as it is declared now, behind its rules; `find_lost` follows."""
        if known.item_id and self._watched.rule_of[index, STALE] >= 0:
            self._adapter[index] = known.item.adapter

    def forgotten(self, index: int) -> None:
        self._adapter.pop(index, None)

    def find_lost(self, log_time: LogTime) -> None:
        """Find the items of adapters whose loss a case tells. Cost: O(items with a stale rule)."""
        rules, watched = self._rules, self._watched
        rows = np.flatnonzero((rules.slot == SLOT_OF[Condition.DEVICE_LOST]) & rules.judged)
        telling = [self._dim.item_at(index).item for index in rules.item[rows].tolist()]
        # CORE tells of the process of an adapter itself, as `<adapter>/running`.
        names = {name for one in telling for name in (one.adapter, one.name.removesuffix("/running"))}
        is_lost = np.zeros(len(watched.flags), np.bool_)
        is_lost[[index for index, name in self._adapter.items() if name in names] if names else []] = True
        back = np.flatnonzero((watched.flags & IS_LOST != 0) & ~is_lost)
        watched.flags &= ~np.uint8(IS_LOST)
        watched.flags[is_lost] |= IS_LOST
        self._begin_anew(back, log_time)

    def blind(self, index: Rows, log_time: LogTime) -> None:
        """Take samples of these items that have no usable value."""
        self._begin_anew(index[self._dim.live.quality[index] & _CODE == q.BAD_WAITING_FOR_INITIAL_DATA], log_time)
        self._heed(index)

    def _begin_anew(self, index: Rows, log_time: LogTime) -> None:
        watched = self._watched
        rows = watched.rule_of[index, STALE]
        index = index[(rows >= 0) & self._rules.is_enabled[rows]]
        first = index[watched.flags[index] & IS_ANEW == 0]
        watched.flags[first] |= IS_ANEW
        watched.seen[first] = log_time
        self._heed(index)

    def _heed(self, index: Rows) -> None:
        """Let no time pass by at which one of these items becomes stale."""
        rows = self._watched.rule_of[index, STALE].astype(np.intp)
        _, at = self._may_rise(rows[rows >= 0])
        self.at = min(self.at, int(at.min(initial=NEVER)))

    def _may_rise(self, rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
        """Those of these stale rules that may come to hold, and the log time at which each does if no value comes."""
        rules, watched = self._rules, self._watched
        rows = rows[rules.is_enabled[rows] & ~rules.raw[rows]]
        items = rules.item[rows]
        flags = watched.flags[items]
        is_told = (flags & IS_LOST != 0) & q.is_from_node(self._dim.live.quality[items])
        rows = rows[~is_told & (flags & IS_FORCED == 0)]
        return rows, watched.seen[rules.item[rows]] + rules.on[rows].astype(np.int64)

    def due(self, log_time: LogTime) -> Rows:
        """Stale rules that hold from here on."""
        rows, at = self._may_rise(np.flatnonzero(self._rules.slot == STALE))
        return rows[at <= log_time]

    def arm(self) -> None:
        """Find the next deadline anew."""
        rules = self._rules
        rows = np.flatnonzero((rules.slot == STALE) & rules.is_enabled)
        self.shortest = int(rules.on[rows].min()) if len(rows) else NEVER
        _, at = self._may_rise(rows)
        self.at = int(at.min(initial=NEVER))
