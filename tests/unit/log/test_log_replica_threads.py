"""A member's log with its own threads: cuts, repairs and frames of the holder while the sync thread is at work."""

import threading
import time
from pathlib import Path

import pytest

from albireo.codec.frame import frames
from albireo.log import LogConfig
from albireo.log.log import Log
from albireo.log.write.commit import LogFailure
from albireo.model.position import EpochEntry, Position
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import entry_of
from tests.parts.log_member import ALL, IDENTITIES
from tests.parts.waiting import PATIENCE_S

CONFIG = LogConfig(segment_bytes=64 * 1024, pending_bytes_max=1 << 24, free_bytes_min=0, prepare_retry_ms=5)


class Heard:
    """Wakes whoever waits for the log's durable position; the position itself is asked for again, as shells do."""

    def __init__(self) -> None:
        self.failures: list[LogFailure] = []
        self._changed = threading.Condition()

    def durable(self, position: Position) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, log: Log, sequence: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: log.durable.sequence >= sequence, PATIENCE_S)


def _member(index: int, directory: Path) -> tuple[Log, Heard]:
    log, _ = Log.open(directory, IDENTITIES[index], CONFIG)
    heard = Heard()
    log.start(heard.durable, heard.failures.append)
    return log, heard


def _bodies(log: Log) -> list[bytes]:
    return [bytes(frame.body) for frame in log.replay(0, log.committed.sequence)]


@pytest.mark.slow
def test_a_cut_while_groups_are_written(tmp_path: Path) -> None:
    """Again and again: frames queued, being written and durable are cut alike, and what comes after is whole."""
    log, heard = _member(0, tmp_path / "log")
    kept: list[bytes] = []
    for turn in range(25):
        log.grant(EpochEntry(turn + 1, log.end.sequence + 1, turn))
        start = log.end.sequence
        for number in range(40):
            body = bytes([turn, number]) * 700
            log.append([entry_of(body)], elapsed_ms=1, node_ns=0)
            kept.append(body)
        if turn % 2:
            heard.wait_for(log, start + 10)
        place = start + 5 + turn
        assert log.cut_to(place, why="test").sequence == place
        del kept[place:]
        assert log.end.sequence == place
        assert log.durable.sequence <= place
    heard.wait_for(log, log.end.sequence)
    log.commit(log.durable)
    assert _bodies(log) == kept
    assert log.stats().pending_bytes == 0
    log.close()
    log, report = Log.open(tmp_path / "log", IDENTITIES[0], CONFIG)
    assert (report.was_clean, report.end_sequence) == (True, len(kept))
    log.commit(log.durable)
    assert _bodies(log) == kept
    assert len(log.quarantine()) == 25
    log.close()
    assert heard.failures == []


def test_two_members_in_step(tmp_path: Path) -> None:
    """Each group goes to the other while its own disk syncs it; both end with the same bytes."""
    holder, holder_heard = _member(0, tmp_path / "a")
    follower, follower_heard = _member(1, tmp_path / "b")
    holder.grant(EpochEntry(2, 1, 7))
    follower.promise(2, 2, holder.history)
    for number in range(400):
        holder.append([entry_of(number.to_bytes(2, "little") * (number % 900))], elapsed_ms=1, node_ns=0)
        if number % 3 == 0:
            while chunk := holder.read_appended(follower.end.sequence, 4000):
                follower.append_raw(chunk)
            holder.commit(min(holder.durable, follower.durable))
            follower.commit(holder.committed)
    while chunk := holder.read_appended(follower.end.sequence, ALL):
        follower.append_raw(chunk)
    holder_heard.wait_for(holder, holder.end.sequence)
    follower_heard.wait_for(follower, holder.end.sequence)
    holder.commit(holder.durable)
    follower.commit(holder.committed)
    assert _bodies(follower) == _bodies(holder)
    for log in (holder, follower):
        log.close()
    names = sorted(path.name for path in (tmp_path / "a" / "segments").glob("*.segment"))
    for name in names:
        assert (tmp_path / "a" / "segments" / name).read_bytes() == (tmp_path / "b" / "segments" / name).read_bytes()


def test_a_cut_on_a_full_disk_keeps_what_still_waits() -> None:
    """The sync thread waits for a segment that can't be made; what lies below the cut goes on waiting."""
    disk = SimDisk(1, capacity_bytes=300 * 1024)
    log, _ = Log.open(Path("/data/log"), IDENTITIES[0], CONFIG, disk)
    heard = Heard()
    log.grant(EpochEntry(2, 1, 7))
    log.start(heard.durable, heard.failures.append)
    ballast = disk.open(Path("/data/log/ballast"), create=True)
    for _ in range(60):
        log.append([entry_of(b"x" * 6000)], elapsed_ms=1, node_ns=0)
    deadline = time.monotonic() + PATIENCE_S
    while not log.admission():
        assert time.monotonic() < deadline
    assert log.end.sequence == 60
    assert log.cut_to(55).sequence == 55
    disk.capacity_bytes = 1 << 30
    heard.wait_for(log, 55)
    log.commit(log.durable)
    assert len(_bodies(log)) == 55
    disk.close(ballast)
    log.close()


def test_a_repair_beside_a_running_log(tmp_path: Path) -> None:
    log, heard = _member(0, tmp_path / "log")
    log.grant(EpochEntry(2, 1, 7))
    for number in range(60):
        log.append([entry_of(bytes([number]) * 3000)], elapsed_ms=1, node_ns=0)
    heard.wait_for(log, 60)
    log.commit(log.durable)
    good = log.read(0, 9000)
    (first, *_) = sorted((tmp_path / "log" / "segments").glob("*.segment"))
    data = first.read_bytes()
    first.write_bytes(data[:3200] + b"\xff" * 2000 + data[5200:])
    deadline = time.monotonic() + PATIENCE_S
    while not log.corrupt:
        log.scrub_step(1 << 20)
        assert time.monotonic() < deadline
    for number in range(60, 90):
        log.append([entry_of(bytes([number]) * 3000)], elapsed_ms=1, node_ns=0)
    damaged = log.corrupt[0]
    second = next(header.frame_bytes for header, _ in frames(good))
    assert log.repair(memoryview(good)[second:]) == (damaged.first_sequence, damaged.last_sequence)
    assert log.corrupt == ()
    heard.wait_for(log, 90)
    log.commit(log.durable)
    assert _bodies(log) == [bytes([number]) * 3000 for number in range(90)]
    log.close()
