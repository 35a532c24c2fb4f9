"""State of the page: what is known of all items and cases, and what of it changed since a page was told last.

    client --Changes--> PlantState --since(tick)--> View        encoded once for all pages that look at the same

The time of this is the tick: one for each time that changes are taken. What is to be looked through for views that are
new is spread over ticks, a share for each of them: whoever looks at something else again and again holds up nobody.
"""

import asyncio
import fnmatch
import heapq
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from albireo.client.live import Changes
from albireo.face.web.plain import ms, shown
from albireo.face.web.words import ChangesTold, Shown, ShownCase, ShownItem, View
from albireo.model.case import ItemCase, LifecycleStatus
from albireo.model.item import AlarmSettings, Condition, KnownItem, Reading

TICKS_KEPT: Final = 100
"""Ticks of which it is known what changed; a page that is further behind is told everything."""
CLOSED_KEPT: Final = 1_000
"""Closed cases that are kept for pages which were not told yet; one that is further behind is told everything."""
LOOKED_MAX: Final = 40_000
"""Comparisons of a name with a pattern in one tick, and items of whole views."""
COMPILED: Final = 800
"""Comparisons that take as long as making one pattern ready."""

Wanted = tuple[str, ...]
"""Patterns of a view."""


class Row(msgspec.Struct, gc=False):
    """An item, and its latest value: key, value, quality, time of the source in ms."""

    shown: ShownItem
    name: str
    value: tuple[int, Shown, int, int] | None = None
    item_tick: int = 0
    value_tick: int = 0


class _CaseRow(msgspec.Struct, gc=False):
    shown: ShownCase
    tick: int


class SeenItems:
    """Items of one view, for as long as somebody holds it."""

    def __init__(self, wanted: Wanted) -> None:
        self._patterns = [one for one in wanted if "*" in one or "?" in one]
        self._names = frozenset(wanted).difference(self._patterns)
        self.cost = 1 + len(self._patterns)
        """Comparisons of one name."""
        self.keys: set[int] = set()
        self.looked = 0
        """Number of rows that were looked at."""
        self.encoded: dict[tuple[int, bool], bytes] = {}
        """Words of this tick, by the tick that was told last, and whether they are those for programs."""

    def look(self, rows: "Sequence[Row]") -> None:
        """Find its items among further rows."""
        self.keys.update(
            one.shown.key for one in rows if one.name in self._names or any(meant(one.name) for meant in self._meant)
        )
        self.looked += len(rows)

    @cached_property
    def _meant(self) -> "list[Callable[[str], object]]":
        return [re.compile(fnmatch.translate(one.replace("[", "[[]"))).match for one in self._patterns]


