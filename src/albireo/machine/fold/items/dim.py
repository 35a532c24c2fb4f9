"""DIM: the current value of every item, folded from the committed samples.

Not done here: history (the historian), alarms (`conditions`).

The idea: one dense row per item; the row of a forgotten item is the next new one's. A batch becomes a handful of
whole-column assignments; of rows with equal ids the newest wins. The fold hands the rows that it took on as `Fresh`, so
that alarms judge exactly the new live values.

Late data never becomes the live value
    A device sample older, by source time, than the newest one of its item is history only; it is counted.
    - A sample whose source time is its node time was stamped by nobody but the node. It takes part in no comparison:
      it is live as it comes, and so is the one after it.
    - A sample of the adapter about a device out of reach (`BadNoCommunication` and its like) has the node's time too:
      it is live at once, and the device's next sample is compared with its last one.
    - A device's clock may be set back, and the item must not be blind until the clock has caught up. A replay of old
      data runs faster than time, a clock does not: when for `CLOCK_BACK_NS` of log time an item gave only late samples,
      and their source time went forward no more than `REPLAY_FACTOR` times as fast, the clock went back and the sample
      is live.

Under a bad quality the value column keeps the last usable value: a bad sample's value is never meant.

Spec: design/log-and-feed.md, The loop of CORE; reference/scada.md, 0.7 (late data overwriting the latest value).
"""

import heapq
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.slices import list_slices, read_slices, sliced, unsliced
from albireo.machine.fold.columns import NEVER, OLDEST, Packed, time_between
from albireo.machine.fold.items.live import VACANT, DimCounters, EarlierRows, Fresh, Live, has_node_time
from albireo.model import quality as q
from albireo.model.instant import SECOND, LogTime
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import ItemId, Value, ValueType

ITEMS_MAX: Final = 1_000_000
"""Most items of a node; a declaration beyond is counted and ignored, and CORE refuses it before."""
ITEM_ID_MAX: Final = 4 * ITEMS_MAX
"""Highest item id. Ids are allotted one after another; this bounds the table from id to row whatever a record says."""
CLOCK_BACK_NS: Final = 5 * SECOND
"""Log time of late samples only after which a clock counts as set back. ASSUMED: long enough to tell a replay from it.
A field test with a PLC whose clock is set back would settle it."""
REPLAY_FACTOR: Final = 1.5
Rows = NDArray[np.intp]

_NOBODY: Final = KnownItem(item_id=ItemId(0), node="", item=DataItem(name="", value_type=ValueType.FLOAT64))
"""Stands in the row of a forgotten item."""
_data_items = msgspec.msgpack.Decoder(DataItem)


class _DimHead(msgspec.Struct, frozen=True, array_like=True):
    """First slice of a snapshot; after it come the items, then the texts."""

    live: Packed
    counters: DimCounters
    left_out: int
    """Highest id that is not given any more."""
    forgotten_at: int
    """Sequence of the record that last told of forgotten items; 0: none did."""


