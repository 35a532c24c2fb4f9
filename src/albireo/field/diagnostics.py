"""Diagnostics: what an adapter says of itself, as items like any other.

    <adapter>/connected     bool; false is the case "device lost"
    <adapter>/poll_ms       mean duration of a poll since the last sample of this item
    <adapter>/acquired      samples handed on since it acts, these included
    <adapter>/dropped       samples lost by overflow since the start
    <adapter>/queue_bytes   samples waiting for CORE
    <adapter>/overruns      polls left out because the one before took too long
    <adapter>/reconnects    times the device came back
    <adapter>/errors, ...   the adapter's own counters
    <adapter>/late_order... the adapter's own conditions, bool; true is a case

All of them go out together, every `diagnostics_ms` and when a bool changes: also the sign of life of the adapter.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.model.instant import WallTime
from albireo.model.item import LOST_SEVERITY, AlarmSettings, DataItem
from albireo.model.quality import BAD_WAITING_FOR_INITIAL_DATA, GOOD
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

_COUNTS: Final = {
    "acquired": "samples handed on since it acts, this one included",
    "dropped": "samples lost since the start",
    "queue_bytes": "samples waiting for the core",
    "overruns": "polls left out because the one before took too long",
    "reconnects": "times the device came back",
}


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that an adapter publishes of itself."""

    is_connected: bool | None
    """None: not tried yet."""
    poll_ms: float | None
    """None: no poll since the last time."""
    counts: Mapping[str, int]
    conditions: Mapping[str, bool] = {}


class AdapterDiagnostics:
    """Declares the items and builds their samples; rows follow those of the adapter's own items."""

    def __init__(self, adapter: str, counters: Sequence[str], first_row: int, conditions: Sequence[str] = ()) -> None:
        self._counts = (*_COUNTS, *counters)
        self._conditions = tuple(conditions)
        self._first_row = first_row
        self._poll_ms = 0.0
        named = {**dict.fromkeys(counters, "counted by the adapter since the start"), **_COUNTS}
        lost = AlarmSettings(off_normal=False, is_device_state=True, severity=LOST_SEVERITY)
        self.items = (
            DataItem(
                name=f"{adapter}/connected",
                value_type=ValueType.BOOL,
                adapter=adapter,
                description="the device answers",
                alarm=lost,
            ),
            DataItem(
                name=f"{adapter}/poll_ms",
                value_type=ValueType.FLOAT64,
                adapter=adapter,
                unit="ms",
                description="mean duration of a poll",
            ),
            *(
                DataItem(
                    name=f"{adapter}/{name}",
                    value_type=ValueType.INT64,
                    adapter=adapter,
                    unit="B" if name == "queue_bytes" else "",
                    description=named[name],
                )
                for name in self._counts
            ),
            *(_condition(adapter, name) for name in self._conditions),
        )

    def batches(self, health: Health, at_ns: WallTime) -> tuple[SampleBatch, ...]:
        """Batches with one sample of each item."""
        waiting = np.array([BAD_WAITING_FOR_INITIAL_DATA], np.uint32)
        good = np.array([GOOD], np.uint32)
        if health.poll_ms is not None:
            self._poll_ms = health.poll_ms
        row = self._first_row
        counts = np.array([health.counts[name] for name in self._counts], np.int64)
        connected = np.array([health.is_connected is True], np.uint8)
        wrong = np.array([health.conditions[name] for name in self._conditions], np.uint8)
        conditions = _batch(ValueType.BOOL, row + 2 + len(counts), wrong, np.full(len(wrong), GOOD, np.uint32), at_ns)
        return (
            _batch(ValueType.BOOL, row, connected, waiting if health.is_connected is None else good, at_ns),
            _batch(
                ValueType.FLOAT64,
                row + 1,
                np.array([self._poll_ms]),
                waiting if health.poll_ms is None else good,
                at_ns,
            ),
            _batch(ValueType.INT64, row + 2, counts, np.full(len(counts), GOOD, np.uint32), at_ns),
            *([conditions] if self._conditions else []),
        )


def _condition(adapter: str, name: str) -> DataItem:
    return DataItem(
        name=f"{adapter}/{name}",
        value_type=ValueType.BOOL,
        adapter=adapter,
        description="seen by the adapter",
        alarm=AlarmSettings(off_normal=True, severity=LOST_SEVERITY),
    )


def _batch(
    value_type: ValueType,
    first_row: int,
    value: np.ndarray[tuple[int], np.dtype[np.float64 | np.int64 | np.uint8]],
    quality: np.ndarray[tuple[int], np.dtype[np.uint32]],
    at_ns: WallTime,
) -> SampleBatch:
    times = np.full(len(value), at_ns, np.int64)
    return SampleBatch(
        value_type=value_type,
        item_id=np.arange(first_row, first_row + len(value), dtype=np.uint32),
        source_ns=times,
        node_ns=times,
        value=value,  # type: ignore[arg-type]  # The dtype goes with the value type.
        quality=quality,
    )
