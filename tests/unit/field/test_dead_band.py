"""Dead band: what is news, what a loss looks like, and the same decisions as a loop over single values makes."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.comm import heartbeat_of
from albireo.field.contract import Arrivals, PolledColumns
from albireo.field.dead_band import GAP_ITEMS_MAX, ROUNDS_MAX, DeadBand, PollNews
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.quality import BAD_NO_COMMUNICATION, BAD_SENSOR_FAILURE, BAD_WAITING_FOR_INITIAL_DATA, GOOD
from albireo.model.samples import Strings
from albireo.model.value import Value, ValueType

F, I, B, S = ValueType.FLOAT64, ValueType.INT64, ValueType.BOOL, ValueType.STRING  # noqa: E741  # Of a table.


HEARTBEAT_NS = 10 * SECOND


def band(*value_types: ValueType, width: float = 0.0, began_ns: int = 5) -> DeadBand:
    return band_of(
        *(DataItem(name=f"i{row}", value_type=one) for row, one in enumerate(value_types)),
        width=width,
        began_ns=began_ns,
    )


def band_of(*items: DataItem, width: float = 0.0, began_ns: int = 5) -> DeadBand:
    count = len(items)
    return DeadBand(items, np.full(count, width), np.full(count, HEARTBEAT_NS, np.int64), WallTime(began_ns))


def floats(*values: float, quality: int = GOOD, rows: tuple[int, ...] | None = None) -> PolledColumns:
    places = range(len(values)) if rows is None else rows
    return PolledColumns(
        value_type=F,
        rows=np.array(places, np.intp),
        value=np.array(values, np.float64),
        quality=np.full(len(values), quality, np.uint32),
    )


def take(one: DeadBand, *polled: PolledColumns, at: float = 0, wall: int = 100) -> PollNews:
    return one.take(polled, Instant(int(at * SECOND)), WallTime(wall), WallTime(wall + 1))


def rows_of(news: PollNews) -> dict[int, tuple[Value, int]]:
    """row -> (value, quality)."""
    found: dict[int, tuple[Value, int]] = {}
    for batch in news.batches:
        rows = batch.item_id.tolist()
        found |= dict(zip(rows, zip(batch.values(), batch.quality.tolist(), strict=True), strict=True))
    return found


def test_the_first_value_is_news_and_the_same_again_is_not() -> None:
    one = band(F, F)
    assert rows_of(take(one, floats(0.0, 1.0))) == {0: (0.0, GOOD), 1: (1.0, GOOD)}
    assert take(one, floats(0.0, 1.0)) == PollNews() or not take(one, floats(0.0, 1.0)).batches


def test_a_value_moves_out_of_the_band_from_the_last_one_sent_not_from_the_last_one_seen() -> None:
    one = band(F, width=1.0)
    take(one, floats(0.0))
    assert rows_of(take(one, floats(0.6))) == {}
    assert rows_of(take(one, floats(1.0))) == {}
    assert rows_of(take(one, floats(1.2))) == {0: (1.2, GOOD)}


def test_a_step_of_just_the_width_is_within_it_in_decimals() -> None:
    assert sent(band(F, width=0.1), 0.3, 0.4, 0.2, 0.3, 0.5) == [[(0, 0.3)], [], [], [], [(4, 0.5)]]


def test_the_largest_numbers_move_too() -> None:
    assert sent(band(F, width=1.0), 1.7e308, 1.7e308, -1.7e308) == [[(0, 1.7e308)], [], [(2, -1.7e308)]]


def test_a_standing_value_is_sent_at_its_heartbeat() -> None:
    one = band(F)
    take(one, floats(3.0), at=0)
    assert rows_of(take(one, floats(3.0), at=9.9)) == {}
    assert rows_of(take(one, floats(3.0), at=10)) == {0: (3.0, GOOD)}
    assert rows_of(take(one, floats(3.0), at=19.9)) == {}


def test_a_change_of_quality_is_always_news_and_keeps_the_last_value() -> None:
    one = band(F, width=100.0)
    take(one, floats(3.0))
    assert rows_of(take(one, floats(float("nan"), quality=BAD_SENSOR_FAILURE))) == {0: (3.0, BAD_SENSOR_FAILURE)}
    assert rows_of(take(one, floats(float("nan"), quality=BAD_SENSOR_FAILURE))) == {}
    assert rows_of(take(one, floats(3.5))) == {0: (3.5, GOOD)}


def test_one_step_of_a_large_counter_is_news() -> None:
    one = band(I)

    def counter(value: int) -> PolledColumns:
        return PolledColumns(
            value_type=I, rows=np.zeros(1, np.intp), value=np.array([value], np.int64), quality=np.zeros(1, np.uint32)
        )

    take(one, counter(2**62))
    assert rows_of(take(one, counter(2**62 + 1))) == {0: (2**62 + 1, GOOD)}
    assert rows_of(take(one, counter(-(2**63)))) == {0: (-(2**63), GOOD)}


def test_strings_and_bools_have_no_width() -> None:
    one = band(B, S, width=9.0)
    good = np.zeros(1, np.uint32)

    def polled(on: int, text: str) -> tuple[PolledColumns, PolledColumns]:
        switch = PolledColumns(value_type=B, rows=np.array([0], np.intp), value=np.array([on], np.uint8), quality=good)
        label = PolledColumns(value_type=S, rows=np.array([1], np.intp), value=Strings.of([text]), quality=good)
        return switch, label

    take(one, *polled(0, "a"))
    assert rows_of(take(one, *polled(1, "a"))) == {0: (True, GOOD)}
    assert rows_of(take(one, *polled(1, "ä"))) == {1: ("ä", GOOD)}
    assert rows_of(take(one, *polled(1, "ä"))) == {}


def test_before_anything_was_read_every_item_waits_and_none_is_zero() -> None:
    one = band(F, B, S)
    news = one.waiting(Instant(0), WallTime(7))
    assert {quality for _, quality in rows_of(news).values()} == {BAD_WAITING_FOR_INITIAL_DATA}
    assert [batch.source_ns.tolist() for batch in news.batches] == [[7], [7], [7]]


def test_a_loss_marks_each_item_once_and_the_return_says_from_when_to_when() -> None:
    one = band(F, F)
    take(one, floats(1.0, 2.0), wall=100)
    lost = one.lost(Instant(1), WallTime(200))
    assert rows_of(lost) == {0: (1.0, BAD_NO_COMMUNICATION), 1: (2.0, BAD_NO_COMMUNICATION)}
    assert rows_of(one.lost(Instant(2), WallTime(300))) == {}
    news = take(one, floats(1.0, 5.0), wall=900)
    assert rows_of(news) == {0: (1.0, GOOD), 1: (5.0, GOOD)}
    (loss,) = news.losses
    assert (loss.reason, loss.from_ns, loss.to_ns, loss.rows) == ("device_lost", 100, 900, (0, 1))


def test_a_part_of_a_device_that_was_away_has_a_gap_of_its_own() -> None:
    one = band(F, F)
    take(one, floats(1.0, 2.0), wall=100)
    take(one, floats(1.0, rows=(0,)), floats(0.0, rows=(1,), quality=BAD_NO_COMMUNICATION), wall=200)
    news = take(one, floats(1.0, 2.0), wall=300)
    (loss,) = news.losses
    assert (loss.from_ns, loss.to_ns, loss.rows) == (100, 300, (1,))


def test_what_was_never_reached_is_missing_since_the_start() -> None:
    one = band(F, began_ns=42)
    one.waiting(Instant(0), WallTime(42))
    one.lost(Instant(0), WallTime(50))
    (loss,) = take(one, floats(1.0), wall=300).losses
    assert (loss.from_ns, loss.to_ns) == (42, 300)


def test_a_very_large_gap_is_said_of_every_item() -> None:
    count = GAP_ITEMS_MAX + 1
    one = band(*[F] * count)
    one.lost(Instant(0), WallTime(50))
    (loss,) = take(one, floats(*[1.0] * count), wall=300).losses
    assert loss.rows == ()


def test_the_time_of_the_device_is_kept_where_it_gives_one() -> None:
    one = band(F)
    column = PolledColumns(
        value_type=F, rows=np.zeros(1, np.intp), value=np.ones(1), quality=np.zeros(1, np.uint32),
        source_ns=np.array([77], np.int64),
    )  # fmt: skip
    (batch,) = take(one, column, wall=100).batches
    assert (batch.source_ns.tolist(), batch.node_ns.tolist()) == ([77], [101])


def alarmed(width: float = 0.0, value_type: ValueType = F, **alarm: float) -> DeadBand:
    """Dead band of one item with these alarm settings."""
    return band_of(DataItem(name="a", value_type=value_type, alarm=msgspec.convert(alarm, AlarmSettings)), width=width)


def sent(one: DeadBand, *numbers: float, quality: int = GOOD, from_s: int = 0) -> list[list[tuple[int, Value]]]:
    """Poll once a second; what each poll sends, as (second of the poll, value)."""
    found = []
    for at, number in enumerate(numbers, start=from_s):
        batches = take(one, floats(number, quality=quality), at=at, wall=at * SECOND).batches
        found.append(
            [
                (ns // SECOND, value)
                for batch in batches
                for ns, value in zip(batch.source_ns.tolist(), batch.values(), strict=True)
            ]
        )
    return found


@pytest.mark.parametrize(
    ("alarm", "expected_s"),
    [
        (None, 10.0),
        (AlarmSettings(hi=1.0), 10.0),
        (AlarmSettings(stale_s=100.0), 10.0),
        (AlarmSettings(stale_s=2.0), 0.5),
        (AlarmSettings(stale_s=8.0, frozen_s=4.0), 1.0),
    ],
)
def test_heartbeat_fits_four_times_into_the_times_by_which_an_item_is_judged(
    alarm: AlarmSettings | None, expected_s: float
) -> None:
    assert heartbeat_of(DataItem(name="a", value_type=F, alarm=alarm), 10_000) == expected_s * SECOND


def test_polls_stamped_by_the_node_have_one_time_and_those_of_a_device_two() -> None:
    (batch,) = take(band(F), floats(1.0), wall=100).batches
    assert (batch.source_ns.tolist(), batch.node_ns.tolist()) == ([100], [100])


def test_poll_before_a_jump_is_sent_with_it_where_there_is_a_rate() -> None:
    assert sent(alarmed(rate_per_s=5.0), 20, 20, 20, 30) == [[(0, 20)], [], [], [(2, 20), (3, 30)]]
    assert sent(alarmed(), 20, 20, 20, 30) == [[(0, 20)], [], [], [(3, 30)]]


def test_step_within_the_dead_band_that_is_too_fast_is_sent_and_so_is_the_poll_after_it() -> None:
    one = alarmed(width=10.0, rate_per_s=2.0)
    assert sent(one, 20, 20.5, 20.7, 25, 25.1, 25.2) == [
        [(0, 20)], [], [], [(2, 20.7), (3, 25)], [(4, 25.1)], [],
    ]  # fmt: skip


def test_poll_before_a_bad_one_is_sent_with_it_where_there_is_a_rate() -> None:
    one = alarmed(rate_per_s=2.0)
    sent(one, 20, 20, 20)
    assert sent(one, 0, quality=BAD_SENSOR_FAILURE, from_s=3) == [[(2, 20), (3, 20)]]
    assert sent(one, 20, from_s=4) == [[(4, 20)]], "a bad poll is no value to come from"


@pytest.mark.parametrize(("is_device_time", "expected"), [(True, 1), (False, 2)])
def test_poll_before_is_sent_over_the_nodes_clock_set_back_and_not_over_a_devices(
    is_device_time: bool, expected: int
) -> None:
    """A device's time decides which sample is live: the poll before would be the newer one."""
    one = alarmed(rate_per_s=2.0)
    for at, number in enumerate([20.0, 20.0, 20.0, 30.0]):
        times = np.array([(1 if at == 3 else at) * SECOND], np.int64)
        column = msgspec.structs.replace(floats(number), source_ns=times if is_device_time else None)
        news = take(one, column, at=at, wall=int(times[0]))
    assert sum(map(len, news.batches)) == expected


