"""The disk of a voter: what was told survives every cut, every rotten copy and every refusal, and never falls back."""

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from albireo.codec.pair_message import Record
from albireo.log import WrongStore
from albireo.log.store.mirrored_file import NAMES, encode
from albireo.log.store.mirrored_state import MirroredStateFailed
from albireo.machine.vote import VoterStore
from albireo.model.instant import MS
from albireo.model.position import BEGINNING, Position
from albireo.node.vote.store import KIND, VoterDisk
from albireo.sim.engine.disk import SECTOR_BYTES, PowerCut, SimDisk
from tests.parts.other_format import of_format

DATA = Path("/data")
CLUSTER = "c/root/north"
DIRECTORY = DATA / "voters" / "root~north"


def store(promised: int, epoch: int = 2) -> VoterStore:
    record = Record(
        cluster=CLUSTER,
        voters=("witness:w1",),
        generation=1,
        epoch=epoch,
        version=1,
        holder=0,
        run=7,
        members=(0,),
        lease_ns=600 * MS,
    )
    return VoterStore(
        cluster=CLUSTER, generation=1, record=record, promised=promised, promised_run=9, floor=Position(epoch, 5)
    )


def opened(disk: SimDisk, voter: str = "witness:w1", cluster: str = CLUSTER) -> VoterDisk:
    return VoterDisk(disk, DATA, "root/north", voter, cluster)


def fresh(**options: int) -> SimDisk:
    disk = SimDisk(1, **options)
    disk.make_directory(DATA)
    disk.sync_directory(DATA.parent)
    return disk


def holding(*promises: int) -> SimDisk:
    disk = fresh()
    voter = opened(disk)
    for promised in promises:
        voter.save(store(promised))
    return disk


def promised(disk: SimDisk) -> int:
    """0: empty."""
    found = opened(disk).store
    return found.promised if found else 0


def test_an_empty_directory_is_an_empty_voter_and_stays_untouched() -> None:
    disk = fresh()
    voter = opened(disk)
    assert (voter.store, voter.mirrored.is_damaged, voter.floor) == (None, False, BEGINNING)
    assert not disk.has_directory(DIRECTORY)


def test_what_was_saved_is_there_after_a_power_cut() -> None:
    disk = holding(3, 5)
    after = opened(disk.power_cut(0, survival_chance=0.0))
    assert after.store == store(5)
    assert (after.floor, after.mirrored.repaired_copies, after.mirrored.is_damaged) == (Position(2, 5), (), False)


def test_what_was_saved_is_there_though_nobody_synced_the_name_of_the_data_directory() -> None:
    """It may have been made a moment ago, by the process that opens the store or by the one that started it."""
    disk = SimDisk(1)
    disk.make_directory(DATA)
    opened(disk).save(store(3))
    assert promised(disk.power_cut(0, survival_chance=0.0)) == 3


def _life(disk: SimDisk, told: list[int]) -> None:
    """Two runs, each with a promise more; `told` is what an answer could have told of."""
    for run in (1, 2):
        voter = opened(disk)
        for number in range(2):
            voter.save(store(2 * run + number))
            told.append(2 * run + number)


def _changes(life: Callable[[SimDisk, list[int]], None]) -> int:
    disk = fresh()
    life(disk, [])
    return len(disk.operations)


@pytest.mark.parametrize("page_bytes", [4096, SECTOR_BYTES])
def test_a_power_cut_at_any_change_takes_back_nothing_that_was_told(page_bytes: int) -> None:
    changes = _changes(_life)
    assert changes > 20
    for cut_at in range(2, changes + 1):
        for seed, chance in enumerate((0.0, 0.5, 1.0)):
            disk, told = fresh(page_bytes=page_bytes), list[int]()
            disk.cut_at = cut_at
            with contextlib.suppress(PowerCut):
                _life(disk, told)
            found = promised(disk.power_cut(seed, survival_chance=chance))
            assert found >= max(told, default=0), f"cut at {cut_at}, seed {seed}"


@pytest.mark.slow
def test_a_kill_at_any_change_and_a_power_cut_in_the_next_run_take_back_nothing_that_was_told() -> None:
    """The next run votes by what it finds, though the run before was killed before the names were synced."""
    for cut_at in range(2, _changes(_life) + 1):
        for cut_after in range(1, 12):
            disk, told = fresh(page_bytes=SECTOR_BYTES), list[int]()
            disk.cut_at = cut_at
            with contextlib.suppress(PowerCut):
                _life(disk, told)
            disk.process_death()
            disk.cut_at = len(disk.operations) + cut_after
            with contextlib.suppress(PowerCut):
                told.append(promised(disk))
                opened(disk).save(store(9))
                told.append(9)
            for seed in range(8):
                found = promised(disk.power_cut(seed, survival_chance=0.5))
                assert found >= max(told, default=0), f"killed at {cut_at}, cut {cut_after} later, seed {seed}"


