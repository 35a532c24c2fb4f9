"""The log as its callers see it: append, read, commit, refuse. On a simulated disk, without threads."""

import errno
from pathlib import Path

import msgspec
import pytest

from albireo.codec.frame import HEADER_BYTES, Origin, encode_header, frames
from albireo.log import (
    Backlogged,
    Corrupted,
    EntryTooLarge,
    LogConfig,
    LogStopped,
    OpenFailed,
    Pruned,
    ReadFailed,
    StoreDamaged,
    StoreIdentity,
    StoreLocked,
    WrongStore,
    retention,
)
from albireo.log.files import IOV_MAX
from albireo.log.log import Log
from albireo.model.instant import MS, LogTime
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import DIRECTORY, IDENTITY, SEGMENTS, SMALL, World, entry_of, segment_paths, selected


@pytest.fixture
def world() -> World:
    made = World(SimDisk(1))
    made.open()
    made.begin_epoch()
    return made


def _durable(world: World, *sizes: int, stream: int = 1) -> None:
    world.append(*sizes, stream=stream)
    world.flush()
    world.commit()
    world.log.keep_house()


def _snapshot(world: World, content: bytes = b"state") -> bool:
    return world.log.save_snapshot(world.log.committed, world.log.log_time, {"fold": content})


def test_sequence_counts_records(world: World) -> None:
    found = world.log.append([entry_of(b"a", 10), entry_of(b"b", 5)], elapsed_ms=7, node_ns=99)
    assert [frame.header.first_sequence for frame in found] == [1, 11]
    assert world.log.end == Position(1, 15)
    assert [frame.header.elapsed_ms for frame in found] == [7, 0]
    assert [frame.header.log_time_ms for frame in found] == [7, 7]
    assert found[1].header.previous_header_crc == found[0].header.header_crc
    assert world.log.log_time == LogTime(7 * MS)


def test_a_view_is_made_anew_when_any_part_of_it_has_changed(world: World) -> None:
    log = world.log

    def view() -> LogView:
        seen = log.view()
        assert log.view() is seen, "nothing has changed"
        assert (seen.end, seen.durable, seen.committed) == (log.end, log.durable, log.committed)
        assert (seen.history, seen.refuses_because) == (log.history, log.admission())
        return seen

    assert view().end == Position()
    world.append(10)
    end = view().end
    assert end == log.end > view().durable
    log.commit(end)
    assert view().told == end
    world.flush()
    assert view().durable == view().committed == end
    log.promise(2, 2, EpochHistory((*log.history.entries, EpochEntry(2, end.sequence + 1, 7))))
    assert view().history.entries[-1].epoch == 2


def test_later_headers_say_what_is_committed(world: World) -> None:
    _durable(world, 10)
    committed = world.log.committed.sequence
    (frame,) = world.log.append([entry_of(b"x")], elapsed_ms=0, node_ns=0)
    assert frame.header.committed_sequence == committed > 0


def test_origin_and_flags_travel_with_the_frame(world: World) -> None:
    entry = entry_of(b"forwarded")
    entry = type(entry)(2, 16, 1, entry.body, entry.body_crc, flags=1, origin=Origin(9, 4, 77))
    world.log.append([entry], elapsed_ms=0, node_ns=0)
    world.flush()
    world.commit()
    (frame,) = world.replayed()
    assert (frame.header.origin, frame.header.flags, bytes(frame.body)) == (Origin(9, 4, 77), 1, b"forwarded")


def test_nothing_to_append_is_nothing(world: World) -> None:
    assert world.log.append([], elapsed_ms=3, node_ns=0) == []
    assert world.log.end == Position()


def test_a_body_too_large_is_refused_and_takes_no_sequence(world: World) -> None:
    with pytest.raises(EntryTooLarge) as caught:
        world.log.append([entry_of(b"ok"), entry_of(bytes(SMALL.segment_bytes))], elapsed_ms=0, node_ns=0)
    assert caught.value.bytes_max == SMALL.segment_bytes - HEADER_BYTES
    assert world.log.end == Position()
    _durable(world, SMALL.segment_bytes - HEADER_BYTES)
    assert len(world.replayed()) == 1


