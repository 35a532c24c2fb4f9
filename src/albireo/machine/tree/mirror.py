"""Mirror: the latest state of one other node, as its state feed tells it; what is shown of that node here.

A cache, and no record: it begins with the items that are known from the log and with what the last snapshot kept, and
is whole once the first state came. Positions are the mirror's own: they count the changes that it took in this run of
its process.

    known by name --state--> live --the node is not heard--> stale: values stay, and none looks live --state--> live

While the node is not heard its values are marked, and what their qualities were is kept: if only changes follow, the
values that did not change have them again. So are those that come meanwhile, with the pieces of a state that is not
whole yet, or that was so long on its way that it tells of another time.

Spec: design/tree.md, Links.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec import samples
from albireo.codec.message import FeedState
from albireo.codec.slices import SLICE_ROWS
from albireo.machine.feed.viewing import StateChange, decode_state
from albireo.machine.fold.declared import shapes
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.state_piece import (
    START,
    WHOLE,
    Changed,
    StateAsked,
    StatePiece,
    cut,
    ids_without_value,
)
from albireo.machine.table.shape import GONE_MAX, K, R, TableShape
from albireo.machine.table.table import Table
from albireo.machine.table.told import AnyTable, TableChange
from albireo.model import quality as q
from albireo.model.item import KnownItem
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

EPOCH: Final = 1
"""Epoch of a mirror's positions."""
HISTORY: Final = EpochHistory().granted(EpochEntry(EPOCH, 1, 0))
"""Epochs of a mirror's positions, as its followers are told them."""

DeclaredItems = Callable[[int], KnownItem | None]
"""Gives a declaration that is kept already, by id: one that is told again is not kept twice."""


class KeptState(msgspec.Struct, frozen=True):
    """Some of what a mirror shows, as it is kept in a snapshot."""

    node: str
    stale_since_ns: int
    """Wall time since which nothing is heard of the node, or that of the snapshot."""
    parts: tuple[tuple[ValueType, int, bytes], ...] = ()
    """Type, number and columns (codec/samples.py) of the values of each type."""
    without_value: tuple[int, ...] = ()
    """As in `FeedState`."""
    tables: dict[str, msgspec.Raw] = {}
    """Rows of tables, by name."""


class _Marked(msgspec.Struct, frozen=True, eq=False):
    """Values that were marked when nothing was heard of the node any more."""

    rows: NDArray[np.intp]
    quality: NDArray[np.uint32]
    """Quality of each before that."""
    change: NDArray[np.int64]

    def still(self, dim: Dim) -> "_Marked":
        """Those of them that did not change since."""
        is_so = dim.live.changed_at[self.rows] == self.change
        return _Marked(self.rows[is_so], self.quality[is_so], self.change[is_so])


_NONE: Final = _Marked(np.zeros(0, np.intp), np.zeros(0, np.uint32), np.zeros(0, np.int64))


