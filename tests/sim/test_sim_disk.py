"""The simulated disk takes at a power cut what disks take: first of all the names that nobody synced."""

from pathlib import Path

import pytest

from albireo.sim.engine.disk import PAGE_BYTES, PowerCut, SimDisk

DATA, LOG = Path("/data"), Path("/data/log")
FILE = LOG / "segments" / "one"


def written(disk: SimDisk) -> None:
    """A file below two new directories; its bytes and its own name are synced."""
    disk.make_directory(FILE.parent)
    handle = disk.open(FILE, create=True)
    disk.pwritev(handle, [b"told"], 0)
    disk.sync(handle)
    disk.sync_directory(FILE.parent)
    disk.close(handle)


def disk_of() -> SimDisk:
    disk = SimDisk(1)
    disk.install(DATA)
    written(disk)
    return disk


@pytest.mark.parametrize("synced", [(), (LOG,), (DATA,)], ids=["neither", "the upper name missing", "the lower one"])
def test_a_directory_whose_name_was_not_synced_takes_everything_below_it_along(synced: tuple[Path, ...]) -> None:
    disk = disk_of()
    for one in synced:
        disk.sync_directory(one)
    after = disk.power_cut(0, survival_chance=0.0)
    assert not after.has_directory(FILE.parent)
    assert after.has_directory(LOG) == (DATA in synced)
    written(after)


def test_a_directory_is_there_once_every_name_above_it_was_synced() -> None:
    disk = disk_of()
    for one in (LOG, DATA):
        disk.sync_directory(one)
    after = disk.power_cut(0, survival_chance=0.0)
    assert after.bytes_of(FILE) == b"told"


def test_some_power_cuts_take_a_name_that_was_not_synced_and_some_leave_it() -> None:
    found = {disk_of().power_cut(seed, survival_chance=1.0).has_directory(LOG) for seed in range(20)}
    assert found == {True, False}


def test_a_directory_is_listed_in_its_parent_and_is_no_file() -> None:
    disk = disk_of()
    assert disk.names(LOG) == ["segments"]
    assert disk.paths(LOG) == []
    with pytest.raises(FileNotFoundError):
        disk.unlink(LOG / "segments")


def test_a_killed_process_leaves_names_and_bytes_though_it_died_in_the_middle_of_a_change() -> None:
    disk = disk_of()
    disk.cut_at = len(disk.operations) + 1
    with pytest.raises(PowerCut):
        disk.make_directory(DATA / "other")
    disk.process_death()
    assert disk.has_directory(DATA / "other")
    assert disk.bytes_of(FILE) == b"told"


def test_a_durable_write_takes_its_own_pages_to_the_disk_and_no_others() -> None:
    disk = disk_of()
    for one in (LOG, DATA):
        disk.sync_directory(one)
    handle = disk.open(FILE)
    disk.pwritev(handle, [b"not told"], 2 * PAGE_BYTES)
    assert disk.pwrite_durably(handle, b"durable", PAGE_BYTES) == 7
    seen = disk.image(0).bytes_of(FILE)
    assert (seen[:4], seen[PAGE_BYTES:].rstrip(b"\0")) == (b"told", b"durable")
    disk.sync(handle)
    assert disk.image(0).bytes_of(FILE).endswith(b"not told")


def test_the_power_may_fail_between_a_durable_write_and_its_sync() -> None:
    disk = disk_of()
    handle = disk.open(FILE)
    disk.cut_at = len(disk.operations) + 1
    with pytest.raises(PowerCut):
        disk.pwrite_durably(handle, b"lost", 0)
    disk.process_death()
    assert (disk.bytes_of(FILE), disk.image(0).has_directory(LOG)) == (b"lost", False)
