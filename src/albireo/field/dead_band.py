"""Dead band: which of a poll's values are news.

A polled value is sent when it moved by more than the item's dead band since the last one sent, when its quality
changed, or when the item's heartbeat is due. Columns in, columns out; no Python object per value (strings excepted).

Whatever an alarm would be judged by goes out although the dead band would keep it (alarm_news.py).

An arrival is an event: all of an item are sent, equal ones too, unless the item has a dead band. Then those within it
are kept, as of a poll; they are judged in rounds, the first arrival of each item, the second of each, and so on.

It also knows since when an item has no communication, and so where a gap begins and ends.

Spec: ADR-0032, ADR-0164, ADR-0230; OPC UA Part 8, 7.2.2 (AbsoluteDeadband).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.alarm_news import AlarmNews
from albireo.field.contract import Arrivals, PolledColumns, ValueColumns
from albireo.machine.producer.flight import Loss
from albireo.model.decimals import surely
from albireo.model.instant import Instant, WallTime
from albireo.model.item import DataItem
from albireo.model.quality import BAD_CLASS, BAD_NO_COMMUNICATION, BAD_WAITING_FOR_INITIAL_DATA, SEVERITY_SHIFT
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import ValueType

GAP_ITEMS_MAX: Final = 4_096
"""Items that one gap record names; a gap of more is said of every item of the adapter."""
ROUNDS_MAX: Final = 256
"""Arrivals of one item in one column that are held to its dead band. Those behind are sent, for a round costs about as
much however few items it has."""
_NEVER: Final = np.int64(-(2**62))
"""Long before any boot clock: the heartbeat of an item that was never sent is overdue."""


class PollNews(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The part of one poll, or of one arrival, that goes out."""

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
        items: Sequence[DataItem],
        widths: NDArray[np.float64],
        heartbeat_ns: NDArray[np.int64],
        began_ns: WallTime,
    ) -> None:
        """
        Args:
            items: in row order.
            widths: dead band of each item, engineering units, >= 0; ignored for bool and string.
            heartbeat_ns: longest time between two samples of each item.
            began_ns: wall time of the start; a gap that has no earlier value begins here.
        """
        count = len(items)
        self._types = np.array([one.value_type for one in items], np.uint8)
        self._alarms = AlarmNews(items)
        self._width = widths
        is_number = (self._types == ValueType.FLOAT64) | (self._types == ValueType.INT64)
        self._is_banded = (widths > 0) & is_number & ~self._alarms.judges_each
        """Items of which an arrival may be kept."""
        self._heartbeat_ns = heartbeat_ns
        self._float = np.zeros(count, np.float64)
        self._int = np.zeros(count, np.int64)
        self._text = [""] * count
        self._quality = np.full(count, BAD_WAITING_FOR_INITIAL_DATA, np.uint32)
        self._sent_at = np.full(count, _NEVER, np.int64)
        self._seen_ns = np.full(count, began_ns, np.int64)
        self._seen_at = np.full(count, _NEVER, np.int64)

    def take(self, polled: Sequence[PolledColumns], now: Instant, source_ns: WallTime, node_ns: WallTime) -> PollNews:
        """One poll.

        Args:
            polled: what the adapter gave.
            now: boot clock, for the heartbeats.
            source_ns: wall time of the poll, for values without a time of their own; it is their node time too, by
                which CORE knows that no device has stamped them.
            node_ns: wall time at which the others had arrived.
        """
        batches: list[SampleBatch] = []
        returned: list[_Returned] = []
        for columns in polled:
            times, arrived_ns = columns.source_ns, node_ns
            if times is None:
                times, arrived_ns = np.full(len(columns.rows), source_ns, np.int64), source_ns
            back = self._returned(columns)
            if back.any():
                rows = columns.rows[back]
                returned.append(_Returned(rows, self._gap_from(rows, times[back], now), times[back]))
            value = self._meant(columns, _usable_alone)
            news = self._is_news(columns, value, now)
            if not isinstance(value, Strings):
                before = self._alarms.judge(columns, value, times, arrived_ns, news)
                if before is not None:
                    batches.append(before)
            chosen = np.flatnonzero(news)
            if len(chosen):
                self._remember(columns, value, chosen, now)
                batches.append(_batch(columns, value, chosen, times, arrived_ns))
            spoke = columns.rows[columns.quality != BAD_NO_COMMUNICATION]
            self._seen_ns[spoke] = times[columns.quality != BAD_NO_COMMUNICATION]
            self._seen_at[spoke] = now
        return PollNews(batches=tuple(batches), losses=_losses(returned))

    def arrive(self, arrivals: Arrivals, is_late: NDArray[np.bool_], now: Instant, node_ns: WallTime) -> PollNews:
        """Arrivals of one type.

        Args:
            is_late: by row: its source time is before an earlier one of the item. Such a row is sent, and is not the
                item's last value.
            now, node_ns: as for a poll.
        """
        rows, times = arrivals.rows, arrivals.source_ns
        spoke = ~is_late & (arrivals.quality != BAD_NO_COMMUNICATION)
        back = np.flatnonzero(spoke & (self._quality[rows] == BAD_NO_COMMUNICATION))
        back = back[np.unique(rows[back], return_index=True)[1]]
        returned = _Returned(rows[back], self._gap_from(rows[back], times[back], now), times[back])
        value = self._meant(arrivals, _last_usable)
        news = np.ones(len(rows), np.bool_)
        banded = np.flatnonzero(self._is_banded[rows] & ~is_late)
        for places in _rounds(banded, rows[banded]):
            assert not isinstance(value, Strings), "only numbers have a dead band"
            part = ValueColumns(
                value_type=arrivals.value_type,
                rows=rows[places],
                value=value[places],
                quality=arrivals.quality[places],
            )
            is_news = self._is_news(part, part.value, now) | self._alarms.crossed(part.rows, value[places])
            news[places] = is_news
            self._remember(part, part.value, np.flatnonzero(is_news), now)
        self._remember(arrivals, value, _last_of_each(rows, np.flatnonzero(news & ~is_late)), now)
        self._seen_ns[rows[spoke]] = times[spoke]
        self._seen_at[rows[spoke]] = now
        chosen = np.flatnonzero(news)
        batches = (_batch(arrivals, value, chosen, times, node_ns),) if len(chosen) else ()
        return PollNews(batches=batches, losses=_losses([returned]))

    def lost(self, now: Instant, at_ns: WallTime) -> PollNews:
        """Every item at once: no communication since `at_ns`, its last value kept beside the bad quality."""
        return self._all(BAD_NO_COMMUNICATION, now, at_ns)

    def waiting(self, now: Instant, at_ns: WallTime) -> PollNews:
        """Every item at once: nothing was read yet, which is not zero."""
        return self._all(BAD_WAITING_FOR_INITIAL_DATA, now, at_ns)

    def _all(self, quality: int, now: Instant, at_ns: WallTime) -> PollNews:
        polled = []
        for value_type in ValueType:
            rows = np.flatnonzero(self._types == value_type)
            if len(rows):
                value = self._last(value_type, rows)
                marks = np.full(len(rows), quality, np.uint32)
                polled.append(PolledColumns(value_type=value_type, rows=rows, value=value, quality=marks))
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

    def _meant(
        self, columns: ValueColumns, find_usable: Callable[[NDArray[np.intp], NDArray[np.bool_]], NDArray[np.intp]]
    ) -> Column:
        """The values, with the last known one where the quality is bad: nothing unmeant is stored.

        Args:
            find_usable: of the rows, and which are bad: place of the last usable value of each row's item; -1: none.
        """
        bad = columns.quality >> SEVERITY_SHIFT >= BAD_CLASS
        if not bad.any():
            return columns.value
        usable = find_usable(columns.rows, bad)
        value, last = columns.value, self._last(columns.value_type, columns.rows)
        if isinstance(value, Strings) or isinstance(last, Strings):
            assert isinstance(value, Strings)
            assert isinstance(last, Strings)
            texts = value.to_list()
            pairs = zip(usable.tolist(), last.to_list(), strict=True)
            return Strings.of([old if place < 0 else texts[place] for place, old in pairs])
        kept: Column = np.where(usable < 0, last, value[usable])
        return kept

    def _is_news(self, columns: ValueColumns, value: Column, now: Instant) -> NDArray[np.bool_]:
        rows = columns.rows
        news: NDArray[np.bool_] = columns.quality != self._quality[rows]
        news |= now - self._sent_at[rows] >= self._heartbeat_ns[rows]
        if isinstance(value, Strings):
            text = value.to_list()
            news |= np.array([new != self._text[row] for new, row in zip(text, rows.tolist(), strict=True)], np.bool_)
        elif columns.value_type is ValueType.FLOAT64:
            last_float = self._float[rows]
            with np.errstate(invalid="ignore", over="ignore"):  # Between infinite values, and the largest.
                is_near = surely(value - last_float, value, last_float) <= self._width[rows]
            has_moved = (value != last_float) & ~(np.isnan(value) & np.isnan(last_float))
            news |= has_moved & (~is_near | self._is_watched(rows, now))
        else:
            last = self._int[rows]
            width = self._width[rows]
            # The difference in float64 would lose the last bits of a counter: without a width, any change counts.
            apart = np.abs(value.astype(np.float64) - last) > width
            apart |= (width == 0) | (columns.value_type is ValueType.BOOL) | self._is_watched(rows, now)
            news |= (value != last) & apart
        return news

    def _is_watched(self, rows: NDArray[np.intp], now: Instant) -> NDArray[np.bool_] | bool:
        """Mark items of which any change is news, because for a while nothing could show that they are not frozen."""
        return now - self._sent_at[rows] >= self._alarms.moves_ns[rows] if self._alarms.has_frozen else False

    def _remember(self, columns: ValueColumns, value: Column, chosen: NDArray[np.intp], now: Instant) -> None:
        """These rows are sent, each item's at most once."""
        rows = columns.rows[chosen]
        if isinstance(value, Strings):
            for row, text in zip(rows.tolist(), value.take(chosen).to_list(), strict=True):
                self._text[row] = text
        else:
            value = value[chosen]
            if columns.value_type is ValueType.FLOAT64:
                self._float[rows] = value
            else:
                self._int[rows] = value
            self._alarms.sent(rows, value)
        self._quality[rows] = columns.quality[chosen]
        self._sent_at[rows] = now

    def _returned(self, columns: PolledColumns) -> NDArray[np.bool_]:
        was_lost = self._quality[columns.rows] == BAD_NO_COMMUNICATION
        is_back: NDArray[np.bool_] = was_lost & (columns.quality != BAD_NO_COMMUNICATION)
        return is_back

    def _gap_from(self, rows: NDArray[np.intp], to_ns: NDArray[np.int64], now: Instant) -> NDArray[np.int64]:
        """Last time of each item before its gap; where a clock was set back meanwhile, by the length of the gap."""
        from_ns = self._seen_ns[rows]
        known = self._seen_at[rows] != _NEVER
        length = np.where(known, now - np.where(known, self._seen_at[rows], now), 0)
        return np.where(from_ns > to_ns, to_ns - length, from_ns)


