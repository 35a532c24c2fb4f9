"""Types and units of stored values where the log has holes, went another way, or is that of a node below."""

from pathlib import Path

from albireo.codec.record import ItemDeclared, Stream
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.per_interval import Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of
from tests.parts.history_below import Historian, sites


def power(unit: str, node: str = "root", value_type: ValueType = ValueType.FLOAT64) -> ItemDeclared:
    item = DataItem(name="power", unit=unit, value_type=value_type)
    return ItemDeclared(item_id=ItemId(1), node=node, item=item)


def sampled(log: MemoryLog, *values: float) -> None:
    log.samples([(1, DAY_ZERO + log.end + at, value, int(q.GOOD)) for at, value in enumerate(values)], DAY_ZERO)


def told(store: HistoryStore) -> list[tuple[float, str]]:
    """Each value with its unit."""
    reader = StoredHistory(store.root, store.manifest)
    rows, kinds = reader.raw([1], TimeRange(0, 2 * DAY_ZERO)), reader.declared().kinds(1)
    units = [kinds.units[kind] for kind in kinds.at(rows["sequence"].to_numpy())]
    values = [float(one) for one in rows["value_f64"].to_numpy()]
    return list(zip(values, units, strict=True))


def sealed(hot: HotTail, store: HistoryStore) -> HistoryStore:
    """The history at the next start, after a seal."""
    content = hot.content()
    store.seal(content, LOG_ID.hex(), DAY_ZERO)
    hot.drop(content)
    again, _ = HistoryStore.open(store.root.parent, "root")
    return again


def test_a_declaration_within_a_hole_counts_from_its_end_on(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.STATE, [power("kW")], DAY_ZERO)
    sampled(log, 5.0)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    log.records(Stream.STATE, [power("W")], DAY_ZERO + SECOND)  # The log lets go of it before it is taken.
    gone = log.end
    sampled(log, 5000.0)
    hot.lost(gone, log.frames[-1].header)
    fill(hot, log, log.end)
    hot.declare([KnownItem(item_id=ItemId(1), node="root", item=power("W").item)])
    sampled(log, 6000.0)
    fill(hot, log)
    assert told(sealed(hot, store)) == [(5.0, "kW"), (5000.0, "W"), (6000.0, "W")]


def test_a_declaration_of_a_branch_that_was_left_counts_no_more(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.STATE, [power("kW")], DAY_ZERO)
    sampled(log, 5.0)
    left_at = log.end
    sampled(log, 5.1, 5.2, 5.3)
    log.records(Stream.STATE, [power("W")], DAY_ZERO + SECOND)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    store = sealed(hot, store)
    hot.fork(Position(1, left_at))
    log.cut(left_at)
    log.records(Stream.STATE, [power("W")], DAY_ZERO + 2 * SECOND)
    sampled(log, 5000.0)
    log.records(Stream.STATE, [power("MW")], DAY_ZERO + 3 * SECOND)
    sampled(log, 0.005)
    fill(hot, log)
    assert told(sealed(hot, store)) == [(5.0, "kW"), (5000.0, "W"), (0.005, "MW")]


def test_a_node_above_tells_them_as_the_node_itself(tmp_path: Path) -> None:
    log, (north, _) = sites()
    node = north.folder.node
    for unit, value in (("kW", 5.0), ("W", 5000.0)):
        north.log.records(Stream.STATE, [power(unit, node)], DAY_ZERO)
        sampled(north.log, value)
    north.send(log, north.pending())
    life = Historian(tmp_path)
    life.take(log)
    life.seal()
    assert told(life.of(north).store) == [(5.0, "kW"), (5000.0, "W")]


def test_stored_sums_of_one_kind_are_used_beside_a_change(tmp_path: Path) -> None:
    """Files say by their sequences that a range is of one kind; then no row is read for it."""
    log = MemoryLog()
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    for unit, begin in (("kW", 0), ("W", 3600)):
        log.records(Stream.STATE, [power(unit)], DAY_ZERO + begin * SECOND)
        rows = [(1, DAY_ZERO + (begin + at) * SECOND, float(at), int(q.GOOD)) for at in range(600)]
        log.samples(rows, DAY_ZERO + (begin + 600) * SECOND)
        fill(hot, log)
        store = sealed(hot, store)
    read: list[object] = []

    class Counted(StoredHistory):
        def raw_around(self, item_id: int, span: TimeRange):  # type: ignore[no-untyped-def]
            read.append(span)
            return super().raw_around(item_id, span)

    reader = Counted(store.root, store.manifest)
    wanted = Aggregation(name="average", every_ns=60 * SECOND)
    before = TimeRange(DAY_ZERO + 60 * SECOND, DAY_ZERO + 600 * SECOND)
    table = interval_table(reader, reader.item("power"), before, wanted)
    assert (table["value"].to_pylist()[0], len(read)) == (89.5, 0)
    whole = TimeRange(DAY_ZERO, DAY_ZERO + 3660 * SECOND)
    table = interval_table(reader, reader.item("power"), whole, wanted)
    assert (table["value"].to_pylist()[0], table["value"].to_pylist()[-1], len(read)) == (29.5, 29.5, 1)
