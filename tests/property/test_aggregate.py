"""The kernels against a dumb oracle that walks over time, row by row and interval by interval."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.machine.history.aggregate import Partials, Rows, merge, partials_of, rows_of
from albireo.machine.history.intervals import (
    Intervals,
    averages,
    intervals_of_partials,
    intervals_of_rows,
    qualities,
)
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from tests.long_form import examples

WIDTH = 10
QUALITIES = (int(q.GOOD), int(q.GOOD), int(q.UNCERTAIN), int(q.BAD_NO_COMMUNICATION))
row = st.tuples(st.integers(-35, 95), st.integers(-9, 9), st.sampled_from(QUALITIES))


def rows_from(table: list[tuple[int, int, int]], item_id: int = 7, first: int = 1) -> Rows:
    """Rows of one item in stored order; the sequence is the order in `table`."""
    ranked = sorted(enumerate(table, first), key=lambda one: (one[1][0], one[0]))
    return rows_of(
        item_id=np.full(len(table), item_id, np.int64),
        source_ns=np.array([one[1][0] for one in ranked], np.int64),
        value=np.array([one[1][1] for one in ranked], np.float64),
        is_text=False,
        quality=np.array([one[1][2] for one in ranked], np.int64),
        sequence=np.array([one[0] for one in ranked], np.int64),
    )


class Expected:
    """One interval, computed one nanosecond after the other."""

    def __init__(self, rows: Rows, start: int, end: int, holes: list[int], known_to: int, usable_max: int) -> None:
        table = list(zip(rows.source_ns.tolist(), rows.value.tolist(), rows.quality.tolist(), strict=True))
        begin = min((one[0] for one in table), default=end)
        self.integral, self.ns, self.lows = 0.0, [0, 0, 0, 0], list[float]()
        for now in range(start, end):
            events = [(ns, 0, value, quality >> 30) for ns, value, quality in table if ns <= now]
            if events and now < known_to:
                events += [(ns, 1, math.nan, 2) for ns in holes if begin <= ns <= now]
                _, _, value, severity = max(enumerate(events), key=lambda one: (one[1][0], one[1][1], one[0]))[1]
            else:
                value, severity = math.nan, 3
            self.ns[severity] += 1
            if severity <= usable_max:
                self.integral += value * 1e-9
                self.lows.append(value)
        inside = [(ns, value, quality >> 30) for ns, value, quality in table if start <= ns < end]
        self.rows = len(inside)
        self.good_rows = sum(severity == 0 for _, _, severity in inside)
        self.lows += [value for _, value, severity in inside if severity <= usable_max]


def agree(found: Intervals, rows: Rows, holes: list[int], known_to: int, usable_max: int) -> None:
    for index in range(len(found)):
        start, end = found.edges[index : index + 2].tolist()
        expected = Expected(rows, start, end, holes, known_to, usable_max)
        assert [found.good_ns[index], found.uncertain_ns[index], found.bad_ns[index]] == expected.ns[:3]
        assert math.isclose(found.integral[index], expected.integral, abs_tol=1e-15)
        assert (found.rows[index], found.good_rows[index]) == (expected.rows, expected.good_rows)
        if expected.lows:
            assert found.minimum[index] == min(expected.lows)
            assert found.maximum[index] == max(expected.lows)
        else:
            assert math.isnan(found.minimum[index])
            assert math.isnan(found.maximum[index])


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(row, max_size=14), st.lists(st.integers(-40, 99), max_size=3), st.integers(0, 99), st.booleans())
def test_raw_rows_give_what_a_walk_over_time_gives(
    table: list[tuple[int, int, int]], holes: list[int], known_to: int, treat_uncertain_as_bad: bool
) -> None:
    rows = rows_from(table)
    edges = np.array([0, 7, 20, 30, 33, 60], np.int64)
    chosen = AggregateSettings(treat_uncertain_as_bad=treat_uncertain_as_bad)
    found = intervals_of_rows(rows, edges, chosen, hole_ns=holes, known_to_ns=known_to)
    agree(found, rows, holes, known_to, chosen.usable_max)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(row, max_size=14), st.lists(st.integers(0, 14), max_size=2), st.integers(0, 99))
def test_partials_of_any_cut_give_what_the_raw_rows_give(
    table: list[tuple[int, int, int]], cuts: list[int], known_to: int
) -> None:
    """Rows arrive in time order, files end anywhere: partials of the files, merged, equal partials of all rows."""
    table = sorted(table, key=lambda one: one[0])
    known_to = max([known_to, *(one[0] for one in table)])
    borders = sorted({0, len(table), *(min(cut, len(table)) for cut in cuts)})
    files = [partials_of(rows_from(table[a:b], first=a + 1), WIDTH) for a, b in itertools.pairwise(borders)]
    merged = merge(files, WIDTH)
    rows = rows_from(table)
    assert not merged.is_overlapping.any()
    equal(merged.partials, partials_of(rows, WIDTH))
    edges = np.array([0, 10, 20, 30, 60], np.int64)
    found = intervals_of_partials(merged.partials, edges, AggregateSettings(), known_to_ns=known_to)
    agree(found, rows, [], known_to, 0)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(row, min_size=1, max_size=14), st.integers(0, 14))
def test_rows_that_interleave_are_reported(table: list[tuple[int, int, int]], cut: int) -> None:
    """Two files with late rows: a bucket that is not reported as overlapping is exact."""
    files = [rows_from(table[:cut]), rows_from(table[cut:], first=cut + 1)]
    merged = merge([partials_of(rows, WIDTH) for rows in files], WIDTH)
    exact = partials_of(rows_from(table), WIDTH)
    clean = ~merged.is_overlapping
    equal(merged.partials.take(clean), exact.take(clean))
    assert merged.partials.bucket_ns.tolist() == exact.bucket_ns.tolist()


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(row, max_size=20), st.lists(row, max_size=20))
def test_coarser_buckets_from_finer_ones(one: list[tuple[int, int, int]], two: list[tuple[int, int, int]]) -> None:
    rows = [rows_from(one, item_id=1), rows_from(two, item_id=2, first=100)]
    fine = merge([partials_of(part, WIDTH) for part in rows], WIDTH)
    coarse = merge([fine.partials], 6 * WIDTH)
    assert not coarse.is_overlapping.any()
    equal(coarse.partials, merge([partials_of(part, 6 * WIDTH) for part in rows], 6 * WIDTH).partials)


def equal(found: Partials, expected: Partials) -> None:
    for name, column in expected.columns().items():
        np.testing.assert_allclose(getattr(found, name), column, rtol=1e-12, atol=1e-15, err_msg=name)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(row, min_size=1, max_size=14), st.booleans(), st.integers(0, 100), st.integers(0, 100))
def test_quality_follows_the_percentages(
    table: list[tuple[int, int, int]], treat_uncertain_as_bad: bool, bad: int, good: int
) -> None:
    """Part 13, 5.4.3.2.1, on the durations that the other tests have checked."""
    chosen = AggregateSettings(
        treat_uncertain_as_bad=treat_uncertain_as_bad, percent_data_bad=bad, percent_data_good=max(good, 100 - bad)
    )
    found = intervals_of_rows(rows_from(table), np.array([0, 10, 20, 25], np.int64), chosen, known_to_ns=22)
    for index, quality in enumerate(qualities(found, chosen, 10).tolist()):
        good_ns, uncertain_ns, bad_ns = (int(one[index]) for one in (found.good_ns, found.uncertain_ns, found.bad_ns))
        known = good_ns + uncertain_ns + bad_ns
        if known == 0:
            assert quality == q.BAD_NO_DATA
            continue
        bad_share = (bad_ns + (uncertain_ns if treat_uncertain_as_bad else 0)) * 100 / known
        if bad_share >= chosen.percent_data_bad:
            assert q.is_bad(quality)
        elif good_ns * 100 / known >= chosen.percent_data_good:
            assert q.is_good(quality)
        else:
            assert quality & 0xFFFF_0000 == q.UNCERTAIN_DATA_SUB_NORMAL
        assert bool(quality & q.PARTIAL) == (known < 10 or index == 2)


def test_hostile_floats_and_times_are_counted_as_bad_and_break_nothing() -> None:
    values = np.array([math.nan, math.inf, -math.inf, 1e308, 5.0])
    rows = rows_of(
        item_id=np.ones(5, np.int64),
        source_ns=np.array([-(2**63), 0, 10, 20, 2**63 - 1], np.int64),
        value=values,
        is_text=False,
        quality=np.zeros(5, np.int64),
        sequence=np.arange(5),
    )
    assert [q.is_bad(one) for one in rows.quality.tolist()] == [True, True, True, False, False]
    partials = partials_of(rows, 60)
    assert partials.good_rows.sum() == 2
    found = intervals_of_rows(rows, np.array([0, 15, 30], np.int64), AggregateSettings(), known_to_ns=30)
    assert found.bad_ns.tolist() == [15, 5]
    assert np.isnan(averages(found, AggregateSettings())[0])
