"""The log with its own threads, on the real file system and on a simulated disk."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from albireo.log import LogConfig, LogStopped, OsFileSystem, StoreLocked
from albireo.log.files import Buffer, read_file, write_all, write_aside
from albireo.log.log import Log
from albireo.log.write.commit import LogFailure
from albireo.model.position import EpochEntry, Position
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import DIRECTORY, IDENTITY, SEGMENTS, entry_of
from tests.parts.waiting import PATIENCE_S

CONFIG = LogConfig(segment_bytes=64 * 1024, pending_bytes_max=1 << 24, free_bytes_min=0, prepare_retry_ms=5)


class Heard:
    """Callbacks of the sync thread, recorded."""

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.failures: list[LogFailure] = []
        self._changed = threading.Condition()

    def durable(self, position: Position) -> None:
        with self._changed:
            self.positions.append(position)
            self._changed.notify_all()

    def failed(self, failure: LogFailure) -> None:
        with self._changed:
            self.failures.append(failure)
            self._changed.notify_all()

    def wait_for(self, position: Position) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.positions) and self.positions[-1] >= position, PATIENCE_S)

    def wait_for_failure(self) -> LogFailure:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.failures), PATIENCE_S)
        return self.failures[0]


def _started(log: Log) -> Heard:
    heard = Heard()
    log.grant(EpochEntry(log.history.epoch + 1, log.end.sequence + 1, 1))
    log.start(heard.durable, heard.failed)
    return heard


class SlowSync(OsFileSystem):
    """A disk whose syncs take until a test lets them through."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.may_sync.set()

    def sync(self, handle: int) -> None:
        assert self.may_sync.wait(PATIENCE_S)
        super().sync(handle)

    def pwrite_durably(self, handle: int, buffer: Buffer, offset: int) -> int:
        assert self.may_sync.wait(PATIENCE_S)
        return super().pwrite_durably(handle, buffer, offset)


def test_groups_form_by_themselves_and_nothing_is_lost(tmp_path: Path) -> None:
    """Entries that come while a sync is under way are one group, up to the end of its segment."""
    files = SlowSync()
    log, report = Log.open(tmp_path / "log", IDENTITY, CONFIG, files)
    assert report.is_new
    heard = _started(log)
    files.may_sync.clear()
    for number in range(500):
        log.append([entry_of(number.to_bytes(4, "little") * 50, 2)], elapsed_ms=1, node_ns=number)
    files.may_sync.set()
    heard.wait_for(log.end)
    assert heard.positions == sorted(set(heard.positions))
    assert len(heard.positions) < 20
    log.commit(log.durable)
    assert len(list(log.replay(0, 10_000))) == 500
    log.close()
    log, report = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    assert report.was_clean
    bodies = [bytes(frame.body) for frame in log.replay(0, 10_000)]
    assert bodies == [number.to_bytes(4, "little") * 50 for number in range(500)]
    log.close()


