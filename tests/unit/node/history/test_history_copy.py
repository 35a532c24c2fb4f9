"""A history that lacks files gets them from the other member's: the same rows, none twice, and nothing it must not."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from albireo.codec.history import (
    DAY_NS,
    MANIFEST_NAME,
    SAMPLES,
    FileEntry,
    FileKind,
    decode_manifest,
    encode_manifest,
    file_path,
    is_inside,
)
from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent, Word
from albireo.codec.record import Audited, Stream
from albireo.codec.tree.stored import PIECE_BYTES
from albireo.machine.history.copy_events import EndHole, KeepGroup
from albireo.machine.history.copy_pace import ANSWER_NS, RATE_BYTES_PER_S, SHARE
from albireo.machine.history.copying import ATTEMPTS_MAX, CopyPhase
from albireo.machine.history.giving import group_sent
from albireo.machine.history.sealing import TIER
from albireo.model.instant import SECOND, Instant
from albireo.model.position import Position
from albireo.node.history.copy_work import ASIDE, read_piece
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import (
    DAY_ZERO,
    LOG_ID,
    DyingFiles,
    MemoryLog,
    fill,
    hot_of,
    listed_files_are_there,
)
from tests.parts.history_copy import (
    Copy,
    Piece,
    Tamper,
    all_rows,
    merge_once,
    partial_sums,
    some_days,
    source_of,
    target_of,
)

pytestmark = pytest.mark.slow

BLOCK = 23
"""Records of one block of `some_days`."""


def is_whole(copy: Copy) -> bool:
    """The target has what the source has, its gap is gone, and nothing lies about."""
    source, target = copy.source, copy.target
    reopened, report = HistoryStore.open(target.root.parent, "root")
    assert (report.problem, report.leftovers) == ("", 0)
    assert reopened.manifest.files == target.manifest.files
    assert target.manifest.holes == ()
    listed_files_are_there(target.root, target.manifest)
    assert all_rows(target) == all_rows(source)
    assert partial_sums(target) == partial_sums(source)
    return True


@pytest.mark.parametrize(("has_upto", "begins_at"), [(0, 5 * BLOCK), (0, 5 * BLOCK + 7), (30, 200), (1, 8 * BLOCK)])
def test_it_ends_with_the_rows_of_the_other_and_without_a_gap(tmp_path: Path, has_upto: int, begins_at: int) -> None:
    """The edges of the hole lie where frames end, not where the source's files do: the other rows are here already."""
    log = some_days(blocks=10, days=3)
    edges = [one.header.first_sequence for one in log.frames]
    begins_at = next(edge for edge in edges if edge >= begins_at)
    target = target_of(tmp_path / "target", log, has_upto, begins_at)
    (hole,) = target.manifest.holes
    assert (hole.last_sequence, hole.first_sequence) == (begins_at - 1, hot_of_upto(log, has_upto) + 1)
    (gap,) = [row for row in StoredHistory(target.root, target.manifest).gaps(EVER) if row["source"] == "history"]
    assert gap["sequence"] == begins_at
    copy = Copy(source_of(tmp_path / "source", log), target)
    filled: list[int] = []
    copy.after = lambda effect: filled.append(target.manifest.filled) if isinstance(effect, WRITES) else None
    assert copy.run()
    assert copy.refused == {}
    assert is_whole(copy)
    assert filled == list(range(1, len(filled) + 1)), "who remembers how far it has read can see each change"
    assert all(row["source"] == "plc" for row in StoredHistory(target.root, target.manifest).gaps(EVER))


WRITES = (KeepGroup, EndHole)
EVER = TimeRange(-(2**61), 2**61)


def hot_of_upto(log: MemoryLog, sequence: int) -> int:
    return max((one.header.last_sequence for one in log.frames if one.header.last_sequence <= sequence), default=0)