def test_what_waits_is_bounded() -> None:
    world = World(SimDisk(1), LogConfig(segment_bytes=8192, pending_bytes_max=4096, free_bytes_min=0))
    world.open()
    world.append(1000, 1000)
    assert "wait for the disk" in world.log.admission()
    with pytest.raises(Backlogged):
        world.append(2000)
    world.flush()
    assert world.log.admission() == ""
    world.append(2000)


def test_readers_see_nothing_above_the_commit_position(world: World) -> None:
    world.append(10, 10)
    world.flush()
    assert world.log.read(0, 1000) == b""
    world.log.commit(Position(1, world.written[0].header.last_sequence))
    assert [header.first_sequence for header, _ in frames(world.log.read(0, 1000))] == [1]


def test_commit_never_goes_back(world: World) -> None:
    _durable(world, 10, 10)
    committed = world.log.committed
    world.log.commit(Position(1, 1))
    assert world.log.committed == committed


def test_committing_what_was_never_appended_is_a_bug(world: World) -> None:
    world.append(10)
    with pytest.raises(AssertionError, match="never appended"):
        world.log.commit(Position(1, world.log.end.sequence + 1))


def test_more_vectors_than_the_kernel_takes(world: World) -> None:
    """SimDisk refuses more than IOV_MAX, as Linux does; bodies too large to be joined go as vectors."""
    world = World(SimDisk(1), LogConfig(segment_bytes=4 << 20, pending_bytes_max=1 << 22, free_bytes_min=0))
    world.open()
    world.append(*[100] * (2 * IOV_MAX))
    world.flush()
    world.commit()
    assert len(world.replayed()) == 2 * IOV_MAX


def test_an_epoch_survives_and_stays_with_its_records(world: World) -> None:
    _durable(world, 10)
    world.log.grant(EpochEntry(5, world.log.end.sequence + 1, 42))
    _durable(world, 10)
    world.log.close()
    world.open()
    assert world.log.history.entries[-1] == EpochEntry(5, world.written[1].header.first_sequence, 42)
    assert world.log.end.epoch == 5
    assert [frame.header.epoch for frame in world.replayed()] == [1, 5]


@pytest.mark.parametrize("entry", [EpochEntry(1, 1, 0), EpochEntry(0, 1, 0), EpochEntry(2, 2, 0)])
def test_an_epoch_that_does_not_fit_is_refused(world: World, entry: EpochEntry) -> None:
    with pytest.raises(ValueError, match="epoch"):
        world.log.grant(entry)


def test_a_header_that_can_not_be_written_stops_the_log(world: World) -> None:
    world.disk.refuse = lambda operation, path: errno.EIO if operation == "sync" else 0
    with pytest.raises(LogStopped):
        world.log.grant(EpochEntry(2, 1, 0))
    assert "header" in world.log.admission()


def test_reading_on_gives_every_frame_once(world: World) -> None:
    for _ in range(20):
        _durable(world, 700, 30, 0)
    for bytes_max in (1, 500, 3000, 1 << 20):
        found = []
        after = 0
        while data := world.log.read(after, bytes_max):
            headers = [header for header, _ in frames(data)]
            assert len(data) <= bytes_max or len(headers) == 1
            found += headers
            after = headers[-1].last_sequence
        assert found == [frame.header for frame in world.written]


@pytest.mark.parametrize("tail_bytes", [0, 4000, 1 << 20], ids=["disk", "both", "memory"])
@pytest.mark.parametrize("bytes_max", [1, 3000, 1 << 20])
def test_every_frame_of_some_streams_is_selected_once(tail_bytes: int, bytes_max: int) -> None:
    world = World(SimDisk(1))
    world.open()
    world.begin_epoch()
    world.log._stored.tail.kept_bytes_max = tail_bytes
    for number in range(60):
        _durable(world, 30, 300, stream=2 if number % 20 == 7 else 1)
        if number == 33:
            _durable(world, 9, 9, stream=66)
    streams: tuple[int, ...]
    for streams in ((2,), (66,), (2, 66), (1,), (1, 2, 66), (3,), ()):
        wanted = [one.header for one in world.written if not streams or one.header.stream in streams]
        assert selected(world.log, streams, bytes_max) == wanted, streams
    world.log.close()
    world.open()
    world.commit()
    for streams in ((2,), (66,), (3,)):
        wanted = [one.header for one in world.written if one.header.stream in streams]
        assert selected(world.log, streams, bytes_max) == wanted, "the index is read back"


