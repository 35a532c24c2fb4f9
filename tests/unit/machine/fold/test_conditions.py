"""Conditions: each detector by itself, on log time."""

from typing import Any

import numpy as np
import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.record import ItemDeclared
from albireo.machine.fold import AlarmConfig, Conditions, Dim
from albireo.model import quality as q
from albireo.model.bounded import TEXT_CHARS_MAX
from albireo.model.instant import MS, LogTime, WallTime
from albireo.model.item import AlarmSettings, Condition, DataItem, KnownItem
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.alarm import WALL_0, AlarmNode, batch_of

NEVER_CHATTER = AlarmConfig(chatter_window_ms=1, chatter_activations=16)


def node_with(alarm: AlarmSettings, value_type: ValueType = ValueType.FLOAT64, adapter: str = "") -> AlarmNode:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("a", alarm, value_type, adapter)
    return node


def active(node: AlarmNode) -> set[str]:
    """Conditions judged to hold now."""
    conditions = node.folds.conditions
    return {conditions.condition_at(row).value for row in np.flatnonzero(conditions.is_active()).tolist()}


def after_each(node: AlarmNode, values: list[Value], every_ms: int = 1000) -> list[set[str]]:
    found = []
    for value in values:
        node.pass_time(every_ms)
        node.sample("a", value)
        found.append(active(node))
    return found


def test_four_limits_each_hold_beyond_and_not_at_their_limit() -> None:
    node = node_with(AlarmSettings(lo_lo=-10.0, lo=0.0, hi=10.0, hi_hi=20.0))
    values: list[Value] = [5.0, 10.0, 10.1, 20.0, 20.1, 15.0, 0.0, -0.1, -10.0, -10.1]
    assert after_each(node, values) == [
        set(),
        set(),
        {"hi"},
        {"hi"},
        {"hi", "hi_hi"},
        {"hi"},
        set(),
        {"lo"},
        {"lo"},
        {"lo", "lo_lo"},
    ]


def test_limit_clears_only_inside_by_the_hysteresis() -> None:
    node = node_with(AlarmSettings(lo=0.0, hi=10.0, hysteresis=2.0))
    assert after_each(node, [11.0, 9.0, 8.1, 8.0, -1.0, 1.9, 2.0]) == [
        {"hi"},
        {"hi"},
        {"hi"},
        set(),
        {"lo"},
        {"lo"},
        set(),
    ]


def test_limits_clear_at_the_end_of_the_hysteresis_in_decimals() -> None:
    """As doubles 40.3 - 0.1 is below 40.2, and 1.1 + 0.1 is above 1.2."""
    node = node_with(AlarmSettings(lo=1.1, hi=40.3, hysteresis=0.1))
    assert after_each(node, [40.3, 40.4, 40.3, 40.2, 1.1, 1.0, 1.1, 1.2]) == [
        set(),
        {"hi"},
        {"hi"},
        set(),
        set(),
        {"lo"},
        {"lo"},
        set(),
    ]


def test_a_rate_is_at_its_limit_in_decimals() -> None:
    """As doubles 0.4 - 0.3 is more than 0.1."""
    assert after_each(node_with(AlarmSettings(rate_per_s=0.1)), [0.3, 0.4, 0.3, 0.5]) == [set(), set(), set(), {"rate"}]


def test_limits_judge_integers_too() -> None:
    node = node_with(AlarmSettings(hi=10.0), ValueType.INT64)
    assert after_each(node, [10, 11]) == [set(), {"hi"}]
    assert [(case.value, type(case.value)) for case in node.open_cases()] == [(11, int)]


def test_infinite_value_is_beyond_every_limit_and_nan_judges_nothing() -> None:
    node = node_with(AlarmSettings(hi=10.0))
    assert after_each(node, [float("nan"), float("inf"), float("nan"), 1.0]) == [set(), {"hi"}, {"hi"}, set()]


def test_on_delay_raises_at_its_end_although_nothing_comes() -> None:
    node = node_with(AlarmSettings(hi=10.0, on_delay_ms=3000))
    node.pass_time(1000)
    node.sample("a", 11.0)
    node.pass_time(2999)
    assert active(node) == set()
    node.pass_time(1)
    assert active(node) == {"hi"}
    assert [case.raised_ns - WALL_0 for case in node.open_cases()] == [4_000_000_000]


