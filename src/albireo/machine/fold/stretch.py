"""Stretches: frames of few samples each that follow one another, folded together where that is the same as one by one.

The folds take a batch by some forty calls of numpy, whatever it has, so a log of small frames is replayed at the speed
of those calls. The idea: the rows of many frames make one batch, of which the last row of each item stays. A single row
that has to be folded at once is folded without numpy, by the same rules (`fold_single`).

What one by one would do the same, and is checked for every row and frame
    log time     no deadline of a condition falls into the stretch, those included that its own samples set
    conditions   the number is within its item's band, or NaN without a band and a stale rule; the item has no rate,
                 can't be frozen, suppresses nothing, is not stale and did not begin anew
    DIM          the item is known, and of this type; the quality is not bad; the source time is not before that of the
                 item's last live sample, nor before that of its row before, and the item has no streak of late samples

The stretch ends at the first frame with another row, which has to be folded by itself. Items have one type each, so the
rows of one type say nothing of those of another.

Not decided here: which frames may make a stretch (`folds`).
Spec: ADR-0152.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.frame import Frame, FrameHeader
from albireo.codec.record import Stream
from albireo.codec.samples import SampleStretch, decode_together
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.rules import HAS_FROZEN, HAS_RATE, IS_ANEW, IS_STALE, IS_SUPPRESSOR, STALE
from albireo.machine.fold.columns import NEVER
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.producers import Producers
from albireo.model import quality as q
from albireo.model.instant import MS, LogTime
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType

ROWS_MAX: Final = 32
"""Most rows of a frame of a stretch: larger ones cost little more in all than their rows do."""
FRAMES_MAX: Final = 512
"""Most frames of a stretch."""
FRAMES_LEAST: Final = 16
"""Fewest frames that are worth a try; a stretch that ended early is followed by a try of twice as many."""
Rows = NDArray[np.intp]

_JUDGED: Final = HAS_RATE | HAS_FROZEN | IS_SUPPRESSOR | IS_STALE | IS_ANEW
"""Flags of items of which any sample may change a judgement."""
_NOBODY: Final = 0
"""Producer id of CORE's own samples, which have no number."""
_VALUES: Final = frozenset(int(one) for one in ValueType)


def is_small(header: FrameHeader) -> bool:
    """True: the frame may be part of a stretch."""
    return header.record_count <= ROWS_MAX and header.kind in _VALUES and header.stream == Stream.SAMPLES


class StretchPart(msgspec.Struct, frozen=True, eq=False):
    """The frames of one type of value."""

    places: NDArray[np.intp]
    """Places of these frames in the stretch."""
    samples: SampleStretch
    frame: NDArray[np.intp]
    """Place of its frame in the stretch, by row."""
    sequence: NDArray[np.int64]
    """Sequence by row."""
    index: NDArray[np.intp]
    """Dense index of the item, by row."""
    end: int
    """Place of the first frame that has to be folded by itself."""


def fold_front(frames: Sequence[Frame], dim: Dim, conditions: Conditions, producers: Producers) -> int:
    """Fold the first of these small frames together, as many as may be; returns how many: at least 2, or 0."""
    log_time = np.array([one.header.log_time_ms for one in frames]) * MS
    end = _first(~_is_timely(log_time, conditions), len(frames))
    kinds: dict[int, list[int]] = {}
    for place, one in enumerate(frames):
        kinds.setdefault(one.header.kind, []).append(place)
    parts = []
    for kind, places in kinds.items():
        part = _part(kind, places, frames, dim, conditions) if end > 1 else None
        if part is None:
            return 0
        parts.append(part)
        end = min(end, part.end)
    if end < 2:
        return 0
    for part in parts:
        _fold(part, end, log_time, dim, conditions)
    conditions.log_time = LogTime(int(log_time[end - 1]))
    _fold_producers(frames[:end], parts, producers)
    return end


def fold_single(batch: SampleBatch, header: FrameHeader, dim: Dim, conditions: Conditions) -> bool:
    """Fold a batch of one row, of a frame up to whose log time every deadline is settled; False: it is no such row."""
    if len(batch) != 1:
        return False
    index, live, value = dim.index_of(int(batch.item_id[0])), dim.live, batch.value
    quality, source_ns = int(batch.quality[0]), int(batch.source_ns[0])
    if index is None or quality >= q.BAD or int(conditions.watched.flags[index]) & _JUDGED:
        return False
    if live.value_type[index] != int(batch.value_type) or live.late_since[index] != NEVER:
        return False
    if source_ns < live.device_ns[index]:
        return False
    if isinstance(value, Strings):
        dim.texts[index] = value.to_list()[0]
    else:
        number = float(value[0])
        if not conditions.watched.low[index] <= number <= conditions.watched.high[index]:  # NaN is none of these rows.
            return False
        live.number[index] = number
        if value.dtype != np.float64:
            live.integer[index] = value[0]
    live.has_value[index] = True
    live.quality[index], live.changed_at[index] = quality, header.last_sequence
    live.source_ns[index] = live.device_ns[index] = source_ns
    live.node_ns[index] = batch.node_ns[0]
    log_time = header.log_time_ms * MS
    conditions.fold_calm(index, log_time, log_time)
    return True


