"""Killed, or without power, at steps of the file system while several histories are sealed: each has its rows once."""

import shutil
from pathlib import Path

import pytest

from albireo.codec.history import DAY_NS
from albireo.log.files import FileSystem
from tests.long_form import IS_LONG, some
from tests.parts.history import DyingFiles, ForkingFiles, MemoryLog
from tests.parts.history_below import Historian, Site, is_whole, rows, sites

STRIDE = 1 if IS_LONG else 17
"""Not every step, for the time it takes."""


def story() -> tuple[MemoryLog, list[Site], list[int]]:
    """A log with two nodes below, repeats and a fork; and where it is sealed."""
    log, (north, south) = sites()
    seals = []
    for round_ in range(4):
        for site in (north, south):
            site.log.samples(rows(4, round_ * 10), round_ * DAY_NS)
            site.log.samples(rows(2, round_ * 10 + 5), round_ * DAY_NS)
            site.send(log, site.pending())
        log.samples(rows(3, round_ * 10), round_ * DAY_NS)
        seals.append(log.end)
        if round_ == 1:
            north.send(log, north.log.frames[-1:])
            north.restored(log, 6)
    return log, [north, south], seals


def live(data: Path, log: MemoryLog, seals: list[int], files: FileSystem) -> None:
    """A life from what is on the disk to the end of the log, sealed block after block."""
    life = Historian(data, files)
    for end in seals:
        life.take(log, end)
        life.seal()


@pytest.mark.slow
@pytest.mark.parametrize("is_power_cut", some([False, True], 2))
def test_a_crash_at_any_step_loses_and_doubles_nothing_of_any_node(tmp_path: Path, is_power_cut: bool) -> None:
    """The log keeps what is above the own manifest's position; after each crash a second life goes on from the disk."""
    log, below, seals = story()
    tried = 0

    def at_step() -> None:
        nonlocal tried
        if files.steps % STRIDE == is_power_cut % STRIDE:
            data = tmp_path / f"{files.steps}"
            files.leave(data, is_power_cut=is_power_cut)
            live(data, log, seals, DyingFiles())
            is_whole(data, log, below)
            shutil.rmtree(data)
            tried += 1

    files = ForkingFiles(tmp_path / "whole", at_step)
    (tmp_path / "whole").mkdir()
    live(tmp_path / "whole", log, seals, files)
    is_whole(tmp_path / "whole", log, below)
    assert tried >= files.steps // STRIDE


def test_histories_that_were_sealed_before_a_kill_pass_over_what_comes_again(tmp_path: Path) -> None:
    """Also a fork: what was left before it comes again first, and counts as taken."""
    log, below, seals = story()
    for dies_after in range(3):
        data = tmp_path / f"{dies_after}"
        life = Historian(data)
        life.take(log, seals[0])
        life.seal()
        life.take(log)
        life.seal(dies_after=dies_after)
        again = Historian(data)
        assert again.taken.sequence == seals[0]
        again.take(log)
        assert [again.of(site).hot.rows > 0 for site in below] == [dies_after < 1, dies_after < 2]
        again.seal()
        is_whole(data, log, below)


def test_an_end_that_the_own_log_lost_comes_again_in_other_envelopes(tmp_path: Path) -> None:
    """The origins' frames are the same, so they are repeats; another branch of an origin is known by its epoch."""
    log, below = sites()
    north, south = below
    life = Historian(tmp_path)
    for site in below:
        site.log.samples(rows(3), 1)
        site.send(log, site.pending())
    kept = log.end
    for site in below:
        site.log.samples(rows(3, 10), 2)
        site.send(log, site.pending())
    life.take(log)
    life.seal()
    log.cut(kept)
    life.hot.fork(type(life.taken)(1, kept))
    life.taken = type(life.taken)(1, kept)
    north.above = south.above = 3
    south.log.cut(3)  # Restored meanwhile: the log above does not know of the rows that it lost, so it tells no fork.
    south.log.samples(rows(2, 20), 3)
    for site in below:
        site.send(log, site.pending())
    life.take(log)
    life.seal()
    is_whole(tmp_path, log, below)