def test_condition_gone_within_the_on_delay_raises_nothing_and_the_next_delay_is_whole() -> None:
    node = node_with(AlarmSettings(hi=10.0, on_delay_ms=3000))
    assert after_each(node, [11.0, 11.0, 9.0, 11.0, 11.0, 11.0], 1000)[-1] == set()
    node.pass_time(1000)
    assert active(node) == {"hi"}


def test_off_delay_holds_the_condition_for_its_time() -> None:
    node = node_with(AlarmSettings(hi=10.0, off_delay_ms=2000))
    assert after_each(node, [11.0, 9.0, 11.0, 9.0]) == [{"hi"}] * 4
    node.pass_time(1999)
    assert active(node) == {"hi"}
    node.pass_time(1)
    assert active(node) == set()


def test_bad_quality_keeps_the_judgement_and_drops_a_delay_under_way() -> None:
    node = node_with(AlarmSettings(hi=10.0, on_delay_ms=2000))
    node.sample("a", 11.0)
    node.pass_time(1000)
    node.sample("a", 0.0, q.BAD_SENSOR_FAILURE)
    node.pass_time(60_000)
    assert active(node) == set(), "not raised while nobody knows the value"
    node.sample("a", 11.0)
    node.pass_time(2000)
    assert active(node) == {"hi"}
    node.sample("a", 0.0, q.BAD_SENSOR_FAILURE)
    node.pass_time(60_000)
    assert active(node) == {"hi"}, "nor cleared"


def test_uncertain_quality_is_judged() -> None:
    node = node_with(AlarmSettings(hi=10.0))
    node.sample("a", 11.0, q.UNCERTAIN_SENSOR_NOT_ACCURATE)
    assert active(node) == {"hi"}


@pytest.mark.parametrize("is_alarm", [True, False])
def test_off_normal_holds_at_the_declared_value(is_alarm: bool) -> None:
    node = node_with(AlarmSettings(off_normal=is_alarm), ValueType.BOOL)
    assert active(node) == set(), "unknown is not false"
    assert after_each(node, [is_alarm, not is_alarm]) == [{"off_normal"}, set()]


def test_device_state_raises_device_lost() -> None:
    node = node_with(AlarmSettings(off_normal=False, is_device_state=True, severity=900), ValueType.BOOL)
    node.sample("a", False)
    assert [(one.condition, one.severity, one.value) for one in node.open_cases()] == [
        (Condition.DEVICE_LOST, 900, False)
    ]


def test_rate_is_the_change_over_the_source_times_either_way() -> None:
    node = node_with(AlarmSettings(rate_per_s=2.0))
    assert after_each(node, [0.0, 2.0, 4.1, 4.1, 1.9]) == [set(), set(), {"rate"}, set(), {"rate"}]


def test_rate_verdict_falls_by_itself_when_a_dead_band_sends_nothing_more() -> None:
    """6 units in 1 s at 2 per s: three seconds after the sample before, the mean is at the limit."""
    node = node_with(AlarmSettings(rate_per_s=2.0))
    node.sample("a", 0.0)
    node.pass_time(1000)
    node.sample("a", 6.0)
    node.pass_time(1999)
    assert active(node) == {"rate"}
    node.pass_time(1)
    assert active(node) == set()


def test_rate_judges_nothing_over_a_source_time_that_stood_or_went_back() -> None:
    node = node_with(AlarmSettings(rate_per_s=2.0))
    node.sample("a", 0.0, source_ns=WALL_0)
    node.sample("a", 100.0, source_ns=WALL_0)
    assert active(node) == set()


def test_rate_verdict_stays_while_quality_is_bad_and_the_next_usable_value_judges() -> None:
    """Nobody knows whether the value still moves: nothing is cleared although its mean rate would have fallen."""
    node = node_with(AlarmSettings(rate_per_s=2.0))
    node.sample("a", 0.0)
    node.pass_time(1000)
    node.sample("a", 6.0)
    node.pass_time(1000)
    node.sample("a", 6.0, q.BAD_SENSOR_FAILURE)
    node.pass_time(60_000)
    assert active(node) == {"rate"}
    node.sample("a", 6.0)
    assert active(node) == set()


