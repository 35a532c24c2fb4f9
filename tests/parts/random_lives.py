"""Random histories: items with lives of their own in one log, written to files as a history writes them.

Irregular times over days, quality changes, gaps, restarts, rows that come late, twice, or from a clock that is ahead,
counters of all types, items that change hands; the log goes another way now and then, files are sealed and merged
between, and a second history may get its older files as a copy.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path

from albireo.codec.history import DAY_NS, Manifest
from albireo.codec.record import EpochGranted, GapFound, ItemDeclared, Marked, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem, KnownItem
from albireo.model.position import Position
from albireo.model.value import ItemId, Value, ValueType
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotRows, HotTail
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.query import StoredHistory
from tests.parts.history import LOG_ID, MemoryLog, fill, hot_of
from tests.parts.history_copy import Copy, merge_once
from tests.parts.walker import LATEST, Life, Told

QUALITIES = (0,) * 6 + (
    int(q.GOOD_LOCAL_OVERRIDE),
    int(q.UNCERTAIN),
    int(q.BAD_NO_COMMUNICATION),
    int(q.BAD_DATA_LOST),
)
STALE_S = (None, None, 20.0, 600.0, 7200.0)
LATE_BEGIN_SHARE = 0.1
"""Share of the items whose earliest sample comes late."""
LIFE_MAX = 20
"""Actions of an item at most."""
STEPS = (1, SECOND, 7 * SECOND, 61 * SECOND, 600 * SECOND, 3600 * SECOND, 9 * 3600 * SECOND)
Action = tuple[int, int, str, tuple[object, ...]]
"""Node time, order, what happens, and with what."""


class Lives:
    """So many items in one log, each with adapters of its own; and what is on record of each."""

    def __init__(self, chance: random.Random, data: Path, count: int, begin_ns: int) -> None:
        self.log = MemoryLog()
        self.known_to = begin_ns
        self.ids = range(1, count + 1)
        self._chance = chance
        self._begin = begin_ns
        self._data = data
        self.store, _ = HistoryStore.open(data, "root")
        self.hot: HotTail = hot_of(self.store)
        self._rows: dict[int, list[Told]] = {one: [] for one in self.ids}
        self._gaps: dict[int, list[tuple[int, int]]] = {one: [] for one in self.ids}
        """(Sequence, begin) of the gaps of each item."""
        self._declared: dict[int, list[tuple[int, int, KnownItem]]] = {one: [] for one in self.ids}
        """(Sequence, node time, declaration)."""
        self._types = {one: chance.choice(list(ValueType)) for one in self.ids}
        self._knows_from: int | None = None
        """Sequence from which the history heard of declarations itself; None: from the first on."""

    def record(self, actions: Sequence[Action]) -> None:
        """Have these happen, with seals, merges and forks between."""
        for number, (at, _, what, more) in enumerate(actions):
            getattr(self, f"_{what}")(at, *more)
            self.known_to = max(self.known_to, at)
            if number % max(1, len(actions) // 12) == 0:
                self._work()

    def actions(self) -> list[Action]:
        """The lives of all items, by node time."""
        found: list[Action] = []
        for item_id in self.ids:
            found += self._life_of(item_id, len(found))
        end = max(one[0] for one in found)
        for _ in range(2):
            found.append((self._chance.randint(self._begin, end), len(found), "restart", ()))
        return sorted(found)

    def _life_of(self, item_id: int, order: int) -> list[Action]:
        chance, now = self._chance, self._begin + self._chance.randint(0, 3600) * SECOND
        adapter, stale = f"p{item_id}", chance.choice(STALE_S)
        found: list[Action] = [(now, order, "declare", (item_id, adapter, stale))]
        if chance.random() < 0.3:  # Before its first sample.
            found.append((now, order + 1, "lose", (adapter, (), now - SECOND)))
        if chance.random() < LATE_BEGIN_SHARE:
            found += self._late_begin(item_id, adapter, order + LIFE_MAX)
        last: list[tuple[int, Value, int]] = []
        for number in range(2, chance.choice((3, 8, LIFE_MAX))):
            now += chance.choice(STEPS)
            what = chance.random()
            if what < 0.70:
                rows = [self._row(item_id, now) for _ in range(chance.choice((1, 1, 3, 8)))]
                rows += last[:2] if chance.random() < 0.1 else []
                found.append((now, order + number, "sample", (item_id, tuple(rows))))
                last = rows
            elif what < 0.85:
                names = (item_id,) if chance.random() < 0.3 else ()
                source = chance.choice((adapter, adapter, f"p{item_id}", "stranger"))
                found.append(
                    (now, order + number, "lose", (source, names, now - chance.choice((0, SECOND, 90 * SECOND))))
                )
            elif what < 0.95:
                adapter, stale = chance.choice((f"p{item_id}", f"r{item_id}")), chance.choice(STALE_S)
                found.append((now, order + number, "declare", (item_id, adapter, stale)))
            elif what < 0.955:
                found.append((now, order + number, "lose", ("core", (), now)))
        return found

    def _late_begin(self, item_id: int, adapter: str, order: int) -> list[Action]:
        """A gap before the first sample, and long after that a sample of weeks before: now the gap counts.

        That sample holds for a minute, so that nothing but the gap makes minutes without a row.
        """
        chance, day = self._chance, DAY_NS
        gap = self._begin - chance.choice((1, 12 * day, 2 * day, 2 * 3600 * SECOND))
        at = self._begin - chance.randint(40, 60) * day
        comes = self._begin + chance.randint(3600, 40 * 3600) * SECOND
        return [
            (self._begin, order - LIFE_MAX - 1, "declare", (item_id, adapter, 20.0)),
            (self._begin, order, "lose", (adapter, (), gap)),
            (comes, order, "sample", (item_id, ((at, self._value(self._types[item_id]), 0),))),
        ]

    def _row(self, item_id: int, now: int) -> tuple[int, Value, int]:
        chance = self._chance
        at = now - chance.choice((0, 0, 0, 1, SECOND, 30 * SECOND, 30 * SECOND, 59 * SECOND))
        how = chance.random()
        if how < 0.08:
            at -= chance.choice((600, 3 * 3600, 26 * 3600)) * SECOND
        elif how < 0.12:
            at += chance.choice((1, 5, 90)) * SECOND
        elif how < 0.20:
            at -= at % (60 * SECOND)
        elif how < 0.23:
            at -= at % DAY_NS
        return at, self._value(self._types[item_id]), chance.choice(QUALITIES)

    def _value(self, value_type: ValueType) -> Value:
        chance = self._chance
        match value_type:
            case ValueType.FLOAT64:
                return chance.choice((math.nan, math.inf)) if chance.random() < 0.05 else chance.uniform(-50.0, 50.0)
            case ValueType.INT64:
                return chance.choice(
                    (chance.randint(-99, 99), 2**53 + chance.randint(0, 9), -(2**62) - chance.randint(0, 9))
                )
            case ValueType.BOOL:
                return chance.random() < 0.5
            case ValueType.STRING:
                return chance.choice(("auto", ""))

    def _known_as(self, item_id: int, adapter: str, stale_s: float | None) -> KnownItem:
        alarm = None if stale_s is None else AlarmSettings(stale_s=stale_s)
        item = DataItem(name=f"i_{item_id}", value_type=self._types[item_id], adapter=adapter, alarm=alarm)
        return KnownItem(item_id=ItemId(item_id), node="root", item=item)

    def _declare(self, at: int, item_id: int, adapter: str, stale_s: float | None) -> None:
        known = self._known_as(item_id, adapter, stale_s)
        record = ItemDeclared(item_id=known.item_id, node=known.node, item=known.item)
        made = self.log.records(Stream.STATE, [record], at)
        self._declared[known.item_id].append((made.header.first_sequence, at, known))

    def _sample(self, at: int, item_id: int, rows: Sequence[tuple[int, Value, int]]) -> None:
        made = self.log.samples([(item_id, *row) for row in rows], at, self._types[item_id])
        for sequence, (source_ns, value, quality) in enumerate(rows, made.header.first_sequence):
            number = None if isinstance(value, str) else value
            self._rows[item_id].append(Told(source_ns, sequence, number, quality))

    def _lose(self, at: int, source: str, names: tuple[int, ...], from_ns: int) -> None:
        gap = GapFound(source=source, reason="device_lost", from_ns=from_ns, to_ns=at, item_ids=names)
        made = self.log.records(Stream.SAMPLES, [gap], at)
        for item_id in names or self.ids:
            mine = source == "core" or (
                self._declared[item_id] and self._declared[item_id][-1][2].item.adapter == source
            )
            if names or mine:
                self._gaps[item_id].append((made.header.first_sequence, from_ns))

    def _restart(self, at: int) -> None:
        """An epoch begins, and a part of the adapters says what it missed."""
        self.log.epoch += 1
        self.log.records(Stream.CONTROL, [EpochGranted(epoch=self.log.epoch, branch_id=1, node="root", reason="")], at)
        for item_id in self.ids:
            if self._declared[item_id] and self._chance.random() < 0.3:
                self._lose(at, self._declared[item_id][-1][2].item.adapter, (), at - 5 * SECOND)

    def _work(self) -> None:
        """Take what is new; perhaps seal, merge, and have the log go another way."""
        chance = self._chance
        fill(self.hot, self.log)
        if chance.random() < 0.7:
            self.sealed()
        if chance.random() < 0.5:
            merge_once(self.store, complete_to_ns=self.known_to + chance.choice((0, DAY_NS)))
        if chance.random() < 0.3:
            self._fork()

    def sealed(self) -> None:
        content = self.hot.content()
        self.store.seal(content, LOG_ID.hex(), self.known_to)
        self.hot.drop(content)

    def _fork(self) -> None:
        """The log loses its last records, no declaration among them, and goes on in a later epoch."""
        frames = self.log.frames[-self._chance.randint(1, 9) - 1 :]
        declared = {sequence for versions in self._declared.values() for sequence, _, _ in versions}
        left = frames[0].header.last_sequence
        if len(frames) < 2 or any(sequence > left for sequence in declared):
            return
        del self.log.frames[self.log.frames.index(frames[1]) :]
        self.log.end, self.log.epoch = left, self.log.epoch + 1
        for item_id in self.ids:
            self._rows[item_id] = [row for row in self._rows[item_id] if row.sequence <= left]
            self._gaps[item_id] = [gap for gap in self._gaps[item_id] if gap[0] <= left]
        self.hot.fork(Position(frames[0].header.epoch, left))
        self.sealed()  # As the actor does at once.

    def end(self) -> None:
        """Say up to when everything is known, and take it."""
        self.known_to += self._chance.choice((1, SECOND, 3600 * SECOND))
        self.log.records(Stream.CONTROL, [Marked()], self.known_to)
        fill(self.hot, self.log)

    def copied(self, data: Path) -> None:
        """Go on with another history, which has the newer half of the log and gets the older files from this one."""
        self.sealed()
        begins_at = self.log.frames[len(self.log.frames) // 2].header.first_sequence
        target, _ = HistoryStore.open(data, "root")
        hot = hot_of(target)
        newer = [one for one in self.log.frames if one.header.first_sequence >= begins_at]
        hot.lost(begins_at - 1, newer[0].header)
        before = {
            one: [known for sequence, _, known in self._declared[one] if sequence < begins_at] for one in self.ids
        }
        hot.declare([versions[-1] for versions in before.values() if versions])
        for one in newer:
            hot.take(one.header, one.body)
        target.seal(hot.content(), LOG_ID.hex(), self.known_to)
        copy = Copy(self.store, target)
        assert copy.run(within_ns=10**18), copy.refused
        assert not target.manifest.holes
        self.store, self.hot, self._knows_from = target, hot_of(target), begins_at

    def life(self, item_id: int) -> Life:
        """What is on record of an item, as this history knows it."""
        versions, knows_from = self._declared[item_id], self._knows_from or 0
        older = [known for sequence, _, known in versions if sequence < knows_from]
        stale = [(at, _stale_ns(known)) for sequence, at, known in versions if sequence >= knows_from]
        return Life(
            rows=self._rows[item_id],
            gaps=[begin for _, begin in self._gaps[item_id]],
            stale=[*((-LATEST, _stale_ns(known)) for known in older[-1:]), *stale],
        )

    def reader(self) -> StoredHistory:
        """The files and the hot tail."""
        content = self.hot.content()
        newest = HotRows(
            samples=samples_table(content.chunks),
            gaps=content.all_gaps,
            items=content.items,
            known_to_ns=content.complete_to_ns,
        )
        manifest: Manifest = self.store.manifest
        return StoredHistory(self.store.root, manifest, newest.above(manifest.position))


def _stale_ns(known: KnownItem) -> int | None:
    alarm = known.item.alarm
    return None if alarm is None or alarm.stale_s is None else int(alarm.stale_s * SECOND)