class PlantState:
    """The state. For one thread."""

    def __init__(self) -> None:
        self.tick = 0
        self.whole_tick = 0
        """Tick from which on pages have to be told everything anew."""
        self.newest_ms = 0
        self.closed_ms = 0
        """Time at which the last case was closed; 0: none was since the face is there."""
        self.returned_ms = 0
        """Time at which a node was heard again last; 0: none was."""
        self._rows: list[Row] = []
        self._by_name: dict[str, int] = {}
        self._changed: deque[tuple[int, set[int]]] = deque(maxlen=TICKS_KEPT)
        self._cases: dict[tuple[str, int], _CaseRow] = {}
        self._closed: deque[tuple[str, int]] = deque()
        self._stale: tuple[int, dict[str, int]] = (0, {})
        self._forced: tuple[int, tuple[str, ...]] = (0, ())
        self._seen: WeakValueDictionary[Wanted, SeenItems] = WeakValueDictionary()
        self._room = self._whole_room = self._share = LOOKED_MAX
        self._searching = asyncio.Semaphore(1)

    def take(self, changes: Changes, at_ms: int = 0) -> None:
        """Take what the client tells, perhaps nothing. `at_ms`: time of the face."""
        behind = [one for one in self._seen.values() if one.looked < len(self._rows)]
        self._room = self._whole_room = LOOKED_MAX
        self._share = LOOKED_MAX // max(1, len(behind))
        for one in behind:  # Before any that may be new by then.
            self._look(one)
        stale = {node: ms(since) for node, since in changes.stale.items()}
        forced = tuple(sorted(changes.forced))
        is_told = changes.is_whole or changes.items or changes.readings or changes.cases
        if not is_told and stale == self._stale[1] and forced == self._forced[1]:
            return
        self.tick += 1
        if changes.is_whole:
            self._begin_anew()
        touched = {self._declare(known) for known in changes.items}
        if changes.readings and self.newest_ms > at_ms:  # A clock was set back: what it said before is newest no more.
            self.newest_ms = 0
        for reading in changes.readings:
            key = self._by_name.get(reading.name)
            if key is not None:
                self._read(key, reading)
                touched.add(key)
        for case in changes.cases:
            self._enter(case)
        self._changed.append((self.tick, touched))
        self.returned_ms = at_ms if self._stale[1].keys() - stale.keys() else self.returned_ms
        self._stale = self._stale if stale == self._stale[1] else (self.tick, stale)
        self._forced = self._forced if forced == self._forced[1] else (self.tick, forced)
        for seen in self._seen.values():
            seen.encoded.clear()

    def seen(self, wanted: Wanted) -> SeenItems:
        """The items of a view, which all have in common that look at the same."""
        seen = self._seen.get(wanted)
        if seen is None:
            seen = self._seen[wanted] = SeenItems(wanted)
        return seen

    def since(self, seen: SeenItems, tick: int, at_ms: int, *, is_named: bool = False) -> bytes | None:
        """The `View` for a page that was told all up to `tick`, encoded; b"": nothing has changed for it; None: not all
        was looked through yet, ask again with the same tick. `is_named`: the `ChangesTold` for a program instead."""
        key = tick, is_named
        if key not in seen.encoded:
            view = self._view(seen, tick, at_ms)
            if view is None:
                return None
            told = self._named(view, seen) if is_named else view
            is_empty = view.number == tick or not (view.is_whole or _says(told))
            seen.encoded[key] = b"" if is_empty else msgspec.json.encode(told)
        return seen.encoded[key]

    def _named(self, view: View, seen: SeenItems) -> ChangesTold:
        """The same with names in the place of keys, and of the cases those of these items."""
        names = {self._rows[key].name for key in seen.keys}
        return ChangesTold(
            at_ms=view.at_ms,
            is_whole=view.is_whole,
            items=view.items,
            values=tuple((self._rows[one[0]].name, *one[1:]) for one in view.values),
            cases=tuple(one for one in view.cases if one.item in names),
            stale=view.stale,
            forced=view.forced,
        )

    def matching(self, pattern: str, after: str = "", limit: int = 1) -> "list[Row]":
        """Items of which nothing is retired, by full name: the first ones behind `after` that a pattern means."""
        meant = re.compile(fnmatch.translate(pattern)).match
        found = (one for one in self._rows if one.name > after and not one.shown.is_retired and meant(one.name))
        return heapq.nsmallest(limit, found, key=lambda one: one.name)

    async def search(self, pattern: str, after: str = "", limit: int = 1) -> "list[Row]":
        """`matching`, for one at a time and in a thread: the loop serves all others meanwhile."""
        async with self._searching:
            return await asyncio.to_thread(self.matching, pattern, after, limit)

    def row_of(self, name: str) -> "Row | None":
        """An item by its full name; None: there is none."""
        key = self._by_name.get(name)
        return None if key is None else self._rows[key]

    @property
    def rows(self) -> "Sequence[Row]":
        return self._rows

    @property
    def cases(self) -> list[ShownCase]:
        """Cases, and closed ones that some page was not told yet."""
        return [one.shown for one in self._cases.values()]

    @property
    def stale(self) -> Mapping[str, int]:
        """Nodes that are not heard, with the time since when, in ms; 0: never."""
        return self._stale[1]

    @property
    def forced(self) -> tuple[str, ...]:
        """Full names of all forced items."""
        return self._forced[1]

    @property
    def items(self) -> int:
        """Number of items that are known."""
        return len(self._rows)

    def _begin_anew(self) -> None:
        self.whole_tick = self.tick
        self._rows, self._by_name, self._cases = [], {}, {}
        self._changed.clear()
        self._closed.clear()
        for seen in self._seen.values():
            seen.keys, seen.looked = set(), 0

    def _declare(self, known: KnownItem) -> int:
        name = known.full_name
        key = self._by_name.get(name)
        if key is None:
            key = self._by_name[name] = len(self._rows)
            self._rows.append(Row(ShownItem(key=key, node=known.node, item=known.item), name))
        row = self._rows[key]
        row.shown = ShownItem(key=key, node=known.node, item=known.item, is_retired=known.is_retired)
        row.item_tick = self.tick
        return key

    def _read(self, key: int, reading: Reading) -> None:
        row = self._rows[key]
        row.value = (key, shown(reading.value), reading.quality, ms(reading.source_ns))
        row.value_tick = self.tick
        self.newest_ms = max(self.newest_ms, ms(reading.node_ns))

    def _enter(self, case: ItemCase) -> None:
        where = (case.node, case.case_id)
        self._cases[where] = _CaseRow(self._shown(case), self.tick)
        if case.lifecycle_status is LifecycleStatus.CLOSED:
            self.closed_ms = max(self.closed_ms, ms(case.changed_ns))
            self._closed.append(where)
            while len(self._closed) > CLOSED_KEPT:
                gone = self._cases.pop(self._closed.popleft(), None)
                self.whole_tick = max(self.whole_tick, 0 if gone is None else gone.tick)

    def _shown(self, case: ItemCase) -> ShownCase:
        key = self._by_name.get(case.item)
        item = None if key is None else self._rows[key].shown.item
        told = msgspec.structs.asdict(case)
        told["value"] = shown(case.value)
        return ShownCase(
            **told,
            raised_ms=ms(case.raised_ns),
            changed_ms=ms(case.changed_ns),
            unshelve_ms=None if case.unshelve_at is None else ms(case.unshelve_at),
            description="" if item is None else item.description,
            unit="" if item is None else item.unit,
            states=() if item is None else item.states,
            limit=None if item is None or item.alarm is None else limit_of(item.alarm, case.condition),
        )

    def _view(self, seen: SeenItems, tick: int, at_ms: int) -> View | None:
        is_whole = tick < self.whole_tick or tick == 0
        self._look(seen)
        if seen.looked < len(self._rows) or (is_whole and self._whole_room <= 0):
            return None
        before = 0 if is_whole else tick
        self._whole_room -= len(seen.keys) if is_whole else 0
        rows = [self._rows[key] for key in self._touched(seen, before)]
        cases = [one.shown for one in self._cases.values() if one.tick > before]
        if is_whole:
            cases = [one for one in cases if one.lifecycle_status is not LifecycleStatus.CLOSED]
        return View(
            number=self.tick,
            at_ms=at_ms,
            is_whole=is_whole,
            items=tuple(one.shown for one in rows if one.item_tick > before),
            values=tuple(one.value for one in rows if one.value is not None and one.value_tick > before),
            cases=tuple(cases),
            stale=self._stale[1] if is_whole or self._stale[0] > before else None,
            forced=self._forced[1] if is_whole or self._forced[0] > before else None,
        )

    def _look(self, seen: SeenItems) -> None:
        """Find the items of a view among those that came since it was looked at, as far as there is room for it."""
        if self._room > 0 and seen.looked < len(self._rows):
            self._room -= 0 if seen.looked else (seen.cost - 1) * COMPILED
            rows = self._rows[seen.looked : seen.looked + max(1, min(self._room, self._share) // seen.cost)]
            self._room -= len(rows) * seen.cost
            seen.look(rows)

    def _touched(self, seen: SeenItems, before: int) -> Sequence[int]:
        """Keys of the items of a view of which something came after a tick, in their order."""
        if before == 0 or not self._changed or self._changed[0][0] > before + 1:
            return sorted(seen.keys)
        touched: set[int] = set()
        for tick, keys in reversed(self._changed):
            if tick <= before:
                break
            touched |= keys
        return sorted(touched & seen.keys)


def _says(view: View | ChangesTold) -> bool:
    return bool(view.items or view.values or view.cases) or view.stale is not None or view.forced is not None


def limit_of(alarm: AlarmSettings, condition: Condition) -> float | None:
    """The limit beyond which an item is in this alarm; None: it is of another kind."""
    limits = {
        Condition.HI_HI: alarm.hi_hi,
        Condition.HI: alarm.hi,
        Condition.LO: alarm.lo,
        Condition.LO_LO: alarm.lo_lo,
        Condition.RATE: alarm.rate_per_s,
        Condition.STALE: alarm.stale_s,
        Condition.FROZEN: alarm.frozen_s,
    }
    return limits.get(condition)
