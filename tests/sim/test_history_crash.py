"""Killed, or without power, at every single step of the file system: no row lost, none doubled, ever."""

import itertools
import random
import shutil
import threading
from pathlib import Path

import pytest

from albireo.codec.history import DAY_NS, FileKind
from albireo.codec.record import Audited, GapFound, Stream
from albireo.machine.history.sealing import merge_plan
from albireo.model.instant import SECOND
from albireo.model.value import ValueType
from albireo.node.history.files import merging
from albireo.node.history.files.store import RETIRED_GRACE_NS, HistoryStore
from tests.long_form import IS_LONG, some
from tests.parts.history import (
    DAY_ZERO,
    LOG_ID,
    Died,
    DyingFiles,
    ForkingFiles,
    MemoryLog,
    fill,
    hot_of,
    listed_files_are_there,
    stored,
    stored_rows,
)

SEALS = 8
STRIDE = 1 if IS_LONG else 23
"""Not every step, for the time it takes; odd, so that kinds of steps mix."""


def day_of_frames(seed: int) -> MemoryLog:
    """Two days of samples of several types, late rows among them, a gap and an audit entry in each block."""
    chance = random.Random(seed)
    log = MemoryLog()
    for block in range(SEALS):
        now = DAY_ZERO + block * 2 * DAY_NS // SEALS
        rows = [(chance.randint(1, 3), now - chance.randint(0, 90) * SECOND, chance.random(), 0) for _ in range(9)]
        log.samples([(item, at, value, quality) for item, at, value, quality in rows], now)
        log.samples([(9, now, chance.randint(-5, 5), 0)], now, ValueType.INT64)
        log.samples([(8, now, "auto", 0)], now, ValueType.STRING)
        log.records(
            Stream.SAMPLES, [GapFound(source="plc", reason="device_lost", from_ns=now, to_ns=now + SECOND)], now
        )
        log.records(Stream.AUDIT, [Audited(at_ns=now, user="u", action="write", subject="s")], now)
    return log


def live(data: Path, log: MemoryLog, files: DyingFiles) -> None:
    """One life of the historian: open, then seal block after block and merge what is due, up to the end of the log."""
    store, _ = HistoryStore.open(data, "root", files)
    ends = [one.header.last_sequence for one in log.frames][4::5]
    wall = DAY_ZERO
    for end in ends:
        hot = hot_of(store)
        fill(hot, log, end)
        if hot.position > store.manifest.position:
            store.seal(hot.content(), LOG_ID.hex(), wall)
        wall += RETIRED_GRACE_NS // 2
        plan = merge_plan(store.manifest.files, store.manifest.complete_to_ns + DAY_NS)
        if plan is not None:
            outputs = merging.merge_files(store, plan, store.manifest.generation + 1, threading.Event())
            store.replace(merging.inputs_listed(store, plan), outputs, wall)


def check(data: Path, log: MemoryLog) -> None:
    root = data / "history"
    assert stored_rows(root) == sorted(log.rows)
    for kind in (FileKind.GAPS, FileKind.EVENTS):
        assert sum(len(table) for table in stored(root, kind)) == SEALS
    store, report = HistoryStore.open(data, "root")
    assert report.problem == ""
    listed_files_are_there(root, store.manifest)
    listed = {entry.path for entry in store.manifest.files} | {one.path for one in store.manifest.retired}
    there = {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}
    assert listed <= there


@pytest.mark.slow
@pytest.mark.parametrize("is_power_cut", some([False, True], 2))
def test_a_crash_at_any_step_loses_and_doubles_nothing(tmp_path: Path, is_power_cut: bool) -> None:
    """The log keeps everything, as retention promises below the acknowledged position of a seal.

    After each crash a second life goes on from what is on the disk; its result must be that of a life without crash.
    """
    log = day_of_frames(7)

    tried = 0

    def at_step() -> None:
        nonlocal tried
        if files.steps % STRIDE == is_power_cut % STRIDE:
            data = tmp_path / f"{files.steps}"
            files.leave(data, is_power_cut=is_power_cut)
            live(data, log, DyingFiles())
            check(data, log)
            shutil.rmtree(data)
            tried += 1

    files = ForkingFiles(tmp_path / "whole", at_step)
    live(tmp_path / "whole", log, files)
    check(tmp_path / "whole", log)
    assert tried >= files.steps // STRIDE
    merged = [len(stored(tmp_path / "whole" / "history", kind)) for kind in (FileKind.SAMPLES, FileKind.GAPS)]
    assert max(merged) <= 3, "merging must have taken place, or the test says nothing about it"


@pytest.mark.slow
def test_crash_after_crash(tmp_path: Path) -> None:
    """Many lives, each killed early: what each leaves is the start of the next."""
    log = day_of_frames(11)
    chance = random.Random(5)
    for attempt in itertools.count(1):
        files = DyingFiles(chance.randint(50, 500), is_power_cut=chance.random() < 0.5)
        try:
            live(tmp_path, log, files)
        except Died:
            assert attempt < 200
            continue
        break
    check(tmp_path, log)


def test_a_manifest_that_was_believed_after_a_kill_is_there_after_a_power_cut(tmp_path: Path) -> None:
    """The log lets go of what the history says that it has: that must not rest on a name that nobody synced."""
    log = day_of_frames(3)
    believed = 0
    for step in range(1, 400):
        data, killed = tmp_path / f"{step}", DyingFiles(step)
        try:
            store, _ = HistoryStore.open(data, "root", killed)
            hot = hot_of(store)
            fill(hot, log)
            store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
        except Died:
            after = killed.next_life()
            found, _ = HistoryStore.open(data, "root", after)
            after.lose()
            again, _ = HistoryStore.open(data, "root")
            assert again.manifest.position == found.manifest.position, f"killed at step {step}"
            believed += found.manifest.position.sequence > 0
            shutil.rmtree(data)
            continue
        break
    assert believed > 0, "some kill came after the manifest got its name"


def test_a_full_disk_costs_nothing_but_time(tmp_path: Path) -> None:
    """The seal fails at each of its steps in turn; the one after it writes everything once."""
    log = day_of_frames(3)
    store, _ = HistoryStore.open(tmp_path, "root", files := DyingFiles())
    hot = hot_of(store)
    fill(hot, log)
    failures = 0
    for start in range(1, 400):
        files = DyingFiles(full=range(start, start + 10_000))
        store._files = files
        try:
            store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
        except OSError:
            failures += 1
            continue
        break
    assert failures > 20
    check(tmp_path, log)
    assert not list((tmp_path / "history").rglob("*.tmp"))
