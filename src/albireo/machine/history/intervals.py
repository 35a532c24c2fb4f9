"""Intervals: aggregates of one item over intervals of time, from its trace. numpy kernels without I/O or clock.

`weigh` cuts a trace at the edges of the intervals and sums up what held in each; rows within an interval give its
counts and extremes, partials their sums.

Spec: OPC UA Part 13 v1.05, 5.4.3.2 (StatusCode calculation), 4.2.1.2 (TreatUncertainAsBad, PercentDataGood,
PercentDataBad), 5.3.3.2 (Partial); ADR-0063. Average is its TimeAverage2; Minimum and Maximum are its Minimum2 and
Maximum2; all of them Stepped. ASSUMED: time before the first sample and after the end of what is known takes no part in
the percentages, it sets Partial. A comparison with a second implementation would settle it.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.machine.history.aggregate import (
    SECOND_NS,
    TIME_LIMIT_NS,
    Classes,
    Floats,
    Ints,
    Partials,
    Rows,
    extreme,
    float_sums,
    severity,
    sums,
)
from albireo.machine.history.trace import (
    NOTHING,
    PLAIN_HOLDS,
    SUMMED,
    AggregateSettings,
    Holds,
    Trace,
    held_until,
    trace_of_partials,
    trace_of_rows,
    with_holes,
)
from albireo.model import quality as q
from albireo.model.decimals import cleared

_Sums = TypeVar("_Sums", NDArray[np.float64], NDArray[np.int64])


class Weights(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Sums of the holds of a trace over k intervals; fields as in `Intervals`."""

    integral: Floats
    good_ns: Ints
    uncertain_ns: Ints
    bad_ns: Ints
    start_value: Floats
    """Value that holds at the start of the interval for more than an instant, if usable; else NaN."""
    is_held: NDArray[np.bool_]


class Extent(IntEnum):
    """Values that are wanted beside the sums; each includes those before it. The rest is NaN and False."""

    SUMS = 0
    EXTREMES = 1
    """Minimum and maximum."""
    BAND = 2
    """First and last."""


