"""Runs of small frames: folded together they leave the same folds as frame by frame, byte for byte.

Stories are long enough that most of a calm one is folded together, and have in them all that a stretch may not contain:
values that leave their band, rates, suppressors, stale items and their return, late and set-back clocks, bad qualities,
unknown items, wrong types, bodies that are malformed, texts beyond ASCII, references, declarations.
"""

import math

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings

from albireo.codec import record, reference
from albireo.codec.record import Kind, Marked, Stream
from albireo.machine.fold import stretch
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.model import quality as q
from albireo.model.instant import MS, WallTime
from albireo.model.value import Value, ValueType
from tests.long_form import examples
from tests.parts.alarm import WALL_0
from tests.parts.sample_log import ALARMS, TYPES, Log, begun, value_of

Rows = list[tuple[int, Value, int, int | None]]

calm = st.tuples(
    st.just("calm"),
    st.lists(st.sampled_from([(1,), (1, 2), (2,), (4,), (6,), (7,), (4, 7)]), min_size=1, max_size=4),
    st.integers(20, 60),
    st.sampled_from([0, 1, 10, 50]),
)
"""Items of each frame, taken in turns; number of frames; milliseconds of log time between them."""
rows = st.tuples(
    st.sampled_from([*TYPES, 99]),
    st.integers(0, 18),
    st.sampled_from([0, 0, 0, int(q.UNCERTAIN), int(q.BAD), int(q.BAD_NO_COMMUNICATION)]),
    st.sampled_from([None, None, None, -1, -500, 200, 0]),
)
"""Item, number, quality, source time in ms from the present (None: the present, 0: that of the node itself)."""
some = st.tuples(st.just("rows"), st.lists(rows, min_size=1, max_size=6))
singles = st.tuples(st.just("singles"), st.lists(rows, min_size=1, max_size=6))
"""The same, each row in a frame of its own."""
odd = st.one_of(
    st.tuples(st.just("time"), st.sampled_from([1, 400, 2_500, 6_000])),
    st.tuples(st.just("mark")),
    st.tuples(st.just("body"), st.sampled_from([b"", b"x" * 15, b"x" * 30, bytes(48)]), st.sampled_from(ValueType)),
    st.tuples(st.just("reference")),
    st.tuples(st.just("declare"), st.sampled_from([1, 2, 3, 4]), st.booleans()),
)


def tell(log: Log, step: tuple[object, ...]) -> None:
    match step:
        case ("calm", list(turns), int(count), int(every_ms)):
            for number in range(count):
                ids = turns[number % len(turns)]
                values: list[Value] = ["ab" if TYPES[one] is ValueType.STRING else 4 + number % 3 for one in ids]
                found: Rows = [(one, value, 0, None) for one, value in zip(ids, values, strict=True)]
                log.rows([*found, *found[: number % 2]], TYPES[ids[0]], number % 3)
                log.log_time_ms += every_ms
        case ("rows" | "singles" as kind, list(drawn)):
            type_of = TYPES.get(drawn[0][0], ValueType.FLOAT64)
            of_type = [one for one in drawn if TYPES.get(one[0], type_of) is type_of or type_of is ValueType.FLOAT64]
            fitting = [(a, _fitting(type_of, value_of(a, b) if a in TYPES else 0), c, d) for a, b, c, d in of_type]
            timed = [(a, b, c, None if d is None else log.wall_ns + d * MS + (d == 0)) for a, b, c, d in fitting]
            for part in [timed] if kind == "rows" else [[one] for one in timed]:
                log.rows(part, type_of, 1)
        case ("time", int(ms)):
            log.log_time_ms += ms
        case ("mark",):
            log.records(Stream.CONTROL, Marked())
        case ("body", bytes(body), ValueType() as value_type):
            log.add(Stream.SAMPLES, int(value_type), 1, body)
        case ("reference",):
            body = record.PRODUCER.pack(2, 1000 + log.sequence)
            log.add(Stream.SAMPLES, Kind.REFERENCE, 3, body + bytes(reference.encode(log.frames[0])[16:]))
        case ("declare", int(item_id), bool(has_alarm)):
            log.declare(item_id, ALARMS[item_id] if has_alarm else None)
        case _:
            pytest.fail(f"no such step: {step}")


