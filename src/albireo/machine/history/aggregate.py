"""Partials of samples: mergeable sums over time, aware of quality. numpy kernels without I/O and without a clock.

The idea. A sample holds until the next one of its item (stepped interpolation). A **partial** sums up the rows of one
item in one bucket of time, and only between its first and its last row: a merge of two neighbours adds the **bridge**,
the hold from the last row of the first partial to the first row of the second. So partials of different files, minutes
or hours merge exactly. Only partials whose rows interleave (late data) do not; they are found and reported.

Conventions, also of machine.history.trace
    Class      0 good, 1 uncertain, 2 bad (model.quality.severity).
    Value      float64; NaN where there is no number. A Good float that is not finite is counted as bad.
    Time       int64 wall ns. Order of rows: item_id, source_ns, sequence.

Spec: ADR-0063; OPC UA Part 13 v1.05, 3.1.6 (stepped interpolation).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.model import quality as q
from albireo.model.instant import WALL_NS_MAX

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Classes = NDArray[np.uint8]

TIME_LIMIT_NS: Final = WALL_NS_MAX
"""Times beyond it are set to it."""
SECOND_NS: Final = 1e9
"""Divisor, not a factor 1e-9: whole seconds stay exact."""
_NEVER: Final = 2**63 - 1


class Rows(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """n raw rows, sorted by item_id, source_ns, sequence. `rows_of` makes them from stored columns."""

    item_id: Ints
    source_ns: Ints
    """Within TIME_LIMIT_NS."""
    value: Floats
    """NaN: the row has no number (a string, or a float that is not finite; the latter has a bad quality)."""
    quality: Ints
    sequence: Ints

    def __len__(self) -> int:
        return len(self.item_id)


class Partials(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """n partials; columns as in codec.history.PARTIALS, with NaN for null floats. Sorted by item_id, bucket_ns."""

    item_id: Ints
    bucket_ns: Ints
    rows: Ints
    good_rows: Ints
    first_ns: Ints
    first_value: Floats
    first_quality: Ints
    last_ns: Ints
    last_value: Floats
    last_quality: Ints
    integral: Floats
    """Sum of value x seconds held under good quality, between first and last."""
    good_ns: Ints
    uncertain_ns: Ints
    bad_ns: Ints
    minimum: Floats
    """Smallest value of the good rows; NaN without one."""
    minimum_ns: Ints
    maximum: Floats
    maximum_ns: Ints
    total: Floats
    """Sum of good values, not weighted."""
    sequence_max: Ints

    def __len__(self) -> int:
        return len(self.item_id)

    def take(self, index: NDArray[np.bool_] | NDArray[np.intp] | slice) -> "Partials":
        return Partials(**{name: getattr(self, name)[index] for name in PARTIAL_COLUMNS})

    def columns(self) -> dict[str, Floats | Ints]:
        return {name: getattr(self, name) for name in PARTIAL_COLUMNS}


PARTIAL_COLUMNS: Final = tuple(Partials.__struct_fields__)
_FLOAT_COLUMNS: Final = frozenset(("first_value", "last_value", "integral", "minimum", "maximum", "total"))


class Merged(msgspec.Struct, frozen=True, eq=False):
    """Partials, one per item and bucket, and a mark on those that are wrong because rows interleave."""

    partials: Partials
    is_overlapping: NDArray[np.bool_]
    """The marked buckets must be recomputed from raw rows."""


def rows_of(
    *, item_id: Ints, source_ns: Ints, value: Floats, is_text: NDArray[np.bool_] | bool, quality: Ints, sequence: Ints
) -> Rows:
    """Make `Rows` of sorted columns whose floats and times may have any value.

    Args:
        value: the number of each row; anything where `is_text`.
    """
    is_finite = np.isfinite(value)
    if np.any(is_text):
        is_finite |= is_text
        value = np.where(is_text, np.nan, value)
    if not is_finite.all():
        value = np.where(is_finite, value, np.nan)
        quality = np.where(~is_finite & (quality >> q.SEVERITY_SHIFT < q.BAD_CLASS), int(q.BAD), quality)
    return Rows(item_id=item_id, source_ns=bounded(source_ns), value=value, quality=quality, sequence=sequence)


def partials_of(rows: Rows, width_ns: int, edges: Ints | None = None) -> Partials:
    """Sum up `rows` by item and bucket of `width_ns`, buckets counted from 1970-01-01T00:00:00Z. Cost: O(n).

    Args:
        edges: rising times at which buckets are cut once more, so that each piece lies within one interval of them; a
            piece's `bucket_ns` is then where it begins.
    """
    if len(rows) == 0:
        return empty_partials()
    ns, value = rows.source_ns, rows.value
    bucket = ns // width_ns * width_ns
    if edges is not None and len(edges):
        at = np.searchsorted(edges, ns, side="right")
        bucket = np.where(at > 0, np.maximum(bucket, edges[at - 1]), bucket)
    starts = _starts(rows.item_id, bucket)
    ends = np.append(starts[1:], len(rows)) - 1
    classes = severity(rows.quality)
    is_good = classes == q.GOOD_CLASS
    held = np.zeros(len(rows), np.int64)
    held[:-1] = ns[1:] - ns[:-1]
    held[ends] = 0
    minimum, minimum_ns = extremes(np.fmin, np.where(is_good, value, np.inf), ns, starts)
    maximum, maximum_ns = extremes(np.fmax, np.where(is_good, value, -np.inf), ns, starts)
    return Partials(
        item_id=rows.item_id[starts],
        bucket_ns=bucket[starts],
        rows=ends - starts + 1,
        good_rows=sums(is_good.astype(np.int64), starts),
        first_ns=ns[starts],
        first_value=value[starts],
        first_quality=rows.quality[starts],
        last_ns=ns[ends],
        last_value=value[ends],
        last_quality=rows.quality[ends],
        integral=float_sums(np.where(is_good, value, 0.0), held, starts),
        good_ns=sums(np.where(is_good, held, 0), starts),
        uncertain_ns=sums(np.where(classes == q.UNCERTAIN_CLASS, held, 0), starts),
        bad_ns=sums(np.where(classes == q.BAD_CLASS, held, 0), starts),
        minimum=minimum,
        minimum_ns=minimum_ns,
        maximum=maximum,
        maximum_ns=maximum_ns,
        total=float_sums(np.where(is_good, value, 0.0), None, starts),
        sequence_max=np.maximum.reduceat(rows.sequence, starts),
    )


def merge(parts: Sequence[Partials], width_ns: int) -> Merged:
    """One partial per item and bucket of `width_ns`, bridges included.

    Args:
        parts: partials of any origin, whose buckets are `width_ns` wide or an exact fraction of it.
    """
    everything = concat(parts)
    if len(everything) == 0:
        return Merged(everything, np.zeros(0, np.bool_))
    bucket = everything.bucket_ns // width_ns * width_ns
    if _is_unique(everything.item_id, bucket):
        return Merged(msgspec.structs.replace(everything, bucket_ns=bucket), np.zeros(len(everything), np.bool_))
    keys = (everything.sequence_max, everything.last_ns, everything.first_ns, bucket, everything.item_id)
    order = np.lexsort(keys)
    one, bucket = everything.take(order), bucket[order]
    starts = _starts(one.item_id, bucket)
    ends = np.append(starts[1:], len(one)) - 1
    bridge = np.zeros(len(one), np.int64)
    bridge[:-1] = one.first_ns[1:] - one.last_ns[:-1]
    overlap = bridge < 0
    overlap[:-1] |= (bridge[:-1] == 0) & (one.sequence_max[1:] < one.sequence_max[:-1])
    bridge[ends] = 0
    overlap[ends] = False
    bridge = np.maximum(bridge, 0)
    classes = severity(one.last_quality)
    is_good = classes == q.GOOD_CLASS
    minimum, minimum_ns = extremes(np.fmin, np.nan_to_num(one.minimum, nan=np.inf), one.minimum_ns, starts)
    maximum, maximum_ns = extremes(np.fmax, np.nan_to_num(one.maximum, nan=-np.inf), one.maximum_ns, starts)
    bridged = float_sums(np.where(is_good, one.last_value, 0.0), bridge, starts)
    partials = Partials(
        item_id=one.item_id[starts],
        bucket_ns=bucket[starts],
        rows=sums(one.rows, starts),
        good_rows=sums(one.good_rows, starts),
        first_ns=one.first_ns[starts],
        first_value=one.first_value[starts],
        first_quality=one.first_quality[starts],
        last_ns=one.last_ns[ends],
        last_value=one.last_value[ends],
        last_quality=one.last_quality[ends],
        integral=float_sums(one.integral, None, starts) + bridged,
        good_ns=sums(one.good_ns + np.where(is_good, bridge, 0), starts),
        uncertain_ns=sums(one.uncertain_ns + np.where(classes == q.UNCERTAIN_CLASS, bridge, 0), starts),
        bad_ns=sums(one.bad_ns + np.where(classes == q.BAD_CLASS, bridge, 0), starts),
        minimum=minimum,
        minimum_ns=minimum_ns,
        maximum=maximum,
        maximum_ns=maximum_ns,
        total=float_sums(one.total, None, starts),
        sequence_max=np.maximum.reduceat(one.sequence_max, starts),
    )
    return Merged(partials, np.logical_or.reduceat(overlap, starts))


def concat(parts: Sequence[Partials]) -> Partials:
    """All rows of `parts`, one after another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return empty_partials()
    return Partials(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in PARTIAL_COLUMNS})