def test_a_merged_source_and_a_target_that_merges_meanwhile_agree(tmp_path: Path) -> None:
    log = some_days(blocks=2 * TIER, days=2)
    source = source_of(tmp_path / "source", log, seal_every=1)
    while merge_once(source):
        pass
    target = target_of(tmp_path / "target", log, BLOCK, 20 * BLOCK + 1)
    copy = Copy(source, target)
    copy.after = lambda effect: isinstance(effect, KeepGroup) and merge_once(target)
    assert copy.run()
    while merge_once(target):
        pass
    assert is_whole(copy)


def test_what_a_merge_of_the_source_takes_away_is_asked_for_anew(tmp_path: Path) -> None:
    """The files go at once here; a node keeps them for ten minutes more."""
    log = some_days(blocks=TIER + 2, days=1)
    source = source_of(tmp_path / "source", log, seal_every=1)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, 13 * BLOCK + 1))
    merges = iter([True, True, True])

    def merge(word: Word, piece: Piece) -> tuple[Word, Piece]:
        if isinstance(word, PieceSent) and word.path.startswith("samples") and next(merges, False):
            merge_once(source)
            for one in source.manifest.retired:
                (source.root / one.path).unlink(missing_ok=True)
        return word, piece

    copy.tamper = merge
    assert copy.run()
    assert any(isinstance(word, PieceAsked) and not (source.root / word.path).exists() for word in copy.asked)
    assert is_whole(copy)


def test_the_newest_day_comes_first(tmp_path: Path) -> None:
    log = some_days(blocks=9, days=3)
    copy = Copy(
        source_of(tmp_path / "source", log, seal_every=3), target_of(tmp_path / "target", log, 0, 8 * BLOCK + 1)
    )
    days: list[str] = []

    def note(effect: object) -> None:
        if isinstance(effect, KeepGroup):
            days.append(effect.after.upto)

    copy.after = note
    assert copy.run()
    assert days == sorted(days, reverse=True)
    assert len(days) == 9, "three kinds on three days"


def test_answers_that_get_lost_cost_time_only(tmp_path: Path) -> None:
    log = some_days(blocks=6, days=2)
    copy = Copy(source_of(tmp_path / "source", log), target_of(tmp_path / "target", log, 0, 4 * BLOCK + 1))
    numbers = iter(range(10**6))
    copy.tamper = lambda word, piece: None if next(numbers) % 3 else (word, piece)
    assert copy.run()
    assert copy.now > 10 * ANSWER_NS
    assert is_whole(copy)


def test_a_late_answer_is_no_answer(tmp_path: Path) -> None:
    """Each answer comes once more, behind the one to the question that was asked again."""
    log = some_days(blocks=6, days=1)
    copy = Copy(source_of(tmp_path / "source", log), target_of(tmp_path / "target", log, 0, 4 * BLOCK + 1))
    late: list[tuple[Word, Piece]] = []

    def hold_back(word: Word, piece: Piece) -> tuple[Word, Piece] | None:
        late.append((word, piece))
        return late.pop(0) if len(late) > 1 else None

    copy.tamper = hold_back
    assert not copy.run(within_ns=60 * SECOND)
    copy.tamper = lambda word, piece: (word, piece)
    assert copy.run()
    assert is_whole(copy)


def test_a_large_file_comes_in_pieces_at_a_bounded_rate(tmp_path: Path) -> None:
    log = MemoryLog()
    chance = np.random.default_rng(1)
    values = chance.random(60_000)
    for start in range(0, len(values), 1000):
        log.samples([(1, DAY_ZERO + start + row, float(values[start + row]), 0) for row in range(1000)], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    source = source_of(tmp_path / "source", log, seal_every=100)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, 60_001))
    assert copy.run()
    (entry,) = (one for one in source.manifest.of_kind(FileKind.SAMPLES) if one.rows > 1)
    asked = [word for word in copy.asked if isinstance(word, PieceAsked) and word.path == entry.path]
    assert [word.offset for word in asked] == list(range(0, entry.size_bytes, PIECE_BYTES))
    assert len(asked) > 1
    assert copy.now >= (len(asked) - 1) * PIECE_BYTES * SECOND // RATE_BYTES_PER_S
    assert is_whole(copy)


