"""The machine's transitions against those of the slow rules: any samples, settings, clocks and restarts.

Two ways in: samples as CORE folds them, several of an item in one batch; and polls of a device behind the dead band of
its adapter, of which the slow rules see every one.
"""

import math
from collections.abc import Sequence

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings

from albireo.field.contract import PolledColumns
from albireo.field.dead_band import DeadBand
from albireo.machine.fold import AlarmConfig
from albireo.model import quality as q
from albireo.model.case import Cause
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.long_form import examples
from tests.parts.alarm import AlarmNode
from tests.parts.slow_rules import PlainSample, SlowItem

CHATTER = (3, 5_000, 8_000)
CONFIG = AlarmConfig(
    chatter_activations=CHATTER[0],
    chatter_window_ms=CHATTER[1],
    chatter_calm_ms=CHATTER[2],
    shelve_max_ms=20_000,
)
TYPES = {"own": ValueType.FLOAT64, "device": ValueType.FLOAT64, "count": ValueType.INT64}
RANGES = {"count": 65_536.0}
EXAMPLES = examples(100)

delays = st.sampled_from([0, 0, 500, 3_000])
floats = {
    "lo": st.sampled_from([None, 2.0, 3.0]),
    "hi": st.sampled_from([None, 6.0, 6.3]),
    "hi_hi": st.sampled_from([None, 8.0]),
    "hysteresis": st.sampled_from([0.0, 0.1, 1.0, 2.5]),
    "on_delay_ms": delays,
    "off_delay_ms": delays,
    "rate_per_s": st.sampled_from([None, 2.0]),
    "stale_s": st.sampled_from([None, 4.0]),
    "frozen_s": st.sampled_from([None, 3.0]),
}
integers = floats | {
    "lo": st.sampled_from([None, 10.0]),
    "hi": st.sampled_from([None, 2.0**53]),
    "hi_hi": st.sampled_from([None, 2.0**60]),
    "rate_per_s": st.sampled_from([None, 16.0]),
    "frozen_s": st.none(),
}
"""Frozen numbers and rates are judged as floats (docs/limits.md), so `frozen` is left to float items."""
alarms = {
    name: st.builds(AlarmSettings, **(integers if kind is ValueType.INT64 else floats)) for name, kind in TYPES.items()
}
rounds = [0.0, 2.0, 2.5, 3.0, 5.0, 6.0, 6.5, 7.0, 8.5, 10.0, math.nan, math.inf]
numbers = st.sampled_from([*rounds, 2.1, 3.1, 6.2, 6.3, 6.4])
counts = st.sampled_from([0, 5, 9, 10, 11, 65_520, 65_535, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**60 + 1, 2**63 - 1])
BADS = [int(one) for one in (q.BAD, q.BAD_NO_COMMUNICATION, q.BAD_WAITING_FOR_INITIAL_DATA)]
qualities = st.sampled_from([0, 0, 0, 0, int(q.UNCERTAIN), *BADS])
waits = st.sampled_from([0, 100, 500, 1_000, 3_000, 4_000, 9_000])
names = st.sampled_from(list(TYPES))
jumps = st.sampled_from([-3_600_000, -700, 700, 31_536_000_000])
steps = st.one_of(
    st.tuples(
        st.just("arrive"),
        waits,
        st.lists(
            st.tuples(names, numbers, counts, qualities, st.sampled_from([0, 0, 0, -500])), min_size=1, max_size=6
        ),
    ),
    st.tuples(st.just("wait"), waits),
    st.tuples(st.just("jump"), names, jumps),
    st.tuples(st.just("edit"), names, st.fixed_dictionaries(alarms)),
    st.tuples(st.just("restart"), st.floats(0, 1)),
)


