"""One scripted life of a log, cut at every change it makes to the disk; recovery cut at every one of its own."""

import contextlib

import pytest

from albireo.log import LogConfig
from albireo.sim.engine.disk import PAGE_BYTES, SECTOR_BYTES, PowerCut, SimDisk
from tests.long_form import some
from tests.parts.log import SMALL, World

CONFIG = LogConfig(segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0, index_every_bytes=512)


def _life(world: World) -> None:
    """Two runs with groups, rolls, snapshots, retention and clean stops."""
    for run in range(2):
        world.open()
        world.check_nothing_lost()
        world.begin_epoch()
        for step in range(4):
            world.append(300, 1500, 40 * step)
            world.append(10 * run, stream=2)
            world.flush()
            world.commit()
            world.log.keep_house()
        world.log.save_snapshot(world.log.committed, world.log.log_time, {"fold": b"state"})
        world.append(2500, 700)
        world.flush()
        world.commit()
        world.log.save_snapshot(world.log.committed, world.log.log_time, {"fold": b"state"})
        world.log.prune(world.log.end.sequence)
        world.append(50)
        world.log.close()


def _changes() -> int:
    world = World(SimDisk(1), CONFIG)
    _life(world)
    return len(world.disk.operations)


CHANGES = _changes()


def test_the_script_is_worth_cutting() -> None:
    assert CHANGES > 150


@pytest.mark.slow
@pytest.mark.parametrize("page_bytes", some([PAGE_BYTES, SECTOR_BYTES], 2))
def test_power_cut_at_every_change(page_bytes: int) -> None:
    """Nothing told is lost, nothing else is there, whichever change is the last and whatever of it survives."""
    for cut_at in range(1, CHANGES + 1):
        for seed, chance in enumerate((0.0, 0.5, 0.9, 1.0)):
            world = World(SimDisk(1, page_bytes=page_bytes, cut_at=cut_at), CONFIG)
            with contextlib.suppress(PowerCut):
                _life(world)
            world.disk = world.disk.power_cut(seed, survival_chance=chance)
            world.open()
            world.check_nothing_lost()
            world.log.close()


@pytest.mark.slow
def test_process_death_at_every_change() -> None:
    """`kill -9`: the page cache stays."""
    for cut_at in range(1, CHANGES + 1):
        world = World(SimDisk(1, cut_at=cut_at), CONFIG)
        with contextlib.suppress(PowerCut):
            _life(world)
        world.disk.process_death()
        world.open()
        world.check_nothing_lost()
        assert world.report.torn is None or world.report.torn.last_sequence < world.report.torn.first_sequence + 10


@pytest.mark.slow
def test_process_death_at_every_change_and_a_power_cut_in_the_next_run() -> None:
    """The next run finds names that were never synced, and counts on them: snapshots by which older records go,
    segments on which it goes on, the directories themselves. Then the power fails."""
    for cut_at in range(1, CHANGES + 1):
        world = World(SimDisk(1, cut_at=cut_at), CONFIG)
        with contextlib.suppress(PowerCut):
            _life(world)
        world.disk.process_death()
        world.open()
        world.check_nothing_lost()
        world.begin_epoch()
        world.append(700, 20)
        world.flush()
        world.commit()
        for snapshot in world.log.load_snapshots():
            world.log.prune(snapshot.position.sequence)
        world.disk = world.disk.power_cut(cut_at, survival_chance=0.0)
        world.open()
        world.check_nothing_lost()
        world.log.close()


@pytest.mark.slow
@pytest.mark.parametrize("first_cut", range(20, CHANGES, 29))
def test_recovery_cut_at_every_change(first_cut: int) -> None:
    """Recovery can be interrupted anywhere and ends the same."""
    for seed in range(3):
        torn = World(SimDisk(1, page_bytes=SECTOR_BYTES, cut_at=first_cut), CONFIG)
        with contextlib.suppress(PowerCut):
            _life(torn)
        second_cut = 0
        is_through = False
        while not is_through:
            second_cut += 1
            world = World(torn.disk.power_cut(seed, survival_chance=0.6), CONFIG)
            world.written, world.told = list(torn.written), torn.told
            world.disk.cut_at = second_cut
            try:
                world.open()
                is_through = True
            except PowerCut:
                world.disk = world.disk.power_cut(seed + 1, survival_chance=0.5)
                world.open()
            world.disk.cut_at = None
            world.check_nothing_lost()


def test_same_seed_same_disk() -> None:
    """A failure can be run again: the same script makes the same changes."""
    lives = []
    for _ in range(2):
        world = World(SimDisk(5), SMALL)
        _life(world)
        lives.append(world.disk.operations)
    assert lives[0] == lives[1]