def test_a_slow_way_is_left_to_others_for_most_of_the_time(tmp_path: Path) -> None:
    log = some_days(blocks=4, days=1)
    copy = Copy(source_of(tmp_path / "source", log), target_of(tmp_path / "target", log, 0, 3 * BLOCK + 1))
    took_ns, busy_ns = 100_000_000, [0]

    def slow(word: Word, piece: Piece) -> tuple[Word, Piece]:
        if isinstance(word, PieceSent):
            copy.now = Instant(copy.now + took_ns)
            busy_ns[0] += took_ns
        return word, piece

    copy.tamper = slow
    assert copy.run()
    assert copy.now >= SHARE * busy_ns[0] - SHARE * took_ns


def test_progress_is_told_in_files(tmp_path: Path) -> None:
    log = some_days(blocks=6, days=1)
    source = source_of(tmp_path / "source", log, seal_every=1)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, 4 * BLOCK + 1))
    copy.tamper = lambda word, piece: None
    copy.run(within_ns=10 * SECOND)
    told = copy.machine.progress
    assert (told.is_incomplete, told.files, "does not answer" in told.trouble) == (True, 0, True)
    seen: list[tuple[int, int]] = []
    copy.tamper = lambda word, piece: (word, piece)
    copy.after = lambda effect: seen.append((copy.machine.progress.done, copy.machine.progress.files))
    assert copy.run()
    done = [done for done, files in seen if files]
    assert done == sorted(done)
    assert set(done) == set(range(13))
    assert {files for _, files in seen} == {0, 12}, "three kinds in four seals"
    assert not copy.machine.progress.is_incomplete


def test_what_the_other_lacks_too_stays_a_gap_and_is_not_asked_for_again(tmp_path: Path) -> None:
    log = some_days(blocks=10, days=2)
    source = target_of(tmp_path / "source", log, 3 * BLOCK, 6 * BLOCK + 1)
    target = target_of(tmp_path / "target", log, 0, 8 * BLOCK + 1)
    copy = Copy(source, target)
    assert copy.run()
    (left,) = target.manifest.holes
    assert (left.first_sequence, left.last_sequence) == (3 * BLOCK + 1, 6 * BLOCK)
    assert left.is_settled
    assert all_rows(target) == all_rows(source), "the gap row of the source's own hole among them"
    asked = len(copy.asked)
    assert Copy(source, HistoryStore.open(tmp_path / "target", "root")[0]).run()
    assert len(copy.asked) == asked
    assert not copy.machine.progress.is_incomplete


def test_two_holes_are_filled_one_after_the_other(tmp_path: Path) -> None:
    log = some_days(blocks=12, days=2)
    target = target_of(tmp_path / "target", log, BLOCK, 9 * BLOCK + 1)
    shorter = MemoryLog()
    shorter.frames = [one for one in log.frames if one.header.last_sequence <= 5 * BLOCK]
    target = target_of(tmp_path / "other", shorter, BLOCK, 3 * BLOCK + 1)
    hot = hot_of(target)
    first = next(one for one in log.frames if one.header.first_sequence > 8 * BLOCK)
    hot.lost(8 * BLOCK, first.header)
    for one in log.frames:
        if one.header.first_sequence >= first.header.first_sequence:
            hot.take(one.header, one.body)
    target.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    assert len(target.manifest.holes) == 2
    copy = Copy(source_of(tmp_path / "source", log), target)
    assert copy.run()
    assert is_whole(copy)


