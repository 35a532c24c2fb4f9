"""Dead band: which of a poll's values are news.

A value is sent when it moved by more than the item's dead band since the last one sent, when its quality changed, or
when the item's heartbeat is due. Columns in, columns out; no Python object per value (strings excepted).

It also knows since when an item has no communication, and so where a gap begins and ends.

Spec: ADR-0032; OPC UA Part 8, 7.2.2 (AbsoluteDeadband).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.contract import Columns
from albireo.machine.producer.flight import Loss
from albireo.model.instant import Instant, WallTime
from albireo.model.quality import BAD_CLASS, BAD_NO_COMMUNICATION, BAD_WAITING_FOR_INITIAL_DATA, SEVERITY_SHIFT
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import ValueType

GAP_ITEMS_MAX: Final = 4_096
"""Items that one gap record names; a gap of more is said of every item of the adapter."""
_NEVER: Final = np.int64(-(2**62))
"""Long before any boot clock: the heartbeat of an item that was never sent is overdue."""


class News(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What of one poll goes out."""

    batches: tuple[SampleBatch, ...] = ()
    """`item_id` holds row numbers."""
    losses: tuple[Loss, ...] = ()


class _Returned(msgspec.Struct, frozen=True, eq=False):
    """Items of one type that have communication again."""

    rows: NDArray[np.intp]
    from_ns: NDArray[np.int64]
    to_ns: NDArray[np.int64]