def test_rate_over_infinite_values_raises_no_warning() -> None:
    node = node_with(AlarmSettings(rate_per_s=2.0))
    after_each(node, [float("inf"), float("inf"), float("-inf")])
    node.pass_time(10_000)
    assert active(node) == {"rate"}
    assert node.folds.deadline() is not None, "an infinite change holds its verdict until the next sample judges"


def test_stale_after_its_time_without_a_sample_and_well_at_the_next() -> None:
    node = node_with(AlarmSettings(stale_s=5.0))
    node.pass_time(3000)
    node.sample("a", 1.0)
    node.pass_time(4999)
    assert active(node) == set()
    node.pass_time(1)
    assert active(node) == {"stale"}
    node.sample("a", 1.0)
    assert active(node) == set()


def test_item_that_never_came_is_stale_after_its_time() -> None:
    node = node_with(AlarmSettings(stale_s=5.0))
    node.pass_time(5000)
    assert [(one.condition, one.value) for one in node.open_cases()] == [(Condition.STALE, None)]


def test_a_case_of_a_long_text_has_no_more_of_it_than_a_record_may_have() -> None:
    node = node_with(AlarmSettings(stale_s=5.0), ValueType.STRING)
    node.sample("a", "x" * (TEXT_CHARS_MAX + 1))
    node.pass_time(5000)
    assert [one.value for one in node.open_cases()] == ["x" * TEXT_CHARS_MAX]


def test_stale_judges_strings_too() -> None:
    node = node_with(AlarmSettings(stale_s=5.0), ValueType.STRING)
    node.sample("a", "on")
    node.pass_time(5000)
    assert active(node) == {"stale"}
    node.sample("a", "on")
    assert active(node) == set()


BLIND: dict[str, tuple[Value, int]] = {
    "the device refuses its address": (0.0, q.BAD_CONFIGURATION_ERROR),
    "its unit is away": (0.0, q.BAD_NO_COMMUNICATION),
    "its sensor says that it failed": (0.0, q.BAD_SENSOR_FAILURE),
    "its sensor says that it has no number": (float("nan"), q.GOOD),
    "its adapter waits for it": (0.0, q.BAD_WAITING_FOR_INITIAL_DATA),
}


@pytest.mark.parametrize(("value", "quality"), BLIND.values(), ids=BLIND)
def test_samples_without_a_usable_value_do_not_keep_an_item_alive(value: Value, quality: int) -> None:
    node = node_with(AlarmSettings(hi=10.0, stale_s=5.0), adapter="p1")
    node.sample("a", 1.0)
    for _ in range(10):
        node.pass_time(1000)
        node.sample("a", value, quality)
    assert active(node) == {"stale"}
    assert len(node.transitions) == 1
    assert str([case.value for case in node.open_cases()]) == ("[nan]" if value != value else "[1.0]"), "as shown"
    node.sample("a", 2.0)
    assert active(node) == set()


def test_samples_of_another_type_do_not_keep_an_item_alive() -> None:
    node = node_with(AlarmSettings(stale_s=5.0))
    node.sample("a", 1.0)
    for _ in range(5):
        node.pass_time(1000)
        node.append_batch(batch_of(ValueType.INT64, [(node.ids["a"], 7, 0, None)], node.wall_ns))
    assert active(node) == {"stale"}


LOST = AlarmSettings(off_normal=False, is_device_state=True)


@pytest.mark.parametrize(
    ("device", "adapter"), [("p1/connected", "p1"), ("p1/running", "core")], ids=["its device", "its process"]
)
def test_item_of_a_lost_adapter_is_told_by_its_case_and_has_its_time_anew_behind_it(device: str, adapter: str) -> None:
    node = node_with(AlarmSettings(stale_s=5.0), adapter="p1")
    node.declare(device, LOST, ValueType.BOOL, adapter=adapter)
    node.sample("a", 1.0)
    node.sample(device, False)
    node.sample("a", 0.0, q.BAD_NO_COMMUNICATION)
    node.pass_time(60_000)
    assert active(node) == {"device_lost"}
    node.sample(device, True)
    node.pass_time(4_999)
    assert active(node) == set()
    node.pass_time(1)
    assert active(node) == {"stale"}
    node.sample(device, False)
    node.sample("a", 0.0, q.BAD_NO_COMMUNICATION)
    assert active(node) == {"stale", "device_lost"}, "only a usable value ends it"