def test_a_source_may_have_rows_of_both_ways_of_a_log(tmp_path: Path) -> None:
    """Two files of the source then have one span within the hole: it seals what was cut soon after it heard of it."""
    log = some_days(blocks=2, days=1)
    source, _ = HistoryStore.open(tmp_path / "source", "root")
    hot = hot_of(source)
    fill(hot, log)
    source.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    hot = hot_of(source)
    hot.fork(Position(1, BLOCK))
    other = some_days(blocks=1, days=1)
    other.frames.clear()
    other.end, other.epoch = BLOCK, 2
    other.samples([(1, DAY_ZERO + 7, 7.0, 0)] * (BLOCK - 2), DAY_ZERO)
    other.records(Stream.AUDIT, [Audited(at_ns=DAY_ZERO, user="u", action="b", subject="s")] * 2, DAY_ZERO)
    end = other.samples([(1, DAY_ZERO + 8, 8.0, 0)] * 5, DAY_ZERO)
    for frames in (other.frames[:-1], [end]):
        for one in frames:
            hot.take(one.header, one.body)
        source.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
        hot.drop(hot.content())
    left = source.manifest.cut_off
    assert {one.kind for one in left} >= {FileKind.SAMPLES, FileKind.EVENTS}
    source.manifest = msgspec.structs.replace(source.manifest, files=(*source.manifest.files, *left))
    (source.root / MANIFEST_NAME).write_bytes(encode_manifest(source.manifest))
    target, _ = HistoryStore.open(tmp_path / "target", "root")
    hot = hot_of(target)
    fill(hot, log, BLOCK)
    hot.lost(end.header.first_sequence - 1, end.header)
    hot.take(end.header, end.body)
    target.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    copy = Copy(source, target)
    assert copy.run(), (copy.machine.progress, copy.refused)
    spans = [one.path.rpartition("-")[0] for one in target.manifest.of_kind(FileKind.SAMPLES)]
    assert len(spans) - len(set(spans)) == 1
    while merge_once(target, complete_to_ns=DAY_ZERO + 3 * DAY_NS):
        pass
    assert all_rows(copy.target) == all_rows(source)


def entry_changed(**changes: object) -> Tamper:
    """One file of each group is not what it was."""

    def tamper(word: Word, piece: Piece) -> tuple[Word, Piece]:
        if isinstance(word, GroupSent) and word.entries:
            changed = msgspec.structs.replace(word.entries[0], **changes)
            word = msgspec.structs.replace(word, entries=(changed, *word.entries[1:]))
        return word, piece

    return tamper


def everything_below(folder: Path) -> set[str]:
    return {one.relative_to(folder).as_posix() for one in folder.rglob("*")}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"path": "../../outside.parquet"}, "path_outside"),
        ({"path": "/etc/passwd"}, "path_outside"),
        ({"path": "samples/../../x"}, "path_outside"),
        ({"path": "a\0b"}, "path_outside"),
        ({"path": ""}, "path_outside"),
        ({"path": "x" * 2000}, "path_outside"),
        ({"kind": FileKind.PARTIALS}, "wrong_kind"),
        ({"kind": FileKind.ITEMS}, "wrong_kind"),
        ({"log_id": "00" * 16}, "other_log"),
        ({"day": "../x"}, "wrong_day"),
        ({"day": "20231115"}, "wrong_day"),
        ({"day": ""}, "wrong_day"),
        ({"day": "0001-01-01"}, "wrong_day"),
        ({"node": ""}, "wrong_node"),
        ({"node": "n\0"}, "wrong_node"),
        ({"node": "n" * 300}, "wrong_node"),
        ({"node": "../../up"}, "other_group"),
        ({"size_bytes": 0}, "wrong_size"),
        ({"size_bytes": 2**62}, "wrong_size"),
        ({"rows": 0}, "wrong_rows"),
        ({"first_sequence": -5}, "wrong_sequences"),
        ({"first_sequence": 10**9, "last_sequence": 10**9}, "wrong_sequences"),
        ({"last_sequence": 2**63}, "wrong_sequences"),
        ({"sealed_ns": 2**63}, "wrong_times"),
    ],
)
def test_a_manifest_entry_that_can_not_be_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    log = some_days(blocks=4, days=1)
    target = target_of(tmp_path / "in" / "target", log, 0, 3 * BLOCK + 1)
    copy = Copy(source_of(tmp_path / "source", log), target)
    copy.tamper = entry_changed(**changes)
    before = everything_below(tmp_path)
    assert not copy.run(within_ns=60 * SECOND)
    assert set(copy.refused) == {reason}
    assert reason in copy.machine.progress.trouble
    assert everything_below(tmp_path) == before
    assert not any(isinstance(word, PieceAsked) for word in copy.asked), "nothing of it is asked for"
    copy.tamper = lambda word, piece: (word, piece)
    assert copy.run()
    assert is_whole(copy)


