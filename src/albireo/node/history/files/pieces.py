"""Pieces of an answer: the sequence in which tables and files are read, and minutes that no sum can answer."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albireo.codec.history import BUCKET_NS, SAMPLES, FileEntry
from albireo.machine.history.aggregate import Ints, Partials, Rows, concat, partials_of
from albireo.node.history.files import parquet

_RANGES_MAX: Final = 16
"""More ranges of dirty minutes than this are read as one, from the first to the last."""
_FILES_AT_ONCE_MAX: Final = 64
_STREAK_ROWS_MIN: Final = 4096
"""Mean length of sorted streaks from which each is a piece of its own."""


def in_order(pieces: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    """One table of sorted pieces, by item, source time and sequence. Mostly the pieces follow each other already."""
    if not pieces:
        return SAMPLES.empty_table().select(list(columns))
    table = pa.concat_tables(pieces)
    keys = ("item_id", "source_ns", "sequence")
    if follow_each_other(pieces, keys):
        return table
    return sorted_rows(table, keys)


def sorted_rows(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows, at least one, by `keys`, which are columns of integers.

    Long streaks that are sorted already are not moved: that would cost more than all the rest.
    """
    order = np.lexsort([parquet.ints(table, name) for name in reversed(keys)])
    ends = np.append(np.flatnonzero(np.diff(order) != 1) + 1, len(order))
    if len(ends) * _STREAK_ROWS_MIN > len(table) + _STREAK_ROWS_MIN:
        return table.take(order)
    starts = np.append(0, ends[:-1])
    return pa.concat_tables([table.slice(order[start], end - start) for start, end in zip(starts, ends, strict=True)])


def follow_each_other(pieces: Sequence[pa.Table], keys: Sequence[str]) -> bool:
    """True if each sorted piece ends before the next begins."""
    firsts = [tuple(piece.column(name)[0].as_py() for name in keys) for piece in pieces]
    lasts = [tuple(piece.column(name)[len(piece) - 1].as_py() for name in keys) for piece in pieces]
    return all(last < first for last, first in zip(lasts, firsts[1:], strict=False))


def ranges_of(buckets: Ints) -> list[tuple[int, int]]:
    """Neighbouring minutes as ranges; one range for all of them if they are too many."""
    is_first = np.append(True, np.diff(buckets) != BUCKET_NS)
    starts = buckets[is_first]
    ends = buckets[np.append(is_first[1:], True)] + BUCKET_NS
    if len(starts) > _RANGES_MAX:
        return [(int(starts[0]), int(ends[-1]))]
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def growing(entries: Sequence[FileEntry]) -> Iterator[Sequence[FileEntry]]:
    """Groups of 1, 2, 4, ... entries: the answer is mostly in the first file, and else reading many is faster."""
    at, count = 0, 1
    while at < len(entries):
        yield entries[at : at + count]
        at, count = at + count, min(2 * count, _FILES_AT_ONCE_MAX)


def is_cut(partials: Partials, edges: Ints) -> NDArray[np.bool_]:
    """True for each partial of a minute in which an edge lies."""
    inside = edges[edges % BUCKET_NS != 0]
    cut: NDArray[np.bool_] = np.isin(partials.bucket_ns, inside // BUCKET_NS * BUCKET_NS)
    return cut


def has_hole(partials: Partials, holes: Ints) -> NDArray[np.bool_]:
    """True for each partial with a hole between its first and its last row."""
    at = np.searchsorted(holes, partials.first_ns)
    after = np.append(holes, 2**63 - 1)
    is_holed: NDArray[np.bool_] = after[at] < partials.last_ns
    return is_holed


def with_minutes_of(rows: Rows, partials: Partials, minutes: Ints, cuts: Ints) -> Partials:
    """The partials, and between them the rows that lie in `minutes` as partials of their own, cut at `cuts`."""
    keep = np.isin(rows.source_ns // BUCKET_NS * BUCKET_NS, minutes)
    some = Rows(
        item_id=rows.item_id[keep],
        source_ns=rows.source_ns[keep],
        value=rows.value[keep],
        quality=rows.quality[keep],
        sequence=rows.sequence[keep],
    )
    both = concat([partials, partials_of(some, BUCKET_NS, cuts)])
    return both.take(np.argsort(both.first_ns, kind="stable"))
