"""Flood: how much the alarms ask of the people who answer them.

Nothing is held back here: the fold counts committed cases, which `cases` gives it.

The idea: new alarms that an operator sees (raised or active again, and not silent) fall into ten buckets of one
minute, whose sum is the rate per ten minutes. Activations per rule are counted by day of log time; today and
yesterday together name the bad actors.

Spec: reference/scada.md, 1, Alarm load (flood at 10 and more per 10 minutes, stale after 24 h; figures of
ISA-18.2 / IEC 62682 from a tertiary source); OPC UA Part 9, 5.10 (AlarmMetricsType).
"""

from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.transitions import asks, is_silent
from albireo.machine.fold.columns import NEVER, Field, GrowingColumns, Packed
from albireo.model.case import Case, Cause, LifecycleStatus
from albireo.model.instant import SECOND, LogTime

MINUTE_NS: Final = 60 * SECOND
DAY_NS: Final = 86_400 * SECOND
BUCKETS: Final = 10
FLOOD_RATE: Final = 10
"""New alarms per 10 minutes from which the load is a flood."""
ACTORS_SHOWN: Final = 10


class BadActor(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with very many activations."""

    item_id: int
    condition: str
    activations: int
    """Today and yesterday, by log time."""


class FloodMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Alarm load at one time."""

    rate_per_10min: int
    """New alarms shown in the last ten minutes."""
    is_flood: bool
    peak_per_10min: int
    """Highest rate since the log began."""
    peak_ago_s: int
    """Log time since that peak."""
    flood_fraction: float
    """Share of all minutes that ended in a flood, 0..1; the goal is below 0.01."""
    standing: int
    """Active now and not silent."""
    unacked: int
    silent: int
    """Shelved, suppressed or out of service."""
    stale: int
    """Standing for more than 24 h."""
    bad_actors: tuple[BadActor, ...]


class AlarmLoad(GrowingColumns):
    """Counts by rule; the rows are those of `Conditions.rules`."""

    fields: ClassVar = {
        "today": Field("<i8"),
        "yesterday": Field("<i8"),
        "active_since": Field("<i8", NEVER),
        "is_silent": Field("?"),
        "is_unacked": Field("?"),
    }
    today: NDArray[np.int64]
    yesterday: NDArray[np.int64]
    active_since: NDArray[np.int64]
    """Log time, NEVER while inactive."""
    is_silent: NDArray[np.bool_]
    is_unacked: NDArray[np.bool_]


class _Counts(msgspec.Struct, array_like=True):
    """Counts over all rules; the snapshot takes them as they are."""

    buckets: list[int]
    """New alarms by minute of log time modulo ten."""
    minute: int = 0
    """Minute of the newest bucket."""
    day: int = 0
    minutes: int = 0
    """Minutes that have ended."""
    flooded_minutes: int = 0
    peak: int = 0
    peak_at: int = 0


class FloodSnapshot(msgspec.Struct, frozen=True, array_like=True):
    counts: _Counts
    load: Packed


class Flood:
    """The counters."""

    def __init__(self) -> None:
        self._load = AlarmLoad()
        self._counts = _Counts([0] * BUCKETS)

    def fold(self, row: int, case: Case, cause: str, log_time: LogTime) -> None:
        """Fold a committed case of rule `row`, as it is after `cause`."""
        load = self._load
        if row >= load.count:
            load.add(row + 1 - load.count)
        self._roll(log_time)
        is_quiet = is_silent(case)
        is_open = case.lifecycle_status is not LifecycleStatus.CLOSED
        load.is_silent[row] = is_open and is_quiet
        load.is_unacked[row] = is_open and asks(case)
        if not case.is_active:
            load.active_since[row] = NEVER
        elif load.active_since[row] == NEVER:
            load.active_since[row] = log_time
        if cause in _NEW and case.is_active:
            load.today[row] += 1
            if not is_quiet:
                self._count(log_time)

    def forget(self, rows: NDArray[np.intp]) -> None:
        """Forget the rules of forgotten items; what they counted for all rules together stays."""
        self._load.clear(rows[rows < self._load.count])

    def _count(self, log_time: LogTime) -> None:
        counts = self._counts
        counts.buckets[counts.minute % BUCKETS] += 1
        rate = sum(counts.buckets)
        if rate >= counts.peak:
            counts.peak, counts.peak_at = rate, log_time

    def _roll(self, log_time: LogTime) -> None:
        """Go on to the minute and the day of `log_time`."""
        days = log_time // DAY_NS - self._counts.day
        if days > 0:
            self._load.yesterday[:] = self._load.today if days == 1 else 0
            self._load.today[:] = 0
        self._counts = _rolled(self._counts, log_time)

    def metrics(self, log_time: LogTime, conditions: Conditions) -> FloodMetrics:
        """The load at `log_time`, which is not before the last folded record. Nothing changes by asking."""
        counts, load = _rolled(self._counts, log_time), self._load
        rate = sum(counts.buckets)
        is_standing = (load.active_since != NEVER) & ~load.is_silent
        return FloodMetrics(
            rate_per_10min=rate,
            is_flood=rate >= FLOOD_RATE,
            peak_per_10min=counts.peak,
            peak_ago_s=(log_time - counts.peak_at) // SECOND if counts.peak else 0,
            flood_fraction=counts.flooded_minutes / counts.minutes if counts.minutes else 0.0,
            standing=int(is_standing.sum()),
            unacked=self.unacked_count,
            silent=int(load.is_silent.sum()),
            stale=int((load.active_since[is_standing] < log_time - DAY_NS).sum()),
            bad_actors=self._bad_actors(counts.day - self._counts.day, conditions),
        )

    @property
    def unacked_count(self) -> int:
        """Open cases that wait for an acknowledgement. Cost: one sum over a column, for `status` asks for it often."""
        return int(self._load.is_unacked.sum())

    def _bad_actors(self, days: int, conditions: Conditions) -> tuple[BadActor, ...]:
        """The rules with most activations, seen `days` after the last record."""
        load = self._load
        activations = (load.today + load.yesterday, load.today)[days] if days < 2 else np.zeros(1, np.int64)
        # Stable, so that equal counts stand in the order of the rules.
        order = np.argsort(-activations, kind="stable")[:ACTORS_SHOWN]
        return tuple(
            BadActor(
                item_id=conditions.item_at(row).item_id,
                condition=conditions.condition_at(row),
                activations=int(activations[row]),
            )
            for row in order.tolist()
            if activations[row]
        )

    def snapshot(self) -> FloodSnapshot:
        return FloodSnapshot(
            msgspec.structs.replace(self._counts, buckets=list(self._counts.buckets)), self._load.pack()
        )

    def restore(self, taken: FloodSnapshot) -> None:
        """Take a snapshot into an empty fold.

        Raises:
            DecodeError: not what `snapshot` gives.
        """
        if len(taken.counts.buckets) != BUCKETS:
            raise DecodeError(0, f"flood snapshot: {len(taken.counts.buckets)} buckets, expected {BUCKETS}")
        self._load.unpack(taken.load)
        self._counts = taken.counts


_NEW: Final = frozenset((Cause.RAISED, Cause.ACTIVATED))


def _rolled(counts: _Counts, log_time: LogTime) -> _Counts:
    """The counts with the minutes up to `log_time` ended; the same object while nothing ends."""
    minute, day = log_time // MINUTE_NS, log_time // DAY_NS
    passed = minute - counts.minute
    if passed <= 0:
        return counts
    buckets, flooded = list(counts.buckets), counts.flooded_minutes
    for step in range(min(passed, BUCKETS)):
        flooded += sum(buckets) >= FLOOD_RATE
        buckets[(counts.minute + 1 + step) % BUCKETS] = 0
    return _Counts(
        buckets=buckets,
        minute=minute,
        day=day,
        minutes=counts.minutes + passed,
        flooded_minutes=flooded,
        peak=counts.peak,
        peak_at=counts.peak_at,
    )


__all__ = ["BadActor", "Flood", "FloodMetrics", "FloodSnapshot"]
