"""Pieces of long answers, for programs that ask through CORE: rows, aggregates, events, gaps.

A piece is made from one manifest and one view of the hot tail, and nothing is kept until the next one: its cursor says
behind which row it begins. So any member of a pair goes on where the other one ended.

Memory of a piece: a row group of each file that overlaps in time, some 2 MB each; of aggregates at most SPAN_NS of
minutes of one item, or RAW_ROWS_READ_MAX raw rows; and the wanted part of the hot tail.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from albireo.codec.history import DAY_NS, EVENTS, SAMPLES, FileKind
from albireo.codec.item_kinds import metadata_of
from albireo.codec.questions.history import (
    PIECE_ROWS_MAX,
    AnyPieceQuestion,
    EventsQuestion,
    GapsQuestion,
    RowsQuestion,
)
from albireo.machine.history.aggregate import TIME_LIMIT_NS
from albireo.machine.history.declared import Row
from albireo.node.history import cursor
from albireo.node.history.errors import QueryRefused, TooManyRows, UnknownItem
from albireo.node.history.files import parquet
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotContent, HotRows
from albireo.node.history.files.joined import JoinedStores, NodeStore
from albireo.node.history.files.sweep import LOWEST, TAKES_MAX, Place, Streak, place_of, sweep
from albireo.node.history.hot_answer import arrow_stream
from albireo.node.history.per_interval import RAW, Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from albireo.node.history.rows import gaps_table, worded

PIECE_BYTES: Final = 1 << 20
"""Size of a piece from which rows are left to the next one: CORE hands it on, and its turns are to stay short."""
ITEMS_AT_ONCE: Final = 64
"""Most items that one piece looks at."""
SPANS_AT_ONCE: Final = 8
"""Most spans of aggregates that one piece computes, each of one item."""
SPAN_NS: Final = 31 * DAY_NS
"""Longest span that is aggregated at once, unless a single interval is longer."""
RAW_ROWS_READ_MAX: Final = 1_000_000
"""Most raw rows that one aggregate may read; a shorter span is taken then."""
OTHER_RANGE: Final = "the cursor belongs to another range, other items or another interval; leave it out to begin anew"
_SAMPLE_KEYS: Final = ("source_ns", "sequence", "epoch")
_EVENT_KEYS: Final = ("sequence", "epoch")
_BACK_KEYS: Final = tuple(f"-{one}" for one in _EVENT_KEYS)
_GAP_KEYS: Final = ("from_ns", "sequence", "epoch")


class AnswerPiece(msgspec.Struct, frozen=True, eq=False):
    """One piece of an answer."""

    table: pa.Table
    next: str
    """Cursor of the next piece; empty: this is the last one."""
    complete_to_ns: int
    """Node time up to which every record of the node was seen."""

    def encoded(self) -> tuple[bytes, Row]:
        """The raw part and the result of the answer."""
        result: Row = {"next": self.next, "complete_to_ns": self.complete_to_ns, "rows": len(self.table)}
        return arrow_stream(self.table), result


class PagedHistory:
    """The pieces that the manifests of a node's stores and views of their hot tails give."""

    def __init__(self, stores: Sequence[NodeStore], contents: Sequence[HotContent]) -> None:
        """
        Args:
            stores: all of the node, the latest one last, with the items by the files; read after `contents` were taken,
                so that no row is in neither.
            contents: their hot tails.
        """
        self._stores = [
            msgspec.structs.replace(one, declared=one.declared.with_news(content.items))
            for one, content in zip(stores, contents, strict=True)
        ]
        self._contents = contents
        self._joined = JoinedStores(self._stores)
        self._root, self._manifest, self._declared = self._joined.root, self._joined.manifest, self._joined.declared
        self._items = self._declared.items

    def piece(self, asked: AnyPieceQuestion) -> AnswerPiece:
        """The piece that is asked for.

        Raises:
            QueryRefused: the question makes no sense.
            UnknownItem: an item is known by no such name.
            HistoryDamaged: a file is missing or unreadable.
        """
        span = _span(asked.from_ns, asked.to_ns)
        match asked:
            case EventsQuestion():
                return self._events(asked, span)
            case GapsQuestion():
                return self._gaps(asked, span)
            case RowsQuestion():
                item_ids = self._wanted_items(asked)
                is_raw = asked.aggregate in ("", RAW)
                return self._rows(asked, span, item_ids) if is_raw else self._intervals(asked, span, item_ids)

    def item(self, name: str) -> Row:
        """An item by full or local name, or by id, as it was declared last.

        Raises:
            UnknownItem: there is none, or several of that name.
        """
        return dict(self._reader().item(name))

    def _wanted_items(self, asked: RowsQuestion) -> list[int]:
        """Ids of the items that are asked for, rising."""
        found = set(asked.item_ids)
        if asked.names:
            by_name: dict[str, list[int]] = {}
            for item_id, row in self._items.items():
                for name in (str(row["name"]), f"{row['node']}:{row['name']}"):
                    by_name.setdefault(name, []).append(item_id)
            for name in asked.names:
                ids = by_name.get(name, [])
                if len(ids) != 1:
                    raise UnknownItem(name)
                found.update(ids)
        if not found:
            raise QueryRefused("name the items: item_ids or names")
        return sorted(found)

    def _reader(self, item_ids: Sequence[int] = ()) -> StoredHistory:
        """A reader that sees the hot tail of these items."""
        tails = [
            HotRows(
                samples=samples_table(content.chunks, telling.own(item_ids)),
                gaps=content.all_gaps,
                events=content.events,
                known_to_ns=content.complete_to_ns,
            ).above(store.manifest.position)
            for store, content, telling in zip(self._stores, self._contents, self._joined.tellings, strict=True)
        ]
        newest = self._joined.hot(tails)
        return StoredHistory(self._root, self._manifest, newest, self._declared, RAW_ROWS_READ_MAX)

    def _rows(self, asked: RowsQuestion, span: TimeRange, item_ids: list[int]) -> AnswerPiece:
        begin = cursor.read(cursor.RAW, asked.cursor)
        if begin is not None and not span.from_ns <= begin[1] < span.to_ns:
            raise QueryRefused(OTHER_RANGE)
        ids = [one for one in item_ids if begin is None or one >= begin[0]]
        reader = self._reader(ids[:ITEMS_AT_ONCE])
        rows_max, takes, rows = min(asked.rows_max, PIECE_ROWS_MAX), 0, 0
        first = (span.from_ns, -1, -1)
        tables = [SAMPLES.empty_table()]
        for item_id in ids[:ITEMS_AT_ONCE]:
            after = first if begin is None or item_id > begin[0] else begin[1:]
            if rows == rows_max or takes >= TAKES_MAX:
                place: Place | None = (item_id, *after)
                break
            streaks = list(self._streaks_of(reader, item_id, after[0], span.to_ns))
            swept = sweep(streaks, _SAMPLE_KEYS, after, tables[0], rows_max - rows, TAKES_MAX - takes)
            tables.append(swept.table)
            rows, takes = rows + len(swept.table), takes + swept.takes
            if swept.next is not None:
                place = (item_id, *swept.next)
                break
        else:
            place = (ids[ITEMS_AT_ONCE], *first) if len(ids) > ITEMS_AT_ONCE else None
        table = self._with_kinds(pa.concat_tables(tables), ids[:ITEMS_AT_ONCE])
        return self._cut(reader, table, cursor.RAW, place, ("item_id", *_SAMPLE_KEYS))

    def _with_kinds(self, table: pa.Table, looked_at: Sequence[int]) -> pa.Table:
        """The table with the kinds of the items that its piece looks at, of those without a row too."""
        return table.replace_schema_metadata(metadata_of([self._declared.kinds(one) for one in looked_at]))

    def _streaks_of(self, reader: StoredHistory, item_id: int, from_ns: int, to_ns: int) -> Iterator[Streak]:
        keys = _SAMPLE_KEYS[:2]  # Files are sorted by these.
        wanted = parquet.Wanted((item_id,), "source_ns", from_ns, to_ns)
        for entry in self._manifest.overlapping(FileKind.SAMPLES, from_ns, to_ns):
            tables = parquet.item_groups(self._root, entry, SAMPLES.names, wanted)
            yield Streak((max(from_ns, entry.min_source_ns),), tables, keys)
        yield Streak((from_ns,), iter([reader.hot_samples([item_id], TimeRange(from_ns, to_ns))]), keys)

    def _cut(
        self, reader: StoredHistory, table: pa.Table, kind: str, place: Place | None, keys: Sequence[str]
    ) -> AnswerPiece:
        """The piece, cut where it would be too large."""
        rows = len(table)
        while rows > 1 and table.slice(0, rows).nbytes > PIECE_BYTES:
            rows //= 2
        if rows < len(table):
            table = table.slice(0, rows)
            place = place_of(table, rows - 1, keys)
        following = "" if place is None else cursor.written(kind, place)
        return AnswerPiece(table, following, reader.complete_to_ns)

    def _intervals(self, asked: RowsQuestion, span: TimeRange, item_ids: list[int]) -> AnswerPiece:
        if asked.bucket_ns < 1:
            raise QueryRefused("an aggregate needs the length of an interval: bucket_ns")
        wanted = Aggregation(
            name=asked.aggregate,
            every_ns=asked.bucket_ns,
            uncertain_is_good=asked.uncertain_is_good,
            only_raw=asked.only_raw,
        )
        item_id, start = cursor.read(cursor.INTERVALS, asked.cursor) or (item_ids[0], span.from_ns)
        is_on_grid = span.from_ns <= start < span.to_ns and (start - span.from_ns) % wanted.every_ns == 0
        if not is_on_grid or item_id not in item_ids:
            raise QueryRefused(OTHER_RANGE)
        ids = [one for one in item_ids if one >= item_id]
        reader = self._reader(ids[:SPANS_AT_ONCE])
        rows_left = min(asked.rows_max, PIECE_ROWS_MAX)
        tables: list[pa.Table] = []
        at = [(one, start if one == item_id else span.from_ns) for one in ids]
        for _ in range(SPANS_AT_ONCE):
            if not at or rows_left == 0:
                break
            (one, start), *at = at
            table, end, count = self._some_intervals(reader, one, TimeRange(start, span.to_ns), wanted, rows_left)
            tables.append(table)
            rows_left -= count
            if end < span.to_ns:
                at.insert(0, (one, end))
        table = self._with_kinds(pa.concat_tables(tables), ids[:SPANS_AT_ONCE])
        return self._cut_intervals(reader, table, at[0] if at else None, wanted)

    def _some_intervals(
        self, reader: StoredHistory, item_id: int, span: TimeRange, wanted: Aggregation, rows_max: int
    ) -> tuple[pa.Table, int, int]:
        """The next intervals of an item: their table, where they end, and how many there are."""
        item = self._items.get(item_id)
        if item is None:
            raise UnknownItem(str(item_id))
        every_ns = wanted.every_ns
        count = min(rows_max, max(1, SPAN_NS // every_ns), -((span.from_ns - span.to_ns) // every_ns))
        while True:
            end = min(span.to_ns, span.from_ns + count * every_ns)
            try:
                table = interval_table(reader, item, TimeRange(span.from_ns, end), wanted)
            except TooManyRows:
                if count == 1:
                    raise
                count //= 2
                continue
            return table, end, count

    def _cut_intervals(
        self, reader: StoredHistory, table: pa.Table, place: Place | None, wanted: Aggregation
    ) -> AnswerPiece:
        piece = self._cut(reader, table, cursor.INTERVALS, place, ("item_id", "start_ns"))
        if len(piece.table) == len(table):
            return piece
        item_id, start = place_of(piece.table, len(piece.table) - 1, ("item_id", "start_ns"))
        following = cursor.written(cursor.INTERVALS, (item_id, start + wanted.every_ns))
        return msgspec.structs.replace(piece, next=following)

    def _events(self, asked: EventsQuestion, span: TimeRange) -> AnswerPiece:
        is_back = asked.newest_first
        kind, keys = (cursor.EVENTS_BACK, _BACK_KEYS) if is_back else (cursor.EVENTS, _EVENT_KEYS)
        after = cursor.read(kind, asked.cursor) or (LOWEST, LOWEST)
        reader = self._reader()
        within = (pc.field("at_ns") >= span.from_ns) & (pc.field("at_ns") < span.to_ns)
        if asked.kind:
            within &= pc.field("kind") == asked.kind
        if asked.item_ids:
            within &= pc.field("item_id").isin(list(asked.item_ids))
        turned = _turned if is_back else _as_it_is
        streaks = [Streak((LOWEST,), iter([turned(reader.hot_events().sort_by("sequence"))]), keys[:1])]
        for entry in self._manifest.overlapping(FileKind.EVENTS, span.from_ns, span.to_ns):
            ends = sorted(-one if is_back else one for one in (entry.first_sequence, entry.last_sequence))
            if ends[1] >= after[0]:
                sequence = -after[0] if is_back else after[0]
                groups = parquet.event_groups(self._root, entry, sequence, is_back=is_back)
                streaks.append(Streak((ends[0],), map(turned, groups), keys[:1]))
        rows_max = min(asked.rows_max, PIECE_ROWS_MAX)
        swept = sweep(streaks, keys, after, turned(EVENTS.empty_table()), rows_max, TAKES_MAX)
        piece = self._cut(reader, worded(swept.table.filter(within), self._declared), kind, swept.next, keys)
        ids = sorted({one for one in piece.table["item_id"].to_pylist() if one is not None})
        return msgspec.structs.replace(piece, table=self._with_kinds(piece.table.select([*EVENTS.names, "shown"]), ids))

    def _gaps(self, asked: GapsQuestion, span: TimeRange) -> AnswerPiece:
        after = cursor.read(cursor.GAPS, asked.cursor)
        reader = self._reader()
        wanted = asked.item_ids or (None,)
        found: dict[Place, Row] = {}
        for item_id in wanted:
            found |= {_gap_place(row): row for row in reader.gaps(span, item_id)}
        behind = sorted(place for place in found if after is None or place > after)
        places = list(islice(behind, min(asked.rows_max, PIECE_ROWS_MAX)))
        table = gaps_table([found[place] for place in places])
        place = places[-1] if len(places) < len(behind) else None
        return self._cut(reader, table, cursor.GAPS, place, _GAP_KEYS)


def _span(from_ns: int, to_ns: int) -> TimeRange:
    """The range, within the times that can be asked for."""
    low, high = max(from_ns, -TIME_LIMIT_NS), min(to_ns, TIME_LIMIT_NS)
    if low >= high:
        raise QueryRefused("a range must end after it begins")
    return TimeRange(low, high)


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


def _turned(table: pa.Table) -> pa.Table:
    """The last row first, with keys below zero, so that a sweep that rises goes back."""
    back = table.take(np.arange(len(table))[::-1])
    for name, key in zip(_BACK_KEYS, _EVENT_KEYS, strict=True):
        back = back.append_column(name, pc.negate(back[key]))
    return back


def _gap_place(row: Row) -> Place:
    values = [row[key] for key in _GAP_KEYS]
    return tuple(value for value in values if isinstance(value, int))