class BothRules:
    """A node of the machine and an item of the slow rules for each of its items, told the same."""

    def __init__(self, first: dict[str, AlarmSettings]) -> None:
        self.node = AlarmNode(CONFIG)
        self.slow: dict[str, SlowItem] = {}
        self.clock_ms = dict.fromkeys(TYPES, 0)
        """Difference of the clock that stamps each item from that of the log."""
        for name, alarm in first.items():
            self.declare(name, alarm)
            self.slow[name] = SlowItem(alarm, CHATTER, self.node.now_ms, RANGES.get(name))

    def declare(self, name: str, alarm: AlarmSettings) -> None:
        self.node.declare(name, alarm, TYPES[name], counter_range=RANGES.get(name))

    def play(self, step: tuple[object, ...]) -> None:
        match step:
            case ("arrive", int(ms), list(found)):
                self.node.pass_time(ms)
                self.arrive(found)
            case ("wait", int(ms)):
                self.node.pass_time(ms)
            case ("jump", str(name), int(ms)):
                self.clock_ms[name] += ms
            case ("edit", str(name), dict(drawn)):
                self.declare(name, drawn[name])
                self.node.pass_time(0)  # An edit may make an item stale at once, which CORE marks before the next edit.
                self.slow[name].edit(drawn[name], self.node.now_ms)
            case ("restart", float(part)):
                self.node.folds = self.node.replayed(int(part * len(self.node.frames)))
                self.node.commit_proposals()
            case _:
                pytest.fail(f"no such step: {step}")

    def arrive(self, found: Sequence[tuple[str, float, int, int, int]]) -> None:
        """One frame of each type, in which every further sample of an item is 100 ms younger."""
        told: dict[str, list[PlainSample]] = {}
        for name, number, count, quality, late_ms in found:
            row = told.setdefault(name, [])
            source_ns = self.node.wall_ns + (self.clock_ms[name] + 100 * len(row) + late_ms) * MS
            value = count if TYPES[name] is ValueType.INT64 else number
            row.append(PlainSample(value, quality, source_ns, name != "device"))
        for kind in (ValueType.FLOAT64, ValueType.INT64):
            # Rows of several items alternate, as in the merged polls of an adapter.
            rows = [
                (name, row[at])
                for at in range(max(map(len, told.values())))
                for name, row in told.items()
                if TYPES[name] is kind and at < len(row)
            ]
            if rows:
                self.node.append_batch(batch_of_samples(kind, [(self.node.ids[name], one) for name, one in rows]))
        for name, row in told.items():
            self.slow[name].arrive(row, self.node.now_ms)

    def assert_same(self) -> None:
        for name, item in self.slow.items():
            item.pass_to(self.node.now_ms)
            for condition, rule in item.rules.items():
                assert transitions(self.node, self.node.ids[name], condition) == rule.said, f"{name} {condition}"


def batch_of_samples(kind: ValueType, rows: Sequence[tuple[int, PlainSample]]) -> SampleBatch:
    source_ns = np.array([one.source_ns for _, one in rows], np.int64)
    values = [one.value for _, one in rows]
    return SampleBatch(
        value_type=kind,
        item_id=np.array([item_id for item_id, _ in rows], np.uint32),
        source_ns=source_ns,
        node_ns=source_ns + np.array([not one.is_own for _, one in rows]),
        value=np.array(values, np.int64) if kind is ValueType.INT64 else np.array(values, np.float64),
        quality=np.array([one.quality for _, one in rows], np.uint32),
    )


SHOWN = {Cause.RAISED: True, Cause.ACTIVATED: True, Cause.CLEARED: False}


def transitions(node: AlarmNode, item_id: int, condition: Condition) -> list[tuple[int, bool]]:
    """What was noted of one rule, as (time in ms, active)."""
    of_rule = [one for one in node.transitions if (one[1].case.item_id, one[1].case.condition) == (item_id, condition)]
    return [(at_ms, SHOWN[Cause(one.cause)]) for at_ms, one in of_rule if one.cause in SHOWN]


NONE = {name: AlarmSettings() for name in TYPES}