def test_a_value_back_at_the_end_of_the_hysteresis_is_sent_in_decimals() -> None:
    one = alarmed(width=100.0, hi=40.3, hysteresis=0.1)
    assert sent(one, 40.2, 40.3, 40.4, 40.3, 40.2) == [[(0, 40.2)], [(1, 40.3)], [(2, 40.4)], [(3, 40.3)], [(4, 40.2)]]


def test_a_step_at_the_largest_rate_is_not_sent_as_too_fast() -> None:
    assert sent(alarmed(width=10.0, rate_per_s=0.1), 0.3, 0.4, 0.3) == [[(0, 0.3)], [], []]


def test_whatever_crosses_a_limit_or_its_band_is_sent_within_the_dead_band() -> None:
    one = alarmed(width=100.0, hi=50.0, hysteresis=5.0, lo=10.0)
    polls = [48, 50, 50.1, 46, 45.1, 45, 44, 15, 14.9, 10, 9.9]
    assert [bool(one) for one in sent(one, *polls)] == [
        True, False, True, True, False, True, False, False, True, False, True,
    ]  # fmt: skip


def test_large_integers_that_cross_a_limit_are_sent() -> None:
    """2**53 + 1 is 2**53 as a float."""
    one = alarmed(width=100.0, value_type=I, hi=2.0**53)
    found = []
    for value in (2**53, 2**53 + 1):
        column = PolledColumns(
            value_type=I, rows=np.zeros(1, np.intp), value=np.array([value], np.int64), quality=np.zeros(1, np.uint32)
        )
        found.append(len(take(one, column).batches))
    assert found == [1, 1]


