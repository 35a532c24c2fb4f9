"""Files of snapshots: none is written that can't be read back, and nothing goes before the newest was."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from albireo.log.errors import SnapshotFailed
from albireo.log.files import Buffer, FileSystem
from albireo.log.store.snapshots import Snapshot, SnapshotLimits, Snapshots
from albireo.model.instant import LogTime
from albireo.model.position import Position
from albireo.sim.engine.disk import PAGE_BYTES, SimDisk

DIRECTORY, QUARANTINE = Path("/log/snapshots"), Path("/log/quarantine")
SMALL = SnapshotLimits(bytes_max=100_000, part_bytes=1000)


def disk_of() -> SimDisk:
    disk = SimDisk(1)
    for directory in (DIRECTORY, QUARANTINE):
        disk.make_directory(directory)
    return disk


def snapshots(disk: FileSystem, limits: SnapshotLimits = SMALL) -> Snapshots:
    return Snapshots(disk, DIRECTORY, QUARANTINE, 2, limits)


def snapshot(number: int, size_bytes: int) -> Snapshot:
    content = bytes((number + index) % 251 for index in range(size_bytes))
    sections = {"dim": content[: size_bytes // 2], "none": b"", "cases": content[size_bytes // 2 :]}
    return Snapshot(position=Position(1, number), log_time=LogTime(number), frame_crc=number, sections=sections)


@pytest.mark.parametrize("size_bytes", [0, 1, 999, 2000, 2001, 50_000, 100_000])
def test_a_snapshot_of_any_size_comes_back(size_bytes: int) -> None:
    disk = disk_of()
    snapshots(disk).save(snapshot(1, size_bytes))
    assert list(snapshots(disk).load()) == [snapshot(1, size_bytes)]


def test_one_that_is_too_large_to_be_read_back_is_not_written_and_nothing_goes() -> None:
    disk = disk_of()
    kept = snapshots(disk)
    for number in (1, 2):
        kept.save(snapshot(number, 10))
    with pytest.raises(SnapshotFailed, match="100001 bytes, at most 100000"):
        kept.save(snapshot(3, 100_001))
    assert [one.position.sequence for one in kept.load()] == [2, 1]


class Forgetful(SimDisk):
    """A disk that stores the wrong bytes from some moment on."""

    is_wrong = False

    def pwritev(self, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.is_wrong:
            whole = bytearray(b"".join(buffers))
            whole[len(whole) // 2] ^= 1
            buffers = [whole]
        return super().pwritev(handle, buffers, offset)


@pytest.mark.parametrize("size_bytes", [100, 5000])
def test_what_can_not_be_read_back_is_taken_away_and_the_older_ones_stay(size_bytes: int) -> None:
    disk = Forgetful(1)
    for directory in (DIRECTORY, QUARANTINE):
        disk.make_directory(directory)
    kept = snapshots(disk)
    for number in (1, 2):
        kept.save(snapshot(number, size_bytes))
    disk.is_wrong = True
    with pytest.raises(SnapshotFailed, match="read back"):
        kept.save(snapshot(3, size_bytes))
    disk.is_wrong = False
    assert [one.position.sequence for one in kept.load()] == [2, 1]
    kept.save(snapshot(4, size_bytes))
    assert [one.position.sequence for one in kept.load()] == [4, 2]


def test_damage_anywhere_is_found() -> None:
    size = None
    step = 0
    while size is None or step < size:
        disk = disk_of()
        for number in (1, 2):
            snapshots(disk).save(snapshot(number, 6000))
        newest = disk.paths(DIRECTORY)[-1]
        size = len(disk.bytes_of(newest))
        if step >= size:
            break
        disk.flip(newest, step, step % 8)
        found = [one.position.sequence for one in snapshots(disk).load()]
        assert found == ([2, 1] if step in (6, 7) else [1]), f"byte {step}"
        step += 53 if step > 200 else 1
    assert size > PAGE_BYTES


@pytest.mark.parametrize("length", [0, 3, 23, 24, 100, 5000])
def test_one_that_is_cut_short_is_none(length: int) -> None:
    disk = disk_of()
    snapshots(disk).save(snapshot(1, 6000))
    (path,) = disk.paths(DIRECTORY)
    disk.truncate(path, length)
    assert list(snapshots(disk).load()) == []
    assert disk.paths(QUARANTINE) == [QUARANTINE / path.name]
