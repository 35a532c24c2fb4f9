"""What a run decides to read and to compute anew."""

import msgspec

from albireo.codec.history import (
    FileEntry,
    FileKind,
    Hole,
    Manifest,
    day_of,
    day_start_ns,
    group_of,
    partials_path,
)
from albireo.machine.history.trace import HOLD_NS
from albireo.model.position import EpochEntry, Position
from albireo.pipeline.delta import Watermark
from albireo.pipeline.plan import (
    PARTS_MAX,
    LateRows,
    WorkPlan,
    base_of,
    is_known,
    mark_of,
    midnight,
    news,
    open_from_ns,
    plan,
)
from tests.unit.pipeline.history_files import DAY0, LOG_ID, SECOND

DAY = 86_400 * SECOND
REACH = DAY + -(-HOLD_NS // DAY) * DAY
"""Days from that of a new sample on which its hold can reach."""


def planned(new: Manifest, marks: list[Watermark | None], days: dict[str, set[int]] | None = None) -> WorkPlan:
    """The plan of a run; the days of new rows are those of the files' smallest times, unless they are given."""
    base = base_of(new, marks)
    if base is None:
        return plan(new, None, LateRows())
    found = {one.entry.path: {midnight(one.entry.min_source_ns)} for one in news(new, base)}
    return plan(new, base, LateRows(days=found if days is None else days))


def only(todo: WorkPlan) -> tuple[int, list[int]]:
    """Begin and first sequences of a plan with one part."""
    (part,) = todo.parts
    assert part.to_ns is None
    return part.from_ns, [one.first_sequence for one in part.samples]


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
        content_crc=1,
        footer_crc=1,
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
    assert is_known(OLD, [mark_of(OLD), mark_of(OLD)])
    assert not is_known(OLD, [mark_of(OLD), None])
    assert not is_known(OLD, [])


def test_no_table_means_everything() -> None:
    todo = planned(OLD, [None, None])
    assert todo.is_everything
    assert only(todo) == (DAY0, [1, 11])


def test_new_files_touch_their_days_and_the_day_where_knowledge_ended() -> None:
    new = manifest(*OLD.files, entry(3, 21, 30), sequence=30, day=4)
    todo = planned(new, [mark_of(OLD)])
    assert not todo.is_everything
    assert only(todo) == (DAY0 + 2 * DAY, [21])
    assert [todo.is_touched(f"2026-03-0{day}") for day in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_late_sample_touches_its_day() -> None:
    new = manifest(*OLD.files, entry(3, 21, 30, begin=DAY0 + DAY + 5), sequence=30, day=4)
    assert only(planned(new, [mark_of(OLD)])) == (DAY0 + DAY, [11, 21])


def test_a_sample_stamped_1970_touches_days_of_1970_only() -> None:
    """Its file is read for both; all others from before are not, however many they are."""
    old = manifest(*(entry(day, 10 * day + 1, 10 * day + 10) for day in range(200)), sequence=2000, day=200)
    new = manifest(*old.files, entry(200, 2001, 2010, begin=5), sequence=2010, day=201)
    late = {new.files[-1].path: {0, DAY0 + 200 * DAY}}
    todo = planned(new, [mark_of(old)], late)
    first, last = todo.parts
    assert (first.from_ns, first.to_ns) == (0, REACH)
    assert (last.from_ns, last.to_ns) == (DAY0 + 200 * DAY, None)
    assert [[one.first_sequence for one in part.samples] for part in todo.parts] == [[2001], [2001]]
    assert todo.is_touched("1970-01-01")
    assert not todo.is_touched("2026-03-05")
    assert not planned(new, [mark_of(new)], {}).is_touched("1970-01-01")


def test_late_days_that_are_far_apart_stay_few_queries() -> None:
    old = manifest(*(entry(day, day + 1, day + 1) for day in range(2000)), sequence=2000, day=2000)
    new = manifest(*old.files, entry(2000, 2001, 2001, begin=DAY0), sequence=2001, day=2001)
    late = {DAY0 + day * DAY for day in range(0, 1900, 50)}
    todo = planned(new, [mark_of(old)], {new.files[-1].path: late})
    assert len(todo.parts) == PARTS_MAX
    assert all(todo.is_touched(day_of(one)) for one in late)
    ends = [(part.from_ns, part.to_ns) for part in todo.parts]
    assert ends == sorted(ends, key=lambda one: one[0])


def holed(*files: FileEntry, filled: int, upto: str = "", holes: int = 1) -> Manifest:
    """A history that began late: of the log's first 1000 rows only copies come, the newest group first."""
    hole = Hole(
        first_sequence=1,
        last_sequence=1000,
        from_ns=DAY0 - 90 * DAY,
        to_ns=DAY0,
        behind=Position(1, 1001),
        gap="gaps/hole.parquet",
        upto=upto,
    )
    made = manifest(entry(0, 1001, 1010), entry(1, 1011, 1020), *files, sequence=1020, day=2.5)
    return msgspec.structs.replace(made, filled=filled, holes=(hole,) * holes)


def test_a_copied_group_of_old_files_touches_its_days() -> None:
    """A member that joined late gets the files of before behind (ADR-0124): one more group is no reason to read all."""
    first = copied("2025-12-30", 1, 500)
    before, after = holed(filled=3), holed(first, filled=4, upto=group_of(first))
    base = base_of(after, [mark_of(before)])
    assert base == mark_of(before)
    assert [one.entry.path for one in news(after, base)] == [first.path]
    assert open_from_ns(base) == DAY0 + 2 * DAY
    todo = planned(after, [mark_of(before)], {first.path: {DAY0 - 61 * DAY}})
    assert not todo.is_everything
    assert [(part.from_ns, part.to_ns) for part in todo.parts] == [
        (DAY0 - 61 * DAY, DAY0 - 61 * DAY + REACH),
        (DAY0 + 2 * DAY, None),
    ]
    assert [[one.path for one in part.samples] for part in todo.parts] == [[first.path], []]


def test_a_group_that_was_copied_before_is_not_new() -> None:
    first, second = copied("2025-12-30", 501, 1000), copied("2025-12-29", 1, 500)
    before = holed(first, filled=4, upto=group_of(first))
    after = holed(first, second, filled=5, upto=group_of(second))
    base = base_of(after, [mark_of(before)])
    assert base is not None
    assert [one.entry.path for one in news(after, base)] == [second.path]


def test_the_end_of_a_hole_touches_its_begin() -> None:
    """The gap of the hole goes with it, and what was lost is known."""
    before, after = holed(filled=3), holed(filled=4, holes=0)
    todo = planned(after, [mark_of(before)])
    assert todo.parts[0].from_ns == DAY0 - 90 * DAY
    assert todo.is_touched(day_of(DAY0 - 90 * DAY))


def copied(day: str, first: int, last: int) -> FileEntry:
    """A file of rows that came from the other member."""
    path = f"samples/node=root/day={day}/{first}-{last}.parquet"
    begin = day_start_ns(day)
    times = {"min_source_ns": begin, "max_source_ns": begin + DAY - 1}
    return msgspec.structs.replace(entry(0, first, last), path=path, day=day, **times)


def test_a_late_gap_touches_the_day_it_begins_in() -> None:
    gap = entry(2, 21, 21, FileKind.GAPS, begin=DAY0 + 7)
    assert only(planned(manifest(*OLD.files, gap, sequence=21, day=3), [mark_of(OLD)]))[0] == DAY0


def test_the_oldest_watermark_counts() -> None:
    """A run that was ended between two commits left tables at two positions."""
    new = manifest(*OLD.files, entry(3, 21, 30), sequence=30, day=4)
    assert only(planned(new, [mark_of(new), mark_of(OLD)]))[0] == DAY0 + 2 * DAY


def test_another_log_or_one_that_went_back_means_everything() -> None:
    other = manifest(*OLD.files, sequence=20, day=2.5, log_id="00")
    back = manifest(OLD.files[0], sequence=10, day=1)
    for new in (other, back):
        assert planned(new, [mark_of(OLD)]).is_everything


def test_a_log_that_lost_its_end_means_everything() -> None:
    """What the tables took in under epoch 1 beyond sequence 15 is not in the log any more."""
    history = (EpochEntry(1, 1, 7), EpochEntry(2, 16, 8))
    new = msgspec.structs.replace(manifest(*OLD.files, sequence=40, day=4), position=Position(2, 40), history=history)
    assert planned(new, [mark_of(OLD)]).is_everything
    longer = msgspec.structs.replace(new, history=(EpochEntry(1, 1, 7), EpochEntry(2, 21, 8)))
    assert not planned(longer, [mark_of(OLD)]).is_everything


def test_another_format_means_everything() -> None:
    old = msgspec.structs.replace(mark_of(OLD), format=0)
    assert planned(OLD, [old]).is_everything


def test_partials_are_used_only_if_all_are_there() -> None:
    files = [entry(0, 1, 10), entry(1, 11, 20)]
    stored = [msgspec.structs.replace(one, kind=FileKind.PARTIALS, path=partials_path(one.path)) for one in files]
    todo = planned(manifest(*files, *stored, sequence=20, day=2), [None])
    assert todo.parts[0].partials == tuple(stored)
    assert todo.files == [*files, *stored]
    todo = planned(manifest(*files, stored[0], sequence=20, day=2), [None])
    assert todo.parts[0].partials is None


def test_wrong_clocks_do_not_overflow() -> None:
    wild = msgspec.structs.replace(entry(0, 1, 1), min_source_ns=-(2**63), max_source_ns=2**63 - 1)
    assert -(2**63) < only(planned(manifest(wild, sequence=1, day=1), [None]))[0] < 0


def test_an_empty_history_is_planned_too() -> None:
    assert only(planned(Manifest(node="root"), [None])) == (0, [])