def test_a_value_that_is_none_and_its_return_are_news_once() -> None:
    nan = float("nan")
    assert [len(one) for one in sent(band(F, width=5.0), 1, nan, nan, 1.5)] == [1, 1, 0, 1]
    assert sent(band(F, width=5.0), float("inf"), float("inf"), 1)[1:] == [[], [(2, 1)]]


def test_moves_within_the_dead_band_show_that_an_item_is_not_frozen() -> None:
    one = alarmed(width=5.0, frozen_s=12.0)
    assert sent(one, 20, 20.1, 20.2, 20.3, 20.3, 20.3, 20.3, 20.4) == [
        [(0, 20)], [], [], [(3, 20.3)], [], [], [], [(7, 20.4)],
    ]  # fmt: skip


def test_gap_of_a_clock_that_was_set_back_has_the_length_that_it_had() -> None:
    one = band(F)
    take(one, floats(1.0), at=10, wall=1_000 * SECOND)
    one.lost(Instant(11 * SECOND), WallTime(1_001 * SECOND))
    (loss,) = take(one, floats(1.0), at=40, wall=500 * SECOND).losses
    assert (loss.from_ns, loss.to_ns) == (470 * SECOND, 500 * SECOND)


def test_gap_since_the_start_ends_not_before_it_begins() -> None:
    one = band(F, began_ns=1_000)
    one.lost(Instant(0), WallTime(1_000))
    (loss,) = take(one, floats(1.0), wall=300).losses
    assert (loss.from_ns, loss.to_ns) == (300, 300)