def of_samples(word: PieceSent) -> bool:
    return word.path.startswith("samples")


def cut(piece: Piece) -> Piece:
    return piece[:-1]


def flipped(piece: Piece) -> Piece:
    data = bytearray(piece)
    data[len(data) // 2] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("change", "reason"), [(cut, "wrong_length"), (flipped, "wrong_crc"), (lambda _: b"", "wrong_length")]
)
def test_a_bad_file_is_put_aside_and_the_rest_is_copied(tmp_path: Path, change: object, reason: str) -> None:
    """It is tried again later, less and less often; until then the gap stays."""
    assert callable(change)
    log = some_days(blocks=6, days=2)
    copy = Copy(source_of(tmp_path / "source", log), target_of(tmp_path / "target", log, 0, 5 * BLOCK + 1))

    def tamper(word: Word, piece: Piece) -> tuple[Word, Piece]:
        is_bad = isinstance(word, PieceSent) and of_samples(word) and "2023-11-16" in word.path
        return word, change(piece) if is_bad else piece

    copy.tamper = tamper
    assert not copy.run(within_ns=3600 * SECOND)
    assert set(copy.refused) == {reason}
    assert ATTEMPTS_MAX < copy.refused[reason] < 20
    (hole,) = copy.target.manifest.holes
    assert hole.missed == ("2023-11-16/samples/root",)
    told = copy.machine.progress
    assert told.is_incomplete and told.done < told.files and reason in told.trouble
    missing = len(all_rows(copy.source)[FileKind.SAMPLES]) - len(all_rows(copy.target)[FileKind.SAMPLES])
    assert missing == 2 * 21, "the samples of that day, and nothing else"
    restarted = Copy(copy.source, HistoryStore.open(copy.target.root.parent, "root")[0])
    assert restarted.run()
    assert is_whole(restarted)


def test_a_file_that_the_source_can_not_read_does_not_hold_up_the_others(tmp_path: Path) -> None:
    log = some_days(blocks=6, days=2)
    source = source_of(tmp_path / "source", log)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, 5 * BLOCK + 1))
    lost = source.root / next(one.path for one in source.manifest.of_kind(FileKind.EVENTS))
    kept = lost.read_bytes()
    lost.unlink()
    assert not copy.run(within_ns=600 * SECOND)
    assert set(copy.refused) == {"unreadable_there"}
    (hole,) = copy.target.manifest.holes
    assert len(hole.missed) == 1
    lost.write_bytes(kept)
    assert copy.run()
    assert is_whole(copy)


def other_file(path: Path, table: pa.Table, row_group_size: int | None = None) -> bytes:
    pq.write_table(table, path, row_group_size=row_group_size)
    return path.read_bytes()


def rows_of(first: int, count: int, **columns: Any) -> pa.Table:
    """Samples in order, with some columns replaced."""
    sequence = np.arange(first, first + count)
    known: dict[str, Any] = {
        "item_id": np.ones(count, np.int64),
        "source_ns": sequence,
        "node_ns": sequence,
        "value_f64": sequence.astype(float),
        "value_i64": pa.nulls(count, pa.int64()),
        "value_str": pa.nulls(count, pa.string()),
        "quality": np.zeros(count, np.int64),
        "epoch": np.ones(count, np.int64),
        "sequence": sequence,
    }
    return pa.table(known | columns, schema=SAMPLES)