def _batch(
    columns: ValueColumns, value: Column, chosen: NDArray[np.intp], times: NDArray[np.int64], node_ns: WallTime
) -> SampleBatch:
    return SampleBatch(
        value_type=columns.value_type,
        item_id=columns.rows[chosen].astype(np.uint32),
        source_ns=times[chosen],
        node_ns=np.full(len(chosen), node_ns, np.int64),
        value=value.take(chosen) if isinstance(value, Strings) else value[chosen],
        quality=columns.quality[chosen],
    )


def _usable_alone(rows: NDArray[np.intp], bad: NDArray[np.bool_]) -> NDArray[np.intp]:
    """As `_last_usable`, where each item has one row."""
    return np.where(bad, -1, np.arange(len(rows)))


def _last_usable(rows: NDArray[np.intp], bad: NDArray[np.bool_]) -> NDArray[np.intp]:
    """By row: place of the last usable value of its item up to there; -1: none."""
    order = np.argsort(rows, kind="stable")
    newest = np.maximum.accumulate(np.where(bad[order], -1, np.arange(len(rows))))
    is_own = newest >= np.repeat(*_runs(rows[order]))
    usable = np.empty(len(rows), np.intp)
    usable[order] = np.where(is_own, order[newest], -1)
    return usable


def _runs(sorted_rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First place and length of each run of equal rows."""
    begins = np.flatnonzero(np.append(True, sorted_rows[1:] != sorted_rows[:-1]))
    return begins, np.diff(begins, append=len(sorted_rows))


def _rounds(places: NDArray[np.intp], rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The places, in rounds: each has an item's row at most once, in order. Those behind ROUNDS_MAX are left out."""
    if not len(places):
        return
    order = np.argsort(rows, kind="stable")
    begins, lengths = _runs(rows[order])
    number = np.empty(len(rows), np.intp)
    number[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    for round_ in range(min(int(lengths.max()), ROUNDS_MAX)):
        yield places[number == round_]


def _last_of_each(rows: NDArray[np.intp], places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the places that are the last of their item."""
    backwards = places[::-1]
    last: NDArray[np.intp] = backwards[np.unique(rows[backwards], return_index=True)[1]]
    return last


def _losses(returned: Sequence[_Returned]) -> tuple[Loss, ...]:
    """Losses of items that came back: one for all that fell silent together."""
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