def test_stretches_without_frames_of_the_streams_are_not_read(world: World) -> None:
    for number in range(60):
        _durable(world, 300, 300, stream=2 if number == 55 else 1)
    reads = []
    pread = world.disk.pread
    world.disk.pread = lambda handle, size, offset: reads.append(size) or pread(handle, size, offset)  # type: ignore[method-assign,func-returns-value]
    assert len(selected(world.log, (2,), 1 << 20)) == 2
    assert len(reads) <= 4, "the stretch that has them, and the search for its begin"


def test_reading_from_the_middle_of_a_batch_gives_the_batch(world: World) -> None:
    world.written += world.log.append([entry_of(b"x", 100)], elapsed_ms=0, node_ns=0)
    world.flush()
    world.commit()
    (found,) = frames(world.log.read(50, 10))
    assert found[0].first_sequence == 1
    assert world.log.read(100, 10) == b""


def test_replay_stops_where_it_was_told(world: World) -> None:
    _durable(world, 0, 0, 0, 0)
    assert [f.header.first_sequence for f in world.log.replay(1, 3)] == [2, 3]
    assert list(world.log.replay(4, 3)) == []


def test_header_at(world: World) -> None:
    _durable(world, 2, 2)
    assert world.log.header_at(4) == world.written[1].header
    with pytest.raises(ValueError, match="not committed"):
        world.log.header_at(7)


def test_a_disk_that_can_not_be_read_is_said(world: World) -> None:
    _durable(world, 10)
    world.disk.refuse = lambda operation, path: errno.EIO if operation == "pread" else 0
    with pytest.raises(ReadFailed) as caught:
        list(world.log.replay(0, 1000))
    assert caught.value.errno == errno.EIO


def test_more_segments_than_handles(world: World) -> None:
    world = World(
        SimDisk(1),
        LogConfig(
            segment_bytes=4096, pending_bytes_max=1 << 20, free_bytes_min=0, index_every_bytes=128, handles_max=2
        ),
    )
    world.open()
    for _ in range(12):
        _durable(world, 2500, 100)
    for sequence in (1, 20, 5, 13, 1, 18):
        assert next(iter(world.log.replay(sequence - 1, sequence))).header.first_sequence <= sequence


def test_rot_met_by_a_reader_is_reported_once_and_passed(world: World) -> None:
    for _ in range(6):
        _durable(world, 900)
    world.disk.flip(segment_paths(world.disk)[0], 200, 3)
    with pytest.raises(Corrupted) as caught:
        world.log.read(0, 1000)
    assert caught.value.first_sequence == 1
    assert len(world.log.corrupt) == 1
    after = caught.value.last_sequence
    assert next(iter(world.log.replay(after, 100))).header.first_sequence == after + 1
    with pytest.raises(Corrupted):
        world.log.read(0, 1000)
    assert len(world.log.corrupt) == 1


def test_full_disk_stops_admission_and_nothing_is_lost() -> None:
    """Space is met when the next segment is prepared; what was taken waits, and goes on by itself."""
    world = World(SimDisk(1, capacity_bytes=40_000))
    world.open()
    world.begin_epoch()
    while not world.log.admission():
        _durable(world, 2000)
    assert "disk full" in world.log.admission()
    world.append(3000, 3000, 3000, 3000)
    durable = world.log.flush()
    assert durable < world.log.end
    world.disk.capacity_bytes = 80_000
    world.log.keep_house()
    assert world.log.admission() == ""
    world.flush()
    world.commit()
    assert world.log.durable == world.log.end
    assert [f.header for f in world.replayed()] == [f.header for f in world.written]


def test_a_segment_that_can_not_be_prepared_is_tried_again(world: World) -> None:
    world.disk.refuse = lambda op, path: errno.EIO if op == "sync" and path.name == "next.filling" else 0
    world.append(100)
    world.flush()
    assert "can't be prepared" in world.log.admission()
    assert not any(path.name == "next.filling" for path in world.disk.paths(SEGMENTS))
    world.disk.refuse = lambda op, path: 0
    world.flush()
    assert world.log.admission() == ""
    assert world.log.durable == world.log.end


