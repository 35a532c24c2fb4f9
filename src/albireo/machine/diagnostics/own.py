"""CORE's own diagnostics items: what the node knows of its own pulse, judged and stored like any other item."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import astuple

from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import Measured
from albireo.machine.kernel.named import NamedFollower
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

TURN_MS_MAX = 20.0
"""Bound of a turn of CORE; longer turns that keep coming raise a case (design/log-and-feed.md, The loop of CORE)."""

ROOM_SEGMENTS_LOW = 4
"""Room, in segments of the log, below which a case is raised: a warning must come before the stop it warns of."""

TABLE_FILL_HIGH = 80.0
"""Part of a table, in percent, above which a case is raised: names are forgotten by people, who need time."""

HOLD_HIGH = 70.0
"""Part of the bounds of a named follower, in percent, above which a case is raised: long before records go."""

CLOCK_APART_S = 60.0
"""Farthest that the clock of a neighbour or the other member may be from the own one; its word may be seconds old."""

CLOCK_JUMP_S = 1.0
"""Largest jump between two measurements, a second apart, that is not shown; NTP slews far below this."""

CLOCK_JUMP_SHOWN_NS = 60 * SECOND
"""Time for which a jump is shown: after one backwards, the first samples with the new time count as late."""

BATCHES_TIMED = 16_384
"""Number of batches whose times from acquisition to commit are kept."""


class CommitTimes:
    """Times that the last batches took from their acquisition to their commit, milliseconds."""

    def __init__(self) -> None:
        self._ms = np.zeros(BATCHES_TIMED)
        self._count = 0

    def took(self, ms: float) -> None:
        self._ms[self._count % BATCHES_TIMED] = ms
        self._count += 1

    def quantile(self, share: float) -> float:
        """Time within which `share` of the batches were committed; NaN before the first. Cost: O(n), no sort."""
        timed = self._ms[: self._count]
        if not len(timed):
            return math.nan
        rank = min(len(timed) - 1, int(share * len(timed)))
        # Not np.percentile: its first call takes 40 ms, twice what a turn may.
        return float(np.partition(timed, rank)[rank])


def _more_items(config: RootConfig) -> tuple[DataItem, ...]:
    """The items of `more` in `Diagnostics.measured`."""
    return (
        *_TABLES,
        *_TOPICS,
        *(_COMPARED_ITEMS if config.compares else ()),
        *(_TREE_ITEMS if config.neighbours else ()),
        *(_UPWARD_ITEMS if config.parent else ()),
    )


def _bounded(config: RootConfig) -> list[NamedFollower]:
    return [one for one in config.named if one.is_bounded]


def _items(config: RootConfig) -> tuple[DataItem, ...]:
    low = float(config.segment_bytes)
    room = AlarmSettings(lo=ROOM_SEGMENTS_LOW * low, lo_lo=low, severity=900)
    return (
        *_ITEMS,
        DataItem(
            name="core/log_room",
            value_type=ValueType.FLOAT64,
            unit="B",
            description="What the log may still take before admission stops for want of disk",
            alarm=room,
        ),
        *_more_items(config),
        *map(_hold_item, _bounded(config)),
    )


def _table_item(table: str) -> DataItem:
    return DataItem(
        name=f"core/{table}_fill",
        value_type=ValueType.FLOAT64,
        unit="%",
        description=f"Used part of the table of {table}; a full one refuses new names: albireo forget, or [limits]",
        alarm=AlarmSettings(hi=TABLE_FILL_HIGH, severity=600),
    )


_TABLES = (_table_item("producers"), _table_item("items"))


_TOPICS = (
    DataItem(
        name="core/topics_fill",
        value_type=ValueType.FLOAT64,
        unit="%",
        description="Topic with limits that is fullest of what a subscription lacks; above 100 messages go: topic show",
        alarm=AlarmSettings(hi=HOLD_HIGH, on_delay_ms=30_000, severity=600),
    ),
    DataItem(
        name="core/dead_letters",
        value_type=ValueType.FLOAT64,
        description="Messages that no consumer could deal with and that the topic of dead letters does not take",
        alarm=AlarmSettings(hi=0.0, on_delay_ms=60_000, severity=600),
    ),
    DataItem(
        name="core/messages_lacking",
        value_type=ValueType.FLOAT64,
        description="Stretches of messages that this member's files lack; the other member has them, if it is there",
        alarm=AlarmSettings(hi=0.0, on_delay_ms=30_000, severity=700),
    ),
)


def _hold_item(follower: NamedFollower) -> DataItem:
    is_parent = follower.figure == "uplink"
    bounds = "hold_gib or hold_days of [node.uplink]" if is_parent else "its size or age"
    return DataItem(
        name=f"core/{follower.figure}_hold",
        value_type=ValueType.FLOAT64,
        unit="%",
        description=f"Held for {follower.name}, of {bounds}, the larger; above 100 records go",
        # A follower says what it has when it comes; until then all that is there may be lacking.
        alarm=AlarmSettings(hi=HOLD_HIGH, on_delay_ms=30_000, severity=700),
    )


_COMPARED_ITEMS = (
    DataItem(
        name="core/topology_differs",
        value_type=ValueType.FLOAT64,
        description="Members, here or of a node directly above or below, that run another topology: topology diff",
        # A new file reaches members and nodes one after the other.
        alarm=AlarmSettings(hi=0.0, on_delay_ms=30_000, severity=500),
    ),
    DataItem(
        name="core/clock_apart",
        value_type=ValueType.FLOAT64,
        unit="s",
        description="Wall clock of the other member or a node directly above or below, ahead of this one; the farthest",
        alarm=AlarmSettings(hi=CLOCK_APART_S, lo=-CLOCK_APART_S, on_delay_ms=30_000, severity=600),
    ),
)


_TREE_ITEMS = (
    DataItem(
        name="core/nodes_silent",
        value_type=ValueType.FLOAT64,
        description="Nodes below that are not heard: albireo tree",
        # A node that starts anew, or whose other member takes over, is heard again within seconds.
        alarm=AlarmSettings(hi=0.0, on_delay_ms=10_000, severity=700),
    ),
    DataItem(
        name="core/wrong_guids",
        value_type=ValueType.FLOAT64,
        description="Outcomes of orders refused for a wrong guid in the last hour: forged, or of a copied store",
        alarm=AlarmSettings(hi=0.0, severity=800),
    ),
    DataItem(
        name="core/stores_set_back",
        value_type=ValueType.FLOAT64,
        description="Nodes below that came back in the last hour with less than is known of them: a backup, a new disk",
        alarm=AlarmSettings(hi=0.0, severity=600),
    ),
)


_UPWARD_ITEMS = (
    DataItem(
        name="core/unreached",
        value_type=ValueType.FLOAT64,
        description="1: no member of the node above is heard; records wait here, and nobody above sees this node",
        # As of nodes below.
        alarm=AlarmSettings(hi=0.0, on_delay_ms=10_000, severity=700),
    ),
)


_ITEMS = (
    DataItem(
        name="core/turn_ms",
        value_type=ValueType.FLOAT64,
        unit="ms",
        description="Longest turn of CORE in the last ten to twenty seconds",
        # One long turn stands in the figure for up to 20 s; a case is for turns that keep coming.
        alarm=AlarmSettings(hi=TURN_MS_MAX, on_delay_ms=30_000, severity=300),
    ),
    DataItem(
        name="core/commit_ms_p99",
        value_type=ValueType.FLOAT64,
        unit="ms",
        description="From acquisition to commit, 99th percentile of the last batches",
    ),
    DataItem(
        name="core/log_bytes",
        value_type=ValueType.FLOAT64,
        unit="B",
        description="Size of the log on disk",
    ),
    DataItem(
        name="core/log_damage",
        value_type=ValueType.FLOAT64,
        description="Damaged ranges of committed records; restore them from a copy of the data directory",
        alarm=AlarmSettings(hi=0.0, severity=900),
    ),
    DataItem(
        name="core/clock_jump",
        value_type=ValueType.FLOAT64,
        unit="s",
        description="How far the wall clock jumped against the boot clock in the last minute; decisions do not use it",
        alarm=AlarmSettings(hi=CLOCK_JUMP_S, lo=-CLOCK_JUMP_S, severity=600),
    ),
    DataItem(
        name="core/keys_unreadable",
        value_type=ValueType.FLOAT64,
        description="1: the key directory can't be read, so the next start fails: albireo status says why",
        alarm=AlarmSettings(hi=0.5, severity=800),
    ),
    DataItem(
        name="core/history_unsealed",
        value_type=ValueType.FLOAT64,
        description="1: the history can't write its files; records wait in the log: albireo cases list says why",
        # A seal that failed is tried again after 2 s, then after 4 s.
        alarm=AlarmSettings(hi=0.5, on_delay_ms=10_000, severity=700),
    ),
)


def _pair_item(name: str, severity: int, description: str, on_delay_ms: int = 0) -> DataItem:
    alarm = AlarmSettings(hi=0.5, severity=severity, on_delay_ms=on_delay_ms)
    return DataItem(name=f"pair/{name}", value_type=ValueType.FLOAT64, description=description, alarm=alarm)


_PAIR_ITEMS = (
    _pair_item("at_risk", 800, "Records exist on one member only: if it is lost now, they are"),
    _pair_item("other_lost", 700, "The other member is not heard"),
    _pair_item("voters_silent", 600, "Voters that do not answer; without a majority nobody can take over"),
    _pair_item("taken_over", 700, "This member leads because the other member was lost; ends when that is back"),
    _pair_item("store_refused", 900, "A member's store has less than it had acknowledged, or is damaged, or a copy"),
    _pair_item("tail_quarantined", 600, "A member's log was cut: `albireo quarantine` there, then `albireo pair seen`"),
    _pair_item("history_at_risk", 900, "Acknowledged records may be lost, by force or a disk: `albireo pair seen`"),
    _pair_item("history_incomplete", 500, "Files of the stored history that one member has and the other not yet"),
    _pair_item("disk_refuses", 900, "A member's disk takes no more records: albireo status tells why", 3_000),
)
"""Items of a pair, in the order of the numbers of `PairFigures`."""


class ClockWatch:
    """Comparison of wall clock and boot clock; wall time is data, so a jump is told and decides nothing."""

    def __init__(self) -> None:
        self._last: Moment | None = None
        self._jump_s = 0.0
        self._shown_until = 0

    def jump_s(self, moment: Moment) -> float:
        """The last jump within a minute, seconds; 0: none."""
        if self._last is not None:
            jump = ((moment.wall - self._last.wall) - (moment.now - self._last.now)) / SECOND
            if abs(jump) > CLOCK_JUMP_S:
                self._jump_s, self._shown_until = jump, moment.now + CLOCK_JUMP_SHOWN_NS
        self._last = moment
        return self._jump_s if moment.now < self._shown_until else 0.0


class Diagnostics:
    """CORE's items, whose ids are known once they are declared, and the samples of them."""

    def __init__(self) -> None:
        self._ids = np.zeros(0, np.uint32)
        self._others: tuple[int, ...] = ()
        """Ids of CORE's other items."""
        self._more: tuple[DataItem, ...] = ()
        self._bounded: list[NamedFollower] = []
        self._clock = ClockWatch()

    def begin(self, registry: Registry, config: RootConfig, more: Sequence[int], moment: Moment, turn: Turn) -> None:
        """Declare the items, and record the gap since their last samples.

        Args:
            more: ids of CORE's other items, which had no samples while the node was down either.
        """
        self._others = tuple(more)
        ids = self._declare(registry, config, moment, turn)
        registry.gap_of_own_items(ids, moment, turn)

    def take_up(self, registry: Registry, config: RootConfig, moment: Moment, turn: Turn) -> None:
        """Declare other items, if a changed topology has the first node to compare with or none any more."""
        if _more_items(config) != self._more:
            self._declare(registry, config, moment, turn)

    def _declare(self, registry: Registry, config: RootConfig, moment: Moment, turn: Turn) -> tuple[int, ...]:
        """Declare the items, and retire those of CORE's own that there are no longer; returns the ids of all."""
        self._bounded, self._more = _bounded(config), _more_items(config)
        own = _items(config)
        items = (*own, *(_PAIR_ITEMS if config.is_paired else ()))
        ids = registry.declare(OWN_ADAPTER, items, turn)
        every = (*ids, *self._others)
        registry.retire(registry.own_left_behind(every), moment, turn)
        self._ids = np.array(ids, np.uint32)
        return every

    def measured(
        self,
        seen: Measured,
        p99: float,
        more: Sequence[float],
        messages: dict[int, str],
        moment: Moment,
        turn: Turn,
    ) -> None:
        """Append one row per item, in the order of the declaration. NaN: not known yet.

        Args:
            messages: trouble by item id, for the cases that are raised of it; filled here.
            p99: time from acquisition to commit, ms.
            more: values of `_TABLES`, `_TOPICS`, `_COMPARED_ITEMS`, `_TREE_ITEMS` and `_UPWARD_ITEMS`, as far as there
                are items.
        """
        pair = () if seen.pair is None else astuple(seen.pair)[: len(_PAIR_ITEMS)]
        jump_s, is_unsealed = self._clock.jump_s(moment), math.nan
        if seen.seal_trouble is not None:
            is_unsealed = float(bool(seen.seal_trouble))
            messages[int(self._ids[len(_ITEMS) - 1])] = seen.seal_trouble
        own = (seen.turn_ms, p99, seen.log_bytes, seen.corrupt_ranges, jump_s, seen.keys_unreadable, is_unsealed)
        held = (seen.held_percent.get(one.name, math.nan) for one in self._bounded)
        more = more[: len(self._more)]
        value = np.array([*own, seen.room_bytes, *more, *held, *pair], np.float64)
        codes = np.where(np.isnan(value), quality.BAD_WAITING_FOR_INITIAL_DATA, quality.GOOD).astype(np.uint32)
        times = np.full(len(value), moment.wall, np.int64)
        turn.samples(
            SampleBatch(
                value_type=ValueType.FLOAT64,
                item_id=self._ids,
                source_ns=times,
                node_ns=times,
                value=np.nan_to_num(value),
                quality=codes,
            )
        )