def test_item_that_comes_while_its_adapter_is_lost_is_told_by_its_case_too() -> None:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("p1/connected", LOST, ValueType.BOOL, adapter="p1")
    node.sample("p1/connected", False)
    node.declare("a", AlarmSettings(stale_s=5.0), adapter="p1")
    node.pass_time(60_000)
    assert active(node) == {"device_lost"}
    node.retire("p1/connected")
    node.pass_time(5_000)
    assert active(node) == {"stale"}, "nobody tells it any more"


def test_one_device_of_several_excuses_only_what_it_does_not_answer_for() -> None:
    """A value that the device refuses is no matter of whether it is reached."""
    node = node_with(AlarmSettings(stale_s=5.0), adapter="p1")
    node.declare("p1/connected", LOST, ValueType.BOOL, adapter="p1")
    node.sample("p1/connected", False)
    node.sample("a", 0.0, q.BAD_CONFIGURATION_ERROR)
    node.pass_time(5_000)
    assert active(node) == {"stale", "device_lost"}


def test_blind_items_cost_no_mark_at_each_sample() -> None:
    node = node_with(AlarmSettings(stale_s=5.0), adapter="p1")
    for _ in range(100):
        node.sample("a", 0.0, q.BAD_SENSOR_FAILURE)
        node.pass_time(1_000)
    assert node.marks <= 2


def test_diagnostics_of_an_adapter_neither_keep_its_items_alive_nor_wake_them() -> None:
    """An adapter whose poll hangs goes on to say how it is: only polls that confirm an item keep it alive."""
    node = node_with(AlarmSettings(stale_s=5.0), adapter="p1")
    node.declare("p1/polls", None, ValueType.INT64, adapter="p1")
    for count in range(20):
        node.sample("p1/polls", count)
        node.pass_time(1000)
    assert [(one.item_id, one.condition.value, one.activations) for one in node.open_cases()] == [(1, "stale", 1)]


def test_stale_time_below_the_interval_of_the_diagnostics_does_not_flap() -> None:
    node = node_with(AlarmSettings(stale_s=2.0), adapter="p1")
    node.declare("p1/polls", None, ValueType.INT64, adapter="p1")
    for tenth in range(300):
        if tenth % 50 == 0:
            node.sample("p1/polls", tenth)
        if tenth < 100:
            node.sample("a", 1.0)
        node.pass_time(100)
    assert [(at_ms, one.cause) for at_ms, one in node.transitions] == [(11_900, "raised")]


def chains(node: AlarmNode, numbers: list[tuple[float, int]], at_ms: int = 0) -> set[str]:
    """Fold one batch of (value, source time in ms) of the item `a`, as polls that were sent together."""
    wall = WALL_0 + (node.now_ms + at_ms) * MS
    batch = batch_of(ValueType.FLOAT64, [(1, value, 0, WALL_0 + ms * MS) for value, ms in numbers], wall + 1)
    node.append_batch(batch)
    return active(node)


def test_rate_is_judged_between_each_two_polls_of_a_batch() -> None:
    """The adapter sends the poll before a jump with it: the step is not spread over the silence before."""
    node = node_with(AlarmSettings(rate_per_s=5.0))
    chains(node, [(20.0, 0)])
    node.pass_time(10_000)
    assert chains(node, [(20.0, 9_000), (30.0, 10_000)]) == {"rate"}
    node.pass_time(1_999)
    assert active(node) == {"rate"}, "10 units are 5 per s after two seconds, but the next poll may be late"
    node.pass_time(1)
    assert active(node) == set()


def test_step_between_older_polls_of_a_batch_is_seen_and_falls_by_the_next_poll() -> None:
    node = node_with(AlarmSettings(rate_per_s=5.0))
    chains(node, [(20.0, 0)])
    node.pass_time(3_000)
    assert chains(node, [(20.0, 1_000), (80.0, 2_000), (20.0, 3_000)]) == {"rate"}
    node.pass_time(1_000)
    assert chains(node, [(20.0, 4_000)]) == set()


def test_late_and_bad_rows_of_a_batch_take_no_part_in_a_rate() -> None:
    node = node_with(AlarmSettings(rate_per_s=5.0))
    chains(node, [(20.0, 10_000)])
    node.pass_time(10_000)
    assert chains(node, [(90.0, 2_000), (21.0, 11_000)]) == set(), "the first is late"
    bad = [(1, 500.0, int(q.BAD), WALL_0 + 11_500 * MS), (1, 22.0, 0, WALL_0 + 12_000 * MS)]
    node.append_batch(batch_of(ValueType.FLOAT64, [*bad], WALL_0 + 1))
    assert active(node) == set()