def test_a_close_with_no_room_is_not_clean() -> None:
    world = World(SimDisk(1, capacity_bytes=20_000), LogConfig(segment_bytes=16384, free_bytes_min=0))
    world.open()
    world.append(100)
    world.log.close()
    world.open()
    assert not world.report.was_clean
    assert world.log.end == Position()


@pytest.mark.parametrize("operation", ["sync", "pwritev"])
def test_an_error_in_a_prepared_segment_is_final(world: World, operation: str) -> None:
    _durable(world, 10)
    durable = world.log.durable
    world.disk.refuse = lambda op, path: errno.EIO if op == operation and path.suffix == ".segment" else 0
    world.append(10)
    with pytest.raises(LogStopped, match="writing the log failed"):
        world.flush()
    world.disk.refuse = lambda op, path: 0
    for attempt in (world.flush, lambda: world.append(1)):
        with pytest.raises(LogStopped):
            attempt()
    assert world.log.durable == durable
    assert world.log.read(0, 1000)
    world.log.close()
    world.open()
    assert not world.report.was_clean


def test_second_open_of_a_directory_is_refused(world: World) -> None:
    with pytest.raises(StoreLocked, match="in use"):
        Log.open(DIRECTORY, IDENTITY, SMALL, world.disk)
    world.log.close()
    world.open()


def test_a_directory_of_another_node_is_refused_and_released(world: World) -> None:
    world.log.close()
    with pytest.raises(WrongStore, match="belongs to node 'root'"):
        Log.open(DIRECTORY, StoreIdentity("7f0c", "root/north"), SMALL, world.disk)
    with pytest.raises(WrongStore):
        Log.open(DIRECTORY, StoreIdentity("other", "root"), SMALL, world.disk)
    world.open()


def test_segments_without_a_store_header_are_refused(world: World) -> None:
    _durable(world, 10)
    world.log.close()
    for name in ("store.a", "store.b"):
        world.disk.zero(DIRECTORY / name, 0, 8)
    with pytest.raises(StoreDamaged, match="no readable store header"):
        world.open()
    assert segment_paths(world.disk)


def test_a_directory_that_can_not_be_used_says_why() -> None:
    disk = SimDisk(1)
    disk.refuse = lambda operation, path: errno.EACCES if operation == "make_directory" else 0
    with pytest.raises(OpenFailed, match="Permission denied"):
        Log.open(DIRECTORY, IDENTITY, SMALL, disk)


def test_clean_close_is_told_from_a_kill(world: World) -> None:
    _durable(world, 10)
    world.log.close()
    world.open()
    assert world.report.was_clean
    assert world.log.header.shutdown_id == ""
    world.disk.process_death()
    world.open()
    assert not world.report.was_clean


def test_the_store_keeps_its_identity(world: World) -> None:
    log_id, store_id, run_id = world.log.log_id, world.log.header.store_id, world.log.header.run_id
    world.log.close()
    world.open()
    assert (world.log.log_id, world.log.header.store_id) == (log_id, store_id)
    assert world.log.header.run_id != run_id


def test_what_was_committed_is_there_though_the_log_made_the_directories_above_it_itself() -> None:
    world = World(SimDisk(1))
    world.open()
    world.begin_epoch()
    world.append(100)
    world.flush()
    world.commit()
    world.disk = world.disk.power_cut(1, survival_chance=0.0)
    world.open()
    assert not world.report.is_new
    world.check_nothing_lost()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS])
def test_a_directory_above_that_is_not_ours_to_sync_keeps_no_log_from_opening(code: int) -> None:
    disk = SimDisk(1)
    disk.refuse = lambda operation, path: code if operation == "sync_directory" and path == Path("/") else 0
    world = World(disk)
    world.open()
    assert world.report.is_new


def test_a_directory_above_that_fails_to_sync_keeps_the_log_from_opening() -> None:
    disk = SimDisk(1)
    disk.refuse = lambda operation, path: errno.EIO if operation == "sync_directory" and path == Path("/") else 0
    with pytest.raises(OpenFailed):
        World(disk).open()


