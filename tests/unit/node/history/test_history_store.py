"""What is stored, what damage does, how files are merged, when to seal: example by example."""

import json
import math
import random
import re
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from albireo.codec.errors import DecodeError
from albireo.codec.history import (
    DAY_NS,
    MANIFEST_NAME,
    PREVIOUS_NAME,
    SCHEMAS,
    FileEntry,
    FileKind,
    Manifest,
    day_of,
    day_start_ns,
    decode_manifest,
    encode_manifest,
    file_path,
)
from albireo.codec.record import CaseChanged, EpochGranted, GapFound, ItemDeclared, NodeStopped, Record, Stream
from albireo.log.files import OsFileSystem
from albireo.machine.history.aggregate import PARTIAL_COLUMNS
from albireo.machine.history.sealing import CLOSED_LEVEL, QUIET_NS, TIER, SealPace, SealPaceConfig, merge_plan
from albireo.machine.history.trace import AggregateSettings
from albireo.model import quality as q
from albireo.model.case import Case
from albireo.model.instant import SECOND, Instant
from albireo.model.item import Condition, DataItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.errors import HistoryDamaged, QueryRefused
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotRows, HotTail
from albireo.node.history.files.store import RETIRED_GRACE_NS, HistoryStore, read_manifest
from albireo.node.history.query import StoredHistory, TimeRange
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of, listed_files_are_there, stored, stored_rows


def sealed(data: Path, log: MemoryLog, wall_ns: int = DAY_ZERO) -> HistoryStore:
    store, _ = HistoryStore.open(data, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), wall_ns)
    return store


def reader(store: HistoryStore) -> StoredHistory:
    return StoredHistory(store.root, store.manifest)


def declared(name: str, item_id: int, node: str = "root", value_type: ValueType = ValueType.FLOAT64) -> ItemDeclared:
    return ItemDeclared(
        item_id=ItemId(item_id), node=node, item=DataItem(name=name, value_type=value_type, adapter="p1")
    )


def test_every_value_type_comes_back_as_it_was(tmp_path: Path) -> None:
    log = MemoryLog()
    at = DAY_ZERO
    log.samples([(1, at, 1.5, 0), (1, at + 1, math.nan, int(q.BAD))], at)
    log.samples([(2, at, -(2**63), 0), (2, at + 1, 2**63 - 1, 0)], at, ValueType.INT64)
    log.samples([(3, at, True, 0), (3, at + 1, False, 0)], at, ValueType.BOOL)
    log.samples([(4, at, "Düse auf", 0), (4, at + 1, "", 0)], at, ValueType.STRING)
    sealed(tmp_path, log)
    found = stored_rows(tmp_path / "history")
    assert [row[3] for row in found[2:]] == [-(2**63), 2**63 - 1, 1, 0, "Düse auf", ""]
    assert found[0][3] == 1.5
    assert isinstance(found[1][3], float)
    assert math.isnan(found[1][3])


