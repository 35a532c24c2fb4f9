"""Values of a node that is not heard are marked, and have their qualities back if nothing changed meanwhile."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from albireo.codec import samples
from albireo.codec.delta import StateCursor
from albireo.codec.message import FeedState
from albireo.machine.tree.mirror import NodeMirror
from albireo.model import quality as q
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from tests.parts.history import batch_of

NODE: Final = "root/north"
ITEMS: Final = range(1, 5)
QUALITIES: Final = (q.GOOD, q.GOOD_LOCAL_OVERRIDE, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, q.BAD_NO_COMMUNICATION)

Rows = dict[int, tuple[float, int]]
"""Value and quality by item."""


def told(mirror: NodeMirror, rows: Rows, *, is_whole: bool = False, piece: int = 0, goes_on: bool = False) -> None:
    data = [(number, 5, value, quality) for number, (value, quality) in rows.items()]
    parts = [batch_of(data, ValueType.FLOAT64, 5)] if data else []
    items = tuple(
        KnownItem(item_id=ItemId(one), node=NODE, item=DataItem(name=f"i{one}", value_type=ValueType.FLOAT64))
        for one in (ITEMS if is_whole else ())
    )
    at = mirror.position
    state = FeedState(
        epoch=1,
        position=at,
        previous=at,
        is_snapshot=is_whole,
        items=items,
        value_parts=tuple((int(one.value_type), len(one)) for one in parts),
        piece=piece,
        after=StateCursor(1, 1) if goes_on else None,
    )
    mirror.take(state, [samples.encode(one) for one in parts])


def shown(mirror: NodeMirror) -> Rows:
    found: Rows = {}
    for number in ITEMS:
        index = mirror.dim.index_of(number)
        assert index is not None
        if mirror.dim.live.has_value[index] or mirror.dim.live.changed_at[index]:
            reading = mirror.dim.reading_at(index)
            value = 0.0 if reading.value is None else float(reading.value)
            found[number] = (value, reading.quality)
    return found


ROWS = st.dictionaries(st.sampled_from(ITEMS), st.tuples(st.floats(0, 9), st.sampled_from(QUALITIES)))
PIECE = st.tuples(st.just("piece"), ROWS, st.booleans())
STEPS = st.lists(st.one_of(PIECE, st.tuples(st.just("unheard"), st.just({}), st.just(False))), max_size=12)


@given(ROWS, STEPS, ROWS)
def test_after_a_whole_delta_a_mirror_shows_what_it_was_told_last_of_each_value(
    first: Rows, steps: list[tuple[str, Rows, bool]], last: Rows
) -> None:
    """Deltas may end anywhere, because a link does: what came of them counts, and a later one brings it again."""
    mirror, twin = NodeMirror(NODE), NodeMirror(NODE)
    for one in (mirror, twin):
        told(one, first, is_whole=True)
    number = 0
    for what, rows, goes_on in steps:
        if what == "unheard":
            mirror.unheard(77)
            assert all(
                quality in (q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, q.BAD_NO_COMMUNICATION)
                for _, quality in shown(mirror).values()
            )
            number = 0
            continue
        for one in (mirror, twin):
            told(one, rows, piece=number, goes_on=goes_on)
        number = number + 1 if goes_on else 0
    for one in (mirror, twin):
        told(one, last)
    assert shown(mirror) == shown(twin)
    assert mirror.stale_since_ns is None


def test_what_is_marked_and_unmarked_is_told_to_viewers_as_changes() -> None:
    mirror = NodeMirror(NODE)
    told(mirror, dict.fromkeys(ITEMS, (1.0, q.GOOD)), is_whole=True)
    begin = mirror.position.sequence
    mirror.unheard(77)
    live = mirror.dim.live
    assert (live.changed_at[: live.count] > begin).all()
    marked = mirror.position.sequence
    mirror.unheard(99)
    assert mirror.position.sequence == marked, "nothing was taken since"
    assert mirror.stale_since_ns == 77
    told(mirror, {1: (2.0, q.GOOD)})
    assert (live.changed_at[: live.count] > marked).all()


def test_marks_do_not_grow_while_a_link_comes_and_goes() -> None:
    mirror = NodeMirror(NODE)
    told(mirror, dict.fromkeys(ITEMS, (1.0, q.GOOD)), is_whole=True)
    for at in range(100):
        mirror.unheard(77)
        told(mirror, {1 + at % 4: (float(at), q.GOOD)}, goes_on=True)
    assert len(mirror._table._marked.rows) <= len(ITEMS)


def test_a_mirror_that_is_stale_since_a_time_of_its_own_keeps_that_when_the_way_to_it_ends_too() -> None:
    mirror = NodeMirror(NODE)
    at = Position(1, 1)
    mirror.take(FeedState(epoch=1, position=at, previous=at, is_snapshot=True, stale_since_ns=55), [])
    mirror.unheard(77)
    assert mirror.stale_since_ns == 55