def bad_behind(node: AlarmNode, numbers: list[tuple[float, int]], bad_ms: int) -> set[str]:
    """Fold one batch of good polls and a bad one behind them."""
    rows = [(1, value, 0, WALL_0 + ms * MS) for value, ms in numbers]
    bad = (1, 0.0, int(q.BAD), WALL_0 + bad_ms * MS)
    node.append_batch(batch_of(ValueType.FLOAT64, [*rows, bad], WALL_0 + 1))
    return active(node)


def test_good_polls_before_a_bad_one_of_a_batch_are_judged() -> None:
    node = node_with(AlarmSettings(rate_per_s=5.0))
    chains(node, [(20.0, 0)])
    node.pass_time(9_000)
    assert bad_behind(node, [(20.0, 8_000)], 9_000) == set()
    node.pass_time(1_000)
    assert chains(node, [(40.0, 10_000)]) == {"rate"}, "20 units in two seconds, and not in ten"

    node = node_with(AlarmSettings(rate_per_s=5.0))
    chains(node, [(20.0, 0)])
    node.pass_time(3_000)
    assert bad_behind(node, [(20.0, 1_000), (80.0, 2_000)], 3_000) == {"rate"}, "it rose before the bad poll"
    node.pass_time(60_000)
    assert active(node) == {"rate"}, "nobody knows whether it moves"

    node = node_with(AlarmSettings(rate_per_s=5.0, on_delay_ms=500))
    chains(node, [(20.0, 0)])
    node.pass_time(3_000)
    assert bad_behind(node, [(20.0, 1_000), (80.0, 2_000)], 3_000) == set()
    node.pass_time(60_000)
    assert active(node) == set(), "the bad poll ended the delay"


def test_a_value_that_moved_before_a_bad_poll_of_a_batch_is_not_frozen() -> None:
    node = node_with(AlarmSettings(frozen_s=3.0))
    chains(node, [(20.0, 0)])
    node.pass_time(2_000)
    bad_behind(node, [(21.0, 1_000)], 2_000)
    node.pass_time(2_000)
    assert chains(node, [(20.0, 4_000)]) == set()
    node.pass_time(2_000)
    assert chains(node, [(20.0, 6_000)]) == set(), "it came back from 21"
    node.pass_time(1_000)
    assert chains(node, [(20.0, 7_000)]) == {"frozen"}


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(65_530, 4, set()), (40_000, 0, {"rate"}), (4, 40_000, {"rate"})]
)
def test_counter_that_passes_its_end_is_no_rate_and_any_other_change_is(
    before: int, after: int, expected: set[str]
) -> None:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("a", AlarmSettings(rate_per_s=20.0), ValueType.INT64, counter_range=65_536.0)
    assert after_each(node, [before, after])[-1] == expected


def test_counter_that_counts_down_passes_its_end_the_other_way() -> None:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("a", AlarmSettings(rate_per_s=2.0), counter_range=-6553.6)
    assert after_each(node, [-6553.0, -0.2])[-1] == set()


def test_frozen_after_its_time_of_equal_numbers_and_well_at_the_next_other() -> None:
    node = node_with(AlarmSettings(frozen_s=5.0))
    assert after_each(node, [1.0] * 7) == [set()] * 5 + [{"frozen"}] * 2
    assert after_each(node, [1.5]) == [set()]


def test_frozen_is_judged_by_samples_only_and_silence_is_stale() -> None:
    node = node_with(AlarmSettings(frozen_s=5.0, stale_s=8.0))
    node.sample("a", 1.0)
    node.pass_time(60_000)
    assert active(node) == {"stale"}


def test_frozen_counts_anew_after_bad_quality_and_what_is_raised_stays() -> None:
    node = node_with(AlarmSettings(frozen_s=5.0))
    after_each(node, [1.0] * 5)
    node.sample("a", 0.0, q.BAD_SENSOR_FAILURE)
    assert after_each(node, [1.0] * 5) == [set()] * 4 + [{"frozen"}]
    node.sample("a", 0.0, q.BAD_SENSOR_FAILURE)
    assert after_each(node, [1.0]) == [{"frozen"}], "the same number again: nothing says that it lives"


