"""DIM: what becomes the live value, and what does not."""

import msgspec
import numpy as np
import pytest

from albireo.codec.errors import DecodeError
from albireo.machine.fold import Dim, Fresh
from albireo.machine.fold.items.dim import CLOCK_BACK_NS, ITEM_ID_MAX
from albireo.model import quality as q
from albireo.model.instant import SECOND, LogTime
from albireo.model.item import AlarmSettings, DataItem, KnownItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.alarm import WALL_0, batch_of

S = SECOND


def known(item_id: int, name: str, value_type: ValueType = ValueType.FLOAT64) -> KnownItem:
    return KnownItem(item_id=ItemId(item_id), node="root", item=DataItem(name=name, value_type=value_type))


def dim_of(*items: KnownItem) -> Dim:
    dim = Dim()
    for sequence, item in enumerate(items, start=1):
        dim.fold_item(item, sequence)
    return dim


def fold(dim: Dim, rows: list[tuple[int, Value, int, int | None]], sequence: int = 100, log_s: float = 0.0) -> Fresh:
    """Fold float rows of (item id, value, quality, source time in s after WALL_0)."""
    placed = [(a, b, c, None if d is None else WALL_0 + d * S) for a, b, c, d in rows]
    return dim.fold_samples(batch_of(ValueType.FLOAT64, placed), sequence, LogTime(int(log_s * S)))


def value(dim: Dim, item_id: int) -> Value | None:
    index = dim.index_of(item_id)
    assert index is not None
    return dim.value_at(index)


def test_value_is_unknown_before_the_first_sample_and_after_only_bad_ones() -> None:
    dim = dim_of(known(1, "a"))
    reading = dim.reading_at(0)
    assert (reading.value, reading.quality) == (None, q.BAD_WAITING_FOR_INITIAL_DATA)
    fold(dim, [(1, 0.0, q.BAD_NO_COMMUNICATION, 1)])
    reading = dim.reading_at(0)
    assert (reading.value, reading.quality) == (None, q.BAD_NO_COMMUNICATION)


def test_bad_sample_keeps_the_last_usable_value_and_tells_its_own_quality_and_time() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 7.5, q.UNCERTAIN, 1)])
    fold(dim, [(1, 0.0, q.BAD_SENSOR_FAILURE, 2)])
    reading = dim.reading_at(0)
    assert (reading.value, reading.quality, reading.source_ns) == (7.5, q.BAD_SENSOR_FAILURE, WALL_0 + 2 * S)


@pytest.mark.parametrize(
    ("value_type", "first", "last"),
    [
        (ValueType.FLOAT64, 1.5, -2.5),
        (ValueType.INT64, 2**62 + 1, -(2**62) - 1),
        (ValueType.BOOL, True, False),
        (ValueType.STRING, "ä", "open"),
    ],
)
def test_last_of_equal_ids_wins_in_every_type(value_type: ValueType, first: Value, last: Value) -> None:
    dim = dim_of(known(1, "a", value_type), known(2, "b", value_type))
    batch = batch_of(value_type, [(1, first, 0, None), (2, first, 0, None), (1, last, 0, None)])
    fresh = dim.fold_samples(batch, 12, LogTime(0))
    assert sorted(fresh.index.tolist()) == [0, 1]
    assert (value(dim, 1), value(dim, 2)) == (last, first)
    assert type(value(dim, 1)) is type(last)
    assert dim.live.changed_at[:2].tolist() == [12, 11]
    assert dim.changed_since(11).tolist() == [0]
    sent = {one.item_id[k].item(): v for one in dim.batches(dim.changed_since(0)) for k, v in enumerate(one.values())}
    assert sent == {1: last, 2: first}


def test_unknown_and_mistyped_samples_are_counted_and_left_out() -> None:
    dim = dim_of(known(1, "a"), known(2, "b", ValueType.BOOL))
    fresh = fold(dim, [(1, 1.0, 0, 1), (2, 1.0, 0, 1), (9, 1.0, 0, 1), (2**32 - 1, 1.0, 0, 1), (0, 1.0, 0, 1)])
    assert fresh.index.tolist() == [0]
    assert (dim.counters.unknown, dim.counters.mistyped) == (3, 1)
    assert value(dim, 2) is None


