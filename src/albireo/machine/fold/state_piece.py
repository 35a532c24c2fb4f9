"""State piece: what changed of a node since a position, cut so that no message and no turn is long.

    cases, by key --> items and values by row --> the rows of each other table, by key

A cursor says how far the pieces of one delta have gone; nothing is kept of the state as it was when the delta began.
What changes behind the cursor has changed after the position that the delta leads to, so it is in the next delta,
however long the way of this one is. A value comes with the declaration of its item or behind it.

Spec: design/log-and-feed.md, Feed, mode `state`; ADR-0200.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec import samples
from albireo.codec.delta import StateCursor, TablePart
from albireo.codec.message import FeedState
from albireo.machine.fold.items.dim import Dim, Rows
from albireo.machine.fold.items.live import VACANT
from albireo.machine.table.told import AnyTable, cut_table
from albireo.model.position import Position
from albireo.model.value import ValueType

PIECE_BYTES: Final = 32 << 10
"""Most of one piece, but for one entry that is larger alone: some hundred items, which a parent takes within a turn."""
ROW_BYTES: Final = 32
"""One value without its text; no row counts less."""
ID_BYTES: Final = 5
"""Most of the id of an item that has no value yet."""
WHOLE: Final = -1
"""Stands for the sequence since which everything is a change."""

Raw = bytes | memoryview


START: Final = StateCursor()
"""Stages of a cursor: the first table, the rows of items, then the other tables in their order."""


class StateAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The next piece of a delta, as the state feed asks for it."""

    since: int
    """Sequence after which changes are wanted; WHOLE: the whole state."""
    epoch: int
    position: Position
    """Position to which the delta leads."""
    previous: Position
    """Position that the viewer has."""
    after: StateCursor = START
    number: int = 0
    """Number of the piece in its delta."""
    bytes_max: int = PIECE_BYTES


class StatePiece(msgspec.Struct, frozen=True, eq=False):
    """One piece."""

    message: FeedState
    raw: list[Raw]
    since: int
    """Sequence after which the delta has the changes: as asked, or WHOLE."""
    after: StateCursor | None
    """Where the next piece begins; None: this is the last one."""


class StateSource(Protocol):
    """Source of the state: the folds in CORE, the mirror of a node below, a plain table in tests."""

    def state_piece(self, asked: StateAsked) -> StatePiece | None:
        """The next piece of a delta; None: what is left of it can't be told any more, so it has to begin anew, whole.

        The first piece of a delta is never None.
        """
        ...


class Changed(msgspec.Struct, frozen=True, eq=False):
    """Changes that a source knows of, beside those of its rows."""

    since: int
    dim: Dim
    tables: Sequence[AnyTable]
    stale_since_ns: int | None = None
    """As in `FeedState`."""


def cut(asked: StateAsked, changed: Changed) -> StatePiece:
    """The next piece of these changes."""
    room, rows, after = asked.bytes_max, _PieceRows(changed.dim, changed.since), None
    tables: dict[str, TablePart] = {}
    for stage, table in enumerate((*changed.tables[:1], None, *changed.tables[1:])):
        if after is not None or stage < asked.after.stage:
            continue
        behind = asked.after.at if stage == asked.after.stage else None
        if table is None:
            room, last = rows.take(behind if isinstance(behind, int) else -1, room)
            after = None if last is None else StateCursor(stage, last)
            continue
        found = cut_table(table, changed.since, behind, room, is_first=room == asked.bytes_max)
        room = found.room
        if found.part is not None:
            tables[table.shape.name] = found.part
        after = None if found.is_all else StateCursor(stage, found.last)
    batches = changed.dim.batches(rows.changed)
    state = FeedState(
        epoch=asked.epoch,
        position=asked.position,
        previous=asked.previous,
        is_snapshot=changed.since < 0,
        items=tuple(changed.dim.item_at(place) for place in rows.declared.tolist()),
        tables=tables,
        value_parts=tuple((int(one.value_type), len(one)) for one in batches),
        without_value=ids_without_value(changed.dim, rows.changed),
        piece=asked.number,
        behind=asked.after,
        after=after,
        stale_since_ns=changed.stale_since_ns,
    )
    return StatePiece(state, [samples.encode(one) for one in batches], changed.since, after)


def ids_without_value(dim: Dim, rows: Rows) -> tuple[int, ...]:
    """Ids of the items in these rows that had no usable value yet."""
    return tuple(dim.item_at(row).item_id for row in rows[~dim.live.has_value[rows]].tolist())


class _PieceRows:
    """Rows of a piece."""

    def __init__(self, dim: Dim, since: int) -> None:
        self._dim = dim
        self._since = since
        self.declared: Rows = np.zeros(0, np.intp)
        """Rows whose declaration is part of the piece."""
        self.changed: Rows = self.declared
        """Rows whose value is part of it."""

    def take(self, after: int, room: int) -> tuple[int, int | None]:
        """Take the rows behind `after` that find room.

        Returns:
            The room that is left, and the last row; None: all rows went.
        """
        live, begin = self._dim.live, after + 1
        is_there = live.value_type[begin:] != VACANT
        is_changed = (live.changed_at[begin:] > self._since) & is_there
        is_declared = (live.declared_at[begin:] > self._since) & is_there
        rows = np.flatnonzero(is_changed | is_declared)
        if not len(rows):
            return room, None
        fit = max(1, room // ROW_BYTES)
        is_all, rows = len(rows) <= fit, rows[:fit]
        is_declared, is_changed = is_declared[rows], is_changed[rows]
        rows += begin
        ends = np.cumsum(self._sizes(rows, is_changed, is_declared, room), dtype=np.int64)
        count = max(1, int(np.searchsorted(ends, room, side="right")))
        self.declared, self.changed = rows[:count][is_declared[:count]], rows[:count][is_changed[:count]]
        return max(0, room - int(ends[count - 1])), None if is_all and count == len(rows) else int(rows[count - 1])

    def _sizes(
        self, rows: Rows, is_changed: NDArray[np.bool_], is_declared: NDArray[np.bool_], room: int
    ) -> NDArray[np.int64]:
        """Bytes of each row, as far as they find room; rows behind that may be told too small."""
        dim = self._dim
        sizes = np.full(len(rows), ROW_BYTES)
        sizes[is_changed & ~dim.live.has_value[rows]] += ID_BYTES
        is_text = is_changed & (dim.live.value_type[rows] == ValueType.STRING)
        for place in np.flatnonzero(is_text).tolist():
            sizes[place] += len(str(dim.value_at(int(rows[place])) or "").encode())
        used = 0
        for place in np.flatnonzero(is_declared).tolist():
            size = len(_encoder.encode(dim.item_at(int(rows[place]))))
            sizes[place] += size
            used += size
            if used > room:
                break
        return sizes


_encoder: Final = msgspec.msgpack.Encoder()