@pytest.mark.parametrize("failing", range(1, 11))
def test_a_failed_sync_is_the_last_thing_a_run_does_and_costs_at_most_what_was_not_told(failing: int) -> None:
    """A sync fails; a new run opens what the page cache shows and goes on; the power fails during that."""
    for cut_after in range(12):
        for seed in range(4):
            disk, told = fresh(page_bytes=SECTOR_BYTES), list[int]()
            disk.refuse = _failing_sync(failing)
            with pytest.raises(MirroredStateFailed, match="votes no more"):
                _life(disk, told)
            disk.process_death()
            disk.cut_at = len(disk.operations) + cut_after if cut_after else None
            with contextlib.suppress(PowerCut):
                told.append(promised(disk))
                opened(disk).save(store(9))
                told.append(9)
            found = promised(disk.power_cut(seed, survival_chance=0.5))
            assert found >= max(told, default=0), f"cut {cut_after} later, seed {seed}"


def test_the_life_has_as_many_syncs_as_fail_above() -> None:
    disk = fresh()
    _life(disk, [])
    assert [name for name, _ in disk.operations].count("sync") == 10


def _failing_sync(number: int) -> Callable[[str, Path], int]:
    """Refuses the sync of that number, from 1."""
    seen = [0]

    def refuse(operation: str, path: Path) -> int:
        seen[0] += operation == "sync"
        return errno.EIO if operation == "sync" and seen[0] == number else 0

    return refuse


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["flip", "zero", "truncate", "unlink"])
def test_one_bad_copy_is_repaired_from_the_other(name: str, damage: str) -> None:
    disk = holding(3, 5)
    _damage(disk, name, damage)
    voter = opened(disk)
    assert (voter.store, voter.mirrored.repaired_copies) == (store(5), (name,))
    other = next(one for one in NAMES if one != name)
    _damage(disk, other, "zero")
    assert promised(disk) == 5, "the repaired copy is a good one"


def test_any_bit_of_a_copy_may_turn() -> None:
    size = len(encode(KIND, b"", 1).rstrip(b"\0")) + 500
    for offset in range(0, size, 7):
        disk = holding(3, 5)
        disk.flip(DIRECTORY / NAMES[offset % 2], offset, offset % 8)
        assert promised(disk) == 5, offset


def test_repair_survives_a_power_cut_at_any_change() -> None:
    for name in NAMES:
        for cut_after in range(1, 9):
            disk = holding(3, 5)
            _damage(disk, name, "zero")
            disk.cut_at = len(disk.operations) + cut_after
            with contextlib.suppress(PowerCut):
                opened(disk)
            assert promised(disk.power_cut(cut_after, survival_chance=0.5)) == 5


def test_two_bad_copies_are_an_empty_voter_that_says_so_and_can_be_admitted_again() -> None:
    disk = holding(3, 5)
    for name in NAMES:
        _damage(disk, name, "flip")
    voter = opened(disk)
    assert (voter.store, voter.mirrored.is_damaged) == (None, True)
    voter.save(store(6))
    assert not voter.mirrored.is_damaged
    assert promised(disk.power_cut(0, survival_chance=0.0)) == 6


@pytest.mark.parametrize(("voter", "cluster"), [("witness:w2", CLUSTER), ("witness:w1", "d/root/north")])
def test_promises_of_somebody_else_are_refused_and_left_alone(voter: str, cluster: str) -> None:
    disk = holding(5)
    with pytest.raises(WrongStore):
        opened(disk, voter, cluster)
    assert promised(disk) == 5


def test_another_format_or_unknown_words_are_refused_and_left_alone() -> None:
    for copy, reason in ((of_format(9, encode(KIND, b"{}", 9)), "has format 9"), (encode(KIND, b"{}", 9), "whole")):
        disk = holding(5)
        handle = disk.open(DIRECTORY / "store.b")
        disk.pwritev(handle, [copy], 0)
        disk.close(handle)
        with pytest.raises(WrongStore, match=reason):
            opened(disk)
        assert disk.bytes_of(DIRECTORY / "store.b").startswith(copy)


def test_a_full_disk_takes_promises_of_a_store_that_is_there_and_no_new_one() -> None:
    disk = holding(3)
    disk.capacity_bytes = sum(len(disk.bytes_of(DIRECTORY / name)) for name in NAMES)
    opened(disk).save(store(5))
    assert promised(disk) == 5
    full = fresh()
    full.capacity_bytes = 100
    with pytest.raises(MirroredStateFailed, match="No space left"):
        opened(full).save(store(3))


@pytest.mark.parametrize("operation", ["open", "names", "pread"])
def test_a_disk_that_can_not_be_read_is_no_empty_voter(operation: str) -> None:
    disk = holding(3)
    disk.refuse = lambda done, path: errno.EIO if done == operation else 0
    with pytest.raises(MirroredStateFailed):
        opened(disk)


def _damage(disk: SimDisk, name: str, how: str) -> None:
    path = DIRECTORY / name
    match how:
        case "flip":
            disk.flip(path, 100, 3)
        case "zero":
            disk.zero(path, 0, 4096)
        case "truncate":
            disk.truncate(path, 50)
        case "unlink":
            disk.unlink(path)
            disk.sync_directory(path.parent)