def _first(is_marked: NDArray[np.bool_], otherwise: int) -> int:
    return int(is_marked.argmax()) if is_marked.any() else otherwise


def _is_timely(log_time: NDArray[np.int64], conditions: Conditions) -> NDArray[np.bool_]:
    """Mark frames up to whose log time no deadline comes, of those that are set and those that the first would set."""
    due, own = conditions.deadline(), min(NEVER, int(log_time[0]) + conditions.stale.shortest)
    timely: NDArray[np.bool_] = log_time < (NEVER if due is None else due)
    timely[1:] &= log_time[1:] < own
    return timely


def _part(
    kind: int, places: list[int], frames: Sequence[Frame], dim: Dim, conditions: Conditions
) -> StretchPart | None:
    """The frames at `places`; None: they can't be decoded together."""
    headers = [frames[place].header for place in places]
    counts = [one.record_count for one in headers]
    found = decode_together([frames[place].body for place in places], kind, counts)
    if found is None:
        return None
    frame = np.repeat(places, counts)
    starts = np.cumsum([0, *counts[:-1]])
    sequence = np.repeat(np.array([one.first_sequence for one in headers]) - starts, counts) + np.arange(len(frame))
    ids = found.batch.item_id
    index = dim.row_of.take(np.minimum(ids, len(dim.row_of) - 1))
    fits = (ids < len(dim.row_of)) & (index >= 0)
    fits &= _fits_dim(found.batch, index, dim) & _fits_conditions(found.batch, index, conditions)
    end = int(frame[_first(~fits, 0)]) if not fits.all() else len(frames)
    return StretchPart(np.array(places), found, frame, sequence, index, end)


def _fits_dim(batch: SampleBatch, index: Rows, dim: Dim) -> NDArray[np.bool_]:
    """Mark rows that are live at once."""
    live, source_ns = dim.live, batch.source_ns
    fits: NDArray[np.bool_] = (live.value_type.take(index) == batch.value_type) & (batch.quality < q.BAD)
    fits &= (source_ns >= live.device_ns.take(index)) & (live.late_since.take(index) == NEVER)
    if not (source_ns[1:] >= source_ns[:-1]).all():
        order = np.argsort(index, kind="stable")
        items, times = index[order], source_ns[order]
        fits[order[1:][(items[1:] == items[:-1]) & (times[1:] < times[:-1])]] = False
    return fits


def _fits_conditions(batch: SampleBatch, index: Rows, conditions: Conditions) -> NDArray[np.bool_]:
    """Mark rows that can change no judgement."""
    watched = conditions.watched
    flags = watched.flags.take(index)
    fits: NDArray[np.bool_] = flags & _JUDGED == 0
    if not isinstance(batch.value, Strings):
        number = batch.value.astype(np.float64, copy=False)
        low, high = watched.low.take(index), watched.high.take(index)
        is_judged = (low != -np.inf) | (high != np.inf) | (watched.rule_of[index, STALE] >= 0)
        fits &= ((number >= low) & (number <= high)) | (np.isnan(number) & ~is_judged)
    return fits


def _fold(part: StretchPart, end: int, log_time: NDArray[np.int64], dim: Dim, conditions: Conditions) -> None:
    """Fold the rows of the frames before `end`."""
    rows = int(np.searchsorted(part.frame, end))
    if not rows:
        return
    index = part.index[:rows]
    last = np.flatnonzero(dim.is_last(index))
    dim.store(part.samples.batch.take(last), index[last], part.sequence[last])
    times = log_time[part.frame[:rows]]
    conditions.fold_calm(index, times, int(times[0]))


def _fold_producers(frames: Sequence[Frame], parts: Sequence[StretchPart], producers: Producers) -> None:
    """Fold the numbers of the batches; of each producer the highest, at its last frame."""
    batches = np.zeros((2, max(int(one.places[-1]) for one in parts) + 1), np.uint64)
    for part in parts:
        batches[:, part.places] = part.samples.producer_id, part.samples.producer_sequence
    highest: dict[int, tuple[int, FrameHeader]] = {}
    for one, producer_id, number in zip(frames, *batches.tolist(), strict=False):
        before = highest.get(producer_id)
        highest[producer_id] = (number if before is None else max(number, before[0]), one.header)
    highest.pop(_NOBODY, None)
    for producer_id, (number, header) in highest.items():
        producers.log_time_ms = header.log_time_ms
        producers.fold_batch(producer_id, number, header.node_ns, header.last)
    producers.log_time_ms = frames[-1].header.log_time_ms
