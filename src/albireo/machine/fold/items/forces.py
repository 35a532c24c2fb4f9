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
from collections.abc import Collection, Iterator, Sequence

import msgspec

from albireo.codec.record import ItemForced
from albireo.machine.fold.columns import unsliced
from albireo.model.force import Force
from albireo.model.instant import MS, LogTime


class ForceState(msgspec.Struct, frozen=True, array_like=True):
    """A force by the committed records."""

    force: Force
    forced_at: int
    """Log time of its record, ns."""

    @property
    def ends_at(self) -> int:
        return self.forced_at + self.force.for_ms * MS


class Forces:
    """The fold; bounded by who appends (model/force.py)."""

    def __init__(self) -> None:
        self._known: dict[int, ForceState] = {}
        self._ends: list[tuple[int, int]] = []
        """Heap of (log time, item id) at which forces end; entries of what ended otherwise stay until they come up."""
        self._changed: dict[int, int] = {}
        """Sequence of the latest record about each item, in this run; 0: the snapshot. As many as the items forced."""
        self._changed_at = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, item_id: int) -> bool:
        return item_id in self._known

    def __iter__(self) -> Iterator[Force]:
        return (one.force for one in self._known.values())

    def find(self, item_id: int) -> Force | None:
        state = self._known.get(item_id)
        return None if state is None else state.force

    def left_ms(self, item_id: int, log_time_ms: int) -> int:
        """Log time that a forced item has left."""
        return max(0, self._known[item_id].ends_at // MS - log_time_ms)

    def fold_forced(self, record: ItemForced, log_time: LogTime, sequence: int = 0) -> None:
        fields = {name: getattr(record, name) for name in Force.__struct_fields__}
        self._enter(ForceState(Force(**fields), log_time))
        self._changed[record.item_id] = self._changed_at = sequence

    def _enter(self, state: ForceState) -> None:
        self._known[state.force.item_id] = state
        heapq.heappush(self._ends, (state.ends_at, state.force.item_id))
        self._clear_top()

    def fold_ended(self, item_ids: Sequence[int], sequence: int = 0) -> None:
        """These items are not forced any more."""
        for one in item_ids:
            if self._known.pop(one, None) is not None:
                self._changed[one] = self._changed_at = sequence
        self._clear_top()

    def changed_since(self, sequence: int) -> list[tuple[int, Force | None]]:
        """Items by id whose force began or changed after `sequence`, or that were released (None); -1: all forces."""
        if sequence < 0:
            return [(one.item_id, one) for one in self]
        if self._changed_at <= sequence:
            return []
        changed = [item_id for item_id, at in self._changed.items() if at > sequence]
        return [(one, state.force if (state := self._known.get(one)) else None) for one in changed]

    def _is_present(self, end: tuple[int, int]) -> bool:
        state = self._known.get(end[1])
        return state is not None and state.ends_at == end[0]

    def _clear_top(self) -> None:
        while self._ends and not self._is_present(self._ends[0]):
            heapq.heappop(self._ends)
        if len(self._ends) > 2 * len(self._known) + 64:
            self._ends = [(one.ends_at, item_id) for item_id, one in self._known.items()]
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
            if item_id not in besides and self._is_present(self._ends[place]):
                found[item_id] = self._known[item_id].force
        return list(found.values())

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode([self._known[one] for one in sorted(self._known)])

    @classmethod
    def restore(cls, section: bytes) -> "Forces":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        for one in unsliced(section, list[ForceState]):
            self._enter(one)
        return self
