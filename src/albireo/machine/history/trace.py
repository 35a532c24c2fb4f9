"""Traces: values of one item over time, and where nothing is known of it. numpy kernels without I/O or clock.

An answer for a range is always made the same way: raw rows, or partials (machine.history.aggregate) with the holds
between them, become a `Trace`; holes in the record (starts of gaps, end of what is known) become events of the trace;
machine.history.intervals cuts the trace at the edges of the intervals.

What holds, and until when. Nothing is known or lost before an item's first row. A row holds until the next row, a hole,
or the end of what is known, and no longer than its limit (`Holds`): then nothing is known. Time beyond the end of what
is known is not known, whatever rows lie there.

Beside the classes of machine.history.aggregate a trace has 3, nothing known, and 4, summed already in a partial.

Spec: OPC UA Part 13 v1.05, 3.1.5 to 3.1.8, 5.4.3.4 (interpolation), 4.2.1.2 (settings); ADR-0063, ADR-0168.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.machine.history.aggregate import TIME_LIMIT_NS, Classes, Floats, Ints, Partials, Rows, bounded, severity
from albireo.model import quality as q

NOTHING: Final = 3
"""Class of time before the first sample and after the end of what is known."""
SUMMED: Final = 4
"""Class of time that a partial has summed already."""
HOLD_NS: Final = 31 * 86_400_000_000_000
"""Longest hold of an item that declares no stale time, and of whatever is bad: one wrong clock fills no table."""
HOLD_NS_MIN: Final = 60_000_000_000
"""Shortest limit of a hold: the width of a stored partial, so that no partial has a hold beyond its limit in it."""
HOLD_NS_MAX: Final = 366 * 86_400_000_000_000
"""Longest limit of a hold, whatever stale time an item declares."""


class AggregateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of OPC UA Part 13, 4.2.1.2, with the standard's defaults."""

    treat_uncertain_as_bad: bool = True
    percent_data_bad: int = 100
    percent_data_good: int = 100

    def __post_init__(self) -> None:
        if not (0 <= self.percent_data_bad <= 100 and 0 <= self.percent_data_good <= 100):
            raise ValueError("percentages must be within 0..100")
        if self.percent_data_good < 100 - self.percent_data_bad:
            raise ValueError("percent_data_good must be at least 100 - percent_data_bad (Part 13, 4.2.1.2)")

    @property
    def usable_max(self) -> int:
        """Highest class whose values are used."""
        return q.GOOD_CLASS if self.treat_uncertain_as_bad else q.UNCERTAIN_CLASS


def hold_limit_ns(stale_ns: int | None) -> int:
    """Longest hold of a usable value of an item with this stale time; None: it declares none."""
    return HOLD_NS if stale_ns is None else min(max(stale_ns, HOLD_NS_MIN), HOLD_NS_MAX)


class Holds(msgspec.Struct, frozen=True, eq=False):
    """Longest hold of the usable values of one item, which changes when the item is declared anew."""

    from_ns: Ints
    """Times from which the limits count, rising; the first one counts before it too."""
    limit_ns: Ints

    def at(self, ns: Ints) -> Ints:
        """Limit of rows of these times."""
        if len(self.limit_ns) == 0:
            return np.full(len(ns), HOLD_NS, np.int64)
        limits: Ints = self.limit_ns[np.maximum(np.searchsorted(self.from_ns, ns, side="right") - 1, 0)]
        return limits


