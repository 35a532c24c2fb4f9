"""What a history says of times of which little is known: before the first sample, after the last, and in between."""

from pathlib import Path

import msgspec
import pytest

from albireo.codec.history import BUCKET_NS, DAY_NS, NO_ITEM
from albireo.codec.record import GapFound, ItemDeclared, ItemForgotten, Marked, Stream
from albireo.machine.history.declared import Row
from albireo.machine.history.intervals import averages, qualities
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem, KnownItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotRows
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.per_interval import Aggregation, interval_table
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of
from tests.parts.history_copy import Copy

HOUR = 3600 * SECOND
ITEM = 1


def declared(
    item_id: int, adapter: str, *, stale_s: float | None = None, of: ValueType = ValueType.FLOAT64
) -> ItemDeclared:
    alarm = None if stale_s is None else AlarmSettings(stale_s=stale_s)
    item = DataItem(name=f"i_{item_id}", value_type=of, adapter=adapter, alarm=alarm)
    return ItemDeclared(item_id=ItemId(item_id), node="root", item=item)


def gap(source: str, from_ns: int, *item_ids: int) -> GapFound:
    return GapFound(source=source, reason="device_lost", from_ns=from_ns, to_ns=from_ns + SECOND, item_ids=item_ids)


def read(tmp_path: Path, log: MemoryLog, *, is_sealed: bool = True) -> StoredHistory:
    """A reader of everything in the log, in files or in the hot tail."""
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    if is_sealed:
        store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
        return StoredHistory(store.root, store.manifest)
    content = hot.content()
    newest = HotRows(
        samples=samples_table(content.chunks),
        gaps=content.gaps,
        items=content.items,
        known_to_ns=content.complete_to_ns,
    )
    return StoredHistory(store.root, store.manifest, newest)


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("only_raw", [True, False])
def test_nothing_is_lost_before_the_first_sample(tmp_path: Path, is_sealed: bool, only_raw: bool) -> None:
    """A gap of the whole adapter at 01:00, the item's first sample at 10:00."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(ITEM, "p1")], DAY_ZERO)
    log.records(Stream.SAMPLES, [gap("p1", DAY_ZERO + HOUR)], DAY_ZERO + HOUR)
    log.samples([(ITEM, DAY_ZERO + 10 * HOUR, 5.0, 0)], DAY_ZERO + 10 * HOUR)
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 12 * HOUR)
    reader = read(tmp_path, log, is_sealed=is_sealed)
    span = TimeRange(DAY_ZERO, DAY_ZERO + 12 * HOUR)
    found = reader.intervals(ITEM, span, 12 * HOUR, AggregateSettings(), only_raw=only_raw)
    assert (found.good_ns[0], found.bad_ns[0]) == (2 * HOUR, 0)


def test_a_gap_between_samples_is_lost_time(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.STATE, [declared(ITEM, "p1")], DAY_ZERO)
    log.samples([(ITEM, DAY_ZERO, 4.0, 0)], DAY_ZERO)
    log.records(Stream.SAMPLES, [gap("p1", DAY_ZERO + HOUR)], DAY_ZERO + HOUR)
    log.samples([(ITEM, DAY_ZERO + 10 * HOUR, 5.0, 0)], DAY_ZERO + 10 * HOUR)
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 12 * HOUR)
    found = read(tmp_path, log).intervals(
        ITEM, TimeRange(DAY_ZERO, DAY_ZERO + 12 * HOUR), 12 * HOUR, AggregateSettings()
    )
    assert (found.good_ns[0], found.bad_ns[0]) == (3 * HOUR, 9 * HOUR)


def test_last_says_nothing_of_times_of_which_nothing_is_known(tmp_path: Path) -> None:
    """72 hours asked, 60 seconds recorded: `last` answers for as many hours as `average`."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(ITEM, "p1")], DAY_ZERO)
    for second in range(0, 60, 10):
        log.samples([(ITEM, DAY_ZERO + second * SECOND, float(second), 0)], DAY_ZERO + second * SECOND)
    reader = read(tmp_path, log)
    span = TimeRange(DAY_ZERO, DAY_ZERO + 72 * HOUR)
    item = reader.item("i_1")
    answers = {
        name: interval_table(reader, item, span, Aggregation(name=name, every_ns=HOUR)) for name in ("average", "last")
    }
    known = [one for one in answers["average"].column("quality").to_pylist() if one != q.BAD_NO_DATA]
    assert len(known) == len(answers["last"]) == 1
    assert answers["last"].column("value_f64").to_pylist() == [50.0]
    starts, _ = reader.last_rows(ITEM, TimeRange(DAY_ZERO + HOUR, DAY_ZERO + 72 * HOUR), HOUR)
    assert len(starts) == 0


