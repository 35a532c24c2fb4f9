"""What a snapshot keeps of other nodes' states: shown after a restart, as of then, until the node is heard."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec import samples
from albireo.codec.message import FeedState
from albireo.codec.slices import SLICE_ROWS
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.items.forces import FORCES, ForceState
from albireo.machine.kernel.config import RootConfig
from albireo.machine.tree.mirror import NodeMirror
from albireo.model import quality as q
from albireo.model.case import Case, LifecycleStatus
from albireo.model.item import Condition, DataItem, KnownItem
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ItemId, ValueType
from tests.parts.root_roles import LOG, Side
from tests.parts.tables import told_rows
from tests.parts.topology_taken_up import NORTH, SOUTH, child

WALL = 1_900_000_000_000_000_000
QUALITIES = [q.GOOD, q.GOOD_LOCAL_OVERRIDE, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, q.BAD_WAITING_FOR_INITIAL_DATA]
STALE = q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
CASE = Case(case_id=7, item_id=1, condition=Condition.HI, severity=500)
CLOSED = msgspec.structs.replace(CASE, case_id=8, lifecycle_status=LifecycleStatus.CLOSED)
FORCE = ForceState(
    item_id=1, measured_id=2, value=3.0, user="anna", reason="pump is out", since_ns=5, for_ms=9, forced_at=7
)


def known(types: list[ValueType], node: str = NORTH) -> list[KnownItem]:
    return [
        KnownItem(item_id=ItemId(number), node=node, item=DataItem(name=f"i{number}", value_type=one))
        for number, one in enumerate(types, 1)
    ]


def batches_of(rows: list[tuple[int, ValueType, int, int]]) -> list[SampleBatch]:
    """A batch of each type; a row is item, type, number that stands for the value, quality."""
    found = []
    for value_type in ValueType:
        some = [row for row in rows if row[1] == value_type]
        if some:
            times = np.array([10 * row[2] for row in some], np.int64)
            found.append(
                SampleBatch(
                    value_type=value_type,
                    item_id=np.array([row[0] for row in some], np.uint32),
                    source_ns=times,
                    node_ns=times,
                    value=column(value_type, [row[2] for row in some]),
                    quality=np.array([row[3] for row in some], np.uint32),
                )
            )
    return found


def column(value_type: ValueType, numbers: list[int]) -> np.ndarray | Strings:
    if value_type == ValueType.STRING:
        return Strings.of([f"text {one}" for one in numbers])
    if value_type == ValueType.BOOL:
        return np.array([one % 2 for one in numbers], np.bool_)
    return np.array(numbers, np.float64 if value_type == ValueType.FLOAT64 else np.int64)


def told(mirror: NodeMirror, items: list[KnownItem], batches: list[SampleBatch], **more: object) -> None:
    parts = tuple((int(one.value_type), len(one)) for one in batches)
    at = mirror.position
    state = FeedState(
        epoch=1,
        position=at,
        previous=at,
        is_snapshot=True,
        items=tuple(items),
        value_parts=parts,
        **more,  # type: ignore[arg-type]
    )
    mirror.take(state, [samples.encode(one) for one in batches])


def kept_over(mirror: NodeMirror, items: list[KnownItem]) -> NodeMirror:
    """The mirror of a process that begins with what this one kept."""
    after = NodeMirror(mirror.node, items)
    for one in mirror.kept(WALL):
        after.take_kept(msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=type(one)))
    return after


ROWS = st.lists(
    st.tuples(st.sampled_from(list(ValueType)), st.integers(0, 99), st.sampled_from(QUALITIES)), max_size=12
)


@given(ROWS)
def test_each_value_is_shown_as_it_was_and_none_looks_live(rows: list[tuple[ValueType, int, int]]) -> None:
    items = known([one[0] for one in rows])
    mirror = NodeMirror(NORTH)
    told(mirror, items, batches_of([(number, *row) for number, row in enumerate(rows, 1)]))
    after = kept_over(mirror, items)
    assert after.stale_since_ns == (WALL if rows else 0)
    for number, (_, _, quality) in enumerate(rows, 1):
        before, now = (one.dim.reading_at(one.dim.index_of(number)) for one in (mirror, after))  # type: ignore[arg-type]
        assert (now.value, now.source_ns, now.node_ns) == (before.value, before.source_ns, before.node_ns)
        assert now.quality == (STALE if quality < q.BAD else quality)


def test_open_cases_and_forces_are_shown_and_closed_cases_are_not() -> None:
    items = known([ValueType.FLOAT64])
    mirror = NodeMirror(NORTH)
    told(mirror, items, [], tables={"cases": told_rows(CASE, CLOSED), "forces": told_rows(FORCE)})
    after = kept_over(mirror, items)
    assert list(after.table(CASES)) == [CASE] and list(after.table(FORCES)) == [FORCE]


def test_more_than_a_slice_of_items_is_kept_whole() -> None:
    count = 2 * SLICE_ROWS + 3
    items = known([ValueType.INT64] * count)
    mirror = NodeMirror(NORTH)
    told(mirror, items, batches_of([(number, ValueType.INT64, number, q.GOOD) for number in range(1, count + 1)]))
    after = kept_over(mirror, items)
    assert [after.dim.value_at(row) for row in range(count)] == list(range(1, count + 1))


def test_items_without_a_value_and_items_that_are_gone_or_of_another_type_are_left_out() -> None:
    items = known([ValueType.INT64] * 3)
    mirror = NodeMirror(NORTH)
    told(mirror, items, batches_of([(1, ValueType.INT64, 5, q.GOOD), (2, ValueType.INT64, 6, q.GOOD)]))
    after = kept_over(mirror, [known([ValueType.STRING])[0], items[2]])
    assert [one.quality for one in map(after.dim.reading_at, range(2))] == [q.BAD_WAITING_FOR_INITIAL_DATA] * 2


def test_the_first_state_that_comes_takes_the_place_of_all_that_was_kept() -> None:
    items = known([ValueType.INT64] * 2)
    mirror = NodeMirror(NORTH)
    told(
        mirror,
        items,
        batches_of([(1, ValueType.INT64, 5, q.GOOD)]),
        tables={"cases": told_rows(CASE), "forces": told_rows(FORCE)},
    )
    after = kept_over(mirror, items)
    told(after, items, batches_of([(2, ValueType.INT64, 9, q.GOOD)]))
    assert after.stale_since_ns is None and not len(after.table(CASES)) and not len(after.table(FORCES))
    qualities = [after.dim.reading_at(after.dim.index_of(one)).quality for one in (1, 2)]  # type: ignore[arg-type]
    assert qualities == [q.BAD_WAITING_FOR_INITIAL_DATA, q.GOOD]


def test_a_viewer_is_told_of_what_was_kept() -> None:
    side, again = Side(config(NORTH, SOUTH)), Side(config(NORTH))
    for mirror in side.root.tree.mirrors.values():
        told(mirror, known([ValueType.INT64], mirror.node), batches_of([(1, ValueType.INT64, 5, q.GOOD)]))
    section = b"".join(one for _, one in side.root.tree.kept_slices(WALL))
    mirror = again.root.tree.mirrors[NORTH]
    mirror.dim.enter(known([ValueType.INT64])[0], 1)
    assert not again.root.tree.take_kept(section)
    assert mirror.dim.reading_at(0).value == 5, "and nothing of a node that is not below any more stands in the way"
    assert mirror.position.sequence > 1, "who looked at it before would not be told"
    for damaged in (section[:-1], section.replace(b"stale_since_ns", b"stale_since_nS")):
        assert again.root.tree.take_kept(damaged), "nobody is told that it can't be read"


def config(*nodes: str) -> RootConfig:
    return RootConfig(node="root", log_id=LOG, children=tuple(child(one) for one in nodes))