def test_number_that_moved_within_a_batch_is_not_frozen() -> None:
    node = node_with(AlarmSettings(frozen_s=5.0))
    chains(node, [(1.0, 0)])
    node.pass_time(5_000)
    assert chains(node, [(1.1, 4_000), (1.0, 5_000)]) == set()


def test_frozen_is_asked_of_numbers_only() -> None:
    for value_type in (ValueType.BOOL, ValueType.STRING):
        node = node_with(AlarmSettings(frozen_s=5.0), value_type)
        assert node.folds.conditions.count == 0


def test_on_delay_asks_that_the_value_is_beyond_the_limit_all_along() -> None:
    """ISA-18.2: the hysteresis belongs to the return, not to the raising."""
    node = node_with(AlarmSettings(hi=100.0, hysteresis=10.0, on_delay_ms=10_000))
    assert after_each(node, [101.0, 95.0])[-1] == set()
    node.pass_time(60_000)
    assert active(node) == set()


def test_off_delay_asks_that_the_value_is_outside_the_band_all_along() -> None:
    node = node_with(AlarmSettings(hi=100.0, hysteresis=10.0, off_delay_ms=10_000))
    assert after_each(node, [101.0, 89.0, 95.0])[-1] == {"hi"}
    node.pass_time(60_000)
    assert active(node) == {"hi"}, "95 is within the band: not yet back"
    node.sample("a", 90.0)
    node.pass_time(10_000)
    assert active(node) == set()


def test_delay_edited_on_the_way_keeps_its_end_and_the_new_one_counts_from_the_next() -> None:
    node = node_with(AlarmSettings(hi=10.0, on_delay_ms=5_000))
    node.sample("a", 11.0)
    node.pass_time(1_000)
    node.declare("a", AlarmSettings(hi=10.5, on_delay_ms=60_000))
    node.pass_time(4_000)
    assert active(node) == {"hi"}


def test_nan_under_good_ends_an_on_delay_as_bad_quality_does() -> None:
    node = node_with(AlarmSettings(hi=10.0, on_delay_ms=2_000))
    node.sample("a", 11.0)
    node.pass_time(1_000)
    node.sample("a", float("nan"))
    node.pass_time(60_000)
    assert active(node) == set()


def test_nan_under_good_keeps_a_rate_and_a_frozen_verdict() -> None:
    node = node_with(AlarmSettings(rate_per_s=2.0, frozen_s=3.0))
    after_each(node, [0.0, 6.0, float("nan")])
    node.pass_time(60_000)
    assert active(node) == {"rate"}


def test_new_settings_do_not_clear_what_nan_leaves_unknown() -> None:
    node = node_with(AlarmSettings(hi=10.0))
    after_each(node, [11.0, float("nan")])
    node.declare("a", AlarmSettings(hi=10.5))
    assert active(node) == {"hi"}


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_are_compared_with_limits_exactly(sign: int) -> None:
    """2**53 + 1 is 2**53 as a float."""
    limit = float(sign * 2**53)
    node = node_with(AlarmSettings(hi=limit) if sign > 0 else AlarmSettings(lo=limit), ValueType.INT64)
    exact: list[Value] = [sign * 2**53, sign * (2**53 + 1), sign * 2**53]
    assert [bool(one) for one in after_each(node, exact)] == [False, True, False]
    ends: list[Value] = [2**63 - 1, -(2**63)]
    assert [bool(one) for one in after_each(node, ends)] == [sign > 0, sign < 0]


def test_deadline_costs_few_marks_while_samples_come() -> None:
    node = node_with(AlarmSettings(stale_s=5.0))
    for _ in range(600):
        node.pass_time(100)
        node.sample("a", 1.0)
    assert node.marks <= 12, "one for each time that an item might have become stale"


def test_suppressed_while_its_equipment_is_off_in_whatever_order_they_are_declared() -> None:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("flow", AlarmSettings(lo=1.0, suppressed_by="pump_off"))
    node.sample("flow", 0.0)
    node.declare("pump_off", None, ValueType.BOOL)
    node.sample("pump_off", True)
    assert [(one.is_active, one.is_suppressed) for one in node.open_cases()] == [(True, True)]
    node.sample("pump_off", False, q.BAD_NO_COMMUNICATION)
    assert [one.is_suppressed for one in node.open_cases()] == [False], "nobody knows that it is off"
    node.sample("pump_off", True)
    assert [one.is_suppressed for one in node.open_cases()] == [True]
    node.sample("pump_off", False)
    assert [(one.is_suppressed, one.is_acked) for one in node.open_cases()] == [(False, False)]