def test_rows_of_a_clock_that_is_ahead_are_rows_and_hold_nothing_yet(tmp_path: Path) -> None:
    """Known to 60 s, rows at 50, 70 and 80 s: raw rows and sums agree that time is good from 50 to 60."""
    log = MemoryLog()
    log.samples([(ITEM, DAY_ZERO + one * SECOND, float(one), 0) for one in (50, 70, 80)], DAY_ZERO + 60 * SECOND)
    reader = read(tmp_path, log)
    for only_raw in (True, False):
        span = TimeRange(DAY_ZERO, DAY_ZERO + 3 * BUCKET_NS)
        found = reader.intervals(ITEM, span, BUCKET_NS, AggregateSettings(), only_raw=only_raw)
        assert found.good_ns.tolist() == [10 * SECOND, 0, 0]
        assert found.rows.tolist() == [1, 2, 0]


@pytest.mark.parametrize("only_raw", [True, False])
@pytest.mark.parametrize(
    ("values", "average"), [([50.0], 50.0), ([40.1], 40.1), ([-0.3], -0.3), ([0.1, 0.3], 0.2), ([0.0], 0.0)]
)
def test_an_average_has_no_noise(tmp_path: Path, only_raw: bool, values: list[float], average: float) -> None:
    """Rows come at no whole parts of a second, and so many that what each is rounded by adds up."""
    log = MemoryLog()
    step = 10_101_013
    rows = [(ITEM, DAY_ZERO + at * step, values[at % len(values)], 0) for at in range(2000)]
    log.samples(rows, DAY_ZERO + 2000 * step)
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 3000 * step)
    span, chosen = TimeRange(DAY_ZERO, DAY_ZERO + 1000 * step), AggregateSettings()
    found = read(tmp_path, log).intervals(ITEM, span, 1000 * step, chosen, only_raw=only_raw)
    assert averages(found, chosen).tolist() == [average]


