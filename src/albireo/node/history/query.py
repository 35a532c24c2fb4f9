"""Questions to the history: raw rows, last, interpolated, and per interval, over stored files and the hot tail.

A `StoredHistory` sees one manifest and one piece of hot tail and never changes; for newer rows a new one is made.
Answers per interval come from stored partials wherever a whole minute lies within one interval, and from raw rows for
what is left: minutes cut by an interval's edge, minutes with rows that interleave across files (late data), minutes
with a hole in them. Both ways give the same numbers; tests hold them against each other and against SQL.

Spec: OPC UA Part 13 (see machine.history.trace); ADR-0063, ADR-0065.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from albireo.codec.history import BUCKET_NS, DAY_NS, EVENTS, GAPS, ITEMS, SAMPLES, FileEntry, FileKind, Manifest
from albireo.machine.history.aggregate import (
    TIME_LIMIT_NS,
    Floats,
    Ints,
    Partials,
    Rows,
    empty_partials,
    joined,
    merge,
    partials_of,
)
from albireo.machine.history.declared import DeclaredItems, Row
from albireo.machine.history.intervals import (
    Extent,
    Intervals,
    held_at_ends,
    intervals_of_partials,
    intervals_of_rows,
    steps,
)
from albireo.machine.history.trace import AggregateSettings, interpolated, trace_of_rows, with_holes
from albireo.model.item import name_parts
from albireo.model.refusal import RefusalCode
from albireo.model.tree.node_names import nodes_meant
from albireo.model.value import ValueType
from albireo.node.history.errors import QueryRefused, TooManyRows, UnknownItem
from albireo.node.history.files import parquet
from albireo.node.history.files.gaps import GapIndex
from albireo.node.history.files.hot import HotRows
from albireo.node.history.files.pieces import (
    follow_each_other,
    growing,
    has_hole,
    in_order,
    is_cut,
    ranges_of,
    with_minutes_of,
)
from albireo.node.history.rows import events_table

INTERVALS_MAX: Final = 1_000_000
"""Most intervals of one answer."""
RAW_ROWS_MAX: Final = 50_000_000
"""Most raw rows that one question may read; some 3 GB of memory."""
REACH_NS: Final = 31 * DAY_NS
"""Time within which a usable row beside a range is looked for."""
_NUMBER_COLUMNS: Final = ("source_ns", "value_f64", "value_i64", "quality")
_ORDER_COLUMNS: Final = ("item_id", "sequence")
"""Columns that only sorting needs; they are a third of the bytes."""
_SUM_COLUMNS: Final = (
    "item_id",
    "bucket_ns",
    "rows",
    "good_rows",
    "first_ns",
    "last_ns",
    "last_value",
    "last_quality",
    "integral",
    "good_ns",
    "uncertain_ns",
    "bad_ns",
    "sequence_max",
)
_MORE_COLUMNS: Final = ((), ("minimum", "maximum"), ("minimum", "maximum", "first_value", "first_quality"))
"""Columns that are read beside those of the sums, by the extent."""
_FOREVER: Final = 2**63 - 1


class TimeRange(msgspec.Struct, frozen=True):
    """A range of source time, `from_ns` included, `to_ns` not."""

    from_ns: int
    to_ns: int

    def __post_init__(self) -> None:
        if not -TIME_LIMIT_NS <= self.from_ns < self.to_ns <= TIME_LIMIT_NS:
            raise ValueError("a range must end after it begins, and lie within 1823..2116")

    def edges(self, every_ns: int) -> Ints:
        """Edges of the intervals of `every_ns` from the start on; the last one may be shorter (Part 13, 5.4.2.2)."""
        if every_ns <= 0:
            raise QueryRefused("an interval must be longer than nothing")
        if (self.to_ns - self.from_ns) // every_ns > INTERVALS_MAX:
            raise QueryRefused(
                f"more than {INTERVALS_MAX} intervals",
                "ask for a shorter range or longer intervals",
                RefusalCode.TOO_MUCH,
            )
        return np.append(np.arange(self.from_ns, self.to_ns, every_ns, dtype=np.int64), self.to_ns)


class StoredHistory:
    """Questions to one manifest and one piece of hot tail.

    Every method that reads may raise HistoryDamaged: a listed file is missing or unreadable.
    """

    def __init__(
        self,
        root: Path,
        manifest: Manifest,
        newest: HotRows | None = None,
        declared: DeclaredItems | None = None,
        rows_max: int = RAW_ROWS_MAX,
    ) -> None:
        """
        Args:
            declared: the items; None: they are read when they are wanted.
            rows_max: most raw rows of one read; below RAW_ROWS_MAX they are counted before they are read.
        """
        self._root = root
        self.manifest = manifest
        self._hot = newest or HotRows()
        self._declared = declared
        self._rows_max = rows_max
        self._gaps: GapIndex | None = None

    @property
    def complete_to_ns(self) -> int:
        """Node time up to which every record of the node is seen."""
        return max(self.manifest.complete_to_ns, self._hot.known_to_ns)

    def items(self) -> Mapping[int, Row]:
        """Last rows of codec.history.ITEMS by item id."""
        return self.declared().items

    def declared(self) -> DeclaredItems:
        """The items with their versions."""
        if self._declared is None:
            entries = self.manifest.of_kind(FileKind.ITEMS)
            rows = parquet.read(self._root, entries, ITEMS.names).to_pylist() if entries else []
            self._declared = DeclaredItems.of_rows(rows).with_news(self._hot.items)
        return self._declared

    def item(self, name: str) -> Row:
        """An item by full name (`node:name`, of the node's id the end will do), by name alone if only one node has it,
        or by id.

        Raises:
            UnknownItem: there is none, or several of that name.
        """
        node, local = name_parts(name)
        rows = self.items()
        meant = nodes_meant(node, {str(row["node"]) for row in rows.values()})
        found = [
            row
            for item_id, row in rows.items()
            if (row["name"] == local and (not node or row["node"] in meant)) or name in (row["name"], str(item_id))
        ]
        if len(found) != 1:
            raise UnknownItem(name)
        return found[0]

    def raw(self, item_ids: Sequence[int], span: TimeRange, limit: int = RAW_ROWS_MAX) -> pa.Table:
        """Rows of codec.history.SAMPLES in the range, sorted by item, source time, sequence.

        Raises:
            QueryRefused: more than `limit` rows.
        """
        pieces = self._samples(item_ids, span, SAMPLES.names)
        count = sum(len(piece) for piece in pieces)
        if count > limit:
            raise TooManyRows(count, limit)
        return in_order(pieces, SAMPLES.names)

    def last(self, item_id: int, before_ns: int) -> pa.Table:
        """The newest row before a time: one row of codec.history.SAMPLES, or none."""
        found = self._row_before(item_id, before_ns)
        if found is None:
            return SAMPLES.empty_table()
        table = self.raw([item_id], TimeRange(found, found + 1))
        return table.slice(max(0, len(table) - 1))  # None, if its time is one that no range reaches.

    def raw_around(self, item_id: int, span: TimeRange) -> pa.Table:
        """The rows of an item in the range, and the one before it."""
        start = self._row_before(item_id, span.from_ns)
        return self.raw([item_id], TimeRange(span.from_ns if start is None else start, span.to_ns))

    def gaps(self, span: TimeRange, item_id: int | None = None) -> list[Row]:
        """Gap records that touch the range (and the item), by start."""
        return self._gap_index().rows(span.from_ns, span.to_ns, item_id)

    def events(self, span: TimeRange) -> pa.Table:
        """Rows of codec.history.EVENTS in the range of `at_ns`, by sequence."""
        tables = [self.hot_events()]
        entries = self.manifest.overlapping(FileKind.EVENTS, span.from_ns, span.to_ns)
        if entries:
            tables.append(parquet.read(self._root, entries, EVENTS.names))
        within = (pc.field("at_ns") >= span.from_ns) & (pc.field("at_ns") < span.to_ns)
        return pa.concat_tables(tables).filter(within).sort_by("sequence")

    def hot_events(self) -> pa.Table:
        return events_table(self._hot.events)

    def intervals(
        self,
        item_id: int,
        span: TimeRange,
        every_ns: int,
        settings: AggregateSettings,
        *,
        only_raw: bool = False,
        extent: Extent = Extent.EXTREMES,
    ) -> Intervals:
        """Aggregates of an item in each interval of `every_ns`.

        Args:
            only_raw: do not use stored partials.
            extent: what is wanted beside the sums.

        Raises:
            QueryRefused: too many intervals or rows.
        """
        edges, holes = span.edges(every_ns), self._holes(item_id, span)
        known_to_ns, limits = self.complete_to_ns, self.declared().holds(item_id)
        if only_raw or every_ns < BUCKET_NS:
            return self._from_raw(item_id, edges, settings, holes, extent)
        before = self._partials_before(item_id, span)
        merged = merge([before, *self._partials(item_id, span, extent)], BUCKET_NS)
        partials = merged.partials
        if not settings.treat_uncertain_as_bad and (partials.rows > partials.good_rows).any():
            return self._from_raw(item_id, edges, settings, holes, extent)
        is_dirty = merged.is_overlapping | is_cut(partials, edges) | has_hole(partials, holes)
        is_dirty |= partials.last_ns > known_to_ns
        if is_dirty.any():
            partials = self._redone(item_id, partials, is_dirty, edges, holes)
        return intervals_of_partials(
            partials, edges, settings, hole_ns=holes.tolist(), known_to_ns=known_to_ns, holds=limits, extent=extent
        )

    def at(
        self, item_id: int, span: TimeRange, every_ns: int, settings: AggregateSettings
    ) -> tuple[Ints, Floats, Ints, NDArray[np.intp]]:
        """Interpolated values at the start of each interval: times, values (float64), StatusCodes, kinds."""
        times = span.edges(every_ns)[:-1]
        rows = self.rows(item_id, self._between_usable(item_id, span, settings))
        kinds = self.declared().kinds(item_id)
        kind, is_stepped = steps(rows, kinds.at(rows.sequence), times, settings, kinds.is_of(ValueType.FLOAT64))
        # A row is a value at its own time, wherever that lies.
        known_to_ns = max([self.complete_to_ns, *rows.source_ns[-1:].tolist()])
        holes, limits = self._holes(item_id, span), self.declared().holds(item_id)
        trace = with_holes(trace_of_rows(rows), holes, known_to_ns, limits)
        return times, *interpolated(trace, times, settings, is_stepped=is_stepped), kind

    def last_rows(self, item_id: int, span: TimeRange, every_ns: int) -> tuple[Ints, pa.Table]:
        """The row that holds at the end of each interval, as stored, so of any value type.

        Returns:
            The intervals' starts and one row of codec.history.SAMPLES for each. Intervals at whose end no row holds
            (`held_at_ends`) are left out.
        """
        edges = span.edges(every_ns)
        table = self.raw_around(item_id, span)
        if len(table) == 0:
            return edges[:0], table
        times, quality = parquet.ints(table, "source_ns"), parquet.ints(table, "quality")
        holds = self.declared().holds(item_id)
        row, is_held = held_at_ends(times, quality, edges, self._holes(item_id, span), self.complete_to_ns, holds)
        return edges[:-1][is_held], table.take(row[is_held])

    def _samples(self, item_ids: Sequence[int], span: TimeRange, columns: Sequence[str]) -> list[pa.Table]:
        """Rows in sorted pieces: one of each item and file, and one of the hot tail."""
        if self._rows_max < RAW_ROWS_MAX and span.to_ns - span.from_ns > BUCKET_NS:
            self._check_count(item_ids, span)
        wanted = parquet.Wanted(tuple(sorted(set(item_ids))), "source_ns", span.from_ns, span.to_ns)
        entries = self.manifest.overlapping(FileKind.SAMPLES, span.from_ns, span.to_ns)
        pieces = parquet.read_items(self._root, entries, columns, wanted)
        newest = self.hot_samples(wanted.item_ids, span)
        return [*pieces, newest.select(list(columns))] if len(newest) else pieces

    def _check_count(self, item_ids: Sequence[int], span: TimeRange) -> None:
        """Refuse to read too many rows; the stored partials say how many there are in each minute."""
        first = max(span.from_ns // BUCKET_NS * BUCKET_NS, -TIME_LIMIT_NS)
        wanted = parquet.Wanted(tuple(sorted(set(item_ids))), "bucket_ns", first, span.to_ns)
        entries = self.manifest.overlapping(FileKind.PARTIALS, first, span.to_ns)
        pieces = parquet.read_items(self._root, entries, ("rows",), wanted)
        count = sum(int(parquet.ints(piece, "rows").sum()) for piece in pieces)
        if count > self._rows_max:
            raise TooManyRows(count, self._rows_max)

    def hot_samples(self, item_ids: Sequence[int], span: TimeRange) -> pa.Table:
        """Rows of the hot tail alone."""
        if len(self._hot.samples) == 0:
            return self._hot.samples
        within = (pc.field("source_ns") >= span.from_ns) & (pc.field("source_ns") < span.to_ns)
        return self._hot.samples.filter(within & pc.field("item_id").isin(list(item_ids)))

    def rows(self, item_id: int, span: TimeRange) -> Rows:
        """The numbers of an item's rows with their sequences, in order."""
        columns = (*_NUMBER_COLUMNS, *_ORDER_COLUMNS)
        return parquet.rows_from(in_order(self._samples([item_id], span, columns), columns), item_id)

    def _rows(self, item_id: int, span: TimeRange) -> Rows:
        """The numbers of an item's rows, in order."""
        pieces = self._samples([item_id], span, _NUMBER_COLUMNS)
        count = sum(len(piece) for piece in pieces)
        if count > RAW_ROWS_MAX:
            raise TooManyRows(count, RAW_ROWS_MAX)
        if pieces and follow_each_other(pieces, ("source_ns",)):
            return parquet.rows_from(pa.concat_tables(pieces), item_id)
        return self.rows(item_id, span)

    def _from_raw(
        self, item_id: int, edges: Ints, settings: AggregateSettings, holes: Ints, extent: Extent
    ) -> Intervals:
        rows = self._rows_around(item_id, TimeRange(int(edges[0]), int(edges[-1])))
        return intervals_of_rows(
            rows,
            edges,
            settings,
            hole_ns=holes.tolist(),
            known_to_ns=self.complete_to_ns,
            holds=self.declared().holds(item_id),
            extent=extent,
        )

    def _rows_around(self, item_id: int, span: TimeRange) -> Rows:
        """The rows in a range, and the row that holds at its start."""
        start = self._row_before(item_id, span.from_ns)
        return self._rows(item_id, TimeRange(span.from_ns if start is None else start, span.to_ns))

    def _between_usable(self, item_id: int, span: TimeRange, settings: AggregateSettings) -> TimeRange:
        """The range, and around it as far as a usable row on each side, REACH_NS at most: values depend on no range."""
        low, high, step = span.from_ns, span.to_ns, BUCKET_NS
        while step < REACH_NS and not (low < span.from_ns and self._has_usable(item_id, low, span.from_ns, settings)):
            start = self._row_before(item_id, low)
            if start is None:
                break
            low, step = max(start - step * (low < span.from_ns), -TIME_LIMIT_NS), 4 * step
        step = BUCKET_NS
        while step < REACH_NS and not (high > span.to_ns and self._has_usable(item_id, span.to_ns, high, settings)):
            end = self.row_after(item_id, high)
            if end is None:
                break
            high, step = min(end + 1 + step * (high > span.to_ns), TIME_LIMIT_NS), 4 * step
        return TimeRange(low, high)

    def _has_usable(self, item_id: int, from_ns: int, to_ns: int, settings: AggregateSettings) -> bool:
        return bool((self._rows(item_id, TimeRange(from_ns, to_ns)).quality >> 30 <= settings.usable_max).any())

    def _partials(self, item_id: int, span: TimeRange, extent: Extent) -> list[Partials]:
        """Partials of the item in every minute that the range touches, those of the hot tail last."""
        first = max(span.from_ns // BUCKET_NS * BUCKET_NS, -TIME_LIMIT_NS)
        wide = TimeRange(first, span.to_ns)
        wanted = parquet.Wanted((item_id,), "bucket_ns", first, span.to_ns)
        entries = self.manifest.overlapping(FileKind.PARTIALS, wide.from_ns, wide.to_ns)
        columns = _SUM_COLUMNS + _MORE_COLUMNS[extent]
        pieces = parquet.read_items(self._root, entries, columns, wanted)
        parts = [parquet.partials_from(pa.concat_tables(pieces))] if pieces else []
        newest = self.hot_samples([item_id], wide)
        if len(newest):
            parts.append(partials_of(parquet.rows_from(newest), BUCKET_NS))
        return parts

    def _partials_before(self, item_id: int, span: TimeRange) -> Partials:
        """Partial of the row that holds at the start of the range's first minute; empty without one."""
        start = span.from_ns // BUCKET_NS * BUCKET_NS
        found = self._row_before(item_id, start)
        if found is None:
            return empty_partials()
        return partials_of(self._rows(item_id, TimeRange(found, found + 1)), BUCKET_NS)

    def _redone(
        self, item_id: int, partials: Partials, is_dirty: NDArray[np.bool_], edges: Ints, holes: Ints
    ) -> Partials:
        """The dirty minutes from raw rows, cut so that each piece lies within one interval and beside every hole."""
        dirty = partials.take(is_dirty)
        rows = joined(
            [
                self._rows(item_id, TimeRange(max(start, -TIME_LIMIT_NS), min(end, TIME_LIMIT_NS)))
                for start, end in ranges_of(dirty.bucket_ns)
            ]
        )
        end = min(self.complete_to_ns, TIME_LIMIT_NS)
        # Behind the end of what is known each instant stands alone, so that nothing is held in between.
        cuts = np.concatenate([edges, holes + 1, rows.source_ns[rows.source_ns > end], [end + 1]])
        return with_minutes_of(rows, partials.take(~is_dirty), dirty.bucket_ns, np.unique(cuts))

    def _row_before(self, item_id: int, before_ns: int) -> int | None:
        """Source time of the item's newest row before a time."""
        best = self._hot_extreme(item_id, pc.field("source_ns") < before_ns, is_last=True)
        entries = [one for one in self.manifest.of_kind(FileKind.PARTIALS) if one.min_source_ns < before_ns]
        entries.sort(key=lambda one: -one.max_source_ns)
        for group in growing(entries):
            if best is not None and best >= min(before_ns - 1, max(one.max_source_ns for one in group)):
                break
            for bucket, first, last in self._buckets(group, item_id, "first_ns", (-_FOREVER, before_ns)):
                known = last if last < before_ns else first
                best = known if best is None else max(best, known)
                if last >= before_ns:
                    exact = self._source_times(item_id, TimeRange(bucket, before_ns))
                    best = max(best, int(exact.max()))
        return best

    def row_after(self, item_id: int, from_ns: int) -> int | None:
        """Source time of the item's oldest row at or after a time."""
        best = self._hot_extreme(item_id, pc.field("source_ns") >= from_ns, is_last=False)
        entries = [one for one in self.manifest.of_kind(FileKind.PARTIALS) if one.max_source_ns >= from_ns]
        entries.sort(key=lambda one: one.min_source_ns)
        for group in growing(entries):
            if best is not None and best <= max(from_ns, min(one.min_source_ns for one in group)):
                break
            for bucket, first, last in self._buckets(group, item_id, "last_ns", (from_ns, _FOREVER)):
                known = first if first >= from_ns else last
                best = known if best is None else min(best, known)
                if first < from_ns:
                    exact = self._source_times(item_id, TimeRange(from_ns, bucket + BUCKET_NS))
                    best = min(best, int(exact.min()))
        return best

    def _hot_extreme(self, item_id: int, where: pc.Expression, *, is_last: bool) -> int | None:
        if len(self._hot.samples) == 0:
            return None
        table = self._hot.samples.filter((pc.field("item_id") == item_id) & where)
        if len(table) == 0:
            return None
        times = parquet.ints(table, "source_ns")
        return int(times.max() if is_last else times.min())

    def _buckets(
        self, entries: Sequence[FileEntry], item_id: int, time: str, within: tuple[int, int]
    ) -> list[tuple[int, int, int]]:
        """(bucket, first, last) of the item's partials with `time` in a range."""
        columns = ("bucket_ns", "first_ns", "last_ns")
        wanted = parquet.Wanted((item_id,), time, *within)
        pieces = parquet.read_items(self._root, entries, columns, wanted)
        rows = (zip(*(parquet.ints(piece, name).tolist() for name in columns), strict=True) for piece in pieces)
        return [row for some in rows for row in some]

    def _source_times(self, item_id: int, span: TimeRange) -> Ints:
        pieces = self._samples([item_id], span, ("source_ns",))
        return parquet.ints(pa.concat_tables(pieces), "source_ns")

    def _gap_index(self) -> GapIndex:
        if self._gaps is None:
            entries = self.manifest.of_kind(FileKind.GAPS)
            stored = parquet.read(self._root, entries, GAPS.names) if entries else GAPS.empty_table()
            self._gaps = GapIndex(stored, self._hot.gaps, self.declared())
        return self._gaps

    def _holes(self, item_id: int, span: TimeRange) -> Ints:
        """Starts of the gaps that touch the item, up to the end of the range."""
        return self._gap_index().holes(item_id, span.to_ns)