def _fitting(value_type: ValueType, value: Value) -> Value:
    """The value as one of this type: a batch has one type, whatever its items have."""
    if value_type is ValueType.STRING:
        return str(value)
    return 3.0 if isinstance(value, str) else float(value) if value_type is ValueType.FLOAT64 else int(value)


def look(folds: Folds) -> object:
    """All that the folds say from now on."""
    conditions = folds.conditions
    return (
        folds.snapshot(),
        (folds.log_time_ms, folds.unreadable, folds.deadline()),
        (conditions.log_time, conditions.changes, conditions.deadline()),
        msgspec.msgpack.encode(folds.propose(WallTime(WALL_0))),  # As bytes, for NaN is not equal to itself.
        [folds.producers.last_appended(one) for one in (1, 2)],
    )


@given(st.lists(st.one_of(calm, some, some, odd), max_size=14), st.data())
@settings(max_examples=examples(250), deadline=None)
@pytest.mark.slow
def test_frames_folded_together_leave_what_they_leave_one_by_one(
    story: list[tuple[object, ...]], data: st.DataObject
) -> None:
    log = begun()
    for step in story:
        tell(log, step)
    alone, together, halves, by_columns = Folds(), Folds(), Folds(), Folds()
    for frame in log.frames:
        alone.replay(frame)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "fold_single", lambda *_: False)  # The oracle folds single rows as it folds many.
        for frame in log.frames:
            by_columns.replay(frame)
    together.replay_all(log.frames)
    cut = data.draw(st.integers(0, len(log.frames)))
    halves.replay_all(log.frames[:cut])
    halves.replay_all(log.frames[cut:])
    assert look(together) == look(alone) == look(halves) == look(by_columns)


@given(st.lists(st.one_of(singles, singles, odd), min_size=1, max_size=40))
@example([("singles", [(1, 0, 0, None), (1, 0, 0, -500), (1, 0, 0, None)])])
@example([("singles", [(1, 0, 0, None), (4, 0, 0, None)])])
@example([("singles", [(1, 4, 0, None), (1, 5, int(q.BAD), None)])])
@example([("singles", [(1, 16, 0, None)]), ("time", 2500), ("singles", [(2, 0, 0, None)])])
@settings(max_examples=examples(400), deadline=None)
@pytest.mark.slow
def test_a_row_folded_by_itself_leaves_what_the_columns_leave(story: list[tuple[object, ...]]) -> None:
    """Frames of one row each, calm or not: what changes a judgement, is late, bad, unknown, mistyped or no number."""
    log = begun()
    for step in story:
        tell(log, step)
    single, by_columns = Folds(), Folds()
    for frame in log.frames:
        single.replay(frame)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "fold_single", lambda *_: False)
        for frame in log.frames:
            by_columns.replay(frame)
    assert look(single) == look(by_columns)


@pytest.mark.parametrize(("item_id", "value"), [(1, 3.5), (1, math.inf), (4, 7), (6, "ab")])
def test_a_calm_row_is_folded_without_numpy(item_id: int, value: Value) -> None:
    log = begun()
    log.rows([(item_id, value, 0, None)], TYPES[item_id], 1)
    folds = Folds()
    *before, frame = log.frames
    for one in before:
        folds.replay(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Dim, "fold_samples")
        folds.replay(frame)
    assert folds.dim.value_at(folds.dim.index_of(item_id) or 0) == value


def test_numbers_are_what_the_rows_say() -> None:
    """The oracle is told apart from the tested: each item's last row, by hand."""
    log = begun()
    for number in range(100):
        log.rows([(1, 3.0 + number % 2, 0, None), (1, 4.5, 0, None)], ValueType.FLOAT64, 1)
        log.rows([(6, "ab", 0, None)], ValueType.STRING, 2)
        log.log_time_ms += 1
    folds = Folds()
    folds.replay_all(log.frames)
    readings = {one.name: one for one in folds.readings(list(folds.dim))}
    assert (readings["root:plain"].value, readings["root:text"].value) == (4.5, "ab")
    assert readings["root:plain"].source_ns == log.wall_ns - MS
    assert folds.dim.live.changed_at[0] == log.sequence - 1
    assert (folds.producers.last_appended(1), folds.producers.last_appended(2)) == (199, 200)
    assert np.array_equal(folds.conditions.watched.seen[[0, 5]], [99 * MS, 99 * MS])