class Intervals(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Aggregates of one item in each of k intervals `edges[i] <= t < edges[i + 1]`."""

    edges: Ints
    """k + 1, rising."""
    rows: Ints
    good_rows: Ints
    integral: Floats
    """Value x seconds of the usable classes."""
    good_ns: Ints
    uncertain_ns: Ints
    bad_ns: Ints
    minimum: Floats
    """Smallest usable value that held at any time of the interval; NaN without one."""
    maximum: Floats
    start_value: Floats
    """Value that holds at the start of the interval for more than an instant, if usable; else NaN."""
    is_held: NDArray[np.bool_]
    """Whether such a value holds there, be it a number or a text."""
    first: Floats
    """That value, or where there is none the one of the first row of the interval, if usable; else NaN."""
    has_first: NDArray[np.bool_]
    """Whether there is such a value, be it a number or a text."""
    last: Floats
    """Value that holds at the end of the interval (`held_at_ends`), if usable; else NaN."""
    has_last: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


def weigh(trace: Trace, edges: Ints, settings: AggregateSettings) -> Weights:
    """Cut a trace at `edges` and sum up its holds in each interval.

    Args:
        trace: of one item; rows before `edges[0]` only matter for the hold at that time.
        edges: k + 1 rising times.

    Cost: O(n + k log n).
    """
    at = np.searchsorted(trace.ns, edges, side="left")
    first, end = int(at[0]), int(at[-1])
    ns, classes, value = trace.ns[first:end], trace.classes[first:end], trace.value[first:end]
    filled = np.flatnonzero(np.diff(at))
    starts = at[filled] - first
    held = np.empty(len(ns), np.int64)
    if len(ns):
        held[:-1] = ns[1:] - ns[:-1]
    last = at[filled + 1] - first - 1
    held[last] = edges[filled + 1] - ns[last]
    carried = _carried(trace, at, edges)
    count = len(edges) - 1
    usable_max = settings.usable_max
    plain = value if bool((classes <= usable_max).all()) else np.where(classes <= usable_max, value, 0.0)
    is_usable = (carried.classes <= usable_max) & (carried.held > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        integral = _spread(float_sums(plain, held, starts), filled, count)
        integral += np.where(is_usable, carried.value, 0.0) * carried.held / SECOND_NS
    durations = _durations(classes, held, at, edges, carried)
    return Weights(
        integral=np.nan_to_num(integral, posinf=np.inf, neginf=-np.inf),
        good_ns=durations[q.GOOD_CLASS],
        uncertain_ns=durations[q.UNCERTAIN_CLASS],
        bad_ns=durations[q.BAD_CLASS],
        start_value=np.where(is_usable, carried.value, np.nan),
        is_held=is_usable,
    )


def intervals_of_rows(
    rows: Rows,
    edges: Ints,
    settings: AggregateSettings,
    *,
    hole_ns: Sequence[int] = (),
    known_to_ns: int | None = None,
    holds: Holds = PLAIN_HOLDS,
    extent: Extent = Extent.EXTREMES,
) -> Intervals:
    """Intervals from raw rows of one item.

    Args:
        rows: of one item, from the last one before `edges[0]` on.
        edges: k + 1 rising times.
        hole_ns: starts of the gaps that touch the item.
        known_to_ns: end of what is known; None: it lies behind all.
        holds: longest hold of the item's usable values.
        extent: what is wanted.
    """
    trace = trace_of_rows(rows)
    weights = weigh(with_holes(trace, hole_ns, _end_within(edges, known_to_ns), holds), edges, settings)
    at = np.searchsorted(rows.source_ns, edges, side="left")
    inside = slice(int(at[0]), int(at[-1]))
    filled = np.flatnonzero(np.diff(at))
    starts = at[filled] - at[0]
    classes = trace.classes[inside]
    rest = np.searchsorted(at - at[0], np.flatnonzero(classes), side="right") - 1
    good_rows = np.diff(at) - np.bincount(rest, minlength=len(edges) - 1)
    found = _assembled(edges, weights, np.diff(at), good_rows)
    if extent >= Extent.EXTREMES:
        is_usable = classes <= settings.usable_max
        value = rows.value[inside]
        lows = extreme(np.fmin, np.where(is_usable, value, np.inf), starts)
        highs = extreme(np.fmax, np.where(is_usable, value, -np.inf), starts)
        found = _with_extremes(found, filled, lows, highs)
    if extent >= Extent.BAND:
        first = (rows.value[at[filled]], rows.quality[at[filled]])
        last = (rows.source_ns, rows.value, rows.quality)
        found = _with_ends(found, filled, first, last, settings, _Limits(hole_ns, known_to_ns, holds))
    return found


def intervals_of_partials(
    partials: Partials,
    edges: Ints,
    settings: AggregateSettings,
    *,
    hole_ns: Sequence[int] = (),
    known_to_ns: int | None = None,
    holds: Holds = PLAIN_HOLDS,
    extent: Extent = Extent.EXTREMES,
) -> Intervals:
    """Intervals from partials of one item.

    Args:
        partials: of one item, not overlapping, each within one interval, sorted by time, from the last one before
            `edges[0]` on. With `treat_uncertain_as_bad` False none of them may hold a row that is not good: partials
            sum up good rows only.
        edges, hole_ns, known_to_ns, holds: as in `intervals_of_rows`; no hole lies within a partial, nor does the end
            of what is known, and a partial behind that end is of one instant.
        extent: what is wanted; columns that are for nothing else may be empty.
    """
    trace = with_holes(trace_of_partials(partials), hole_ns, _end_within(edges, known_to_ns), holds)
    weights = weigh(trace, edges, settings)
    at = np.searchsorted(partials.first_ns, edges, side="left")
    one = partials.take(slice(int(at[0]), int(at[-1])))
    filled = np.flatnonzero(np.diff(at))
    starts = at[filled] - at[0]
    count = len(edges) - 1
    summed = msgspec.structs.replace(
        weights,
        integral=weights.integral + _spread(float_sums(one.integral, None, starts), filled, count),
        good_ns=weights.good_ns + _spread(sums(one.good_ns, starts), filled, count),
        uncertain_ns=weights.uncertain_ns + _spread(sums(one.uncertain_ns, starts), filled, count),
        bad_ns=weights.bad_ns + _spread(sums(one.bad_ns, starts), filled, count),
    )
    rows = _spread(sums(one.rows, starts), filled, count)
    good_rows = _spread(sums(one.good_rows, starts), filled, count)
    found = _assembled(edges, summed, rows, good_rows)
    if extent >= Extent.EXTREMES:
        lows = extreme(np.fmin, np.nan_to_num(one.minimum, nan=np.inf), starts)
        highs = extreme(np.fmax, np.nan_to_num(one.maximum, nan=-np.inf), starts)
        found = _with_extremes(found, filled, lows, highs)
    if extent >= Extent.BAND:
        first = (one.first_value[starts], one.first_quality[starts])
        last = (partials.last_ns, partials.last_value, partials.last_quality)
        found = _with_ends(found, filled, first, last, settings, _Limits(hole_ns, known_to_ns, holds))
    return found


def held_at_ends(
    row_ns: Ints, quality: Ints, edges: Ints, holes: Ints, known_to_ns: int, holds: Holds
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Place of the last row before the end of each interval, and whether it holds there.

    None does before the first row, behind a hole, or when its hold has reached its limit; nor where nothing is known of
    the interval. Of an interval in which knowledge ends, that end counts as the interval's.

    Args:
        row_ns, quality: of rows of one item, one at least, sorted by time.
        holes: starts of gaps, rising.
    """
    index = np.searchsorted(row_ns, edges[1:], side="left") - 1
    row = np.maximum(index, 0)
    at_ns = row_ns[row]
    until = held_until(at_ns, quality[row] < q.BAD, holes, holds)
    is_known = (edges[:-1] < known_to_ns) | (at_ns >= edges[:-1])
    return row, (index >= 0) & is_known & (until >= np.minimum(edges[1:], np.maximum(known_to_ns, at_ns)))


def averages(intervals: Intervals, settings: AggregateSettings) -> Floats:
    """Time-weighted average of each interval; NaN without a usable value."""
    usable_ns = intervals.good_ns if settings.treat_uncertain_as_bad else intervals.good_ns + intervals.uncertain_ns
    average = np.full(len(intervals), np.nan)
    np.divide(intervals.integral, usable_ns / SECOND_NS, out=average, where=usable_ns > 0)
    return cleared(average)


def qualities(intervals: Intervals, settings: AggregateSettings, width_ns: int) -> Ints:
    """StatusCode of each interval's calculated value (Part 13, 5.4.3.2.1), as signed 64 bit.

    Args:
        width_ns: width asked for; a shorter interval (the last one) is Partial.
    """
    good, bad = intervals.good_ns.astype(np.float64), intervals.bad_ns.astype(np.float64)
    known = good + bad + intervals.uncertain_ns
    if settings.treat_uncertain_as_bad:
        bad += intervals.uncertain_ns
    quality = np.full(len(intervals), int(q.UNCERTAIN_DATA_SUB_NORMAL), np.int64)
    quality[100.0 * good >= settings.percent_data_good * known] = int(q.GOOD)
    quality[100.0 * bad >= settings.percent_data_bad * known] = int(q.BAD)
    widths = np.diff(intervals.edges)
    is_partial = (known < widths) | (widths < width_ns)
    quality |= q.CALCULATED
    quality[is_partial] |= q.PARTIAL
    quality[known == 0] = int(q.BAD_NO_DATA)
    return quality


def kinds_of(
    rows: Rows, kind: NDArray[np.intp], intervals: Intervals, settings: AggregateSettings
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Kind of the last usable value of each interval, and whether values of several kinds took part in it.

    Args:
        rows: the rows that the intervals were made of, from the one that holds at their start on.
        kind: that of each row (codec.item_kinds).
    """
    is_usable = severity(rows.quality) <= settings.usable_max
    ns, kind = rows.source_ns[is_usable], kind[is_usable]
    count = len(intervals)
    if len(ns) == 0:
        return np.zeros(count, np.intp), np.zeros(count, np.bool_)
    at = np.searchsorted(ns, intervals.edges)
    first, last = at[:-1] - intervals.is_held, np.maximum(at[1:] - 1, 0)
    changes = np.append(0, np.cumsum(kind[1:] != kind[:-1]))
    return kind[last], (first < last) & (changes[last] > changes[np.clip(first, 0, len(ns) - 1)])


def steps(
    rows: Rows, kind: NDArray[np.intp], at_ns: Ints, settings: AggregateSettings, is_number: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Kind of the usable value before each time, and whether no line leads from it to the next one.

    Args:
        rows, kind: as in `kinds_of`.
        is_number: whether lines lead between values of each kind.
    """
    is_usable = severity(rows.quality) <= settings.usable_max
    ns, kind = rows.source_ns[is_usable], kind[is_usable]
    if len(ns) == 0:
        return np.zeros(len(at_ns), np.intp), np.ones(len(at_ns), np.bool_)
    before = np.maximum(np.searchsorted(ns, at_ns, side="right") - 1, 0)
    after = np.minimum(before + 1, len(ns) - 1)
    return kind[before], ~is_number[kind[before]] | (kind[after] != kind[before])


class _Carried(msgspec.Struct, frozen=True, eq=False):
    """Value that holds over from before each interval, and for how long."""

    value: Floats
    classes: Classes
    held: Ints


def _carried(trace: Trace, at: NDArray[np.intp], edges: Ints) -> _Carried:
    before = at[:-1] - 1
    until = edges[1:].copy()
    filled = np.flatnonzero(np.diff(at))
    until[filled] = trace.ns[at[filled]]
    held = until - edges[:-1]
    if len(trace) == 0:
        return _Carried(np.full(len(held), np.nan), np.full(len(held), NOTHING, np.uint8), held)
    classes = np.where(before < 0, NOTHING, trace.classes[before]).astype(np.uint8)
    return _Carried(trace.value[before], classes, held)


def _durations(classes: Classes, held: Ints, at: NDArray[np.intp], edges: Ints, carried: _Carried) -> list[Ints]:
    """Time of good, uncertain and bad in each interval. Mostly all is good: the rest is counted and taken off."""
    durations = [np.diff(edges) - carried.held]
    for one in range(1, SUMMED + 1):
        rows = np.flatnonzero(classes == one)
        inner = np.zeros(len(edges) - 1, np.int64)
        np.add.at(inner, np.searchsorted(at - at[0], rows, side="right") - 1, held[rows])
        durations[q.GOOD_CLASS] = durations[q.GOOD_CLASS] - inner
        durations.append(inner)
    for one in range(q.BAD_CLASS + 1):
        durations[one] = durations[one] + np.where(carried.classes == one, carried.held, 0)
    return durations


def _end_within(edges: Ints, known_to_ns: int | None) -> int | None:
    """The end of what is known, if it matters for the intervals."""
    return known_to_ns if known_to_ns is not None and known_to_ns < edges[-1] else None


def _assembled(edges: Ints, weights: Weights, rows: Ints, good_rows: Ints) -> Intervals:
    """Intervals from their sums."""
    none, never = np.full(len(edges) - 1, np.nan), np.zeros(len(edges) - 1, np.bool_)
    return Intervals(
        edges=edges,
        rows=rows.astype(np.int64),
        good_rows=good_rows,
        minimum=none,
        maximum=none,
        first=none,
        has_first=never,
        last=none,
        has_last=never,
        **msgspec.structs.asdict(weights),
    )


def _with_extremes(found: Intervals, filled: NDArray[np.intp], lows: Floats, highs: Floats) -> Intervals:
    """The value at the start takes part in minimum and maximum."""
    minimum, maximum = np.full(len(found), np.nan), np.full(len(found), np.nan)
    minimum[filled], maximum[filled] = lows, highs
    start = found.start_value
    return msgspec.structs.replace(found, minimum=np.fmin(minimum, start), maximum=np.fmax(maximum, start))


class _Limits(msgspec.Struct, frozen=True, eq=False):
    """Ends of a hold."""

    hole_ns: Sequence[int]
    known_to_ns: int | None
    holds: Holds


def _with_ends(
    found: Intervals,
    filled: NDArray[np.intp],
    first_rows: tuple[Floats, Ints],
    rows: tuple[Ints, Floats, Ints],
    settings: AggregateSettings,
    limits: _Limits,
) -> Intervals:
    """The intervals with their first and last values.

    Args:
        first_rows: values and qualities of the first rows of the intervals `filled`.
        rows: times, values and qualities of rows, those among them that are the last before the end of an interval.
    """
    value, quality = first_rows
    is_usable = severity(quality) <= settings.usable_max
    first, has_first = found.start_value.copy(), found.is_held.copy()
    begins = ~found.is_held[filled]
    first[filled[begins]] = np.where(is_usable, value, np.nan)[begins]
    has_first[filled] |= is_usable
    row_ns, value, quality = rows
    if len(row_ns) == 0:
        return msgspec.structs.replace(found, first=first, has_first=has_first)
    known_to_ns = TIME_LIMIT_NS if limits.known_to_ns is None else limits.known_to_ns
    holes = np.sort(np.asarray(limits.hole_ns, np.int64))
    row, has_last = held_at_ends(row_ns, quality, found.edges, holes, known_to_ns, limits.holds)
    has_last &= severity(quality[row]) <= settings.usable_max
    last = np.where(has_last, value[row], np.nan)
    return msgspec.structs.replace(found, first=first, has_first=has_first, last=last, has_last=has_last)


def _spread(filled_sums: _Sums, filled: NDArray[np.intp], count: int) -> _Sums:
    """`filled_sums` of the intervals `filled` among `count`, zeros elsewhere."""
    if len(filled) == count:
        return filled_sums
    all_ = np.zeros(count, filled_sums.dtype)
    all_[filled] = filled_sums
    return all_