def test_only_a_bool_item_suppresses() -> None:
    node = AlarmNode(NEVER_CHATTER)
    node.declare("level", None)
    node.declare("flow", AlarmSettings(lo=1.0, suppressed_by="level"))
    node.sample("level", 1.0)
    node.sample("flow", 0.0)
    assert [one.is_suppressed for one in node.open_cases()] == [False]


def test_new_settings_judge_the_present_value() -> None:
    node = node_with(AlarmSettings(hi=10.0))
    node.sample("a", 11.0)
    node.declare("a", AlarmSettings(hi=12.0, lo=11.5))
    assert active(node) == {"lo"}
    node.declare("a", AlarmSettings(hi=5.0))
    assert active(node) == {"hi"}


def test_settings_that_ask_no_longer_clear_what_they_raised() -> None:
    node = node_with(AlarmSettings(hi=10.0, stale_s=1.0, rate_per_s=1.0))
    after_each(node, [0.0, 20.0])
    node.pass_time(1000)
    assert active(node) == {"hi", "stale", "rate"}
    node.declare("a", None)
    assert active(node) == set()
    after_each(node, [0.0, 20.0])
    node.pass_time(10_000)
    assert active(node) == set()


@pytest.mark.parametrize(
    "settings",
    [
        {"hysteresis": float("inf")},
        {"hysteresis": float("nan")},
        {"rate_per_s": float("inf")},
        {"stale_s": float("inf")},
        {"frozen_s": 0.0},
        {"on_delay_ms": 2**62},
        {"off_delay_ms": -1},
    ],
)
def test_endless_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|within"):
        AlarmSettings(hi=1.0, **settings)


def test_huge_and_tiny_settings_do_not_overflow() -> None:
    node = node_with(AlarmSettings(stale_s=1e300, rate_per_s=1e-300))
    after_each(node, [0.0, 1e308, -1e308])
    node.declare("a", AlarmSettings(stale_s=1e-9, rate_per_s=1e300))
    node.pass_time(10)
    assert active(node) == {"stale"}


CHATTER = AlarmConfig(chatter_activations=3, chatter_window_ms=60_000, chatter_calm_ms=180_000)


