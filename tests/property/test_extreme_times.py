"""Source times at the ends of their range are judged as Python's unbounded integers judge them."""

from typing import Final

import hypothesis.strategies as st
from hypothesis import example, given, settings

from albireo.machine.fold.columns import OLDEST
from albireo.machine.fold.items.dim import CLOCK_BACK_NS, REPLAY_FACTOR
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, Condition
from tests.long_form import examples
from tests.parts.alarm import AlarmNode

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1
LIMIT: Final = 1e-9
"""Limit of the rate per second: a change of 10 takes 317 years to fall to it, so that far times decide."""

times = st.one_of(
    st.sampled_from([LOWEST, LOWEST + 1, -(2**62), -1, 0, 1, 2**62, HIGHEST - 1, HIGHEST]),
    st.integers(LOWEST, HIGHEST),
)
values = st.sampled_from([0.0, 5.0, 9.0, 18.0])


class ClockOracle:
    """Late samples and set-back clocks of one item, as `machine/fold/items/dim.py` tells it."""

    def __init__(self) -> None:
        self.newest: int | None = None
        self.streak: tuple[int, int] | None = None
        """Log time at which nothing but late samples began, and the source time from which they count."""

    def is_live(self, source_ns: int, log_time: int) -> bool:
        if self.newest is not None and self.newest != OLDEST and source_ns < self.newest:
            if self.streak is None or source_ns < self.streak[1]:
                self.streak = (log_time, source_ns)
            elapsed = log_time - self.streak[0]
            if elapsed < CLOCK_BACK_NS or source_ns - self.streak[1] > REPLAY_FACTOR * elapsed:
                return False
        self.newest, self.streak = source_ns, None
        return True


@given(st.lists(st.tuples(times, values), max_size=12))
@settings(max_examples=examples(200), deadline=None)
@example([(LOWEST, 0.0), (HIGHEST, 18.0)])
@example([(HIGHEST, 18.0), (LOWEST, 0.0)])
def test_rates_are_judged_over_the_true_difference(samples: list[tuple[int, float]]) -> None:
    node = AlarmNode()
    item_id = node.declare("a", AlarmSettings(rate_per_s=LIMIT))
    before: tuple[int, float] | None = None
    is_steep = False
    for source_ns, value in sorted(samples, key=lambda one: one[0]):
        node.sample("a", value, source_ns=source_ns)
        if before is not None and source_ns > before[0]:
            is_steep = abs(value - before[1]) / LIMIT * SECOND > float(source_ns - before[0])
        before = (source_ns, value)
        row = node.folds.conditions.row_of(item_id, Condition.RATE)
        assert row is not None
        assert bool(node.folds.conditions.rules.judged[row]) == is_steep, "before any chatter holds it"


@given(st.lists(st.tuples(times, st.sampled_from([0, 1_000, 3_000, 6_000])), max_size=12))
@settings(max_examples=examples(200), deadline=None)
@example([(HIGHEST, 0), (LOWEST, 0), (2**62, 6_000)])
@example([(LOWEST, 0)])
def test_late_samples_are_told_from_a_clock_set_back_over_the_true_difference(samples: list[tuple[int, int]]) -> None:
    node, oracle = AlarmNode(), ClockOracle()
    node.declare("a")
    live = 0.0
    for place, (source_ns, wait_ms) in enumerate(samples, start=1):
        node.pass_time(wait_ms)
        node.sample("a", float(place), source_ns=source_ns)
        if oracle.is_live(source_ns, node.now_ms * MS):
            live = float(place)
        assert (node.folds.dim.value_at(0) or 0.0) == live