@pytest.mark.parametrize(
    ("stale_s", "held_ns"),
    [(None, 31 * DAY_NS), (3600.0, HOUR), (5.0, BUCKET_NS), (40 * 86_400.0, 40 * DAY_NS)],
)
@pytest.mark.parametrize("only_raw", [True, False])
def test_a_value_is_held_for_its_stale_time_and_then_unknown(
    tmp_path: Path, stale_s: float | None, held_ns: int, only_raw: bool
) -> None:
    """31 days without a stale time, a minute at least; what is bad stays so for 31 days."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1", stale_s=stale_s), declared(2, "p1", stale_s=stale_s)], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 4.0, 0), (2, DAY_ZERO, 4.0, int(q.BAD_NO_COMMUNICATION))], DAY_ZERO)
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 60 * DAY_NS)
    reader = read(tmp_path, log)
    span, chosen = TimeRange(DAY_ZERO, DAY_ZERO + 60 * DAY_NS), AggregateSettings()
    found = reader.intervals(1, span, 60 * DAY_NS, chosen, only_raw=only_raw)
    assert (found.good_ns[0], found.bad_ns[0], averages(found, chosen)[0]) == (held_ns, 0, 4.0)
    assert qualities(found, chosen, 60 * DAY_NS)[0] & q.PARTIAL
    bad = reader.intervals(2, span, 60 * DAY_NS, chosen, only_raw=only_raw)
    assert (bad.good_ns[0], bad.bad_ns[0]) == (0, 31 * DAY_NS)
    starts, _ = reader.last_rows(1, span, 60 * DAY_NS)
    assert len(starts) == 0
    starts, rows = reader.last_rows(1, TimeRange(DAY_ZERO, DAY_ZERO + held_ns), held_ns)
    assert (len(starts), rows.column("value_f64").to_pylist()) == (1, [4.0])


def test_the_stale_time_is_that_of_the_time_of_the_sample(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1", stale_s=3600.0)], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 4.0, 0)], DAY_ZERO)
    log.records(Stream.STATE, [declared(1, "p1", stale_s=7200.0)], DAY_ZERO + 10 * HOUR)
    log.samples([(1, DAY_ZERO + 10 * HOUR, 4.0, 0)], DAY_ZERO + 10 * HOUR)
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 20 * HOUR)
    found = read(tmp_path, log).intervals(1, TimeRange(DAY_ZERO, DAY_ZERO + 20 * HOUR), 10 * HOUR, AggregateSettings())
    assert found.good_ns.tolist() == [HOUR, 2 * HOUR]


@pytest.mark.parametrize("only_raw", [True, False])
def test_large_integers_keep_their_digits(tmp_path: Path, only_raw: bool) -> None:
    """A counter beyond 2^53: smallest and largest value of each minute, the value held from before included."""
    large = 2**53
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1", of=ValueType.INT64)], DAY_ZERO)
    rows = [(0, large + 1), (30, large + 3), (70, large + 5), (200, 7)]
    log.samples([(1, DAY_ZERO + at * SECOND, value, 0) for at, value in rows], DAY_ZERO + 240 * SECOND, ValueType.INT64)
    reader = read(tmp_path, log)
    span, item = TimeRange(DAY_ZERO, DAY_ZERO + 4 * BUCKET_NS), reader.item("i_1")
    found = {
        name: interval_table(reader, item, span, Aggregation(name=name, every_ns=BUCKET_NS, only_raw=only_raw))
        for name in ("min", "max")
    }
    assert found["min"].column("value_i64").to_pylist() == [large + 1, large + 3, large + 5, None]
    assert found["max"].column("value_i64").to_pylist() == [large + 3, large + 5, large + 5, large + 5]
    assert found["min"].column("value").to_pylist()[3] == 7.0


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_gap_stays_with_the_items_of_its_time(tmp_path: Path, is_sealed: bool) -> None:
    """Item 1 moves from p1 to p2 after a gap of p1: the gap stays its own, and is not that of who comes to p1 later."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1"), declared(2, "p2")], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 1.0, 0), (2, DAY_ZERO, 2.0, 0)], DAY_ZERO)
    log.records(Stream.SAMPLES, [gap("p1", DAY_ZERO + HOUR), gap("p3", DAY_ZERO + HOUR)], DAY_ZERO + HOUR)
    log.records(Stream.STATE, [declared(1, "p2"), declared(2, "p1")], DAY_ZERO + 2 * HOUR)
    log.samples([(1, DAY_ZERO + 3 * HOUR, 1.0, 0), (2, DAY_ZERO + 3 * HOUR, 2.0, 0)], DAY_ZERO + 3 * HOUR)
    reader = read(tmp_path, log, is_sealed=is_sealed)
    span = TimeRange(DAY_ZERO, DAY_ZERO + 3 * HOUR)
    lost = [int(reader.intervals(one, span, 3 * HOUR, AggregateSettings()).bad_ns[0]) for one in (1, 2)]
    assert lost == [2 * HOUR, 0]
    assert [row["item_ids"] for row in reader.gaps(span)] == [[1], [NO_ITEM]]
    assert [len(reader.gaps(span, one)) for one in (1, 2)] == [1, 0]


def copied_later(
    tmp_path: Path, source: HistoryStore, log: MemoryLog, begins_at: int, known: KnownItem
) -> StoredHistory:
    """Another history of the log, which began at a record, was told of an item, and got the older files as a copy."""
    target, _ = HistoryStore.open(tmp_path / "target", "root")
    hot = hot_of(target)
    newer = [one for one in log.frames if one.header.first_sequence >= begins_at]
    hot.lost(begins_at - 1, newer[0].header)
    hot.declare([known])
    for one in newer:
        hot.take(one.header, one.body)
    target.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    copy = Copy(source, target)
    assert copy.run()
    assert not target.manifest.holes
    return StoredHistory(target.root, target.manifest)