def not_a_text(count: int) -> pa.StringArray:
    data = pa.py_buffer(b"\xff" * count)
    return pa.StringArray.from_buffers(count, pa.py_buffer(np.arange(count + 1, dtype=np.int32).tobytes()), data)


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("unreadable_file", lambda path: b"PAR1" + bytes(100) + b"PAR1"),
        ("foreign_schema", lambda path: other_file(path, pa.table({"x": [1, 2]}))),
        ("foreign_schema", lambda path: other_file(path, rows_of(1, 5).drop_columns(["epoch"]))),
        ("wrong_rows", lambda path: other_file(path, rows_of(1, 6))),
        ("wrong_sequences", lambda path: other_file(path, rows_of(50, 5))),
        ("unsorted", lambda path: other_file(path, rows_of(1, 5, item_id=np.array([1, 1, 3, 2, 2])))),
        ("unsorted", lambda path: other_file(path, rows_of(1, 5).take([0, 1, 4, 2, 3]), row_group_size=3)),
        ("invalid_rows", lambda path: other_file(path, rows_of(1, 5, value_str=not_a_text(5)))),
    ],
)
def test_a_file_that_is_no_history_file_is_refused_by_name(tmp_path: Path, reason: str, make: object) -> None:
    """Its size and its CRC are those of the manifest: the source itself is wrong."""
    assert callable(make)
    log = some_days(blocks=2, days=1)
    source = source_of(tmp_path / "source", log)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, BLOCK + 1))
    data = make(tmp_path / "made.parquet")
    path = file_path(FileKind.SAMPLES, "root", "2023-11-15", (1, 5), 99)
    (source.root / path).write_bytes(data)
    (samples,) = source.manifest.of_kind(FileKind.SAMPLES)
    changed = msgspec.structs.replace(
        samples, path=path, rows=5, first_sequence=1, last_sequence=5, size_bytes=len(data), content_crc=crc32c(data)
    )
    source.replace([samples], [changed], DAY_ZERO)
    assert not copy.run(within_ns=60 * SECOND)
    assert set(copy.refused) == {reason}
    assert not (copy.target.root / ASIDE).exists()
    listed = {one.path for one in copy.target.manifest.files} | {one.path for one in copy.target.manifest.retired}
    assert {one for one in everything_below(copy.target.root) if one.endswith(".parquet")} == listed


def test_row_groups_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    log = some_days(blocks=2, days=1)
    source = source_of(tmp_path / "source", log)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, BLOCK + 1))
    data = other_file(tmp_path / "made.parquet", rows_of(1, 40_000), row_group_size=40_000)
    path = file_path(FileKind.SAMPLES, "root", "2023-11-15", (1, 40_000), 99)
    (source.root / path).write_bytes(data)
    (samples,) = source.manifest.of_kind(FileKind.SAMPLES)
    changed = msgspec.structs.replace(
        samples,
        path=path,
        rows=40_000,
        first_sequence=1,
        last_sequence=40_000,
        size_bytes=len(data),
        content_crc=crc32c(data),
    )
    source.replace([samples], [changed], DAY_ZERO)
    assert not copy.run(within_ns=60 * SECOND)
    assert set(copy.refused) == {"large_row_group"}


@pytest.mark.parametrize("path", ["../manifest.json", "/etc/passwd", "manifest.json", "nothing.parquet", ""])
def test_only_files_of_the_manifest_are_given(tmp_path: Path, path: str) -> None:
    source = source_of(tmp_path / "source", some_days(blocks=2, days=1))
    sent, piece = read_piece(source, PieceAsked(number=1, path=path, offset=0))
    assert (sent.reason, piece) == ("gone", b"")
    known = source.manifest.files[0].path
    assert read_piece(source, PieceAsked(number=1, path=known, offset=-1))[0].reason == "gone"
    assert read_piece(source, PieceAsked(number=1, path=known, offset=2**64))[0].reason == "unreadable"
    assert read_piece(source, PieceAsked(number=1, path=known, offset=0))[1] == (source.root / known).read_bytes()