class _Mirrored:
    """Items, values and tables of the node."""

    def __init__(self) -> None:
        self.dim = Dim()
        self.tables: dict[str, AnyTable] = {
            name: Table(shape, GONE_MAX) for name, shape in shapes().items() if shape.is_shown_above
        }
        self.refused = 0
        self.trouble = ""
        """Last reason why rows are not shown; empty: all are."""
        self._marked = _NONE

    def mark(self, change: int) -> None:
        """Let no value look live."""
        live = self.dim.live
        rows, before = np.flatnonzero(_looks_live(live.quality[: live.count])), self._marked.still(self.dim)
        self._marked = _Marked(
            np.append(before.rows, rows),
            np.append(before.quality, live.quality[rows]),
            np.append(before.change, np.full(len(rows), change)),
        )
        live.quality[rows] = q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
        live.changed_at[rows] = change

    def unmark(self, change: int) -> None:
        """Give the values that did not change since they were marked their qualities back."""
        live, still = self.dim.live, self._marked.still(self.dim)
        live.quality[still.rows] = still.quality
        live.changed_at[still.rows] = change
        self._marked = _NONE

    def take(self, node: str, told: StateChange, declared: DeclaredItems, change: int) -> int:
        """Take what a state brings; returns the last change of which something was forgotten."""
        state = told.state
        for item in state.items:
            if item.node == node:
                before = declared(item.item_id)
                self.dim.enter(before if before == item else _of_node(node, item), change)
            else:
                self.refused += 1
        for batch in told.batches:
            self._store(batch, state.without_value, change)
        for fault in told.tables.faults:
            self.refused += 1
            self.trouble = fault
        for name, found in told.tables.found.items():
            self._take(name, found, change)
        return max(one.forgotten_at for one in self.tables.values())

    def take_kept(self, kept: KeptState, batches: Iterable[SampleBatch], change: int) -> None:
        """Take what a process before kept, with no value that looks live."""
        for batch in batches:
            quality = np.where(_looks_live(batch.quality), q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, batch.quality)
            marked = msgspec.structs.replace(batch, quality=quality.astype(np.uint32))
            self._store(marked, kept.without_value, change)
        for name, rows in kept.tables.items():
            if name in self.tables:
                self._take(name, TableChange(self.tables[name].shape.decode(rows)), change)

    def _take(self, name: str, told: TableChange[Any, Any], change: int) -> None:
        if (table := self.tables.get(name)) is not None and (left_out := table.take(told.rows, told.gone, change)):
            self.refused += left_out
            self.trouble = f"more than {table.shape.rows_max} {name}: the others are not shown"

    def _store(self, batch: SampleBatch, without_value: Sequence[int], change: int) -> None:
        """Store the rows of known items, the last of each, with the last usable values."""
        dim = self.dim
        index = dim.row_of.take(np.minimum(batch.item_id, len(dim.row_of) - 1))
        fits = (batch.item_id < len(dim.row_of)) & (index >= 0)
        fits &= dim.live.value_type.take(index) == batch.value_type
        rows = np.flatnonzero(fits)
        index = index[rows]
        rows = rows[dim.is_last(index)]
        index = dim.row_of.take(batch.item_id[rows])
        batch = batch.take(rows)
        # Columns take no value under a bad quality, for that of a bad sample is never meant; that of a state is.
        has_value = (batch.quality < q.BAD) | ~np.isin(batch.item_id, np.array(without_value, np.uint32))
        taken = msgspec.structs.replace(batch, quality=np.where(has_value, q.GOOD, q.BAD).astype(np.uint32))
        dim.store(taken, index, np.full(len(rows), change))
        dim.live.quality[index], dim.live.has_value[index] = batch.quality, has_value


def _of_node(node: str, item: KnownItem) -> KnownItem:
    """The declaration with the one text of its node's name that all of them have."""
    return KnownItem(item_id=item.item_id, node=node, item=item.item, is_retired=item.is_retired)