@pytest.mark.parametrize("only_raw", [True, False])
def test_a_gap_of_nobody_stays_so_in_a_history_that_began_later(tmp_path: Path, only_raw: bool) -> None:
    """p3 has no item when it loses its device; item 1 comes to it later, and the other history knows no more."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1")], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    log.records(Stream.SAMPLES, [gap("p3", DAY_ZERO + HOUR)], DAY_ZERO + HOUR)
    moved = declared(1, "p3")
    log.records(Stream.STATE, [moved], DAY_ZERO + 2 * HOUR)
    read(tmp_path / "source", log)
    source, _ = HistoryStore.open(tmp_path / "source", "root")
    begins_at = log.end + 1
    log.records(Stream.CONTROL, [Marked()], DAY_ZERO + 3 * HOUR)
    known = KnownItem(item_id=moved.item_id, node=moved.node, item=moved.item)
    later = copied_later(tmp_path, source, log, begins_at, known)
    span = TimeRange(DAY_ZERO, DAY_ZERO + 3 * HOUR)
    for reader in (StoredHistory(source.root, source.manifest), later):
        assert [row["source"] for row in reader.gaps(span)] == ["p3"]
        assert reader.gaps(span, 1) == []
    found = later.intervals(1, span, 3 * HOUR, AggregateSettings(), only_raw=only_raw)
    assert (found.good_ns[0], found.bad_ns[0]) == (3 * HOUR, 0)


def test_a_gap_that_was_written_unresolved_is_that_of_its_sources_items(tmp_path: Path) -> None:
    """A row that was written while declarations were missing is resolved by those of that time, once they are known."""
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1"), declared(2, "p2")], DAY_ZERO)
    log.records(Stream.STATE, [declared(1, "p2"), declared(2, "p1")], DAY_ZERO + 2 * HOUR)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    place: Row = {"node_ns": DAY_ZERO + HOUR, "epoch": 1, "sequence": 2, "lost": None, "reason": "device_lost"}
    span = TimeRange(DAY_ZERO, DAY_ZERO + 3 * HOUR)
    times: Row = {"from_ns": DAY_ZERO + HOUR, "to_ns": DAY_ZERO + HOUR + 1}
    old = [{"source": source, "item_ids": [], **times, **place} for source in ("p1", "p3", "core")]
    store.seal(msgspec.structs.replace(hot.content(), gaps=old), LOG_ID.hex(), DAY_ZERO)
    reader = StoredHistory(store.root, store.manifest)
    assert [[row["source"] for row in reader.gaps(span, one)] for one in (1, 2)] == [["p1", "core"], ["core"]]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_declaration_that_another_follows_at_once_counts_for_no_time(tmp_path: Path, is_sealed: bool) -> None:
    """So values from before both hold as the second one says; a history may seal between the two."""
    log = MemoryLog()
    log.samples([(ITEM, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    log.records(Stream.STATE, [declared(ITEM, "p1", stale_s=60.0)], DAY_ZERO + HOUR)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    if is_sealed:
        content = hot.content()
        store.seal(content, LOG_ID.hex(), DAY_ZERO)
        hot.drop(content)
    log.records(Stream.STATE, [declared(ITEM, "p1")], DAY_ZERO + HOUR)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    assert [(row["stale_ns"], row["valid_from_ns"]) for row in store.declared.rows()] == [(None, DAY_ZERO + HOUR)]
    found = StoredHistory(store.root, store.manifest).intervals(
        ITEM, TimeRange(DAY_ZERO, DAY_ZERO + HOUR), HOUR, AggregateSettings()
    )
    assert found.good_ns[0] == HOUR


def test_declarations_have_times_from_when_to_when(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.STATE, [declared(1, "p1"), declared(2, "p1")], DAY_ZERO)
    log.records(Stream.STATE, [declared(1, "p2"), declared(2, "p1")], DAY_ZERO + HOUR)
    log.records(Stream.STATE, [ItemForgotten(item_ids=(1,))], DAY_ZERO + 2 * HOUR)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    for upto in (2, 4, 5):
        fill(hot, log, upto)
        content = hot.content()
        store.seal(content, LOG_ID.hex(), DAY_ZERO)
        hot.drop(content)
    store, _ = HistoryStore.open(tmp_path, "root")
    assert [
        (row["item_id"], row["adapter"], row["valid_from_ns"], row["valid_to_ns"]) for row in store.declared.rows()
    ] == [
        (1, "p1", DAY_ZERO, DAY_ZERO + HOUR),
        (1, "p2", DAY_ZERO + HOUR, DAY_ZERO + 2 * HOUR),
        (2, "p1", DAY_ZERO, None),
    ]
    assert StoredHistory(store.root, store.manifest).item("i_1")["adapter"] == "p2"