PLAIN_HOLDS: Final = Holds(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""Limits of an item that never declared a stale time."""


class Trace(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One item over time: from `ns[i]` until `ns[i + 1]` it was `value[i]` with `classes[i]`. `ns` does not fall."""

    ns: Ints
    value: Floats
    classes: Classes
    quality: Ints
    is_hole: NDArray[np.bool_] | None = None
    """True where a gap begins, which no row says; None: nowhere."""

    def __len__(self) -> int:
        return len(self.ns)


def trace_of_rows(rows: Rows) -> Trace:
    """The trace that raw rows of one item draw."""
    return Trace(ns=rows.source_ns, value=rows.value, classes=severity(rows.quality), quality=rows.quality)


def trace_of_partials(partials: Partials) -> Trace:
    """The trace between partials of one item that do not overlap: the hold from the last row of each on."""
    count = len(partials)
    ns = np.empty(2 * count, np.int64)
    ns[0::2], ns[1::2] = partials.first_ns, partials.last_ns
    value = np.full(2 * count, np.nan)
    value[1::2] = partials.last_value
    quality = np.zeros(2 * count, np.int64)
    quality[1::2] = partials.last_quality
    classes = np.full(2 * count, SUMMED, np.uint8)
    classes[1::2] = severity(partials.last_quality)
    return Trace(ns=ns, value=value, classes=classes, quality=quality)


def with_holes(
    trace: Trace, hole_ns: Sequence[int] | Ints, known_to_ns: int | None = None, holds: Holds = PLAIN_HOLDS
) -> Trace:
    """The trace with each hold ended at the first hole (until the next row), at its limit, and at the end of knowledge.

    Args:
        hole_ns: starts of gaps; a row at the same instant comes before the hole. A gap before the first row says
            nothing of the item.
        known_to_ns: end of what is known; rows behind it hold nothing.
    """
    if len(trace) == 0:
        return trace
    holes = np.sort(bounded(np.asarray(hole_ns, np.int64)))
    holes = holes[holes >= trace.ns[0]]
    if len(holes):
        at = np.searchsorted(trace.ns, holes, side="right")
        trace = _insert(trace, at, holes, q.BAD_CLASS, int(q.BAD_DATA_LOST), is_hole=True)
    trace = _limited(trace, holds)
    if known_to_ns is not None:
        end = np.array([min(known_to_ns, TIME_LIMIT_NS)], np.int64)
        at = np.searchsorted(trace.ns, end, side="right")
        trace = _insert(trace, at, end, NOTHING, int(q.BAD_NO_DATA))
        is_behind = (np.arange(len(trace)) > at[0]) & (trace.classes != SUMMED)
        trace = msgspec.structs.replace(trace, classes=np.where(is_behind, NOTHING, trace.classes).astype(np.uint8))
    return trace


def held_until(row_ns: Ints, is_usable: NDArray[np.bool_], hole_ns: Ints, holds: Holds) -> Ints:
    """Time at which the hold of each row ends if no other row follows.

    Args:
        hole_ns: starts of gaps, rising.
    """
    rows = bounded(row_ns)
    limit = np.where(is_usable, holds.at(rows), HOLD_NS)
    holes = np.append(hole_ns, np.int64(2**63 - 1))
    ends: Ints = np.minimum(holes[np.searchsorted(hole_ns, rows)], rows + limit)
    return ends


def _limited(trace: Trace, holds: Holds) -> Trace:
    """The trace with nothing known from where a hold has reached its limit."""
    limit = np.where(trace.classes < q.BAD_CLASS, holds.at(trace.ns), HOLD_NS)
    following = np.append(trace.ns[1:], np.int64(2**63 - 1))
    is_over = (trace.classes < NOTHING) & (following - limit > trace.ns)
    over = np.flatnonzero(is_over)
    return _insert(trace, over + 1, trace.ns[over] + limit[over], NOTHING, int(q.BAD_NO_DATA))


def interpolated(
    trace: Trace, at_ns: Ints, settings: AggregateSettings, *, is_stepped: NDArray[np.bool_] | bool
) -> tuple[Floats, Ints]:
    """Value and StatusCode at each of `at_ns` (Part 13, 5.4.3.4, 3.1.8).

    Usable rows on both sides: on the line between them, or the earlier one where `is_stepped`; UncertainDataSubNormal
    when rows that are not usable lie between. Only an earlier one: it is extrapolated as a step, uncertain. A hole is
    not bridged: from it to the next usable row there is no data.
    """
    is_usable = trace.classes <= settings.usable_max
    is_hole = trace.classes == NOTHING
    if trace.is_hole is not None:
        is_hole |= trace.is_hole
    value, quality = np.full(len(at_ns), np.nan), np.full(len(at_ns), int(q.BAD_NO_DATA), np.int64)
    usable = np.flatnonzero(is_usable)
    if len(usable) == 0:
        return value, quality
    here = np.searchsorted(trace.ns, at_ns, side="right") - 1
    rank = np.searchsorted(usable, here, side="right") - 1
    found = np.flatnonzero(rank >= 0)
    before = usable[rank[found]]
    has_after = rank[found] + 1 < len(usable)
    after = usable[np.minimum(rank[found] + 1, len(usable) - 1)]
    holes = np.concatenate(([0], np.cumsum(is_hole)))
    crosses = has_after & (holes[after] > holes[before])
    target = at_ns[found]
    exact = trace.ns[before] == target
    is_cut = (holes[here[found] + 1] > holes[before]) & ~exact
    span = np.where(has_after, trace.ns[after] - trace.ns[before], 1)
    is_stepped = np.broadcast_to(is_stepped, at_ns.shape)[found]
    share = (target - trace.ns[before]) / np.maximum(span, 1)
    is_held = exact | is_stepped | ~has_after | crosses
    with np.errstate(over="ignore", invalid="ignore"):
        sloped = trace.value[before] + share * (trace.value[after] - trace.value[before])
    value[found] = np.where(is_cut, np.nan, np.where(is_held, trace.value[before], sloped))
    is_clean = (trace.classes[before] == q.GOOD_CLASS) & (exact | ((after == before + 1) & has_after & ~crosses))
    is_clean |= is_stepped & (trace.classes[before] == q.GOOD_CLASS) & (here[found] == before)
    computed = np.where(is_clean, int(q.GOOD), int(q.UNCERTAIN_DATA_SUB_NORMAL)) | np.where(exact, 0, q.INTERPOLATED)
    quality[found] = np.where(is_cut, int(q.BAD_NO_DATA), computed)
    return value, quality


def _insert(trace: Trace, at: NDArray[np.intp], ns: Ints, one: int, quality: int, *, is_hole: bool = False) -> Trace:
    if len(at) == 0:
        return trace
    marks = np.zeros(len(trace), np.bool_) if trace.is_hole is None else trace.is_hole
    return Trace(
        ns=np.insert(trace.ns, at, ns),
        value=np.insert(trace.value, at, np.nan),
        classes=np.insert(trace.classes, at, one),
        quality=np.insert(trace.quality, at, quality),
        is_hole=np.insert(marks, at, is_hole),
    )
