"""Forces: the fold of the items that are forced, and how much log time each has left.

    not forced --ItemForced--> forced --ForceEnded, or the item is forgotten--> not forced
                                 |  ^
                                 +--+ ItemForced: another value, another time

Log time alone decides when a force is over. What ends it is the record that CORE appends then, so a log never has a
sample in the wrong series: after a restart or a takeover the item is still forced, for what was left.

Not decided here: what may be forced (`forcing`), where samples go (`detours`).
Spec: ADR-0181.
"""

import heapq
from collections.abc import Collection
from typing import Final

from albireo.codec.frame import FrameHeader
from albireo.codec.record import ForceEnded, ItemForced, ItemForgotten
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import Count
from albireo.model.force import FORCES_MAX, Force
from albireo.model.instant import MS, LogTime


class ForceState(Force, frozen=True, kw_only=True):
    """A force by the committed records."""

    forced_at: Count
    """Log time of its record at the node that owns the item, ns."""

    @property
    def ends_at(self) -> int:
        return self.forced_at + self.for_ms * MS


FORCES: Final = TableShape(
    "forces", ForceState, lambda one: one.item_id, FORCES_MAX, gone_max=FORCES_MAX, is_kept_above=True
)


class Forces(TableFold[int, ForceState]):
    """The fold; bounded by who appends (model/force.py)."""

    shape = FORCES
    records = (ItemForced, ForceEnded, ItemForgotten)

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[tuple[int, int]] = []
        """Heap of (log time, item id) at which forces end; entries of what ended otherwise stay until they come up."""

    def left_ms(self, item_id: int, log_time_ms: int) -> int:
        """Log time that a forced item has left."""
        state = self.table.get(item_id)
        return 0 if state is None else max(0, state.ends_at // MS - log_time_ms)

    def fold(self, record: ItemForced | ForceEnded | ItemForgotten, sequence: int, header: FrameHeader) -> None:
        match record:
            case ItemForced():
                fields = {name: getattr(record, name) for name in Force.__struct_fields__}
                state = ForceState(**fields, forced_at=header.log_time_ms * MS)
                self.table.put(state, sequence)
                heapq.heappush(self._ends, (state.ends_at, state.item_id))
            case ForceEnded(item_id=item_id):
                self.table.remove(item_id, sequence)
            case ItemForgotten(item_ids=item_ids):
                for one in item_ids:
                    self.table.remove(one, sequence)
        self._clear_top()

    def _is_present(self, end: tuple[int, int]) -> bool:
        state = self.table.get(end[1])
        return state is not None and state.ends_at == end[0]

    def _clear_top(self) -> None:
        while self._ends and not self._is_present(self._ends[0]):
            heapq.heappop(self._ends)
        if len(self._ends) > 2 * len(self) + 64:
            self._ends = [(one.ends_at, one.item_id) for one in self]
            heapq.heapify(self._ends)

    def deadline(self) -> LogTime | None:
        """Log time at which the next force is over."""
        return LogTime(self._ends[0][0]) if self._ends else None

    def overdue(self, log_time: LogTime, besides: Collection[int], most: int) -> list[Force]:
        """At most so many of the forces whose time is over, those of items `besides` left out. Cost: O(overdue)."""
        found: dict[int, Force] = {}
        places = [0]
        while places and len(found) < most:
            place = places.pop()
            if place >= len(self._ends) or self._ends[place][0] > log_time:
                continue
            places += (2 * place + 1, 2 * place + 2)
            item_id = self._ends[place][1]
            state = self.table.get(item_id)
            if item_id not in besides and state is not None and self._is_present(self._ends[place]):
                found[item_id] = state
        return list(found.values())

    def restore(self, section: bytes) -> None:
        super().restore(section)
        self._ends = [(one.ends_at, one.item_id) for one in self]
        heapq.heapify(self._ends)