def test_new_declaration_renames_and_another_type_makes_the_value_unknown() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 1.0, 0, 1)])
    dim.fold_item(known(1, "b"), 7)
    assert (dim.by_name("root:a"), dim.by_name("root:b"), value(dim, 1)) == (None, dim.by_id(1), 1.0)
    dim.fold_item(known(1, "b", ValueType.STRING), 8)
    assert value(dim, 1) is None
    assert [one.item.value_type for one in dim.declared_since(7)] == [ValueType.STRING]


def test_item_id_beyond_the_table_is_counted_and_allocates_nothing() -> None:
    dim = dim_of(known(ITEM_ID_MAX + 1, "a"), known(0, "b"))
    assert (len(dim), dim.counters.refused_items) == (0, 2)


def test_late_sample_is_history_only_and_counted() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 1.0, 0, 10)])
    fresh = fold(dim, [(1, 2.0, 0, 9)], log_s=1)
    assert (len(fresh.index), value(dim, 1), dim.counters.late) == (0, 1.0, 1)
    fold(dim, [(1, 3.0, 0, 10)], log_s=2)
    assert value(dim, 1) == 3.0, "an equal source time is not late"


def test_within_a_batch_the_newest_by_source_time_wins() -> None:
    dim = dim_of(known(1, "a"), known(2, "b"))
    fold(dim, [(1, 1.0, 0, 10), (2, 5.0, 0, 3), (1, 2.0, 0, 9), (2, 6.0, 0, 4)])
    assert (value(dim, 1), value(dim, 2)) == (1.0, 6.0)


def test_lost_device_is_live_at_once_whatever_the_clocks_say_and_so_is_its_return() -> None:
    """The loss is stamped by the node, whose clock may be before or behind the device's."""
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 1.0, 0, 100)])
    fold(dim, [(1, 0.0, q.BAD_NO_COMMUNICATION, 50)], log_s=1)
    assert dim.reading_at(0).quality == q.BAD_NO_COMMUNICATION
    fold(dim, [(1, 2.0, 0, 101)], log_s=2)
    fold(dim, [(1, 0.0, q.BAD_NO_COMMUNICATION, 900)], log_s=3)
    fold(dim, [(1, 3.0, 0, 102)], log_s=4)
    assert (value(dim, 1), dim.reading_at(0).quality) == (3.0, q.GOOD)


def test_loss_after_newer_device_samples_of_the_same_batch_wins() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 1.0, 0, 100), (1, 2.0, 0, 101), (1, 0.0, q.BAD_NO_COMMUNICATION, 50)])
    assert (value(dim, 1), dim.reading_at(0).quality) == (None, q.BAD_NO_COMMUNICATION)


def test_clock_set_back_blinds_an_item_for_a_short_while_only() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 0.0, 0, 3600)], log_s=0)
    seen = []
    for second in range(1, 10):
        fold(dim, [(1, float(second), 0, second)], log_s=second)
        seen.append(value(dim, 1))
    blind_s = CLOCK_BACK_NS // S
    assert seen == [0.0] * blind_s + [float(one) for one in range(blind_s + 1, 10)]


def test_clock_that_stands_still_in_the_past_does_not_blind_an_item() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 0.0, 0, 3600)], log_s=0)
    for second in range(1, 8):
        fold(dim, [(1, float(second), 0, 1)], log_s=second)
    assert value(dim, 1) == 7.0


def test_replay_of_a_buffer_never_becomes_live_however_long_it_takes() -> None:
    """An hour of buffered data in a minute: its source times run sixty times as fast as the log's."""
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, -1.0, 0, 4000)], log_s=0)
    for second in range(1, 60):
        fold(dim, [(1, float(second), 0, 60 * second)], log_s=second)
    assert value(dim, 1) == -1.0
    fold(dim, [(1, 5.0, 0, 4001)], log_s=61)
    assert value(dim, 1) == 5.0


def test_live_samples_between_late_ones_keep_the_late_ones_out() -> None:
    dim = dim_of(known(1, "a"))
    for second in range(1, 60):
        fold(dim, [(1, 1.0, 0, 1000 + second)], log_s=second)
        fold(dim, [(1, 2.0, 0, second)], log_s=second + 0.5)
        assert value(dim, 1) == 1.0


