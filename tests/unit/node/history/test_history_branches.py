"""A log that went another way: what it left behind is kept aside, and is in no answer and no table."""

import threading
from pathlib import Path

import numpy as np
import pytest

from albireo.codec.history import BUCKET_NS, SCHEMAS, FileKind
from albireo.codec.record import Audited, GapFound, Stream
from albireo.machine.history.sealing import MergePlan
from albireo.machine.history.trace import AggregateSettings
from albireo.model.instant import SECOND
from albireo.model.position import EpochEntry, Position
from albireo.node.history.errors import MergeAbandoned
from albireo.node.history.files import merging, parquet
from albireo.node.history.files.branches import living_rows
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of, listed_files_are_there, stored_rows

LEFT_AT = 12
ITEM = 1


def first_way() -> MemoryLog:
    log = MemoryLog()
    log.samples([(ITEM, DAY_ZERO + one * SECOND, float(one), 0) for one in range(10)], DAY_ZERO + 10 * SECOND)
    log.records(Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="u", action="kept", subject="s")], DAY_ZERO + 11 * SECOND)
    log.samples([(ITEM, DAY_ZERO + one * SECOND, -1.0, 0) for one in range(12, 20)], DAY_ZERO + 20 * SECOND)
    gap = GapFound(source="p1", reason="overflow", from_ns=DAY_ZERO + 20 * SECOND, to_ns=DAY_ZERO, item_ids=(ITEM,))
    log.records(Stream.SAMPLES, [gap], DAY_ZERO + 20 * SECOND)
    log.records(Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="u", action="left", subject="s")], DAY_ZERO + 20 * SECOND)
    return log


def other_way(at: int = LEFT_AT) -> MemoryLog:
    """Its sequences begin where the first way was left, with the same times."""
    log = MemoryLog()
    log.end, log.epoch = at, 2
    log.samples([(ITEM, DAY_ZERO + one * SECOND, 100.0 + one, 0) for one in range(13, 18)], DAY_ZERO + 30 * SECOND)
    return log


def sealed(store: HistoryStore, hot: HotTail) -> None:
    content = hot.content()
    store.seal(content, LOG_ID.hex(), DAY_ZERO)
    hot.drop(content)


def check(store: HistoryStore) -> None:
    """The answers are those of a history that only ever saw the way that lives."""
    listed_files_are_there(store.root, store.manifest)
    assert [row[0] for row in stored_rows(store.root)] == [*range(1, 11), 12, *range(13, 18)]
    reader = StoredHistory(store.root, store.manifest)
    span = TimeRange(DAY_ZERO, DAY_ZERO + BUCKET_NS)
    for only_raw in (True, False):
        found = reader.intervals(ITEM, span, BUCKET_NS, AggregateSettings(), only_raw=only_raw)
        assert (found.rows[0], found.maximum[0], found.bad_ns[0]) == (16, 117.0, 0)
    assert reader.last(ITEM, span.to_ns).column("value_f64").to_pylist() == [117.0]
    assert reader.gaps(span) == []
    assert reader.events(TimeRange(0, 2**61)).column("action").to_pylist() == ["kept", "log_forked"]


@pytest.mark.parametrize("seals", ["before", "between", "never"])
def test_rows_of_the_way_that_was_left_are_in_no_answer(tmp_path: Path, seals: str) -> None:
    """Sealed before the log went another way, or while it did, or not at all."""
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, first_way())
    writing = hot.content()
    if seals == "before":
        sealed(store, hot)
    hot.fork(Position(1, LEFT_AT))
    fill(hot, other_way())
    if seals == "between":  # The seal began before the fork and ends after it.
        store.seal(writing, LOG_ID.hex(), DAY_ZERO)
        hot.drop(writing)
    sealed(store, hot)
    check(store)
    again, report = HistoryStore.open(tmp_path, "root")
    assert report.leftovers == 0
    check(again)
    dead = [one for one in again.manifest.cut_off if one.kind is FileKind.SAMPLES]
    kept = [parquet.read(again.root, [one], SCHEMAS[one.kind].names).column("value_f64").to_pylist() for one in dead]
    assert kept and all(one == [-1.0] * 7 for one in kept), "what was left is kept beside the answers"
    assert (again.manifest.filled > 0) == (seals != "never")


def test_a_merge_of_files_that_were_cut_meanwhile_is_given_up(tmp_path: Path) -> None:
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    log = first_way()
    for upto in (10, 20):
        fill(hot, log, upto)
        sealed(store, hot)
    inputs = tuple(store.manifest.of_kind(FileKind.SAMPLES))
    plan = MergePlan(inputs, 1)
    made = merging.merge_files(store, plan, store.manifest.generation + 1, threading.Event())
    listed = merging.inputs_listed(store, plan)
    hot.fork(Position(1, LEFT_AT))
    fill(hot, other_way())
    sealed(store, hot)
    with pytest.raises(MergeAbandoned):
        store.replace(listed, made, DAY_ZERO)
    assert not any((store.root / one.path).exists() for one in made)
    assert [row[0] for row in stored_rows(store.root)] == [*range(1, 11), 12, *range(13, 18)]


def test_a_damaged_file_holds_up_no_seal(tmp_path: Path) -> None:
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, first_way())
    sealed(store, hot)
    (entry,) = store.manifest.of_kind(FileKind.EVENTS)
    (store.root / entry.path).write_bytes(b"nothing")
    hot.fork(Position(1, LEFT_AT))
    fill(hot, other_way())
    sealed(store, hot)
    assert [row[0] for row in stored_rows(store.root)] == [*range(1, 11), 12, *range(13, 18)]


def test_rows_are_of_the_way_that_lives_by_epoch_and_sequence() -> None:
    history = (EpochEntry(1, 1, 7), EpochEntry(3, 11, 8))
    epoch, sequence = np.array([1, 1, 2, 3, 9]), np.array([10, 11, 12, 12, 5])
    assert living_rows(history, epoch, sequence).tolist() == [True, False, False, True, False]
    assert living_rows(history[1:], epoch, sequence).tolist() == [True, False, False, True, True]
    assert living_rows((), epoch, sequence).all()