@given(st.fixed_dictionaries(alarms), st.lists(steps, max_size=30))
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.slow
@example(
    NONE | {"own": AlarmSettings(hi=6.0, hysteresis=2.5, on_delay_ms=3_000)},
    [("arrive", 0, [("own", 7.0, 0, 0, 0)]), ("arrive", 500, [("own", 5.0, 0, 0, 0)]), ("wait", 9_000)],
)
@example(
    NONE | {"own": AlarmSettings(rate_per_s=2.0)},
    [("arrive", 0, [("own", 2.0, 0, 0, 0)]), ("arrive", 9_000, [("own", 2.0, 0, 0, 0), ("own", 8.5, 0, 0, 0)])],
)
@example(
    NONE | {"own": AlarmSettings(rate_per_s=0.1)},
    [("arrive", 0, [("own", 2.0, 0, 0, 0)]), ("arrive", 1_000, [("own", 2.1, 0, 0, 0)])],
)
@example(
    NONE | {"count": AlarmSettings(hi=2.0**53)},
    [("arrive", 0, [("count", 0.0, 2**53, 0, 0)]), ("arrive", 0, [("count", 0.0, 2**53 + 1, 0, 0)])],
)
@example(
    NONE | {"count": AlarmSettings(rate_per_s=16.0)},
    [("arrive", 0, [("count", 0.0, 65_535, 0, 0)]), ("arrive", 1_000, [("count", 0.0, 5, 0, 0)])],
)
@example(
    NONE | {"own": AlarmSettings(frozen_s=3.0)},
    [
        ("arrive", 0, [("own", 2.0, 0, 0, 0)]),
        ("arrive", 1_000, [("own", 2.0, 0, int(q.BAD), 0)]),
        ("arrive", 2_500, [("own", 2.0, 0, 0, 0)]),
        ("arrive", 3_000, [("own", 2.0, 0, 0, 0)]),
    ],
)
@example(
    NONE | {"own": AlarmSettings(hi=6.0, on_delay_ms=3_000)},
    [("arrive", 0, [("own", 7.0, 0, 0, 0)]), ("arrive", 500, [("own", math.nan, 0, 0, 0)]), ("wait", 9_000)],
)
@example(
    NONE | {"own": AlarmSettings(hi=6.0)},
    [("arrive", 0, [("own", 2.0, 0, 0, 0)]), ("jump", "own", -3_600_000), ("arrive", 500, [("own", 7.0, 0, 0, 0)])],
)
@example(
    NONE,
    [
        ("wait", 4_000),
        ("edit", "count", NONE | {"count": AlarmSettings(stale_s=4.0)}),
        ("edit", "count", NONE),
    ],
)
@example(
    NONE | {"device": AlarmSettings(stale_s=4.0)},
    [
        ("edit", "device", NONE),
        ("arrive", 500, [("device", 0.0, 0, int(q.BAD_WAITING_FOR_INITIAL_DATA), 0)]),
        ("edit", "device", NONE | {"device": AlarmSettings(stale_s=4.0)}),
        ("wait", 9_000),
    ],
)
def test_transitions_are_those_of_the_slow_rules(
    first: dict[str, AlarmSettings], story: list[tuple[object, ...]]
) -> None:
    both = BothRules(first)
    for step in story:
        both.play(step)
    both.node.pass_time(20_000)
    both.assert_same()


polls = st.lists(
    st.tuples(
        st.sampled_from([500, 1_000, 1_000, 2_500, 6_000]),
        st.lists(st.tuples(st.sampled_from(rounds), qualities), min_size=2, max_size=2),
        st.sampled_from([0, 0, 0, 0, *[-3_600_000, -700, 31_536_000_000]]),
    ),
    max_size=40,
)
"""Time since the poll before, value and quality of each item, jump of the node's clock."""