POLLS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(-3, 3).map(float), st.sampled_from([GOOD, GOOD, GOOD, BAD_SENSOR_FAILURE])),
            min_size=3,
            max_size=3,
        ),
        st.integers(0, 6),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(POLLS, st.sampled_from([0.0, 1.0, 2.5]))
def test_columns_decide_as_a_loop_over_single_values_does(
    polls: list[tuple[list[tuple[float, int]], int]], width: float
) -> None:
    one = band(F, F, F, width=width)
    last: dict[int, tuple[float, int, float]] = {}
    now = 0.0
    for values, elapsed in polls:
        now += elapsed
        expected = {}
        for row, (value, quality) in enumerate(values):
            before = last.get(row)
            meant = value if quality == GOOD else (before[0] if before else 0.0)
            if (
                before is None
                or quality != before[1]
                or abs(meant - before[0]) > width
                or now - before[2] >= HEARTBEAT_NS / SECOND
            ):
                expected[row] = (meant, quality)
                last[row] = (meant, quality, now)
        column = PolledColumns(
            value_type=F,
            rows=np.arange(3),
            value=np.array([value for value, _ in values]),
            quality=np.array([quality for _, quality in values], np.uint32),
        )
        assert rows_of(take(one, column, at=now)) == expected


# Arrivals.


def arrive(
    one: DeadBand,
    rows: Sequence[int],
    values: Sequence[float],
    *,
    times: Sequence[int] | None = None,
    late: tuple[int, ...] = (),
    quality: Sequence[int] | None = None,
    at: float = 0,
) -> list[tuple[int, Value, int]]:
    """(row, value, source time) of what goes out."""
    arrivals = Arrivals(
        value_type=F,
        rows=np.array(rows, np.intp),
        value=np.array(values, np.float64),
        quality=np.array(quality or [GOOD] * len(rows), np.uint32),
        source_ns=np.array(times or range(100, 100 + len(rows)), np.int64),
    )
    is_late = np.isin(np.arange(len(rows)), late)
    news = one.arrive(arrivals, is_late, Instant(int(at * SECOND)), WallTime(1_000))
    return [
        row
        for batch in news.batches
        for row in zip(batch.item_id.tolist(), batch.values(), batch.source_ns.tolist(), strict=True)
    ]


def test_every_arrival_is_sent_in_its_order_where_there_is_no_dead_band() -> None:
    rows, values = [0, 1, 0, 0, 1], [1.0, 1.0, 1.0, 2.0, 1.0]
    assert arrive(band(F, F), rows, values) == [
        (row, value, 100 + at) for at, (row, value) in enumerate(zip(rows, values, strict=True))
    ]


def test_a_late_arrival_is_sent_and_is_not_the_last_value() -> None:
    one = band(F, width=1.0)
    assert arrive(one, [0, 0], [10.0, 3.0], late=(1,)) == [(0, 10.0, 100), (0, 3.0, 101)]
    assert arrive(one, [0], [3.0]) == [(0, 3.0, 100)], "it is far from 10, the last one"
    assert arrive(one, [0], [3.5]) == []