def _looks_live(quality: NDArray[np.uint32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (quality < q.BAD) & (quality != q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
    return found


class NodeMirror:
    """The machine; a source of state for viewers."""

    def __init__(self, node: str, items: Iterable[KnownItem] = (), run: bytes = b"") -> None:
        self.node = node
        self.run = run
        """Random number of the run of the process; a position of another run says nothing here."""
        self.stale_since_ns: int | None = 0
        """Wall time since which nothing was heard of the node, here or where its state comes from; 0: never in this
        run; None: the state is live."""
        self.refused = 0
        """Number of declarations of other nodes' items, and of rows out of bounds."""
        self.passed_over = 0
        """Most tables of one state that are not known here: they are passed over."""
        self._changes = 1
        self._whole_at = 1
        """Change since which what is told can be told as changes; a viewer that is behind it takes the whole state."""
        self._table = _Mirrored()
        self._coming: _Mirrored | None = None
        """State of which pieces have come and more are to come; shown when it is whole."""
        for one in items:
            self.dim.enter(one, 1)

    @property
    def dim(self) -> Dim:
        return self._table.dim

    def table(self, shape: TableShape[K, R]) -> Table[K, R]:
        """Rows of a table, as far as they are shown."""
        return cast(Table[K, R], self._table.tables[shape.name])

    @property
    def trouble(self) -> str:
        """Reason why some rows of a table are not shown; empty: all are."""
        return self._table.trouble

    @property
    def position(self) -> Position:
        return Position(EPOCH, self._changes)

    def take(
        self,
        state: FeedState,
        raw: Sequence[bytes | memoryview],
        declared: DeclaredItems = lambda _: None,
        late_since_ns: int | None = None,
    ) -> None:
        """Take one delta, or the whole state, or a piece.

        Args:
            declared: of this node, as its log tells.
            late_since_ns: wall time at which a delta began that was too long on its way to be live.
        Raises:
            DecodeError: the parts do not fit their description; nothing was taken.
        """
        told = decode_state(state, raw)
        self.passed_over = max(self.passed_over, told.tables.passed_over)
        self._changes += 1
        if state.piece == 0:
            self._coming = _Mirrored() if state.is_snapshot else None
        table = self._coming or self._table
        shown = self.dim.by_id
        forgotten_at = table.take(self.node, told, lambda one: declared(one) or shown(one), self._changes)
        self.refused, table.refused = self.refused + table.refused, 0
        if not state.goes_on:
            self.stale_since_ns = late_since_ns if state.stale_since_ns is None else state.stale_since_ns
        if table is self._table:
            self._whole_at = max(self._whole_at, forgotten_at)
        elif not state.goes_on:
            self._table, self._coming, self._whole_at = table, None, self._changes
        if self.stale_since_ns is not None:
            self._table.mark(self._changes)
        elif not state.goes_on:
            self._table.unmark(self._changes)

    def unheard(self, wall_ns: int) -> None:
        """Nothing is heard of the node any more: no value looks live from now on."""
        if self.stale_since_ns is None:
            self._changes += 1
            self.stale_since_ns = wall_ns
            self._table.mark(self._changes)

    def kept(self, wall_ns: int) -> Iterator[KeptState]:
        """Values, open cases and forces, for a process that begins later, a slice of them at a time; each as it is when
        it is drawn."""
        since = wall_ns if self.stale_since_ns is None else self.stale_since_ns
        for first in range(0, self.dim.live.count, SLICE_ROWS):
            changed_at = self.dim.live.changed_at[first : min(first + SLICE_ROWS, self.dim.live.count)]
            rows = first + np.flatnonzero(changed_at)
            parts = tuple((b.value_type, len(b), samples.encode(b)) for b in self.dim.batches(rows))
            if parts:
                yield KeptState(self.node, since, parts, without_value=ids_without_value(self.dim, rows))
        for table in [one for one in self._table.tables.values() if one.shape.is_kept_above]:
            kept = list(table)
            for first in range(0, len(kept), SLICE_ROWS):
                some = msgspec.msgpack.encode(kept[first : first + SLICE_ROWS])
                yield KeptState(self.node, since, tables={table.shape.name: msgspec.Raw(some)})

    def take_kept(self, kept: KeptState) -> None:
        """Take what a process before kept. No value looks live, until the node is heard and its state comes.

        Raises:
            DecodeError: the columns are malformed.
        """
        batches = [samples.decode(columns, value_type, count) for value_type, count, columns in kept.parts]
        self._changes += 1
        self.stale_since_ns = kept.stale_since_ns
        self._table.take_kept(kept, batches, self._changes)

    def state_piece(self, asked: StateAsked) -> StatePiece | None:
        """The next piece of a delta, for the state feed; see `StateSource`."""
        table, since = self._table, asked.since
        if asked.after != START and asked.position.sequence < self._whole_at:
            return None
        if since < self._whole_at and since != WHOLE:
            if asked.after != START:
                return None
            since = WHOLE
        return cut(asked, Changed(since, table.dim, list(table.tables.values()), self.stale_since_ns))