class Dim:
    """The fold. Everything is by dense item index; `index_of` leads there."""

    def __init__(self) -> None:
        self.live = Live()
        self.counters = DimCounters()
        self._items: list[KnownItem] = []
        self.texts: list[str] = []
        """Last usable value of each row that holds a text; else empty."""
        self._by_id: dict[int, int] = {}
        self._by_name: dict[str, int] = {}
        self.row_of = np.full(1, -1, np.int64)
        """Dense index by item id, -1: unknown."""
        self._scratch = np.zeros(0, np.intp)
        self._has_late_streaks = False
        self._left_out = 0
        self.forgotten_at = 0
        """Both as in `_DimHead`."""
        self._vacant: list[int] = []
        """Heap of the rows of forgotten items."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[KnownItem]:
        return (one for one in self._items if one is not _NOBODY)

    @property
    def highest_item_id(self) -> int:
        """Highest id that is, or may have been, in use; the next new item gets this plus one."""
        return max(self._left_out, max(self._by_id, default=0))

    def leave_ids_out(self) -> None:
        """Give no id any more that an item may have which is not known here: declarations before the log are lost.

        A node has at most ITEMS_MAX items, and their ids begin at 1, or behind the last loss of this kind.
        """
        self._left_out = min(ITEMS_MAX * (1 + self.highest_item_id // ITEMS_MAX), ITEM_ID_MAX - ITEMS_MAX)

    def index_of(self, item_id: int) -> int | None:
        return self._by_id.get(item_id)

    def index_named(self, full_name: str) -> int | None:
        return self._by_name.get(full_name)

    def item_at(self, index: int) -> KnownItem:
        return self._items[index]

    def by_id(self, item_id: int) -> KnownItem | None:
        index = self._by_id.get(item_id)
        return None if index is None else self._items[index]

    def by_name(self, full_name: str) -> KnownItem | None:
        index = self._by_name.get(full_name)
        return None if index is None else self._items[index]

    def fold_item(self, declared: KnownItem, sequence: int) -> None:
        """Fold the declaration of an item, new or changed. Another value type makes its value unknown again."""
        # CORE folds its own records without reading them back; by way of its bytes an item is the same either way.
        node, item = sys.intern(declared.node), _data_items.decode(msgspec.msgpack.encode(declared.item))
        self.enter(KnownItem(item_id=declared.item_id, node=node, item=item, is_retired=declared.is_retired), sequence)

    def enter(self, known: KnownItem, sequence: int) -> None:
        """As `fold_item`, of a declaration that came as bytes, which is kept as it is."""
        index = self._by_id.get(known.item_id)
        if index is None:
            if not 0 < known.item_id <= ITEM_ID_MAX or len(self) >= ITEMS_MAX:
                self.counters.refused_items += 1
                return
            index = self._add(known)
        else:
            self._replace(index, known, sequence)
        self._by_name[known.full_name] = index
        self.live.value_type[index] = known.item.value_type
        self.live.declared_at[index] = sequence

    def _add(self, known: KnownItem) -> int:
        index = heapq.heappop(self._vacant) if self._vacant else self.live.add()
        if index == len(self._items):
            self._items.append(known)
            self.texts.append("")
        self._items[index] = known
        self._enter(known.item_id, index)
        return index

    def forget(self, item_ids: Sequence[int], sequence: int) -> list[int]:
        """Forget items, by the record at `sequence`; returns the indexes that are free from here on."""
        found = []
        for item_id in item_ids:
            if item_id <= ITEM_ID_MAX:
                self._left_out = max(self._left_out, item_id)
            index = self._by_id.pop(item_id, None)
            if index is not None:
                self._vacate(index)
                found.append(index)
        self.forgotten_at = sequence
        return found

    def _vacate(self, index: int) -> None:
        before = self._items[index]
        if self._by_name.get(before.full_name) == index:
            del self._by_name[before.full_name]
        self.row_of[before.item_id] = -1
        self._items[index], self.texts[index] = _NOBODY, ""
        self.live.clear(index)
        heapq.heappush(self._vacant, index)

    def _enter(self, item_id: int, index: int) -> None:
        self._by_id[item_id] = index
        if item_id >= len(self.row_of):
            table = np.full(max(2 * len(self.row_of), item_id + 1), -1, np.int64)
            table[: len(self.row_of)] = self.row_of
            self.row_of = table
        self.row_of[item_id] = index
        if index >= len(self._scratch):
            self._scratch = np.zeros(max(2 * len(self._scratch), index + 1), np.intp)

    def _replace(self, index: int, known: KnownItem, sequence: int) -> None:
        before = self._items[index]
        if self._by_name.get(before.full_name) == index:
            del self._by_name[before.full_name]
        self._items[index] = known
        if before.item.value_type != known.item.value_type:
            self.live.clear(index)
            self.texts[index], self.live.changed_at[index] = "", sequence  # Told, though its type may be back by then.

    def go_on_from(self, source: int, target: int, sequence: int) -> None:
        """Make the live sample of one index that of another one of its type, by the record at `sequence`."""
        if self.live.value_type[source] == self.live.value_type[target]:
            self.live.go_on_from(source, target, sequence)
            self.texts[target] = self.texts[source]

    def fold_samples(self, batch: SampleBatch, last_sequence: int, log_time: LogTime) -> Fresh:
        """Take one committed batch.

        Args:
            batch: n rows; unknown ids and rows of another type than their item's are counted and left out.
            last_sequence: sequence of the last row; row k has `last_sequence - n + 1 + k`.
        Returns:
            The rows that became live, each item once.
        Cost: O(n), whole-array operations only (strings: one Python step per item that changed).
        """
        known, index_known = self._known_rows(batch)
        rows, index = self._newest_rows(batch, known, index_known)
        is_single = len(index) == len(index_known)
        before_ns = None if is_single else self.live.device_ns.take(index_known)
        rows, index = self._punctual_rows(batch, rows, index, log_time)
        sequence = last_sequence - len(batch) + 1 + (np.arange(len(index)) if rows is None else rows)
        fresh = self.store(batch if rows is None else batch.take(rows), index, sequence)
        if before_ns is None or rows is None:
            return fresh
        places = np.arange(len(batch)) if known is None else known
        return msgspec.structs.replace(fresh, earlier=EarlierRows(batch, places, index_known, before_ns, rows))

    def _known_rows(self, batch: SampleBatch) -> tuple[Rows | None, Rows]:
        """Rows of known items of the right type (None: all of them), and the dense index of each."""
        ids = batch.item_id
        if len(ids) and int(ids.max()) < len(self.row_of):
            index = self.row_of.take(ids)
            if int(index.min()) >= 0 and (self.live.value_type.take(index) == batch.value_type).all():
                return None, index
        index = self.row_of.take(np.minimum(ids, len(self.row_of) - 1))
        index[ids >= len(self.row_of)] = -1
        rows = np.flatnonzero(index >= 0)
        self.counters.unknown += len(ids) - len(rows)
        index = index[rows]
        fits = self.live.value_type[index] == batch.value_type
        self.counters.mistyped += len(rows) - int(fits.sum())
        return rows[fits], index[fits]

    def _newest_rows(self, batch: SampleBatch, rows: Rows | None, index: Rows) -> tuple[Rows | None, Rows]:
        """The newest row of each id by source time; of equal times the last."""
        last = self.is_last(index)
        if last.all():
            return rows, index
        source_ns = batch.source_ns if rows is None else batch.source_ns[rows]
        if (source_ns[1:] >= source_ns[:-1]).all():
            kept = np.flatnonzero(last)
        else:
            from_node = has_node_time(batch)
            kept = self._newest_of_unsorted(index, source_ns, from_node if rows is None else from_node[rows], last)
        return (kept if rows is None else rows[kept]), index[kept]

    def is_last(self, index: Rows) -> NDArray[np.bool_]:
        """Mark the last of the rows of each item."""
        places = np.arange(len(index))
        self._scratch[index] = places
        marked: NDArray[np.bool_] = self._scratch.take(index) == places
        return marked

    def _newest_of_unsorted(
        self, index: Rows, source_ns: NDArray[np.int64], is_from_node: NDArray[np.bool_], last: NDArray[np.bool_]
    ) -> Rows:
        """`_newest_rows` for source times that go backwards. A last row that the node stamped is the newest."""
        order = np.argsort(source_ns, kind="stable")
        order = order[~is_from_node[order]]
        self._scratch[index[order]] = order
        final = np.flatnonzero(last & is_from_node)
        self._scratch[index[final]] = final
        newest: Rows = self._scratch[index[last]]
        newest.sort()
        return newest

    def _punctual_rows(
        self, batch: SampleBatch, rows: Rows | None, index: Rows, log_time: LogTime
    ) -> tuple[Rows | None, Rows]:
        """Rows that are not late, by the rule of the module."""
        source_ns = batch.source_ns if rows is None else batch.source_ns[rows]
        newest = self.live.device_ns.take(index)
        is_late = (source_ns < newest) & (newest != OLDEST)
        if not self._has_late_streaks and not is_late.any():
            return rows, index
        from_node = has_node_time(batch)
        is_late &= ~(from_node if rows is None else from_node[rows]) & ~self.live.has_node_time(index)
        self.live.late_since[index[~is_late]] = NEVER
        late = np.flatnonzero(is_late)
        is_late[late] = ~self._is_clock_set_back(index[late], source_ns[late], log_time)
        self._has_late_streaks = bool((self.live.late_since != NEVER).any())
        self.counters.late += int(is_late.sum())
        self.live.late_count[index[is_late]] += 1
        kept = np.flatnonzero(~is_late)
        return (kept if rows is None else rows[kept]), index[kept]

    def _is_clock_set_back(self, index: Rows, source_ns: NDArray[np.int64], log_time: LogTime) -> NDArray[np.bool_]:
        """Mark late samples that show a clock set back; the streaks of the others go on or begin."""
        live = self.live
        begins = (live.late_since[index] == NEVER) | (source_ns < live.late_from[index])
        live.late_since[index[begins]] = log_time
        live.late_from[index[begins]] = source_ns[begins]
        elapsed = log_time - live.late_since[index]
        advanced = time_between(source_ns, live.late_from[index])
        is_back: NDArray[np.bool_] = (elapsed >= CLOCK_BACK_NS) & (advanced <= REPLAY_FACTOR * elapsed)
        live.late_since[index[is_back]] = NEVER
        return is_back

    def store(self, batch: SampleBatch, index: Rows, sequence: NDArray[np.int64]) -> Fresh:
        """Make these rows the live ones of their items, one of each; `sequence` is that of each row."""
        live, quality, value = self.live, batch.quality, batch.value
        live.quality[index] = quality
        live.source_ns[index] = batch.source_ns
        live.node_ns[index] = batch.node_ns
        live.changed_at[index] = sequence
        all_usable = not len(index) or int(quality.max()) < q.BAD
        is_usable = np.ones(len(index), np.bool_) if all_usable else quality < q.BAD
        if all_usable:
            live.device_ns[index] = batch.source_ns
        else:
            from_device = ~q.is_from_node(quality)
            live.device_ns[index[from_device]] = batch.source_ns[from_device]
        number = self._store_values(value, index, is_usable, all_usable)
        return Fresh(batch.value_type, index, number, is_usable, batch.source_ns, all_usable)

    def _store_values(
        self, value: Column, index: Rows, is_usable: NDArray[np.bool_], all_usable: bool
    ) -> NDArray[np.float64]:
        live = self.live
        if isinstance(value, Strings):
            kept = value if all_usable else value.take(np.flatnonzero(is_usable))
            for place, text in zip(index[is_usable].tolist(), kept.to_list(), strict=True):
                self.texts[place] = text
            live.has_value[index[is_usable]] = True
            return np.zeros(len(index))
        number = value.astype(np.float64, copy=False)
        if all_usable:
            live.number[index] = number
            live.has_value[index] = True
        else:
            live.number[index[is_usable]] = number[is_usable]
            live.has_value[index[is_usable]] = True
        if value.dtype != np.float64:
            live.integer[index[is_usable]] = value[is_usable]
        return number

    def value_at(self, index: int) -> Value | None:
        """Last usable value, None before the first."""
        if not self.live.has_value[index]:
            return None
        match ValueType(int(self.live.value_type[index])):
            case ValueType.FLOAT64:
                return float(self.live.number[index])
            case ValueType.INT64:
                return int(self.live.integer[index])
            case ValueType.BOOL:
                return bool(self.live.integer[index])
            case ValueType.STRING:
                return self.texts[index]

    def reading_at(self, index: int) -> Reading:
        live = self.live
        times = int(live.source_ns[index]), int(live.node_ns[index])
        return self._items[index].reading(self.value_at(index), int(live.quality[index]), *times)

    def changed_since(self, sequence: int) -> Rows:
        """Indexes of items whose live sample came after `sequence`."""
        return np.flatnonzero((self.live.changed_at > sequence) & (self.live.value_type != VACANT))

    def declared_since(self, sequence: int) -> list[KnownItem]:
        """Items declared, or declared anew, after `sequence`."""
        places = np.flatnonzero((self.live.declared_at > sequence) & (self.live.value_type != VACANT))
        return [self._items[place] for place in places.tolist()]

    def batches(self, index: Rows) -> list[SampleBatch]:
        """The live samples of `index` as columns, one batch per value type that occurs.

        An item without a usable value yet carries 0 or an empty string under its bad quality.
        """
        types = self.live.value_type[index]
        found = ((one, index[types == one]) for one in ValueType)
        return [self._batch(value_type, places) for value_type, places in found if len(places)]

    def _batch(self, value_type: ValueType, places: Rows) -> SampleBatch:
        live = self.live
        value: Column
        match value_type:
            case ValueType.FLOAT64:
                value = live.number[places]
            case ValueType.INT64:
                value = live.integer[places]
            case ValueType.BOOL:
                value = live.integer[places].astype(np.uint8)
            case ValueType.STRING:
                value = Strings.of([self.texts[place] for place in places.tolist()])
        return SampleBatch(
            value_type=value_type,
            item_id=np.array([self._items[place].item_id for place in places.tolist()], np.uint32),
            source_ns=live.source_ns[places],
            node_ns=live.node_ns[places],
            value=value,
            quality=live.quality[places],
        )

    @property
    def bad_count(self) -> int:
        is_bad = q.severity(self.live.quality) == q.BAD_CLASS
        return int((is_bad & (self.live.value_type != VACANT)).sum())

    def snapshot_slices(self) -> Iterator[bytes]:
        """The fold as it stands now, encoded slice by slice as the iterator is drawn on."""
        counters = msgspec.structs.replace(self.counters)
        head = _DimHead(self.live.pack(), counters, self._left_out, self.forgotten_at)
        return _slices(head, list(self._items), list(self.texts))

    def snapshot(self) -> bytes:
        """All slices; equal folds give equal bytes."""
        return b"".join(self.snapshot_slices())

    @classmethod
    def restore(cls, data: bytes | memoryview) -> "Dim":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: not a snapshot of this fold.
        """
        self = cls()
        slices = read_slices(data)
        head = unsliced(next(slices, b""), _DimHead)
        while len(self._items) < head.live.count:
            self._items += unsliced(next(slices, b""), list[KnownItem])
        for one in slices:
            self.texts += unsliced(one, list[str])
        if not len(self._items) == len(self.texts) == head.live.count:
            raise DecodeError(0, f"DIM snapshot: {len(self._items)} items, {head.live.count} rows")
        self.live.unpack(head.live)
        self.counters = head.counters
        self._left_out, self.forgotten_at = head.left_out, head.forgotten_at
        for index, known in enumerate(self._items):
            if self.live.value_type[index] == VACANT:
                self._items[index] = _NOBODY
                self._vacant.append(index)
                continue
            if not 0 < known.item_id <= ITEM_ID_MAX or known.item_id in self._by_id:
                raise DecodeError(0, f"DIM snapshot: item id {known.item_id} out of range or twice")
            self._enter(known.item_id, index)
            self._by_name[known.full_name] = index
        self._has_late_streaks = bool((self.live.late_since != NEVER).any())
        return self


def _slices(head: _DimHead, items: list[KnownItem], texts: list[str]) -> Iterator[bytes]:
    yield sliced(head)
    yield from list_slices(items)
    yield from list_slices(texts)


__all__ = ["ITEMS_MAX", "ITEM_ID_MAX", "Dim", "DimCounters", "Fresh", "ItemId", "Live"]
