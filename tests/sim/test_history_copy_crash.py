"""The copy between two histories, killed or without power at every step of either one's file system, and lied to."""

import itertools
import random
from pathlib import Path

import pytest

from albireo.codec.history import Manifest
from albireo.codec.history_copy import GroupSent, PieceSent, Word
from albireo.machine.history.copy_events import KeepGroup
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.store import RETIRED_GRACE_NS, HistoryStore
from tests.long_form import IS_LONG, some
from tests.parts.history import (
    DAY_ZERO,
    LOG_ID,
    Died,
    DyingFiles,
    MemoryLog,
    crash_at_each_step,
    fill,
    listed_files_are_there,
)
from tests.parts.history_copy import (
    KINDS,
    Copy,
    Piece,
    all_rows,
    merge_once,
    partial_sums,
    some_days,
    source_of,
    target_of,
)

pytestmark = pytest.mark.slow

BLOCK = 23
STRIDE = 1 if IS_LONG else 17
"""Not every step, for the time it takes; odd, so that kinds of steps mix."""


def story() -> MemoryLog:
    return some_days(blocks=5, days=2, seed=4)


def lacking(data: Path, log: MemoryLog) -> None:
    """A history that begins late, and sealed the rest of it already."""
    target_of(data, log, BLOCK, 4 * BLOCK + 1)


def life(data: Path, source: HistoryStore, files: DyingFiles) -> None:
    """One life of the copying side; it merges what is due beside the copy."""
    target, _ = HistoryStore.open(data, "root", files)
    copy = Copy(source, target)
    copy.after = lambda effect: isinstance(effect, KeepGroup) and merge_once(target, complete_to_ns=2**62)
    assert copy.run()
    assert copy.refused == {}


def check(data: Path, source: HistoryStore) -> None:
    target, report = HistoryStore.open(data, "root")
    assert report.problem == ""
    listed_files_are_there(target.root, target.manifest)
    listed = {entry.path for entry in target.manifest.files} | {one.path for one in target.manifest.retired}
    there = {path.relative_to(target.root).as_posix() for path in target.root.rglob("*") if path.is_file()}
    assert listed <= there
    assert not [name for name in there if name.endswith(".tmp")]
    assert target.manifest.holes == ()
    assert all_rows(target) == all_rows(source)
    assert partial_sums(target) == partial_sums(source)


def no_row_twice(data: Path, source: HistoryStore) -> None:
    """Between two lives: the rows that are there are rows of the source, each once, and the gap's own."""
    target, _ = HistoryStore.open(data, "root")
    here, there = all_rows(target), all_rows(source)
    for kind in KINDS:
        own = [row for row in here[kind] if "overflow" not in row]
        assert len(own) == len(set(own))
        assert set(own) <= set(there[kind])
    assert len(target.manifest.holes) == sum("overflow" in row for rows in here.values() for row in rows)


@pytest.mark.parametrize("is_power_cut", some([False, True], 2))
def test_a_crash_of_the_copying_side_at_any_step_loses_and_doubles_nothing(tmp_path: Path, is_power_cut: bool) -> None:
    """One life; what a crash leaves at each step is the start of another one."""
    log = story()
    source = source_of(tmp_path / "source", log)
    lacking(tmp_path / "whole", log)
    crash_at_each_step(
        tmp_path,
        STRIDE,
        lambda data, files: life(data, source, files),
        lambda data: no_row_twice(data, source),
        lambda data: check(data, source),
        is_power_cut=is_power_cut,
    )


def test_life_after_life_of_the_copying_side(tmp_path: Path) -> None:
    """Each is killed early; what it leaves is the start of the next."""
    log = story()
    source = source_of(tmp_path / "source", log)
    lacking(tmp_path / "target", log)
    chance = random.Random(8)
    for lives in itertools.count(1):
        files = DyingFiles(chance.randint(30, 80), is_power_cut=chance.random() < 0.5)
        try:
            life(tmp_path / "target", source, files)
        except Died:
            assert lives < 200
            no_row_twice(tmp_path / "target", source)
            continue
        break
    assert lives > 5
    check(tmp_path / "target", source)


class Source:
    """The other history, which dies while it seals and merges, and is opened anew."""

    def __init__(self, data: Path, log: MemoryLog) -> None:
        self.data = data
        self.log = log
        self.store = source_of(data, log, seal_every=1)
        self.deaths = 0
        self.wall_ns = DAY_ZERO

    def works(self, dies_at: int, *, is_power_cut: bool) -> None:
        """A seal and a merge; what was replaced is removed at once."""
        self.wall_ns += 2 * RETIRED_GRACE_NS
        try:
            self.store, _ = HistoryStore.open(self.data, "root", DyingFiles(dies_at, is_power_cut=is_power_cut))
            self.seal()
            merge_once(self.store, complete_to_ns=2**62, wall_ns=self.wall_ns)
        except Died:
            self.deaths += 1
        self.store, _ = HistoryStore.open(self.data, "root")

    def seal(self) -> None:
        manifest: Manifest = self.store.manifest
        hot = HotTail(manifest.position, manifest.complete_to_ns)
        fill(hot, self.log)
        self.store.seal(hot.content(), LOG_ID.hex(), self.wall_ns)


@pytest.mark.parametrize("seed", some(range(6), 3))
def test_the_source_may_die_merge_and_lie_while_the_copying_side_dies_too(tmp_path: Path, seed: int) -> None:
    """Everything at once, from a seed; once it ends the copy is as the source."""
    chance = random.Random(seed)
    log = some_days(blocks=14, days=2, seed=seed)
    other = Source(tmp_path / "source", log)
    edge = chance.choice([one.header.first_sequence for one in log.frames if one.header.first_sequence > 8 * BLOCK])
    target_of(tmp_path / "target", log, chance.randint(0, 60), edge)
    calm_after = 12
    for lives in itertools.count(1):
        is_wild = lives <= calm_after
        files = DyingFiles(chance.randint(10, 200), is_power_cut=chance.random() < 0.5) if is_wild else DyingFiles()
        try:
            target, _ = HistoryStore.open(tmp_path / "target", "root", files)
            copy = Copy(other.store, target)
            copy.tamper = wild(copy, other, chance) if is_wild else copy.tamper
            copy.run()
        except Died:
            continue
        finally:
            no_row_twice(tmp_path / "target", other.store)
        if not is_wild:
            break
    assert lives == calm_after + 1
    check(tmp_path / "target", other.store)


def wild(copy: Copy, other: Source, chance: random.Random) -> "Wild":
    return Wild(copy, other, chance)


class Wild:
    """What happens to an answer, and around it."""

    def __init__(self, copy: Copy, other: Source, chance: random.Random) -> None:
        self._copy = copy
        self._other = other
        self._chance = chance
        self._kept: list[tuple[Word, Piece]] = []

    def __call__(self, word: Word, piece: Piece) -> tuple[Word, Piece] | None:
        chance = self._chance
        if chance.random() < 0.1:
            self._other.works(chance.randint(5, 120), is_power_cut=chance.random() < 0.5)
            self._copy.source = self._other.store
        if isinstance(word, GroupSent | PieceSent):
            self._kept.append((word, piece))
        match chance.randrange(12):
            case 0:
                return None
            case 1:
                return chance.choice(self._kept)
            case 2 if piece:
                at = chance.randrange(len(piece))
                return word, bytes(piece[:at]) + bytes([piece[at] ^ 1]) + bytes(piece[at + 1 :])
            case 3 if piece:
                return word, piece[: chance.randrange(len(piece))]
        return word, piece