def fold_own(dim: Dim, number: float, clock_s: float, log_s: float) -> None:
    """Fold a sample that nobody but the node has stamped, by its clock of this moment."""
    at_ns = WALL_0 + int(clock_s * S)
    dim.fold_samples(batch_of(ValueType.FLOAT64, [(1, number, 0, at_ns)], at_ns), 100, LogTime(int(log_s * S)))


@pytest.mark.parametrize("clock_s", [[0, 1, -3600, -3599, -3598], [0, 1, 31_536_000, 31_536_001, 4, 5], [5, 4, 3, 2]])
def test_samples_of_the_nodes_own_clock_are_live_as_they_come_however_it_is_set(clock_s: list[int]) -> None:
    dim = dim_of(known(1, "a"))
    for count, clock in enumerate(clock_s):
        fold_own(dim, float(count), clock, count)
        assert value(dim, 1) == float(count)
    assert dim.counters.late == 0


def test_last_of_several_samples_of_the_nodes_own_clock_wins_within_a_batch() -> None:
    dim = dim_of(known(1, "a"))
    times = [WALL_0 + one * S for one in (10, 3, 4)]
    parts = [batch_of(ValueType.FLOAT64, [(1, float(at), 0, ns)], ns) for at, ns in enumerate(times)]
    batch = msgspec.structs.replace(
        batch_of(ValueType.FLOAT64, [(1, float(at), 0, ns) for at, ns in enumerate(times)]),
        node_ns=np.concatenate([one.node_ns for one in parts]),
    )
    dim.fold_samples(batch, 100, LogTime(0))
    assert value(dim, 1) == 2.0


def test_device_time_is_compared_with_device_times_only() -> None:
    dim = dim_of(known(1, "a"))
    fold(dim, [(1, 1.0, 0, 100)])
    fold_own(dim, 2.0, 5_000, 1)
    fold(dim, [(1, 3.0, 0, 101)], log_s=2)
    assert value(dim, 1) == 3.0
    fold(dim, [(1, 4.0, 0, 99)], log_s=3)
    assert value(dim, 1) == 3.0


def test_extreme_times_and_values_fold_without_a_warning() -> None:
    dim = dim_of(known(1, "a"), known(2, "b"))
    ends = np.iinfo(np.int64)
    for source_ns in (ends.max, ends.min, 0, ends.max):
        rows: list[tuple[int, Value, int, int | None]] = [
            (1, float("nan"), 0, source_ns),
            (2, float("-inf"), 0xFFFF_FFFF, source_ns),
        ]
        dim.fold_samples(batch_of(ValueType.FLOAT64, rows, ends.max), 1, LogTime(ends.max // 4))
    assert dim.reading_at(1).value is None


def test_empty_rest_of_a_batch_is_no_error() -> None:
    dim = Dim()
    fresh = fold(dim, [(3, 1.0, 0, 1)])
    assert len(fresh.index) == 0
    assert dim.batches(dim.changed_since(0)) == []


def test_declared_limits_may_be_written_as_integers_and_snapshot_alike() -> None:
    """CORE folds the record that it appended without reading it back; a replay folds the bytes."""
    item = KnownItem(
        item_id=ItemId(1),
        node="root",
        item=DataItem(name="a", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=80)),
    )
    read_back = msgspec.msgpack.decode(msgspec.msgpack.encode(item), type=KnownItem)
    assert dim_of(item).snapshot() == dim_of(read_back).snapshot()


def test_snapshot_holds_everything() -> None:
    dim = dim_of(known(1, "a"), known(5, "b", ValueType.STRING), known(3, "c", ValueType.BOOL))
    fold(dim, [(1, 1.0, 0, 10)])
    fold(dim, [(1, 1.0, 0, 9), (77, 0.0, 0, 1)])
    text: SampleBatch = batch_of(ValueType.STRING, [(5, "on", 0, None)])
    dim.fold_samples(text, 50, LogTime(0))
    again = Dim.restore(dim.snapshot())
    assert again.snapshot() == dim.snapshot()
    assert [again.reading_at(k) for k in range(3)] == [dim.reading_at(k) for k in range(3)]
    assert again.counters == dim.counters
    assert again.by_name("root:b") == dim.by_id(5)


def test_damaged_snapshot_is_a_typed_error() -> None:
    dim = dim_of(known(1, "a"))
    data = dim.snapshot()
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            Dim.restore(data[:cut])
    with pytest.raises(DecodeError):
        Dim.restore(data + data)
