"""Alarm news: polls that an alarm is judged by, and that a dead band would keep.

CORE judges what it is sent. So that it judges as if it saw every poll:

    limits    a value is sent that lies on another side of a limit, or of the end of its hysteresis, than the last sent.
    rate      both polls are sent between which the value moved too fast, and the one after; and wherever a value moved,
              the poll before it, so that no step is spread over the time for which nothing was sent.
    frozen    a change within the dead band is sent once a quarter of `frozen_s` went by without a sample.

Spec: ADR-0164.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.field.contract import PolledColumns
from albireo.model.decimals import surely
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.quality import BAD, BAD_WAITING_FOR_INITIAL_DATA
from albireo.model.samples import Column, SampleBatch, Strings, narrowed
from albireo.model.value import ValueType, difference

Rows = NDArray[np.intp]
Numbers = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint8]

_NUMBERS: Final = (ValueType.FLOAT64, ValueType.INT64)
_UNBOUNDED_NS: Final = np.iinfo(np.int64).max


class AlarmNews:
    """Sides of the limits on which the last sent values lie, and the last usable poll of items with a rate."""

    def __init__(self, items: Sequence[DataItem]) -> None:
        count = len(items)
        alarms = [(one.alarm if one.value_type in _NUMBERS else None) or AlarmSettings() for one in items]
        self._edges = np.array([_edges(one) for one in alarms], np.float64).reshape(count, 2, 4)
        self._is_limited = np.isfinite(self._edges).reshape(count, 8).sum(axis=1) > 0
        self._has_limits = bool(self._is_limited.any())
        # Nothing lies within the interval of a limited item before its first value.
        self._low = np.where(self._is_limited, np.inf, -np.inf)
        self._high = -self._low
        self._rate = np.array([np.inf if one.rate_per_s is None else one.rate_per_s for one in alarms])
        self._has_rates = bool(np.isfinite(self._rate).any())
        self._polled_float, self._polled_int = np.full(count, np.nan), np.zeros(count, np.int64)
        self._polled_quality = np.full(count, BAD_WAITING_FOR_INITIAL_DATA, np.uint32)
        self._polled_ns, self._polled_node_ns = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._is_sent = np.ones(count, np.bool_)
        """The last usable poll was sent."""
        self._was_steep = np.zeros(count, np.bool_)
        """The value moved too fast when that could be judged last."""
        self.moves_ns = np.array(
            [_UNBOUNDED_NS if one.frozen_s is None else int(one.frozen_s * SECOND / 4) for one in alarms], np.int64
        )
        """Time since the last sample after which any change is news, by row."""
        self.has_frozen = bool((self.moves_ns != _UNBOUNDED_NS).any())
        self.judges_each = np.isfinite(self._rate) | (self.moves_ns != _UNBOUNDED_NS)
        """Mark items of which each value counts for an alarm, however little it differs from the last."""

    def judge(
        self, columns: PolledColumns, value: Column, source_ns: NDArray[np.int64], node_ns: int, news: NDArray[np.bool_]
    ) -> SampleBatch | None:
        """Mark in `news` what alarms are judged by; returns the polls before that are to be sent first."""
        if isinstance(value, Strings) or columns.value_type not in _NUMBERS:
            return None
        rows = columns.rows
        news |= self.crossed(rows, value)
        if not self._has_rates:
            return None
        places = np.flatnonzero(np.isfinite(self._rate[rows]))
        return self._judge_rates(columns, value, source_ns, node_ns, news, places) if len(places) else None

    def crossed(self, rows: Rows, value: Numbers) -> NDArray[np.bool_] | bool:
        """Mark values that lie on another side of a limit, or of the end of its hysteresis, than the last sent."""
        return (value < self._low[rows]) | (value > self._high[rows]) if self._has_limits else False

    def _judge_rates(
        self,
        columns: PolledColumns,
        value: Numbers,
        source_ns: NDArray[np.int64],
        node_ns: int,
        news: NDArray[np.bool_],
        places: Rows,
    ) -> SampleBatch | None:
        rows, number, times = columns.rows[places], value[places], source_ns[places]
        polled = self._polled_float if columns.value_type is ValueType.FLOAT64 else self._polled_int
        is_known = self._polled_quality[rows] < BAD
        is_usable = (columns.quality[places] < BAD) & ~np.isnan(number)
        is_later = times > self._polled_ns[rows]
        # As CORE does, but for the counters that begin again: they are sent, and CORE finds that they are no step.
        with np.errstate(invalid="ignore", over="ignore"):
            after = number.astype(np.float64)
            change = surely(after - polled[rows], after, polled[rows])
            steep_ns = change / self._rate[rows] * SECOND
            is_steep = steep_ns > (times - self._polled_ns[rows]).astype(np.float64)
        can_judge = is_known & is_usable & is_later & ~np.isnan(change)
        is_steep = np.where(can_judge, is_steep, self._was_steep[rows])
        # Polls with the node's own time are judged as they come: behind a clock that was set back, against this one.
        is_own = columns.source_ns is None
        news[places] |= is_usable & (is_steep | self._was_steep[rows] | (is_own & is_known & ~is_later))
        has_moved = (number != polled[rows]) | ~is_usable
        is_before = news[places] & has_moved & is_known & ~self._is_sent[rows] & (is_own | is_later)
        found = self._batch(columns.value_type, rows[is_before], polled) if is_before.any() else None
        self._is_sent[rows] = np.where(is_usable, news[places], self._is_sent[rows] | is_before)
        self._was_steep[rows] = is_steep
        places = places[is_usable]
        rows = rows[is_usable]
        polled[rows], self._polled_quality[rows] = value[places], columns.quality[places]
        self._polled_ns[rows], self._polled_node_ns[rows] = source_ns[places], node_ns
        return found

    def _batch(self, value_type: ValueType, rows: Rows, polled: NDArray[np.float64] | NDArray[np.int64]) -> SampleBatch:
        """The last usable poll of these items."""
        return SampleBatch(
            value_type=value_type,
            item_id=rows.astype(np.uint32),
            source_ns=self._polled_ns[rows],
            node_ns=self._polled_node_ns[rows],
            value=polled[rows],
            quality=self._polled_quality[rows],
        )

    def sent(self, rows: Rows, value: Numbers) -> None:
        """These values are sent: find between which edges each lies."""
        if not self._has_limits:
            return
        limited = np.flatnonzero((value < self._low[rows]) | (value > self._high[rows]))
        if not len(limited):
            return
        rows = rows[limited]
        number: NDArray[np.float64] = np.asarray(value[limited], np.float64).reshape(-1, 1)
        upper, lower = self._edges[rows, 0], self._edges[rows, 1]
        is_above, is_below = number > upper, number < lower
        low = np.maximum(
            np.where(is_above, np.nextafter(upper, np.inf), -np.inf), np.where(is_below, -np.inf, lower)
        ).max(axis=1)
        high = np.minimum(
            np.where(is_above, np.inf, upper), np.where(is_below, np.nextafter(lower, -np.inf), np.inf)
        ).min(axis=1)
        self._low[rows], self._high[rows] = narrowed(low, np.inf), narrowed(high, -np.inf)


def _edges(alarm: AlarmSettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values beyond which a verdict changes: those that hold above, and those that hold below."""
    upper = [one for one in (alarm.hi, alarm.hi_hi) if one is not None]
    lower = [one for one in (alarm.lo, alarm.lo_lo) if one is not None]
    upper += [difference(one, alarm.hysteresis) for one in upper]
    lower += [-difference(-one, alarm.hysteresis) for one in lower]
    return (*upper, *[np.inf] * (4 - len(upper))), (*lower, *[-np.inf] * (4 - len(lower)))