def flap(node: AlarmNode, times: int, every_ms: int) -> None:
    for _ in range(times):
        node.sample("a", 11.0)
        node.pass_time(every_ms // 2)
        node.sample("a", 9.0)
        node.pass_time(every_ms // 2)


def test_third_activation_within_the_window_chatters_and_is_held() -> None:
    node = AlarmNode(CHATTER)
    node.declare("a", AlarmSettings(hi=10.0))
    flap(node, 2, 20_000)
    assert [(one.is_chattering, one.is_active) for one in node.open_cases()] == [(False, False)]
    flap(node, 10, 20_000)
    assert [(one.is_chattering, one.is_active, one.activations) for one in node.open_cases()] == [(True, True, 3)]
    assert [one.cause for _, one in node.transitions] == [
        "raised",
        "cleared",
        "activated",
        "cleared",
        "activated",
        "chattering",
    ]


def test_chatter_ends_when_it_was_calm_and_the_count_starts_afresh() -> None:
    node = AlarmNode(CHATTER)
    node.declare("a", AlarmSettings(hi=10.0))
    flap(node, 3, 20_000)
    node.pass_time(180_000 - 10_000 - 1)
    assert [one.is_chattering for one in node.open_cases()] == [True]
    node.pass_time(1)
    assert [(one.is_chattering, one.is_active) for one in node.open_cases()] == [(False, False)]
    flap(node, 2, 20_000)
    assert [one.is_chattering for one in node.open_cases()] == [False]


def test_slow_flapping_does_not_chatter() -> None:
    node = AlarmNode(CHATTER)
    node.declare("a", AlarmSettings(hi=10.0))
    flap(node, 10, 30_002)
    assert [(one.is_chattering, one.activations) for one in node.open_cases()] == [(False, 10)]


def test_damaged_snapshot_is_a_typed_error() -> None:
    node = node_with(AlarmSettings(hi=10.0, stale_s=1.0), adapter="p1")
    node.sample("a", 11.0)
    data, dim = node.folds.conditions.snapshot(), node.folds.dim
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            Conditions.restore(data[:cut], dim)
    with pytest.raises(DecodeError, match="out of its columns"):
        Conditions.restore(data, Dim())


def test_many_items_in_one_batch_are_judged_each_by_its_own_limits() -> None:
    node = AlarmNode(NEVER_CHATTER)
    count = 300
    node.append_records(
        [
            ItemDeclared(
                item_id=ItemId(one),
                node="root",
                item=DataItem(
                    name=f"i{one}",
                    value_type=ValueType.FLOAT64,
                    alarm=AlarmSettings(hi=float(one)) if one % 3 else None,
                ),
            )
            for one in range(1, count + 1)
        ]
    )
    node.append_batch(batch_of(ValueType.FLOAT64, [(one, 150.5, 0, None) for one in range(1, count + 1)]))
    assert {one.item_id for one in node.open_cases()} == {one for one in range(1, 151) if one % 3}


def case_times(node: AlarmNode) -> list[tuple[str, int]]:
    """Cause of each transition, and the seconds at which it was by its own word."""
    return [(str(one.cause), (one.case.changed_ns - WALL_0) // 1_000_000_000) for _, one in node.transitions]


@pytest.mark.parametrize("changed", [None, AlarmSettings(hi=200.0)], ids=["taken out", "moved"])
def test_case_that_changed_settings_end_is_cleared_at_the_change(changed: AlarmSettings | None) -> None:
    node = node_with(AlarmSettings(hi=100.0))
    node.pass_time(1_000)
    node.sample("a", 150.0)
    node.pass_time(9_000)
    node.declare("a", changed)
    assert case_times(node) == [("raised", 1), ("cleared", 10)]


def test_stale_case_that_changed_settings_end_is_cleared_at_the_change() -> None:
    node = node_with(AlarmSettings(stale_s=5.0))
    node.pass_time(20_000)
    node.declare("a", None)
    assert case_times(node) == [("raised", 5), ("cleared", 20)]


def test_new_limit_raises_nothing_before_it_was_set() -> None:
    node = node_with(AlarmSettings(hi=200.0))
    node.sample("a", 150.0)
    node.pass_time(10_000)
    node.declare("a", AlarmSettings(hi=100.0))
    assert case_times(node) == [("raised", 10)]


def test_sample_that_was_acquired_before_a_limit_was_set_raises_it_when_it_was_set() -> None:
    """It waited in a queue meanwhile."""
    node = node_with(AlarmSettings())
    node.pass_time(10_000)
    node.declare("a", AlarmSettings(hi=100.0))
    node.pass_time(2_000)
    item_id = node.ids["a"]
    early_ns, late_ns = WALL_0 + 9_000_000_000, WALL_0 + 11_000_000_000
    node.append_batch(batch_of(ValueType.FLOAT64, [(item_id, 150.0, 0, early_ns)], early_ns))
    node.append_batch(batch_of(ValueType.FLOAT64, [(item_id, 50.0, 0, late_ns)], late_ns))
    assert case_times(node) == [("raised", 10), ("cleared", 11)]


def test_clock_that_was_ahead_as_a_limit_was_set_holds_no_later_time() -> None:
    node = node_with(AlarmSettings())
    dim, conditions = node.folds.dim, node.folds.conditions
    item = DataItem(name="a", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=100.0))
    dim.fold_item(KnownItem(item_id=ItemId(1), node="root", item=item), 2)
    conditions.time_passed(LogTime(0), WallTime(WALL_0 + 10**18))
    conditions.fold_items([dim.item_at(0)], LogTime(0))
    node.pass_time(3_000)
    node.sample("a", 150.0)
    assert case_times(node) == [("raised", 3)]


def test_case_that_was_held_by_chatter_is_cleared_when_it_is_calm() -> None:
    node = AlarmNode(CHATTER)
    node.declare("a", AlarmSettings(hi=10.0))
    flap(node, 3, 2_000)
    node.pass_time(180_000)
    causes = case_times(node)
    assert causes[-2:] == [("calmed", 185), ("cleared", 185)]
