"""The disk of a gate: a guard that was told survives every cut and every rotten copy, and never falls back."""

import errno
from pathlib import Path

import pytest

from albireo.log import WrongStore
from albireo.log.store.mirrored_file import NAMES
from albireo.log.store.mirrored_state import MirroredStateFailed
from albireo.node.gate.store import GateDisk
from albireo.sim.engine.disk import PowerCut, SimDisk

DATA = Path("/data")


def fresh() -> SimDisk:
    disk = SimDisk(1)
    disk.make_directory(DATA)
    disk.sync_directory(DATA.parent)
    return disk


def opened(disk: SimDisk, cluster: str = "c", gate: str = "root:p1") -> GateDisk:
    return GateDisk(disk, DATA, cluster, gate)


def holding(*guards: int) -> SimDisk:
    disk = fresh()
    memory = opened(disk)
    for guard in guards:
        memory.save(7, guard)
    return disk


def test_a_new_gate_has_no_number_and_no_guard() -> None:
    memory = opened(fresh())
    assert (memory.boot, memory.guard) == (None, 0)


def test_whatever_is_cut_off_what_was_told_is_still_there() -> None:
    whole = holding(4, 5, 9)
    for cut_at in range(1, len(whole.operations) + 1):
        disk = fresh()
        disk.cut_at = len(disk.operations) + cut_at
        told = 0
        try:
            memory = opened(disk)
            for guard in (4, 5, 9):
                memory.save(7, guard)
                told = guard
        except PowerCut:
            pass
        for seed in range(4):
            assert opened(disk.power_cut(seed)).guard >= told, (cut_at, seed)


@pytest.mark.parametrize("name", NAMES)
def test_one_rotten_copy_costs_nothing(name: str) -> None:
    disk = holding(4, 5)
    disk.flip(DATA / "gate" / name, 40, 3)
    memory = opened(disk)
    assert (memory.guard, memory.told["repaired_copies"]) == (5, name)
    memory.save(8, 5)
    assert opened(disk).told["repaired_copies"] == ""


def test_two_rotten_copies_are_no_store_and_that_is_told() -> None:
    disk = holding(4)
    for name in NAMES:
        disk.flip(DATA / "gate" / name, 40, 3)
    memory = opened(disk)
    assert (memory.boot, memory.guard, memory.told["is_damaged"]) == (None, 0, True)


@pytest.mark.parametrize(("cluster", "gate"), [("other", "root:p1"), ("c", "root:p2")])
def test_the_guard_of_another_plc_is_refused_and_left_alone(cluster: str, gate: str) -> None:
    disk = holding(4)
    with pytest.raises(WrongStore, match="root:p1 in cluster c"):
        opened(disk, cluster, gate)
    assert opened(disk).guard == 4


def test_after_a_failed_sync_nothing_is_kept_any_more() -> None:
    disk = holding(4)
    memory = opened(disk)
    disk.refuse = lambda operation, _: errno.EIO if operation == "sync" else 0
    with pytest.raises(MirroredStateFailed, match="no order pass"):
        memory.save(7, 5)
    disk.refuse = lambda operation, _: 0
    with pytest.raises(MirroredStateFailed):
        memory.save(7, 6)
