"""Stretches: which frames are folded together, and at which one they end. That this is the same: tests/property."""

from collections.abc import Callable

import numpy as np
import pytest

from albireo.codec import record, samples
from albireo.codec.record import ItemDeclared, Stream
from albireo.machine.fold import stretch
from albireo.machine.fold.folds import Folds
from albireo.model import quality as q
from albireo.model.instant import MS
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.alarm import batch_of
from tests.parts.sample_log import Log, begun

CALM = 30
FLOAT = ValueType.FLOAT64


def folded(log: Log) -> tuple[Folds, int]:
    """Folds of the log's declarations, and how many of its other frames they take together."""
    folds = Folds()
    first = next((at for at, one in enumerate(log.frames) if one.header.stream == Stream.SAMPLES), 0)
    for frame in log.frames[:first]:
        folds.replay(frame)
    return folds, stretch.fold_front(log.frames[first:], folds.dim, folds.conditions, folds.producers)


def calm(log: Log, count: int = CALM) -> None:
    for number in range(count):
        log.rows([(1, 4.0, 0, None), (2, 4.0 + number % 2, 0, None)], FLOAT, 1)
        log.rows([(4, 50 + number, 0, None)], ValueType.INT64, 2)
        log.log_time_ms += 1


def row(item_id: int, value: Value, quality: int = 0, source_ms: int | None = None) -> Callable[[Log], None]:
    """A frame of one row; `source_ms` is counted from the present."""

    def tell(log: Log) -> None:
        source_ns = None if source_ms is None else log.wall_ns + source_ms * MS
        log.rows([(item_id, value, quality, source_ns)], FLOAT, 1)

    return tell


def late_by(ms: int) -> Callable[[Log], None]:
    def tell(log: Log) -> None:
        log.log_time_ms += ms
        row(1, 4.0)(log)

    return tell


ALONE = {
    "above its limit": row(2, 7.0),
    "below its limit": row(2, 1.0),
    "an item with a rate": row(3, 4.0),
    "no number, of an item with limits": row(2, float("nan")),
    "no number, of an item that may become stale": row(1, float("nan")),
    "an item that can be frozen": lambda log: log.rows([(7, 4, 0, None)], ValueType.INT64, 1),
    "bad": row(1, 4.0, int(q.BAD)),
    "out of reach": row(1, 4.0, int(q.BAD_NO_COMMUNICATION)),
    "late": row(1, 4.0, source_ms=-500),
    "unknown": row(99, 4.0),
    "id 0": row(0, 4.0),
    "unknown, and the type of the last known one": lambda log: log.rows([(99, 4, 0, None)], ValueType.INT64, 1),
    "of another type": row(4, 50.0),
    "behind the time at which an item is stale": late_by(2_500),
}


@pytest.mark.parametrize("name", ALONE)
def test_stretch_ends_at_a_frame_with_a_row_that_is(name: str) -> None:
    log = begun()
    calm(log)
    ALONE[name](log)
    calm(log)
    assert folded(log)[1] == 2 * CALM


def test_late_row_ends_the_stretch_of_which_an_earlier_frame_made_it_late() -> None:
    """By what was live before the stretch it would not be late."""
    log = begun()
    calm(log)
    row(1, 4.0, source_ms=1_000)(log)
    calm(log)
    assert folded(log)[1] == 2 * CALM + 1


@pytest.mark.parametrize(
    "tell", [row(8, float("nan")), row(2, 4.0, int(q.UNCERTAIN)), row(2, 6.0), lambda log: calm(log, 1)]
)
def test_stretch_goes_on_over_rows_that_change_no_judgement(tell: Callable[[Log], None]) -> None:
    log = begun()
    calm(log)
    tell(log)
    calm(log)
    assert folded(log)[1] == len(log.frames) - len(begun().frames)


def test_row_that_is_late_by_what_was_live_before_ends_the_stretch() -> None:
    log = begun()
    row(1, 4.0, source_ms=1_000)(log)
    folds = Folds()
    for frame in log.frames:
        folds.replay(frame)
    told = len(log.frames)
    for item_id in (2, 2, 2, 1):
        row(item_id, 4.0)(log)
    assert stretch.fold_front(log.frames[told:], folds.dim, folds.conditions, folds.producers) == 3


def test_stretch_sets_the_time_at_which_its_items_are_stale_and_ends_before_it() -> None:
    """No deadline is set before it: every item is stale already, but for the first, whose device is lost."""
    log = begun()
    lost = AlarmSettings(off_normal=False, is_device_state=True)
    device = DataItem(name="p1/connected", value_type=ValueType.BOOL, adapter="p1", alarm=lost)
    log.records(Stream.STATE, ItemDeclared(item_id=ItemId(9), node="root", item=device))
    log.rows([(9, False, 0, None)], ValueType.BOOL, 1)
    row(1, 4.0, int(q.BAD_NO_COMMUNICATION))(log)
    for log.log_time_ms in (59_000, 60_000):  # The second ends the delay of one of them.
        log.records(Stream.CONTROL, record.Marked())
    folds = Folds()
    for frame in log.frames:
        folds.replay(frame)
    assert folds.deadline() is None
    told = len(log.frames)
    for ms in (100, 500, 2_099, 2_100):
        log.log_time_ms = 60_000 + ms
        row(1, 4.0)(log)
    assert stretch.fold_front(log.frames[told:], folds.dim, folds.conditions, folds.producers) == 3
    assert folds.deadline() == 62_100 * MS