@given(
    st.lists(alarms["own"], min_size=2, max_size=2),
    st.sampled_from([0.0, 0.1, 0.75, 2.0, 100.0]),
    st.booleans(),
    polls,
    st.floats(0, 1),
)
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.slow
@example(
    [AlarmSettings(rate_per_s=2.0)] * 2, 0.0, True, [(1_000, [(2.0, 0)] * 2, 0)] * 9 + [(1_000, [(8.5, 0)] * 2, 0)], 0.5
)
@example(
    [AlarmSettings(rate_per_s=0.1)] * 2,
    0.1,
    True,
    [(1_000, [(2.0, 0)] * 2, 0), (1_000, [(2.1, 0)] * 2, 0), (1_000, [(2.3, 0)] * 2, 0)],
    0.5,
)
@example([AlarmSettings(hi=6.0)] * 2, 100.0, True, [(1_000, [(5.0, 0)] * 2, 0), (1_000, [(6.5, 0)] * 2, 0)], 0.5)
@example(
    [AlarmSettings(rate_per_s=2.0)] * 2,
    0.0,
    True,
    [(1_000, [(2.0, 0)] * 2, 0), (1_000, [(2.0, 0)] * 2, 0), (500, [(8.5, 0)] * 2, -700)],
    0.5,
)
@example(
    [AlarmSettings(rate_per_s=2.0)] * 2,
    100.0,
    True,
    [
        (1_000, [(2.0, 0)] * 2, 0),
        (2_500, [(5.0, 0)] * 2, 0),
        (500, [(8.5, 0)] * 2, -700),
        (1_000, [(10.0, int(q.UNCERTAIN))] * 2, 0),
    ],
    0.5,
)
def test_dead_band_between_device_and_node_changes_no_limit_and_no_rate(
    drawn: list[AlarmSettings],
    width: float,
    is_own: bool,
    story: list[tuple[int, list[tuple[float, int]], int]],
    restart: float,
) -> None:
    """The slow rules are told every poll. Stale and frozen are left out: what is not sent confirms nothing."""
    alarms_of = [msgspec.structs.replace(one, stale_s=None, frozen_s=None) for one in drawn]
    node = AlarmNode(CONFIG)
    items = [
        DataItem(name=f"i{at}", value_type=ValueType.FLOAT64, alarm=alarm)
        for at, alarm in enumerate(alarms_of, start=1)
    ]
    for one in items:
        node.declare(one.name, one.alarm)
    slow = [SlowItem(one, CHATTER, 0) for one in alarms_of]
    heartbeat_ns = np.full(2, 10 * SECOND)
    band = DeadBand(items, np.full(2, width), heartbeat_ns, WallTime(node.wall_ns))
    shift_ms = 0
    for at, (ms, found, jump_ms) in enumerate(story):
        node.pass_time(ms)
        if at == int(restart * len(story)):
            node.folds = node.replayed(len(node.frames) // 2)
        shift_ms += jump_ms if is_own else 0
        wall_ns = WallTime(node.wall_ns + shift_ms * MS)
        column = PolledColumns(
            value_type=ValueType.FLOAT64,
            rows=np.arange(2),
            value=np.array([value for value, _ in found]),
            quality=np.array([quality for _, quality in found], np.uint32),
            source_ns=None if is_own else np.full(2, wall_ns, np.int64),
        )
        news = band.take([column], Instant(node.now_ms * MS), wall_ns, WallTime(wall_ns + 1))
        if news.batches:
            node.append_batch(merged(news.batches))
        for item, (value, quality) in zip(slow, found, strict=True):
            item.arrive([PlainSample(value, quality, wall_ns, is_own)], node.now_ms)
    node.pass_time(20_000)
    for item_id, item in enumerate(slow, start=1):
        item.pass_to(node.now_ms)
        for condition, rule in item.rules.items():
            assert transitions(node, item_id, condition) == rule.said, f"item {item_id} {condition}"


def merged(batches: Sequence[SampleBatch]) -> SampleBatch:
    """The batches of one poll as the one body in which a producer sends them; rows become item ids."""
    return SampleBatch(
        value_type=batches[0].value_type,
        item_id=np.concatenate([one.item_id for one in batches]) + np.uint32(1),
        source_ns=np.concatenate([one.source_ns for one in batches]),
        node_ns=np.concatenate([one.node_ns for one in batches]),
        value=np.concatenate([one.value for one in batches]),
        quality=np.concatenate([one.quality for one in batches]),
    )
