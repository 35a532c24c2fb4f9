"""What a run decides to read and to compute anew."""

import msgspec

from albireo.codec.history import FileEntry, FileKind, Manifest, partials_path
from albireo.model.position import EpochEntry, Position
from albireo.pipeline.plan import mark_of, plan
from tests.unit.pipeline.history_files import DAY0, LOG_ID, SECOND

DAY = 86_400 * SECOND


def entry(day: int, first: int, last: int, kind: FileKind = FileKind.SAMPLES, begin: int | None = None) -> FileEntry:
    """A file of one day after DAY0, sequences first..last."""
    low = DAY0 + day * DAY + SECOND if begin is None else begin
    return FileEntry(
        kind=kind,
        path=f"{kind}/node=root/day={day}/{first}-{last}.parquet",
        node="root",
        day="2026-03-01",
        rows=last - first + 1,
        min_source_ns=low,
        max_source_ns=DAY0 + (day + 1) * DAY - SECOND,
        first_sequence=first,
        last_sequence=last,
        size_bytes=1,
        log_id=LOG_ID,
    )


def manifest(*files: FileEntry, sequence: int, day: float, log_id: str = LOG_ID) -> Manifest:
    return Manifest(
        node="root",
        log_id=log_id,
        position=Position(1, sequence),
        complete_to_ns=DAY0 + int(day * DAY),
        files=files,
    )


OLD = manifest(entry(0, 1, 10), entry(1, 11, 20), sequence=20, day=2.5)


def test_nothing_new_is_nothing_to_do() -> None:
    assert plan(OLD, [mark_of(OLD), mark_of(OLD)]) is None


def test_no_table_means_everything() -> None:
    todo = plan(OLD, [None, None])
    assert todo is not None
    assert todo.is_everything
    assert todo.from_ns == DAY0
    assert len(todo.samples) == 2


def test_new_files_touch_their_days_and_the_day_where_knowledge_ended() -> None:
    new = manifest(*OLD.files, entry(3, 21, 30), sequence=30, day=4)
    todo = plan(new, [mark_of(OLD)])
    assert todo is not None
    assert not todo.is_everything
    assert todo.from_ns == DAY0 + 2 * DAY
    assert [one.first_sequence for one in todo.samples] == [21]


def test_a_late_sample_touches_its_day() -> None:
    new = manifest(*OLD.files, entry(3, 21, 30, begin=DAY0 + DAY + 5), sequence=30, day=4)
    todo = plan(new, [mark_of(OLD)])
    assert todo is not None
    assert todo.from_day == "2026-03-02"
    assert [one.first_sequence for one in todo.samples] == [11, 21]


def test_rows_of_before_the_watermark_that_were_copied_since_mean_everything() -> None:
    """A member that joined late gets the files of before behind (ADR-0124): no watermark tells them apart."""
    filled = msgspec.structs.replace(manifest(entry(0, 1, 5), *OLD.files, sequence=20, day=2.5), filled=1)
    todo = plan(filled, [mark_of(OLD)])
    assert todo is not None
    assert todo.is_everything
    assert plan(filled, [mark_of(filled)]) is None


def test_a_late_gap_touches_the_day_it_begins_in() -> None:
    gap = entry(2, 21, 21, FileKind.GAPS, begin=DAY0 + 7)
    todo = plan(manifest(*OLD.files, gap, sequence=21, day=3), [mark_of(OLD)])
    assert todo is not None
    assert todo.from_ns == DAY0


def test_the_oldest_watermark_counts() -> None:
    """A run that was ended between two commits left tables at two positions."""
    new = manifest(*OLD.files, entry(3, 21, 30), sequence=30, day=4)
    todo = plan(new, [mark_of(new), mark_of(OLD)])
    assert todo is not None
    assert todo.from_ns == DAY0 + 2 * DAY


def test_another_log_or_one_that_went_back_means_everything() -> None:
    other = manifest(*OLD.files, sequence=20, day=2.5, log_id="00")
    back = manifest(OLD.files[0], sequence=10, day=1)
    for new in (other, back):
        todo = plan(new, [mark_of(OLD)])
        assert todo is not None
        assert todo.is_everything


def test_a_log_that_lost_its_end_means_everything() -> None:
    """What the tables took in under epoch 1 beyond sequence 15 is not in the log any more."""
    history = (EpochEntry(1, 1, 7), EpochEntry(2, 16, 8))
    new = msgspec.structs.replace(manifest(*OLD.files, sequence=40, day=4), position=Position(2, 40), history=history)
    todo = plan(new, [mark_of(OLD)])
    assert todo is not None
    assert todo.is_everything
    longer = msgspec.structs.replace(new, history=(EpochEntry(1, 1, 7), EpochEntry(2, 21, 8)))
    todo = plan(longer, [mark_of(OLD)])
    assert todo is not None
    assert not todo.is_everything


def test_another_format_means_everything() -> None:
    old = msgspec.structs.replace(mark_of(OLD), format=0)
    todo = plan(OLD, [old])
    assert todo is not None
    assert todo.is_everything


def test_partials_are_used_only_if_all_are_there() -> None:
    files = [entry(0, 1, 10), entry(1, 11, 20)]
    stored = [msgspec.structs.replace(one, kind=FileKind.PARTIALS, path=partials_path(one.path)) for one in files]
    todo = plan(manifest(*files, *stored, sequence=20, day=2), [None])
    assert todo is not None
    assert todo.partials == tuple(stored)
    todo = plan(manifest(*files, stored[0], sequence=20, day=2), [None])
    assert todo is not None
    assert todo.partials is None


def test_wrong_clocks_do_not_overflow() -> None:
    wild = msgspec.structs.replace(entry(0, 1, 1), min_source_ns=-(2**63), max_source_ns=2**63 - 1)
    todo = plan(manifest(wild, sequence=1, day=1), [None])
    assert todo is not None
    assert -(2**63) < todo.from_ns < 0


def test_an_empty_history_is_planned_too() -> None:
    todo = plan(Manifest(node="root"), [None])
    assert todo is not None
    assert todo.samples == ()
    assert todo.from_ns == 0
