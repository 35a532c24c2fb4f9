"""State of the page: pages that are told at any times, each in its own rhythm, see what is so."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from albireo.client.live import Changes
from albireo.face.web.state import CLOSED_KEPT, TICKS_KEPT, PlantState, limit_of
from albireo.face.web.words import PATTERNS_MAX, View
from albireo.model.case import ItemCase, LifecycleStatus
from albireo.model.instant import MS
from albireo.model.item import AlarmSettings, Condition, DataItem, KnownItem, Reading
from albireo.model.value import ItemId, ValueType

NAMES = ("co_1", "co_2", "fan_1")
ALL = ("*",)


def known(index: int, unit: str = "ppm") -> KnownItem:
    alarm = AlarmSettings(hi=40.0)
    item = DataItem(name=NAMES[index], value_type=ValueType.FLOAT64, unit=unit, alarm=alarm)
    return KnownItem(item_id=ItemId(index), node="root", item=item)


def reading(index: int, value: float, at_ms: int = 5) -> Reading:
    at_ns = at_ms * MS
    return Reading(item_id=index, name=f"root:{NAMES[index]}", value=value, quality=0, source_ns=at_ns, node_ns=at_ns)


def case(number: int, *, is_closed: bool = False) -> ItemCase:
    return ItemCase(
        case_id=number,
        item_id=0,
        item="root:co_1",
        condition=Condition.HI,
        severity=700,
        raised_ns=7 * MS,
        lifecycle_status=LifecycleStatus.CLOSED if is_closed else LifecycleStatus.UPDATED,
    )


WHOLE = Changes(items=[known(index) for index in range(3)], is_whole=True)


class Page:
    """What a page shows, folded from its views alone."""

    def __init__(self, wanted: tuple[str, ...] = ALL) -> None:
        self.wanted = wanted
        self.tick = 0
        self.items: dict[int, str] = {}
        self.values: dict[str, object] = {}
        self.cases: set[int] = set()
        self.stale: dict[str, int] | None = None
        self.forced: tuple[str, ...] | None = None

    def told(self, state: PlantState) -> bytes | None:
        self.seen = state.seen(self.wanted)
        text = state.since(self.seen, self.tick, 1)
        if text is None:
            return None
        self.tick = state.tick
        if not text:
            return text
        view = msgspec.json.decode(text, type=View)
        assert view.number == state.tick
        if view.is_whole:
            self.items, self.values, self.cases = {}, {}, set()
        self.items.update((one.key, one.item.name) for one in view.items)
        self.values.update((self.items[key], value) for key, value, _, _ in view.values)
        for one in view.cases:
            if one.lifecycle_status is LifecycleStatus.CLOSED:
                self.cases.discard(one.case_id)
            else:
                self.cases.add(one.case_id)
        self.stale = self.stale if view.stale is None else view.stale
        self.forced = self.forced if view.forced is None else view.forced
        return text


steps = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 2), st.floats(0, 9)),
    st.tuples(st.just("raise"), st.integers(1, 3), st.just(0.0)),
    st.tuples(st.just("close"), st.integers(1, 3), st.just(0.0)),
    st.tuples(st.just("cut"), st.integers(0, 1), st.just(0.0)),
    st.tuples(st.just("force"), st.integers(0, 2), st.just(0.0)),
    st.tuples(st.just("anew"), st.just(0), st.just(0.0)),
    st.tuples(st.just("tell"), st.integers(0, 2), st.just(0.0)),
)


@given(st.lists(steps, max_size=60))
def test_whoever_is_told_when_sees_what_is_so(played: list[tuple[str, int, float]]) -> None:
    state, pages = PlantState(), [Page(), Page(), Page(("root:co_*",))]
    values: dict[str, object] = {}
    cases: set[int] = set()
    stale: dict[str, int] = {}
    forced: frozenset[str] = frozenset()
    state.take(WHOLE)
    for what, index, number in played:
        match what:
            case "read":
                values[NAMES[index]] = number
                state.take(Changes(readings=[reading(index, number)], stale=stale, forced=forced))
            case "raise":
                cases.add(index)
                state.take(Changes(cases=[case(index)], stale=stale, forced=forced))
            case "close":
                cases.discard(index)
                state.take(Changes(cases=[case(index, is_closed=True)], stale=stale, forced=forced))
            case "cut":
                stale = {"root/north": 3 * MS} if index else {}
                state.take(Changes(stale=stale, forced=forced))
            case "force":
                forced = frozenset({f"root:{NAMES[index]}"})
                state.take(Changes(stale=stale, forced=forced))
            case "anew":
                values, cases = {}, set()
                state.take(msgspec.structs.replace(WHOLE, stale=stale, forced=forced))
            case "tell":
                pages[index].told(state)
    for page in pages:
        page.told(state)
        is_seen = {name: value for name, value in values.items() if page.wanted == ALL or name.startswith("co_")}
        assert (page.values, page.cases) == (is_seen, cases)
        assert page.stale == {node: since // MS for node, since in stale.items()}
        assert page.forced == tuple(sorted(forced))
        assert page.told(state) == b"", "nothing has changed since"


def test_the_last_closing_and_the_last_return_of_a_node_are_kept() -> None:
    state = PlantState()
    state.take(WHOLE, 1)
    state.take(Changes(cases=[case(1)], stale={"root/north": 3 * MS}), 2)
    assert (state.closed_ms, state.returned_ms) == (0, 0)
    closed = case(1, is_closed=True)
    state.take(Changes(cases=[msgspec.structs.replace(closed, changed_ns=7 * MS)]), 9)
    assert (state.closed_ms, state.returned_ms) == (7, 9)


def test_pages_of_one_view_share_what_was_encoded() -> None:
    state, first, second = PlantState(), Page(), Page()
    state.take(WHOLE)
    assert first.told(state) is second.told(state)
    state.take(Changes(readings=[reading(0, 46.8)]))
    assert first.told(state) is second.told(state)


def test_a_page_that_is_far_behind_is_told_everything_of_its_view() -> None:
    state, page = PlantState(), Page()
    state.take(WHOLE)
    page.told(state)
    for turn in range(TICKS_KEPT + 5):
        state.take(Changes(readings=[reading(turn % 3, float(turn))]))
    page.told(state)
    assert len(page.values) == 3


def test_a_page_that_missed_the_end_of_a_case_begins_anew() -> None:
    state, page = PlantState(), Page()
    state.take(WHOLE)
    state.take(Changes(cases=[case(1)]))
    page.told(state)
    for number in range(1, CLOSED_KEPT + 3):
        state.take(Changes(cases=[case(number, is_closed=True)]))
    page.told(state)
    assert page.cases == set()


def test_a_case_tells_the_limit_and_the_words_of_its_item() -> None:
    state = PlantState()
    state.take(WHOLE)
    state.take(Changes(cases=[case(1)]))
    view = msgspec.json.decode(state.since(state.seen(ALL), 0, 9) or b"", type=View)
    (told,) = view.cases
    assert (told.limit, told.unit, told.raised_ms, view.at_ms) == (40.0, "ppm", 7, 9)
    alarm = AlarmSettings(lo_lo=1, lo=2, hi=3, hi_hi=4, rate_per_s=5, stale_s=6, frozen_s=7, off_normal=True)
    limits = [limit_of(alarm, one) for one in Condition]
    assert limits == [4, 3, 2, 1, 5, 6, None, None, 7]


def test_what_nobody_looks_at_is_forgotten() -> None:
    state = PlantState()
    state.take(WHOLE)
    everything, one = state.seen(ALL), state.seen(("root:co_1",))
    assert state.seen(ALL) is everything and len(state._seen) == 2
    del one
    assert len(state._seen) == 1


def test_looking_through_many_items_is_spread_over_ticks_and_each_view_has_its_share() -> None:
    """A page that looks at something else at each tick holds up nobody."""
    state = PlantState()
    items = [DataItem(name=f"co_{n}", value_type=ValueType.FLOAT64) for n in range(2_000)]
    state.take(
        Changes(
            items=[KnownItem(item_id=ItemId(n), node="root", item=one) for n, one in enumerate(items)], is_whole=True
        )
    )
    honest, ticks = Page(), 0
    while not honest.items:
        ticks += 1
        state.take(Changes())
        for turn in range(20):
            seen = state.seen(tuple(f"*x{ticks}_{turn}_{n}*y" for n in range(PATTERNS_MAX)))
            assert state.since(seen, 0, 1) is None, "400,000 comparisons are not made in one go"
        assert ticks < 50
        honest.told(state)
    assert len(honest.items) == len(items)


def test_names_without_wildcards_are_found_at_once() -> None:
    state = PlantState()
    state.take(WHOLE)
    view = msgspec.json.decode(state.since(state.seen(("root:co_1", "root:co_[1]", "root:co")), 0, 9) or b"", type=View)
    assert [one.item.name for one in view.items] == ["co_1"]


def test_a_clock_that_was_ahead_and_is_set_back_leaves_no_newest_value_in_the_future() -> None:
    state = PlantState()
    state.take(WHOLE)
    for at_ms, newest_ms in ((1_000, 1_000), (900_000, 900_000), (2_000, 2_000), (1_500, 2_000)):
        state.take(Changes(readings=[reading(0, 1.0, at_ms)]), max(at_ms, newest_ms))
        assert state.newest_ms == newest_ms