def test_highest_number_of_a_producer_counts_at_its_last_frame() -> None:
    log = begun()
    calm(log)
    log.batches = 0
    calm(log, 5)
    folds, count = folded(log)
    known = folds.producers.get(2)
    assert count == 2 * CALM + 10
    assert known is not None
    assert (known.last_sequence, known.last_position) == (2 * CALM, log.sequence)


def test_item_with_a_streak_of_late_samples_ends_a_stretch_and_others_do_not() -> None:
    log = begun()
    row(1, 4.0)(log)
    row(1, 4.0, source_ms=-500)(log)
    folds = Folds()
    for frame in log.frames:
        folds.replay(frame)
    told = len(log.frames)
    for item_id in (2, 2, 2, 1):
        row(item_id, 4.0)(log)
    assert stretch.fold_front(log.frames[told:], folds.dim, folds.conditions, folds.producers) == 3


def test_node_times_that_go_back_end_a_stretch_and_are_live_all_the_same() -> None:
    log = begun()
    row(1, 4.0, source_ms=0)(log)
    log.log_time_ms += 10
    for back_ms in (3_600_000, 3_700_000):
        at_ns = log.wall_ns - back_ms * MS
        log.add(Stream.SAMPLES, int(FLOAT), 1, samples.encode_body(1, 2, batch_of(FLOAT, [(1, 5.0, 0, at_ns)], at_ns)))
    folds = Folds()
    folds.replay_all(log.frames)
    assert (folds.dim.reading_at(0).source_ns, folds.dim.counters.late) == (at_ns, 0)


def test_suppressor_and_stale_items_end_a_stretch() -> None:
    log = begun()
    calm(log)
    log.rows([(5, True, 0, None)], ValueType.BOOL, 1)
    assert folded(log)[1] == 2 * CALM
    log = begun()
    log.log_time_ms += 60_000
    folds = Folds()
    for frame in log.frames:
        folds.replay(frame)
    told = len(log.frames)
    row(2, 4.0)(log)
    folds.replay(log.frames[-1])
    assert folds.conditions.is_active().any(), "something is stale"
    row(2, 4.0)(log)
    row(2, 4.0)(log)
    row(1, 4.0)(log)
    assert stretch.fold_front(log.frames[told + 1 :], folds.dim, folds.conditions, folds.producers) == 2


@pytest.mark.parametrize(
    ("body", "value_type"),
    [
        (b"", FLOAT),
        (bytes(15), FLOAT),
        (bytes(47), FLOAT),
        (bytes(49), FLOAT),
        (bytes(40) + b"\x02", ValueType.BOOL),
        (bytes(40) + np.array([0, 1], "<u4").tobytes() + b"\xc3", ValueType.STRING),
        (bytes(40) + np.array([1, 1], "<u4").tobytes() + b"a", ValueType.STRING),
        (bytes(40) + np.array([0, 2], "<u4").tobytes() + b"a", ValueType.STRING),
    ],
)
def test_frames_with_a_body_that_is_none_are_folded_one_by_one(body: bytes, value_type: ValueType) -> None:
    log = begun()
    calm(log)
    log.add(Stream.SAMPLES, int(value_type), 1, body)
    assert folded(log)[1] == 0
    folds = Folds()
    folds.replay_all(log.frames)
    assert folds.unreadable == 1


def test_what_an_iterable_gave_before_it_failed_is_folded() -> None:
    log = begun()
    calm(log)

    def read() -> object:
        yield from log.frames
        raise OSError("the disk")

    folds = Folds()
    with pytest.raises(OSError, match="the disk"):
        folds.replay_all(read())  # type: ignore[arg-type]  # A generator that only raises at its end.
    assert folds.log_time_ms == CALM - 1
    assert folds.producers.last_appended(2) == 2 * CALM


def test_frame_of_many_rows_and_records_are_not_small() -> None:
    log = begun()
    log.rows([(1, 4.0, 0, None)] * stretch.ROWS_MAX, FLOAT, 1)
    log.rows([(1, 4.0, 0, None)] * (stretch.ROWS_MAX + 1), FLOAT, 1)
    log.add(Stream.SAMPLES, record.Kind.REFERENCE, 1, bytes(56))
    assert [stretch.is_small(one.header) for one in log.frames[-4:]] == [False, True, False, False]