class Remembering(OsFileSystem):
    """File system that records which parts it was told to expect, and which reads it was not told of."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.fetched: set[tuple[str, int, int]] = set()
        self.waited: list[tuple[str, int, int]] = []

    def forget(self, handle: int, size: int, offset: int) -> None:
        self.forgotten.append(self._name(handle))
        super().forget(handle, size, offset)

    def expect(self, handle: int, size: int, offset: int) -> None:
        self.fetched.add((self._name(handle), offset, offset + size))
        super().expect(handle, size, offset)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        name, end = self._name(handle), offset + size
        if not any(name == one and first <= offset and end <= last for one, first, last in self.fetched):
            self.waited.append((name, offset, end))
        return super().pread(handle, size, offset)

    def _name(self, handle: int) -> str:
        return Path(f"/proc/self/fd/{handle}").readlink().name


def test_the_kernel_is_told_of_full_segments_and_they_can_be_read(tmp_path: Path) -> None:
    """Each once, before the next one is filled, also after a start; the one that is being written stays."""
    files = Remembering()
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG, files)
    for _ in range(2):
        heard = _started(log)
        for _ in range(30):
            log.append([entry_of(b"x" * 8000)], elapsed_ms=0, node_ns=0)
        heard.wait_for(log.end)
        log.commit(log.durable)
        log.close()
        log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG, files)
    assert len(list(log.replay(0, 10_000))) == 60
    log.close()
    segments = sorted(path.name for path in (tmp_path / "log" / "segments").glob("*.segment"))
    assert len(files.forgotten) >= 5
    assert files.forgotten == segments[: len(files.forgotten)]
    assert segments[-1] not in files.forgotten


def test_scrub_reads_what_it_has_asked_for_before(tmp_path: Path) -> None:
    """Each step has the part of the next one fetched, in the next segment too, and over again."""
    files = Remembering()
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG, files)
    heard = _started(log)
    for _ in range(60):
        log.append([entry_of(b"x" * 8000)], elapsed_ms=0, node_ns=0)
    heard.wait_for(log.end)
    log.commit(log.durable)
    files.waited.clear()
    checked = [log.scrub_step(20_000) for _ in range(60)]
    assert checked[-1].rounds >= 1
    assert len({progress.segment for progress in checked}) >= 5
    assert len(files.waited) == 1, "the very first"
    log.close()


def test_close_makes_durable_what_is_queued(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    _started(log)
    for _ in range(50):
        log.append([entry_of(b"x" * 3000)], elapsed_ms=0, node_ns=0)
    log.close()
    assert log.durable == log.end
    log, report = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    assert (report.was_clean, report.end_sequence) == (True, 50)
    log.close()


def test_snapshot_and_retention_run_in_the_housekeeper(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    heard = _started(log)
    for _ in range(60):
        log.append([entry_of(b"x" * 8000)], elapsed_ms=0, node_ns=0)
    heard.wait_for(log.end)
    log.commit(log.durable)
    assert log.save_snapshot(log.committed, log.log_time, {"fold": b"state"})
    log.close()
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    assert [snapshot.position.sequence for snapshot in log.load_snapshots()] == [60]
    gone = log.prune(61)
    assert gone
    assert not (tmp_path / "log" / "segments" / f"{gone[0].first_sequence:020d}.segment").exists()
    log.close()


def test_second_open_names_the_holder(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    with pytest.raises(StoreLocked, match=r"in use by process \d+"):
        Log.open(tmp_path / "log", IDENTITY, CONFIG)
    log.close()
    Log.open(tmp_path / "log", IDENTITY, CONFIG)[0].close()


def test_the_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", IDENTITY, CONFIG)
    log.close()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("operation", ["sync", "pwritev", "rename"])
def test_failure_is_told_once_and_is_final(operation: str) -> None:
    disk = SimDisk(1)
    disk.make_directory(DIRECTORY.parent)
    log, _ = Log.open(DIRECTORY, IDENTITY, CONFIG, disk)
    disk.refuse = lambda op, path: errno.EIO if op == operation and path.suffix == ".segment" else 0
    heard = _started(log)
    log.append([entry_of(b"x")], elapsed_ms=0, node_ns=0)
    failure = heard.wait_for_failure()
    assert failure.errno == errno.EIO
    disk.refuse = lambda op, path: 0
    with pytest.raises(LogStopped):
        log.append([entry_of(b"y")], elapsed_ms=0, node_ns=0)
    log.close()
    assert heard.positions == []
    assert len(heard.failures) == 1
    assert not log.header.is_clean


def test_admission_stops_on_a_full_disk_and_resumes_by_itself() -> None:
    disk = SimDisk(1, capacity_bytes=200_000)
    log, _ = Log.open(DIRECTORY, IDENTITY, CONFIG, disk)
    heard = _started(log)
    _fill(log)
    assert "disk full" in log.admission()
    for _ in range(20):
        log.append([entry_of(b"the node's own records still go in" * 200)], elapsed_ms=0, node_ns=0)
    disk.capacity_bytes = 2_000_000
    heard.wait_for(log.end)
    _wait(lambda: log.admission() == "")
    log.commit(log.durable)
    assert sum(1 for _ in log.replay(0, 10**6)) == log.end.sequence
    assert heard.failures == []
    log.close()


def test_a_node_on_a_full_disk_can_be_stopped() -> None:
    """Entries that wait for room were never acknowledged; the stop is not clean and says so."""
    disk = SimDisk(1, capacity_bytes=200_000)
    log, _ = Log.open(DIRECTORY, IDENTITY, CONFIG, disk)
    heard = _started(log)
    _fill(log)
    for _ in range(20):
        log.append([entry_of(b"x" * 8000)], elapsed_ms=0, node_ns=0)
    log.close()
    assert log.durable < log.end
    told = log.durable
    assert heard.positions[-1] == told
    log, report = Log.open(DIRECTORY, IDENTITY, CONFIG, disk)
    assert not report.was_clean
    assert log.end == told
    assert any(path.suffix == ".segment" for path in disk.paths(SEGMENTS))
    log.close()


def _fill(log: Log) -> None:
    """Append until admission stops."""
    while not log.admission():
        log.append([entry_of(b"x" * 8000)], elapsed_ms=0, node_ns=0)
        _wait(lambda: log.durable == log.end or log.admission() != "")


def _wait(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError("did not come true in time")


def test_real_files_short_reads_and_vectors(tmp_path: Path) -> None:
    files = OsFileSystem()
    handle = files.open(tmp_path / "file", create=True)
    end = write_all(files, handle, [b"ab"] * 3000, 0)
    files.sync(handle)
    assert (end, files.size(handle)) == (6000, 6000)
    assert files.pread(handle, 10_000, 5998) == b"ab"
    files.close(handle)
    assert files.free_bytes(tmp_path) > 0


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    files = OsFileSystem()
    path = tmp_path / "whole"
    write_aside(files, path, [b"old"])
    write_aside(files, path, [b"new", b"er"])
    assert read_file(files, path, 100) == b"newer"
    assert read_file(files, path, 4) is None
    assert read_file(files, tmp_path / "none", 4) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["whole"]


def test_a_refused_replacement_leaves_the_old_file() -> None:
    disk = SimDisk(1)
    disk.make_directory(DIRECTORY)
    path = DIRECTORY / "whole"
    write_aside(disk, path, [b"old"])
    disk.refuse = lambda op, path: errno.ENOSPC if op == "pwritev" else 0
    with pytest.raises(OSError, match="No space left"):
        write_aside(disk, path, [b"new"])
    assert disk.paths(DIRECTORY) == [path]
    assert disk.bytes_of(path) == b"old"


def test_a_file_system_that_takes_nothing_is_an_error_not_a_loop() -> None:
    class Stuck(SimDisk):
        def pwritev(self, handle: int, buffers: object, offset: int) -> int:
            return 0

    disk = Stuck(1)
    disk.make_directory(DIRECTORY)
    handle = disk.open(DIRECTORY / "file", create=True)
    with pytest.raises(OSError, match="no more bytes"):
        write_all(disk, handle, [b"x"], 0)
