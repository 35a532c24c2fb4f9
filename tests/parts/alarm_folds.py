"""Parts that tests share: alarm folds against themselves."""

import math

import hypothesis.strategies as st
import msgspec
import pytest

from albireo.codec.questions.cases import ActionAsked
from albireo.machine.fold import AlarmConfig
from albireo.machine.fold.alarms.transitions import asks
from albireo.model import quality as q
from albireo.model.case import Action, LifecycleStatus
from albireo.model.item import AlarmSettings, Condition
from albireo.model.value import ValueType
from tests.parts.alarm import AlarmNode, batch_of

CONFIG = AlarmConfig(chatter_activations=3, chatter_window_ms=5_000, chatter_calm_ms=8_000, shelve_max_ms=20_000)


NAMES = ("a", "b", "c", "switch", "p1/polls")


FLOATS = NAMES[:3]


delays = st.sampled_from([0, 0, 500, 1000, 3000])


alarms = st.builds(
    AlarmSettings,
    lo=st.sampled_from([None, 2.0, 3.0]),
    hi=st.sampled_from([None, 6.0]),
    hi_hi=st.sampled_from([None, 8.0]),
    hysteresis=st.sampled_from([0.0, 1.0, 2.5]),
    on_delay_ms=delays,
    off_delay_ms=delays,
    rate_per_s=st.sampled_from([None, 2.0]),
    stale_s=st.sampled_from([None, 4.0]),
    frozen_s=st.sampled_from([None, 3.0]),
    is_latched=st.booleans(),
    suppressed_by=st.sampled_from(["", "", "switch"]),
)


qualities = st.sampled_from([0, 0, 0, int(q.UNCERTAIN), int(q.BAD), int(q.BAD_NO_COMMUNICATION)])


values = st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 5.0, 6.0, 6.5, 7.0, 8.5, 10.0, math.nan])


rows = st.tuples(st.sampled_from(FLOATS), values, qualities)


steps = st.one_of(
    st.tuples(st.just("batch"), st.lists(rows, min_size=1, max_size=6)),
    st.tuples(st.just("time"), st.sampled_from([100, 500, 1000, 4000, 9000])),
    st.tuples(st.just("switch"), st.booleans()),
    st.tuples(st.just("polls"), st.integers(0, 9)),
    st.tuples(
        st.just("act"),
        st.builds(
            ActionAsked,
            action=st.sampled_from(list(Action)),
            user=st.just("ann"),
            comment=st.just("x"),
            item_id=st.integers(1, 3),
            condition=st.sampled_from(list(Condition)),
            duration_ms=st.sampled_from([None, 1_000, 15_000]),
        ),
    ),
    st.tuples(st.just("declare"), st.tuples(st.sampled_from(FLOATS), alarms)),
)


def node_of(first: list[AlarmSettings]) -> AlarmNode:
    node = AlarmNode(CONFIG)
    declare_all(node, first)
    return node


def declare_all(node: AlarmNode, first: list[AlarmSettings]) -> None:
    for name, alarm in zip(FLOATS, first, strict=True):
        node.declare(name, alarm, adapter="p1" if name == "c" else "")
    node.declare("switch", None, ValueType.BOOL)
    node.declare("p1/polls", None, ValueType.INT64, adapter="p1")


def play(node: AlarmNode, step: tuple[str, object]) -> None:
    match step:
        case ("batch", list(found)):
            batch = batch_of(ValueType.FLOAT64, [(node.ids[n], v, k, None) for n, v, k in found], node.wall_ns)
            node.append_batch(batch)
        case ("time", int(ms)):
            node.pass_time(ms)
        case ("switch", bool(on)):
            node.sample("switch", on)
        case ("polls", int(count)):
            node.sample("p1/polls", count)
        case ("act", ActionAsked(item_id=int(place)) as asked):
            node.act(msgspec.structs.replace(asked, item_id=node.ids[NAMES[place - 1]]))
        case ("declare", (str(name), AlarmSettings() as alarm)):
            node.declare(name, alarm, adapter="p1" if name == "c" else "")
        case _:
            pytest.fail(f"no such step: {step}")


def assert_noted(node: AlarmNode) -> None:
    """What is noted is what holds: at most one open case per rule, and nothing left to propose."""
    conditions, cases = node.folds.conditions, node.folds.cases
    active, chattering, suppressed = conditions.is_active(), conditions.is_chattering(), conditions.is_suppressed()
    for row in range(conditions.count):
        case = cases.find_rule(conditions.item_at(row).item_id, conditions.condition_at(row))
        assert (case is not None and case.is_active) == active[row]
        if case is not None:
            assert (case.is_chattering, case.is_suppressed) == (chattering[row], suppressed[row])
            assert case.unshelve_at is None or case.unshelve_at > node.log_time
            assert case.lifecycle_status is not LifecycleStatus.CLOSED
    assert cases.propose(node.log_time, node.wall_ns) == []
    metrics = cases.metrics(node.log_time)
    assert metrics.unacked == sum(asks(case) for case in cases)
    assert metrics.standing + metrics.silent >= sum(case.is_active for case in cases)