def test_what_lies_above_the_commit_position_is_written_again(world: World) -> None:
    """A failed write-back leaves a clean page that is not on the disk: only writing it again helps."""
    _durable(world, 10)
    world.append(50)
    world.disk.refuse = lambda op, path: errno.EIO if op == "sync" and path.suffix == ".segment" else 0
    with pytest.raises(LogStopped):
        world.flush()
    world.disk.refuse = lambda op, path: 0
    world.disk.process_death()
    world.open()
    assert world.report.rewritten_bytes
    assert world.log.durable == world.log.end == Position(1, world.written[-1].header.last_sequence)
    world.commit()
    world.disk = world.disk.power_cut(1, survival_chance=0.0)
    world.open()
    world.check_nothing_lost()
    assert len(world.replayed()) == 2


def test_torn_tail_goes_to_quarantine_with_valid_frames_behind_it(world: World) -> None:
    """`A valid frame follows` does not make it corruption: above C it is a power cut."""
    _durable(world, 10)
    _durable(world, 10)
    world.append(1000, 1000, 1000)
    world.flush()
    world.disk.process_death()
    segment = segment_paths(world.disk)[0]
    start = HEADER_BYTES * 3 + 16 * 2
    world.disk.zero(segment, start + HEADER_BYTES, 100)
    world.open()
    torn = world.report.torn
    assert torn is not None
    assert world.report.corrupt == ()
    assert torn.first_sequence == world.written[2].header.first_sequence
    assert torn.last_sequence == world.written[4].header.last_sequence
    world.check_nothing_lost()


def test_a_cut_does_not_take_the_proof_of_the_commit_position(world: World) -> None:
    """The frame that says what is committed may itself be cut; damage below is corruption all the same."""
    _durable(world, 10)
    committed = world.log.committed.sequence
    world.append(1000, 10)
    world.flush()
    world.disk.process_death()
    world.disk.zero(segment_paths(world.disk)[0], 2 * HEADER_BYTES + 16 + 8, 500)
    world.open()
    assert world.report.torn is not None
    world.disk.process_death()
    world.disk.flip(segment_paths(world.disk)[0], HEADER_BYTES, 0)
    world.open()
    assert world.report.torn is None
    assert [(found.first_sequence, found.last_sequence) for found in world.report.corrupt] == [(1, committed)]


def test_a_sealed_segment_above_the_commit_position_is_scanned(world: World) -> None:
    """Its sidecar says what was written; above C only the file says what is there."""
    _durable(world, 10)
    for _ in range(3):
        world.append(3000, 3000)
        world.flush()
        world.log.keep_house()
    world.disk.process_death()
    assert len(segment_paths(world.disk)) > 2
    world.disk.zero(segment_paths(world.disk)[0], 1000, 100)
    world.open()
    torn = world.report.torn
    assert torn is not None
    assert torn.first_sequence == world.written[1].header.first_sequence
    assert len(segment_paths(world.disk)) == 1
    world.check_nothing_lost()


@pytest.mark.parametrize("is_read", [True, False])
def test_a_frame_that_comes_back_from_the_past_breaks_the_chain(world: World, is_read: bool) -> None:
    """A lost write leaves what stood there before: valid in itself, but not what the next frame follows."""
    _durable(world, 10, 20, 30)
    old = msgspec.structs.replace(world.written[1].header, node_ns=77)
    handle = world.disk.open(segment_paths(world.disk)[0])
    world.disk.pwritev(handle, [encode_header(old)], world.written[0].header.frame_bytes)
    third = world.written[2].header.first_sequence
    if is_read:
        assert len(list(world.log.replay(0, third - 1))) == 2
        with pytest.raises(Corrupted):
            list(world.log.replay(0, 1000))
    else:
        world.log.close()
        world.open()
        assert [found.first_sequence for found in world.report.corrupt] == [third]


def test_damage_below_the_commit_position_cuts_nothing(world: World) -> None:
    _durable(world, 500)
    _durable(world, 500)
    _durable(world, 500)
    world.disk.process_death()
    world.disk.flip(segment_paths(world.disk)[0], 300, 1)
    world.open()
    assert world.report.torn is None
    (found,) = world.report.corrupt
    assert (found.first_sequence, found.last_sequence) == (1, world.written[0].header.last_sequence)
    assert found.reason == "body CRC does not fit"
    assert world.log.end.sequence == world.written[2].header.last_sequence