class Watched(OsFileSystem):
    """A disk beside which somebody reads the history whenever a file of it appears."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: list[int] = []

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.seen.append(len(read_manifest(self.root).files))


def test_a_history_that_begins_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    log = MemoryLog()
    log.samples([(1, DAY_ZERO, 1.5, 0)], DAY_ZERO)
    files = Watched(tmp_path / "history")
    store, _ = HistoryStore.open(tmp_path, "root", files)
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    assert files.seen[-1] > 0 and set(files.seen[:-1]) == {0}


def test_a_damage_right_after_the_first_seal_puts_the_files_aside_and_deletes_none(tmp_path: Path) -> None:
    log = MemoryLog()
    log.samples([(1, DAY_ZERO, 1.5, 0)], DAY_ZERO)
    store = sealed(tmp_path, log)
    kept = {entry.path for entry in store.manifest.files}
    (store.root / MANIFEST_NAME).write_text("{}")
    with pytest.raises(HistoryDamaged):
        read_manifest(store.root)
    _, report = HistoryStore.open(tmp_path, "root")
    assert report.quarantine and {path for path in kept if (tmp_path / report.quarantine / path).exists()} == kept


def test_files_have_exactly_the_published_schema_and_order(tmp_path: Path) -> None:
    log = MemoryLog()
    chance = random.Random(1)
    rows = [(chance.randint(1, 5), DAY_ZERO + chance.randint(0, 9), chance.random(), 0) for _ in range(200)]
    log.samples(rows, DAY_ZERO)
    store = sealed(tmp_path, log)
    for entry in store.manifest.files:
        file = pq.ParquetFile(store.root / entry.path)
        assert file.schema_arrow.equals(SCHEMAS[entry.kind])
        assert file.metadata.num_rows == entry.rows
        assert {file.metadata.row_group(0).column(i).compression for i in range(3)} == {"ZSTD"}
    table = stored(store.root)[0]
    keys = list(zip(*(table.column(name).to_pylist() for name in ("item_id", "source_ns", "sequence")), strict=True))
    assert keys == sorted(keys)
    assert PARTIAL_COLUMNS == tuple(SCHEMAS[FileKind.PARTIALS].names)


def test_events_are_in_order_also_where_the_log_went_another_way(tmp_path: Path) -> None:
    """The fork is put on record at the end of the way that was left; what was left behind is no event any more."""
    log = MemoryLog()
    log.records(Stream.CONTROL, [NodeStopped(at_ns=DAY_ZERO + number) for number in range(5)], DAY_ZERO)
    store, _ = HistoryStore.open(tmp_path, "root")
    hot = hot_of(store)
    fill(hot, log)
    hot.fork(Position(1, 2))
    other = MemoryLog()
    other.end, other.epoch = 2, 2
    other.records(Stream.CONTROL, [NodeStopped(at_ns=DAY_ZERO)] * 2, DAY_ZERO)
    fill(hot, other)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    (table,) = stored(store.root, FileKind.EVENTS)
    assert table.column("sequence").to_pylist() == [1, 2, 3, 4, 5]
    assert table.column("action").to_pylist()[-1] == "log_forked"


def test_partition_is_the_day_of_the_append_whatever_a_device_says(tmp_path: Path) -> None:
    log = MemoryLog()
    for source_ns in (0, -(2**63), 2**63 - 1, DAY_ZERO + 400 * DAY_NS):
        log.samples([(1, source_ns, 1.0, 0)], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 2.0, 0)], DAY_ZERO + DAY_NS)
    store = sealed(tmp_path, log)
    assert [entry.day for entry in store.manifest.of_kind(FileKind.SAMPLES)] == [
        day_of(DAY_ZERO),
        day_of(DAY_ZERO + DAY_NS),
    ]
    assert stored_rows(store.root) == sorted(log.rows)


def test_cases_starts_and_stops_become_events(tmp_path: Path) -> None:
    log = MemoryLog()
    case = Case(case_id=0, item_id=1, condition=Condition.HI, severity=700, value=9.5, raised_ns=5, changed_ns=DAY_ZERO)
    log.records(Stream.CONTROL, [EpochGranted(epoch=1, branch_id=2, node="root", reason="start")], DAY_ZERO)
    log.records(Stream.CASES, [CaseChanged(case=case, cause="raised")], DAY_ZERO)
    log.records(Stream.CONTROL, [NodeStopped(at_ns=DAY_ZERO + 7)], DAY_ZERO)
    store = sealed(tmp_path, log)
    rows = reader(store).events(TimeRange(DAY_ZERO, DAY_ZERO + DAY_NS)).to_pylist()
    assert [(row["kind"], row["action"], row["at_ns"]) for row in rows] == [
        ("control", "epoch_granted", DAY_ZERO),
        ("case", "raised", DAY_ZERO),
        ("control", "node_stopped", DAY_ZERO + 7),
    ]
    assert rows[1]["case_id"] == 2, "the record that raises a case names it"
    assert (rows[1]["condition"], rows[1]["severity"], rows[1]["value_f64"]) == ("hi", 700, 9.5)


def test_the_event_of_a_judgement_says_that_a_forced_value_brought_it_about() -> None:
    forced = Case(case_id=1, item_id=1, condition=Condition.HI, severity=700, comment="seen", is_forced=True)
    log = MemoryLog()
    changes: list[Record] = [CaseChanged(case=forced, cause=cause) for cause in ("raised", "cleared", "acked")]
    changes.append(CaseChanged(case=msgspec.structs.replace(forced, is_forced=False), cause="raised"))
    frame = log.records(Stream.CASES, changes, DAY_ZERO)
    hot = HotTail(Position(), 0)
    assert hot.take(frame.header, frame.body)
    words = "judged by a forced value; seen"
    assert [row["detail"] for row in hot.content().events] == [words, words, "seen", "seen"]


def test_a_frame_that_cannot_be_decoded_is_an_event_and_the_rest_goes_on() -> None:
    log = MemoryLog()
    good = log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    bad = log.samples([(1, DAY_ZERO, 2.0, 0)], DAY_ZERO)
    hot = HotTail(Position(), 0)
    assert hot.take(good.header, good.body)
    assert hot.take(bad.header, bad.body[:-3])
    assert not hot.take(good.header, good.body), "a repeat is no new row"
    content = hot.content()
    assert (hot.unreadable, len(content.chunks), content.events[0]["action"]) == (1, 1, "unreadable")
    assert content.position == Position(1, 2)


def entry(kind: FileKind, first: int, *, level: int = 0, day: str = "2023-11-15", sealed_ns: int = 0) -> FileEntry:
    return FileEntry(
        kind=kind,
        path=file_path(kind, "root", day, (first, first), 1),
        node="root",
        day=day,
        rows=1,
        min_source_ns=0,
        max_source_ns=0,
        first_sequence=first,
        last_sequence=first,
        size_bytes=1,
        content_crc=1,
        footer_crc=1,
        level=level,
        sealed_ns=sealed_ns,
    )


def test_manifest_comes_back_and_every_flipped_bit_is_found() -> None:
    manifest = Manifest(node="root", position=Position(3, 99), files=(entry(FileKind.SAMPLES, 1),))
    encoded = encode_manifest(manifest)
    assert msgspec.structs.replace(decode_manifest(encoded), crc=0) == manifest
    chance = random.Random(4)
    for _ in range(300):
        damaged = bytearray(encoded)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            decoded = decode_manifest(bytes(damaged))
        except DecodeError:
            continue
        assert msgspec.structs.replace(decoded, crc=0) == manifest
    for length in range(0, len(encoded), 7):
        with pytest.raises(DecodeError):
            decode_manifest(encoded[:length])


@pytest.mark.parametrize("path", ["../escape.parquet", "/etc/passwd", "samples/../../x", "", "a\0b"])
def test_manifest_with_a_path_out_of_the_folder_is_refused(path: str) -> None:
    hostile = msgspec.structs.replace(entry(FileKind.SAMPLES, 1), path=path)
    with pytest.raises(DecodeError):
        decode_manifest(encode_manifest(Manifest(node="root", files=(hostile,))))


def test_days_cover_every_signed_time() -> None:
    for wall_ns in (-(2**63), -1, 0, DAY_ZERO, 2**63 - 1):
        start = day_start_ns(day_of(wall_ns))
        assert start <= wall_ns < start + DAY_NS


def test_damaged_manifest_falls_back_to_the_one_before(tmp_path: Path) -> None:
    """What the newest seal wrote comes again from the log; nothing else is touched."""
    log = MemoryLog()
    log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    sealed(tmp_path, log)
    log.samples([(1, DAY_ZERO + 1, 2.0, 0)], DAY_ZERO)
    sealed(tmp_path, log)
    (tmp_path / "history" / MANIFEST_NAME).write_bytes(b'{"version":1')
    assert read_manifest(tmp_path / "history").position == Position(1, 1)
    store, report = HistoryStore.open(tmp_path, "root")
    assert (report.problem != "", report.quarantine, report.leftovers) == (True, "", 2)
    assert store.manifest.position == Position(1, 1)
    sealed(tmp_path, log)
    assert stored_rows(tmp_path / "history") == sorted(log.rows)


def test_history_without_any_manifest_is_moved_aside_never_deleted(tmp_path: Path) -> None:
    log = MemoryLog()
    log.samples([(1, DAY_ZERO, 1.0, 0)], DAY_ZERO)
    store = sealed(tmp_path, log)
    paths = [one.path for one in store.manifest.files]
    for name in (MANIFEST_NAME, PREVIOUS_NAME):
        (tmp_path / "history" / name).unlink(missing_ok=True)
    with pytest.raises(HistoryDamaged):
        read_manifest(tmp_path / "history")
    store, report = HistoryStore.open(tmp_path, "root")
    assert report.quarantine == "history.damaged-1"
    assert all((tmp_path / "history.damaged-1" / path).exists() for path in paths)
    assert store.manifest.position == Position()


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "other"])
def test_a_damaged_file_is_named_and_never_read_as_data(tmp_path: Path, damage: str) -> None:
    log = MemoryLog()
    chance = np.random.default_rng(1)
    log.samples(
        [(1, DAY_ZERO + i * SECOND, float(v), 0) for i, v in enumerate(chance.random(5000))], DAY_ZERO + 5000 * SECOND
    )
    store = sealed(tmp_path, log)
    path = store.manifest.of_kind(FileKind.SAMPLES)[0].path
    data = bytearray((store.root / path).read_bytes())
    match damage:
        case "missing":
            (store.root / path).unlink()
        case "empty":
            (store.root / path).write_bytes(b"")
        case "cut":
            (store.root / path).write_bytes(data[: len(data) // 2])
        case "flipped":
            data[len(data) // 2] ^= 0x10
            (store.root / path).write_bytes(data)
        case "other":
            (store.root / path).write_bytes(b"not parquet at all" * 100)
    span = TimeRange(DAY_ZERO, DAY_ZERO + 5000 * SECOND)
    with pytest.raises(HistoryDamaged) as raised:
        reader(store).intervals(1, span, 60 * SECOND, AggregateSettings(), only_raw=True)
    assert raised.value.path == path
    found = reader(store).intervals(1, TimeRange(DAY_ZERO, DAY_ZERO + 4980 * SECOND), 60 * SECOND, AggregateSettings())
    assert found.rows.tolist() == [60] * 83, "whole minutes are answered from the sums, which stand in another file"


def test_questions_out_of_bounds_are_refused(tmp_path: Path) -> None:
    log = MemoryLog()
    log.samples([(1, DAY_ZERO + i, 1.0, 0) for i in range(10)], DAY_ZERO)
    store = sealed(tmp_path, log)
    with pytest.raises(QueryRefused):
        reader(store).raw([1], TimeRange(DAY_ZERO, DAY_ZERO + 10), limit=5)
    with pytest.raises(QueryRefused):
        TimeRange(0, DAY_ZERO).edges(1)
    with pytest.raises(QueryRefused):
        TimeRange(0, DAY_ZERO).edges(0)
    for wrong in ((5, 5), (6, 5), (-(2**63), 0)):
        with pytest.raises(ValueError, match="range"):
            TimeRange(*wrong)
    nothing = reader(store).intervals(99, TimeRange(DAY_ZERO, DAY_ZERO + SECOND), SECOND, AggregateSettings())
    assert nothing.rows.tolist() == [0]


def test_rows_in_files_and_in_the_tail_are_counted_once(tmp_path: Path) -> None:
    """A reader that got the tail before a seal and the manifest after it."""
    log = MemoryLog()
    log.samples([(1, DAY_ZERO + i * SECOND, float(i), 0) for i in range(10)], DAY_ZERO)
    before = HotTail(Position(), 0)
    fill(before, log)
    store = sealed(tmp_path, log)
    tail = HotRows(samples=samples_table(before.content().chunks))
    both = StoredHistory(store.root, store.manifest, tail.above(store.manifest.position))
    assert len(both.raw([1], TimeRange(DAY_ZERO, DAY_ZERO + DAY_NS))) == 10


def test_replaced_files_stay_for_a_while_and_then_go(tmp_path: Path) -> None:
    """Items files replace each other; a reader of the manifest before still finds what that lists."""
    log = MemoryLog()
    names = []
    for seal in range(4):
        log.records(Stream.STATE, [declared(f"i{seal}", seal + 1)], DAY_ZERO)
        store = sealed(tmp_path, log, DAY_ZERO + seal * RETIRED_GRACE_NS)
        names.append(store.manifest.of_kind(FileKind.ITEMS)[0].path)
        listed_files_are_there(store.root, store.manifest)
    assert [(store.root / name).exists() for name in names] == [False, True, True, True]
    assert len(reader(store).items()) == 4


def test_replaced_files_have_their_whole_time_again_when_the_machine_was_started(tmp_path: Path) -> None:
    """Their time is by the boot clock, which a wall clock that jumps leaves alone, and which begins anew then."""
    log, day_up = MemoryLog(), 86_400 * SECOND
    names = []
    for at, now_ns in enumerate([day_up, day_up + 1, 10, 11 + RETIRED_GRACE_NS]):
        log.records(Stream.STATE, [declared(f"i{at}", at + 1)], DAY_ZERO)
        store = sealed(tmp_path, log, now_ns)
        names.append(store.manifest.of_kind(FileKind.ITEMS)[0].path)
        if now_ns == 10:
            assert all((store.root / name).exists() for name in names)
    assert [(store.root / name).exists() for name in names] == [False, False, True, True]


def test_a_tier_is_merged_when_it_is_full() -> None:
    files = [entry(FileKind.SAMPLES, first) for first in range(1, TIER)]
    assert merge_plan(files, 0) is None
    plan = merge_plan([*files, entry(FileKind.SAMPLES, 500)], 0)
    assert plan is not None
    assert (len(plan.inputs), plan.level) == (TIER, 1)


def test_a_day_becomes_one_file_when_it_is_closed_and_quiet() -> None:
    end = day_start_ns("2023-11-15") + DAY_NS
    files = [entry(FileKind.EVENTS, first, level=first % 3, sealed_ns=end) for first in (1, 2, 3)]
    assert merge_plan(files, end + QUIET_NS - 1) is None
    plan = merge_plan(files, end + QUIET_NS)
    assert plan is not None
    assert (len(plan.inputs), plan.level) == (3, CLOSED_LEVEL)
    assert merge_plan(files[:1], end + QUIET_NS) is None
    assert merge_plan(files, end + QUIET_NS, frozenset({files[1].path})) is None, "a damaged day is left alone"


def test_pace_seals_by_time_by_rows_and_when_asked() -> None:
    pace = SealPace(SealPaceConfig(seal_rows=100))
    assert pace.deadline() is None
    pace.took(10, 1000, Instant(5))
    assert pace.deadline() == 5 + 60 * SECOND
    pace.took(100, 1000, Instant(6))
    assert pace.is_due(Instant(6))
    pace.started()
    assert pace.deadline() is None
    pace.sealed(0, 0)
    assert pace.deadline() is None
    pace.asked(Instant(9))
    assert pace.is_due(Instant(9))


def test_pace_backs_off_and_stops_taking() -> None:
    pace = SealPace(SealPaceConfig(seal_rows=100, hot_rows_max=1000))
    pace.took(1000, 1, Instant(0))
    assert not pace.has_room()
    pauses = []
    now = 0
    for _ in range(8):
        pace.started()
        pace.failed(Instant(now))
        deadline = pace.deadline()
        assert deadline is not None
        pauses.append((deadline - now) // SECOND)
        now = deadline
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    pace.started()
    pace.sealed(0, 0)
    assert pace.has_room()
    assert pace.failures == 0


def test_manifest_is_json_for_other_programs(tmp_path: Path) -> None:
    log = MemoryLog()
    log.records(Stream.SAMPLES, [GapFound(source="p1", reason="overflow", from_ns=1, to_ns=2, lost=7)], DAY_ZERO)
    store = sealed(tmp_path, log)
    plain = json.loads((store.root / MANIFEST_NAME).read_text())
    assert plain["position"] == [1, 1]
    assert plain["complete_to_ns"] == DAY_ZERO
    assert [one["kind"] for one in plain["files"]] == ["gaps"]


def test_a_manifest_of_a_later_version_with_more_fields_is_no_damage() -> None:
    plain = encode_manifest(Manifest(node="root"))
    later = plain[:-1] + b',"added_later":{"a":[1,2]}}'
    zeroed = re.sub(rb'"crc":\d+', b'"crc":0', later)
    later = zeroed.replace(b'"crc":0', b'"crc":%d' % crc32c(zeroed))
    assert decode_manifest(later).node == "root"
    with pytest.raises(DecodeError, match="checksum"):
        decode_manifest(later.replace(b"[1,2]", b"[1,3]"))