def empty_partials() -> Partials:
    nothing = np.zeros(0, np.int64)
    return partials_of_columns(dict.fromkeys(PARTIAL_COLUMNS, nothing))


def partials_of_columns(columns: Mapping[str, Floats | Ints]) -> Partials:
    """Partials from columns by name, as a stored file has them."""
    typed = {
        name: columns[name].astype(np.float64 if name in _FLOAT_COLUMNS else np.int64, copy=False)
        for name in PARTIAL_COLUMNS
    }
    return Partials(**typed)  # type: ignore[arg-type]  # each column has just been given its type


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows of `parts`, one after another."""
    if len(parts) == 1:
        return parts[0]
    return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__struct_fields__})


def severity(quality: Ints) -> Classes:
    """Class of each StatusCode in a signed column; the reserved severity 3 counts as bad."""
    classes: Classes = (quality >= q.UNCERTAIN).view(np.uint8) + (quality >= q.BAD).view(np.uint8)
    return classes


def bounded(ns: Ints) -> Ints:
    """Times no further than TIME_LIMIT_NS from 1970."""
    if len(ns) and (ns.min() < -TIME_LIMIT_NS or ns.max() > TIME_LIMIT_NS):
        return np.clip(ns, -TIME_LIMIT_NS, TIME_LIMIT_NS)
    return ns


def _starts(item_id: Ints, bucket: Ints) -> NDArray[np.intp]:
    """Index of the first row of each (item, bucket)."""
    is_start = np.empty(len(item_id), np.bool_)
    is_start[0] = True
    np.logical_or(item_id[1:] != item_id[:-1], bucket[1:] != bucket[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)


def _is_unique(item_id: Ints, bucket: Ints) -> bool:
    """True if the pairs (item, bucket) rise: then there is nothing to merge."""
    same = item_id[1:] == item_id[:-1]
    return bool(((item_id[1:] > item_id[:-1]) | (same & (bucket[1:] > bucket[:-1]))).all())


def sums(column: Ints, starts: NDArray[np.intp]) -> Ints:
    if len(starts) == 0:
        return np.zeros(0, np.int64)
    total: Ints = np.add.reduceat(column, starts)
    return total


def float_sums(column: Floats, held: Ints | None, starts: NDArray[np.intp]) -> Floats:
    """Sums of `column`, weighted with `held` in seconds where given. NaN (a string) counts as 0."""
    if len(starts) == 0:
        return np.zeros(0)
    with np.errstate(over="ignore", invalid="ignore"):
        total: Floats = np.add.reduceat(column if held is None else column * held, starts)
        if held is not None:
            total = total / SECOND_NS
    return np.nan_to_num(total, posinf=np.inf, neginf=-np.inf)


def extreme(reducer: np.ufunc, value: Floats, starts: NDArray[np.intp]) -> Floats:
    """Extreme of each group; infinities and NaN are no values."""
    if len(starts) == 0:
        return np.zeros(0)
    found: Floats = reducer.reduceat(value, starts)
    return np.where(np.isfinite(found), found, np.nan)


def extremes(reducer: np.ufunc, value: Floats, ns: Ints, starts: NDArray[np.intp]) -> tuple[Floats, Ints]:
    """Extreme of each group with the first time it was reached; 0 without one."""
    found = extreme(reducer, value, starts)
    if len(starts) == 0:
        return found, np.zeros(0, np.int64)
    lengths = np.diff(np.append(starts, len(value)))
    is_there = value == np.repeat(found, lengths)
    when: Ints = np.minimum.reduceat(np.where(is_there, ns, _NEVER), starts)
    return found, np.where(np.isnan(found), 0, when)