def test_unreadable_pages_are_damage_not_the_end() -> None:
    """EIO of a sector in the middle: what can be read is, the rest is reported."""
    world = World(SimDisk(1), LogConfig(segment_bytes=16384, free_bytes_min=0))
    world.open()
    world.begin_epoch()
    _durable(world, 1000, 8000, 1000)
    world.log.close()
    bad = segment_paths(world.disk)[0]
    reads = world.disk.pread

    def refusing(handle: int, size: int, offset: int) -> bytes:
        data = reads(handle, size, offset)
        if offset < 4096 + 10 and offset + size > 4096 and len(data) > 4000:
            raise OSError(errno.EIO, "bad sector", str(bad))
        return data

    world.disk.pread = refusing  # type: ignore[method-assign]  # One bad sector in the second page.
    world.open()
    (found,) = world.report.corrupt
    assert found.first_sequence == world.written[1].header.first_sequence
    assert found.last_sequence == world.written[1].header.last_sequence


def test_the_last_two_snapshots_are_kept(world: World) -> None:
    for content in (b"one", b"two", b"three"):
        _durable(world, 10)
        assert _snapshot(world, content)
    assert [s.sections["fold"] for s in world.log.load_snapshots()] == [b"three", b"two"]
    assert world.log.snapshot == world.log.committed


def test_a_bad_newest_snapshot_falls_back(world: World) -> None:
    _durable(world, 10)
    _snapshot(world, b"old")
    _durable(world, 10)
    _snapshot(world, b"new")
    newest = world.disk.paths(DIRECTORY / "snapshots")[-1]
    world.disk.flip(newest, 40, 0)
    assert [s.sections["fold"] for s in world.log.load_snapshots()] == [b"old"]
    assert world.disk.paths(DIRECTORY / "quarantine") == [DIRECTORY / "quarantine" / newest.name]
    assert newest.name in world.log.trouble
    _snapshot(world, b"newer")
    assert world.log.trouble == ""
    assert [s.sections["fold"] for s in world.log.load_snapshots()] == [b"newer", b"old"]


def test_a_snapshot_of_another_log_is_not_used(world: World) -> None:
    _durable(world, 10)
    _snapshot(world)
    stranger = World(SimDisk(1))
    stranger.open()
    stranger.begin_epoch()
    stranger.append(11)
    stranger.flush()
    stranger.commit()
    (path,) = world.disk.paths(DIRECTORY / "snapshots")
    handle = stranger.disk.open(path, create=True)
    stranger.disk.pwritev(handle, [world.disk.bytes_of(path)], 0)
    assert list(stranger.log.load_snapshots()) == []
    assert list(world.log.load_snapshots())


def test_a_snapshot_raises_the_known_commit_position(world: World) -> None:
    """Else damage between the last frame's commit position and the snapshot would pass for a torn tail."""
    _durable(world, 10)
    _snapshot(world)
    world.disk.process_death()
    world.disk.flip(segment_paths(world.disk)[0], HEADER_BYTES + 1, 0)
    world.open()
    assert world.report.torn is None
    assert len(world.report.corrupt) == 1
    assert [s.sections["fold"] for s in world.log.load_snapshots()] == [b"state"]


def test_a_snapshot_that_can_not_be_written_harms_nothing(world: World) -> None:
    _durable(world, 10)
    _snapshot(world, b"good")
    _durable(world, 10)
    world.disk.refuse = lambda op, path: errno.ENOSPC if op == "pwritev" and ".snapshot" in path.name else 0
    assert _snapshot(world, b"bad")
    assert "No space left" in world.log.trouble
    world.disk.refuse = lambda op, path: 0
    assert [s.sections["fold"] for s in world.log.load_snapshots()] == [b"good"]
    _durable(world, 10)
    assert _snapshot(world, b"better")
    assert world.log.trouble == ""


def test_a_snapshot_above_the_end_is_deleted(world: World) -> None:
    """A cut below it has made it wrong: the records it stands for are not in the log."""
    _durable(world, 10)
    world.log.close()
    name = f"{1:020d}-{99:020d}-0badc0de.snapshot"
    world.disk.close(world.disk.open(DIRECTORY / "snapshots" / name, create=True))
    world.open()
    assert world.report.deleted_snapshots == (name,)
    assert world.disk.paths(DIRECTORY / "snapshots") == []