def test_another_log_and_a_history_that_is_behind_give_nothing(tmp_path: Path) -> None:
    source = source_of(tmp_path / "source", some_days(blocks=2, days=1))
    ask = GroupAsked(number=1, log_id=LOG_ID.hex(), first_sequence=1, last_sequence=5)
    assert group_sent(source.manifest, ask).entries
    assert group_sent(source.manifest, msgspec.structs.replace(ask, log_id="00")).reason == "other_log"
    assert group_sent(source.manifest, msgspec.structs.replace(ask, last_sequence=10**6)).reason == "behind"


@pytest.mark.parametrize(
    "lie",
    [
        {"first_sequence": 10**6, "last_sequence": 10**7},
        {"behind": Position(2**40, 30)},
        {"behind": Position(1, 10**6)},
    ],
)
def test_holes_that_can_not_be_end_nothing(tmp_path: Path, lie: dict[str, object]) -> None:
    log = some_days(blocks=6, days=1)
    source = target_of(tmp_path / "source", log, BLOCK, 2 * BLOCK + 1)
    copy = Copy(source, target_of(tmp_path / "target", log, 0, 4 * BLOCK + 1))

    def tamper(word: Word, piece: Piece) -> tuple[Word, Piece]:
        if isinstance(word, GroupSent):
            word = msgspec.structs.replace(word, holes=tuple(msgspec.structs.replace(one, **lie) for one in word.holes))
        return word, piece

    copy.tamper = tamper
    assert not copy.run(within_ns=60 * SECOND)
    assert set(copy.refused) == {"wrong_holes"}
    assert len(copy.target.manifest.holes) == 1


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    log = some_days(blocks=4, days=1)
    files = DyingFiles()
    target = target_of(tmp_path / "target", log, 0, 3 * BLOCK + 1, files)
    copy = Copy(source_of(tmp_path / "source", log), target)
    files._full = range(files.steps + 5, 10**9)
    assert not copy.run(within_ns=60 * SECOND)
    assert "the disk here" in copy.machine.progress.trouble
    assert copy.refused == {}
    files._full = range(0)
    assert copy.run()
    assert is_whole(copy)


def test_manifest_tells_the_checksum_of_each_file(tmp_path: Path) -> None:
    source = source_of(tmp_path / "source", some_days(blocks=4 * TIER, days=1), seal_every=1)
    merge_once(source)
    entries: list[FileEntry] = [one for one in source.manifest.files if one.kind is not FileKind.ITEMS]
    assert {one.content_crc for one in entries} == {crc32c((source.root / one.path).read_bytes()) for one in entries}


def test_a_hole_with_a_hostile_path_is_no_manifest(tmp_path: Path) -> None:
    target = target_of(tmp_path / "target", some_days(blocks=2, days=1), 0, BLOCK + 1)
    (hole,) = target.manifest.holes
    assert decode_manifest(encode_manifest(target.manifest)).holes == (hole,)
    assert is_inside(hole.gap)
    hostile = msgspec.structs.replace(target.manifest, holes=(msgspec.structs.replace(hole, gap="../x"),))
    with pytest.raises(ValueError, match="leads out"):
        decode_manifest(encode_manifest(hostile))


def test_machine_rests_where_nothing_is_missing(tmp_path: Path) -> None:
    copy = Copy(*(source_of(tmp_path / name, some_days(blocks=2, days=1)) for name in ("source", "target")))
    assert copy.run()
    assert copy.machine.phase is CopyPhase.RESTING
    assert copy.asked == []