class DeadBand:
    """Last value, quality and time sent of every item of one adapter."""

    def __init__(
        self,
        value_types: Sequence[ValueType],
        widths: NDArray[np.float64],
        heartbeat_ns: NDArray[np.int64],
        began_ns: WallTime,
    ) -> None:
        """
        Args:
            value_types: of each item, in row order.
            widths: dead band of each item, engineering units, >= 0; ignored for bool and string.
            heartbeat_ns: longest time between two samples of each item.
            began_ns: wall time of the start; a gap that has no earlier value begins here.
        """
        count = len(value_types)
        self._types = np.array(value_types, np.uint8)
        self._width = widths
        self._heartbeat_ns = heartbeat_ns
        self._float = np.zeros(count, np.float64)
        self._int = np.zeros(count, np.int64)
        self._text = [""] * count
        self._quality = np.full(count, BAD_WAITING_FOR_INITIAL_DATA, np.uint32)
        self._sent_at = np.full(count, _NEVER, np.int64)
        self._seen_ns = np.full(count, began_ns, np.int64)

    def take(self, polled: Sequence[Columns], now: Instant, source_ns: WallTime, node_ns: WallTime) -> News:
        """One poll.

        Args:
            polled: what the adapter gave.
            now: boot clock, for the heartbeats.
            source_ns: wall time of the poll, for values without a time of their own.
            node_ns: wall time at which they had arrived.
        """
        batches: list[SampleBatch] = []
        returned: list[_Returned] = []
        for columns in polled:
            times = columns.source_ns
            if times is None:
                times = np.full(len(columns.rows), source_ns, np.int64)
            back = self._returned(columns)
            if back.any():
                rows = columns.rows[back]
                returned.append(_Returned(rows, self._seen_ns[rows], times[back]))
            value = self._meant(columns)
            chosen = np.flatnonzero(self._is_news(columns, value, now))
            if len(chosen):
                batches.append(self._sent(columns, value, chosen, times, now, node_ns))
            spoke = columns.quality != BAD_NO_COMMUNICATION
            self._seen_ns[columns.rows[spoke]] = times[spoke]
        return News(batches=tuple(batches), losses=_losses(returned))

    def lost(self, now: Instant, at_ns: WallTime) -> News:
        """Every item at once: no communication since `at_ns`, its last value kept beside the bad quality."""
        return self._all(BAD_NO_COMMUNICATION, now, at_ns)

    def waiting(self, now: Instant, at_ns: WallTime) -> News:
        """Every item at once: nothing was read yet, which is not zero."""
        return self._all(BAD_WAITING_FOR_INITIAL_DATA, now, at_ns)

    def _all(self, quality: int, now: Instant, at_ns: WallTime) -> News:
        polled = []
        for value_type in ValueType:
            rows = np.flatnonzero(self._types == value_type)
            if len(rows):
                value = self._last(value_type, rows)
                marks = np.full(len(rows), quality, np.uint32)
                polled.append(Columns(value_type=value_type, rows=rows, value=value, quality=marks))
        return self.take(polled, now, at_ns, at_ns)

    def _last(self, value_type: ValueType, rows: NDArray[np.intp]) -> Column:
        match value_type:
            case ValueType.FLOAT64:
                return self._float[rows]
            case ValueType.INT64:
                return self._int[rows]
            case ValueType.BOOL:
                return self._int[rows].astype(np.uint8)
            case ValueType.STRING:
                return Strings.of([self._text[row] for row in rows.tolist()])

    def _meant(self, columns: Columns) -> Column:
        """The values, with the last known one where the quality is bad: nothing unmeant is stored."""
        bad = columns.quality >> SEVERITY_SHIFT >= BAD_CLASS
        if not bad.any():
            return columns.value
        last = self._last(columns.value_type, columns.rows)
        if isinstance(columns.value, Strings) or isinstance(last, Strings):
            assert isinstance(columns.value, Strings)
            assert isinstance(last, Strings)
            pairs = zip(columns.value.to_list(), last.to_list(), bad.tolist(), strict=True)
            return Strings.of([old if is_bad else new for new, old, is_bad in pairs])
        kept: Column = np.where(bad, last, columns.value)
        return kept

    def _is_news(self, columns: Columns, value: Column, now: Instant) -> NDArray[np.bool_]:
        rows = columns.rows
        news: NDArray[np.bool_] = columns.quality != self._quality[rows]
        news |= now - self._sent_at[rows] >= self._heartbeat_ns[rows]
        if isinstance(value, Strings):
            text = value.to_list()
            news |= np.array([new != self._text[row] for new, row in zip(text, rows.tolist(), strict=True)], np.bool_)
        elif columns.value_type is ValueType.FLOAT64:
            news |= np.abs(value - self._float[rows]) > self._width[rows]
        else:
            last = self._int[rows]
            width = self._width[rows]
            # The difference in float64 would lose the last bits of a counter: without a width, any change counts.
            apart = np.abs(value.astype(np.float64) - last) > width
            news |= (value != last) & (apart | (width == 0) | (columns.value_type is ValueType.BOOL))
        return news

    def _sent(
        self,
        columns: Columns,
        value: Column,
        chosen: NDArray[np.intp],
        times: NDArray[np.int64],
        now: Instant,
        node_ns: WallTime,
    ) -> SampleBatch:
        rows = columns.rows[chosen]
        if isinstance(value, Strings):
            value = value.take(chosen)
            for row, text in zip(rows.tolist(), value.to_list(), strict=True):
                self._text[row] = text
        else:
            value = value[chosen]
            if columns.value_type is ValueType.FLOAT64:
                self._float[rows] = value
            else:
                self._int[rows] = value
        quality = columns.quality[chosen]
        self._quality[rows] = quality
        self._sent_at[rows] = now
        return SampleBatch(
            value_type=columns.value_type,
            item_id=rows.astype(np.uint32),
            source_ns=times[chosen],
            node_ns=np.full(len(rows), node_ns, np.int64),
            value=value,
            quality=quality,
        )

    def _returned(self, columns: Columns) -> NDArray[np.bool_]:
        was_lost = self._quality[columns.rows] == BAD_NO_COMMUNICATION
        is_back: NDArray[np.bool_] = was_lost & (columns.quality != BAD_NO_COMMUNICATION)
        return is_back


def _losses(returned: Sequence[_Returned]) -> tuple[Loss, ...]:
    """One gap for all items that fell silent together."""
    if not returned:
        return ()
    rows = np.concatenate([one.rows for one in returned])
    from_ns = np.concatenate([one.from_ns for one in returned])
    to_ns = np.concatenate([one.to_ns for one in returned])
    losses = []
    for start in np.unique(from_ns).tolist():
        together = from_ns == start
        named = sorted(rows[together].tolist())
        losses.append(
            Loss(
                reason="device_lost",
                from_ns=start,
                to_ns=int(to_ns[together].max()),
                rows=tuple(named) if len(named) <= GAP_ITEMS_MAX else (),
            )
        )
    return tuple(losses)