def test_segments_go_from_the_oldest_when_nothing_in_them_is_wanted(world: World) -> None:
    for number in range(8):
        _durable(world, 2500, 2500, stream=1 + number % 2)
    end = world.log.end.sequence + 1
    assert world.log.prune(end) == [], "no snapshot: everything is still needed"
    _snapshot(world)
    third = world.written[2].header.first_sequence
    assert world.log.prune(third) == [] or world.log.begin_sequence <= third
    gone = world.log.prune(end)
    assert gone
    assert world.log.begin_sequence == gone[-1].last_sequence + 1
    with pytest.raises(Pruned) as caught:
        world.log.read(0, 100)
    assert caught.value.first_sequence == world.log.begin_sequence
    world.log.close()
    world.open()
    world.check_nothing_lost()
    assert world.log.begin_sequence == gone[-1].last_sequence + 1


def test_a_bounded_number_of_segments_goes_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNED_MAX", 2)
    for _ in range(8):
        _durable(world, 3000, 3000)
    _snapshot(world)
    gone = [len(world.log.prune(world.log.end.sequence + 1)) for _ in range(2)]
    assert gone == [2, 2]


def test_nothing_goes_above_the_older_snapshot(world: World) -> None:
    for _ in range(4):
        _durable(world, 3000, 3000)
    _snapshot(world)
    older = world.log.committed.sequence
    for _ in range(4):
        _durable(world, 3000, 3000)
    _snapshot(world)
    end = world.log.end.sequence + 1
    assert world.log.prune(end)
    assert world.log.begin_sequence <= older + 1


def test_the_last_committed_frame_never_goes(world: World) -> None:
    """The next snapshot is named after it, and log time goes on from it."""
    _durable(world, 3000)
    world.append(3000, 3000)
    world.flush()
    world.disk.process_death()
    world.disk.zero(segment_paths(world.disk)[1], 0, 4000)
    world.open()
    world.commit()
    _snapshot(world)
    log_time = world.log.log_time
    assert world.log.prune(world.log.end.sequence + 1) == []
    assert _snapshot(world)
    world.log.close()
    world.open()
    assert world.log.log_time == log_time > 0


def test_a_deletion_that_fails_is_told_and_repeated_at_open(world: World) -> None:
    for _ in range(4):
        _durable(world, 3000, 3000)
    _snapshot(world)
    world.disk.refuse = lambda op, path: errno.EIO if op == "unlink" else 0
    gone = world.log.prune(world.log.end.sequence + 1)
    assert "could not be deleted" in world.log.trouble
    world.disk.refuse = lambda op, path: 0
    count = len(segment_paths(world.disk))
    world.log.close()
    world.open()
    assert len(segment_paths(world.disk)) == count - len(gone)
    world.check_nothing_lost()


def test_scrub_goes_round_in_small_steps(world: World) -> None:
    assert world.log.scrub_step(100).checked_bytes == 0
    for _ in range(6):
        _durable(world, 3000, 300)
    sealed = {path.name for path in segment_paths(world.disk)[:-1]}
    seen: set[str] = set()
    checked = 0
    while (step := world.log.scrub_step(1000)).rounds == 0:
        assert 0 < step.checked_bytes <= 4000
        checked += step.checked_bytes
        seen.add(step.segment)
    assert seen == sealed
    assert checked > 3000 * len(sealed)


@pytest.mark.parametrize(
    "changes",
    [
        {"segment_bytes": 5000},
        {"segment_bytes": 1 << 30},
        {"pending_bytes_max": 1},
        {"free_bytes_min": -1},
        {"snapshots_kept": 0},
    ],
)
def test_limits_that_make_no_sense_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        LogConfig(**changes)


def test_paths_are_the_documented_ones(world: World) -> None:
    _durable(world, 10)
    assert sorted(path.name for path in world.disk.paths(DIRECTORY)) == ["lock", "store.a", "store.b"]
    assert segment_paths(world.disk) == [Path("/data/log/segments/00000000000000000001.segment")]