def test_a_bad_arrival_has_the_last_usable_value_of_its_item() -> None:
    bad = [GOOD, BAD_SENSOR_FAILURE, GOOD, BAD_SENSOR_FAILURE, BAD_SENSOR_FAILURE]
    sent = arrive(band(F, F, F), [0, 0, 1, 0, 2], [1.0, 99.0, 2.0, 99.0, 99.0], quality=bad)
    assert [(row, value) for row, value, _ in sent] == [(0, 1.0), (0, 1.0), (1, 2.0), (0, 1.0), (2, 0.0)]


def test_an_arrival_beyond_a_limit_goes_out_within_the_dead_band() -> None:
    one = band_of(DataItem(name="a", value_type=F, alarm=AlarmSettings(hi=5.0)), width=10.0)
    sent = arrive(one, [0] * 5, [4.0, 4.5, 5.1, 5.2, 4.9])
    assert [value for _, value, _ in sent] == [4.0, 5.1, 4.9]


def test_items_that_are_judged_by_each_value_have_no_dead_band_for_arrivals() -> None:
    alarms = (AlarmSettings(rate_per_s=1.0), AlarmSettings(frozen_s=60.0))
    one = band_of(*(DataItem(name=f"i{at}", value_type=F, alarm=alarm) for at, alarm in enumerate(alarms)), width=10.0)
    assert len(arrive(one, [0, 0, 1, 1], [1.0, 1.1, 1.0, 1.1])) == 4


def test_what_lies_behind_the_most_rounds_is_sent() -> None:
    count = ROUNDS_MAX + 10
    sent = arrive(band(F, width=1.0), [0] * count, [1.0] * count)
    assert [at for _, _, at in sent] == [100, *range(100 + ROUNDS_MAX, 100 + count)]


def test_arrivals_of_items_that_were_lost_end_their_gap_once() -> None:
    one = band(F, F)
    arrive(one, [0, 1], [1.0, 1.0], times=[50, 60], at=1)
    one.lost(Instant(2 * SECOND), WallTime(70))
    arrivals = Arrivals(
        value_type=F,
        rows=np.array([0, 0]),
        value=np.array([1.0, 2.0]),
        quality=np.zeros(2, np.uint32),
        source_ns=np.array([90, 95], np.int64),
    )
    news = one.arrive(arrivals, np.zeros(2, np.bool_), Instant(3 * SECOND), WallTime(100))
    assert [(loss.rows, loss.from_ns, loss.to_ns) for loss in news.losses] == [((0,), 50, 90)]


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.4, 1.0, 1.6, 3.0, np.nan]),
                      st.sampled_from([GOOD, GOOD, BAD_SENSOR_FAILURE]), st.booleans()),
            min_size=1, max_size=12,
        ),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_arrivals_are_held_to_the_dead_band_as_a_loop_over_them_does(
    given_: list[list[tuple[int, float, int, bool]]],
) -> None:
    """Row 0 has no dead band, rows 1 and 2 have one."""
    items = tuple(DataItem(name=f"i{row}", value_type=F) for row in range(3))
    widths = np.array([0.0, 0.5, 1.0])
    one = DeadBand(items, widths, np.full(3, HEARTBEAT_NS, np.int64), WallTime(5))
    sent: dict[int, tuple[float, int]] = {}
    last_before: dict[int, float] = {}
    for told in given_:
        wanted = []
        for place, (row, value, quality, is_late) in enumerate(told):
            last = sent.get(row, (0.0, BAD_WAITING_FOR_INITIAL_DATA))
            usable = [v for r, v, q, _ in told[: place + 1] if r == row and q == GOOD]
            meant = value if quality == GOOD else usable[-1] if usable else last_before.get(row, 0.0)
            is_same = meant == last[0] or (np.isnan(meant) and np.isnan(last[0]))
            is_kept = row > 0 and not is_late and row in sent and quality == last[1]
            is_kept = is_kept and (is_same or abs(meant - last[0]) <= widths[row])
            if not is_kept:
                wanted.append((row, str(meant), 100 + place))
                if not is_late:
                    sent[row] = (meant, quality)
        rows, values = [row for row, *_ in told], [value for _, value, *_ in told]
        late = tuple(place for place, (*_, is_late) in enumerate(told) if is_late)
        found = arrive(one, rows, values, quality=[quality for _, _, quality, _ in told], late=late)
        assert [(row, str(value), at) for row, value, at in found] == wanted
        last_before = {row: value for row, (value, _) in sent.items()}
