"""Cursors of shared subscriptions, against a model that has one entry for each message."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.model.topic import OUT_MAX, Cursor
from albireo.model.topic_lease import NOBODY, joined, without
from tests.long_form import examples

COUNT = 30
RANGES = st.lists(
    st.tuples(st.integers(0, COUNT + 3), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])), max_size=4
)
STEPS: "st.SearchStrategy[Any]" = st.one_of(
    st.tuples(st.just("give"), RANGES, st.integers(1, 3), st.integers(1, 9)),
    st.tuples(st.just("back"), RANGES, st.integers(1, 3), st.booleans()),
    st.tuples(st.just("done"), RANGES, st.integers(0, 4), st.none()),
    st.tuples(st.just("time"), st.just([]), st.integers(1, 4), st.none()),
)


def numbers(ranges: object) -> list[int]:
    return [one for first, last in ranges for one in range(first, last + 1)]  # type: ignore[attr-defined]


class Model:
    """Consumer, end of the lease, deliveries and failures of each message that was given; and what is done."""

    def __init__(self) -> None:
        self.done: set[int] = set()
        self.out: dict[int, tuple[int, int, int, int]] = {}

    def give(self, wanted: list[int], consumer: int, until: int) -> None:
        for one in {*wanted} - self.done - {0}:
            if one <= COUNT:
                before, _, times, failed = self.out.get(one, (consumer, 0, 1, 0))
                self.out[one] = (consumer, until, times + (before != consumer), failed)

    def back(self, wanted: list[int], consumer: int, has_failed: bool) -> None:
        for one in set(wanted):
            if one in self.out and self.out[one][0] == consumer:
                _, _, times, failed = self.out[one]
                self.out[one] = (NOBODY, 0, times, failed + has_failed)

    def finish(self, wanted: list[int], low: int) -> None:
        self.done |= {one for one in (*wanted, *range(low + 1)) if 0 < one <= COUNT}
        self.out = {one: how for one, how in self.out.items() if one not in self.done}

    def time(self, now: int) -> None:
        oldest = {consumer: one for one, (consumer, *_) in sorted(self.out.items(), reverse=True)}
        for one, (consumer, until, times, failed) in list(self.out.items()):
            if consumer != NOBODY and until <= now:
                self.out[one] = (NOBODY, 0, times, failed + (oldest[consumer] == one))


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=examples(1_000), deadline=None)
def test_a_cursor_is_what_a_table_of_messages_is(steps: list[tuple[str, list[tuple[int, int]], int, int]]) -> None:
    cursor, model, now = Cursor(subscription_id=1, topic_id=2, low=0), Model(), 0
    for what, ranges, who, more in steps:
        wanted = tuple(ranges)
        match what:
            case "give":
                cursor = cursor.leased(wanted, who, now + more, COUNT)
                model.give(numbers(ranges), who, now + more)
            case "back":
                cursor = cursor.given_back(wanted, who, has_failed=bool(more))
                model.back(numbers(ranges), who, bool(more))
            case "done":
                cursor = cursor.moved(who, wanted, COUNT)
                model.finish(numbers(ranges), who)
            case _:
                now += who
                cursor = cursor.at(now)
                model.time(now)
        said = {
            number: (one.consumer, one.until_ms, one.given, one.failed)
            for one in cursor.leases
            for number in range(one.first, one.last + 1)
        }
        assert said == model.out
        assert {*range(1, cursor.low + 1), *numbers(cursor.done)} == model.done
        assert [one.first for one in cursor.leases] == sorted(one.first for one in cursor.leases)
        nobodys = {one for one in range(1, COUNT + 1) if one not in model.done}
        nobodys -= {one for one, (consumer, *_) in model.out.items() if consumer != NOBODY}
        assert set(numbers(cursor.free(0, COUNT, OUT_MAX, 0))) == nobodys
        dead = {one for one, (consumer, _, _, failed) in model.out.items() if consumer == NOBODY and failed >= 2}
        assert set(numbers(cursor.dead(0, 2))) == dead
        assert set(numbers(cursor.free(5, COUNT, 3, 2))) == set(sorted_free(model, nobodys - dead, 5, 3))


def sorted_free(model: Model, free: set[int], gone: int, room: int) -> list[int]:
    """Messages that failed before come first."""
    again = sorted(one for one in free if one in model.out and one > gone)
    new = sorted(one for one in free if one not in model.out and one > gone)
    return [*again, *new][:room]


@given(RANGES, RANGES)
@settings(max_examples=examples(300), deadline=None)
def test_ranges_are_sets_of_numbers(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    left = without(joined(some), joined(others))
    assert numbers(left) == sorted({*numbers(some)} - {*numbers(others)})
    assert joined(left) == left
