"""What a site let go of is fetched above, and whoever fetches it is killed or without power at every step.

The site merges its files meanwhile, answers get lost, and its log is restored from a copy.
"""

import itertools
import random
from pathlib import Path

import pytest

from albireo.codec.history import FileKind
from albireo.codec.history_copy import Word
from albireo.machine.history.copy_events import KeepGroup
from albireo.node.history.files.store import HistoryStore
from tests.long_form import IS_LONG, some
from tests.parts.history import Died, DyingFiles, crash_at_each_step, listed_files_are_there
from tests.parts.history_copy import KINDS, Copy, Piece, all_rows, merge_once, partial_sums, source_of
from tests.parts.history_filling import FOLDER, NORTH, above_of, filling, opened_above, site_log

pytestmark = pytest.mark.slow

STRIDE = 1 if IS_LONG else 13
"""Not every step, for the time it takes; odd, so that kinds of steps mix."""


def life(data: Path, source: HistoryStore, files: DyingFiles) -> None:
    """One life of the history above; it merges what is due beside the copy."""
    copy = filling(source, opened_above(data, files))
    copy.after = lambda effect: isinstance(effect, KeepGroup) and merge_once(copy.target, 2**62)
    assert copy.run()
    assert copy.refused == {}


def check(data: Path, source: HistoryStore) -> None:
    target, report = HistoryStore.open(data, NORTH, None, FOLDER.path)
    assert report.problem == ""
    listed_files_are_there(target.root, target.manifest)
    assert not list(target.root.rglob("*.tmp"))
    assert target.manifest.holes == ()
    assert all_rows(target) == all_rows(source)
    assert partial_sums(target) == partial_sums(source)
    assert target.declared.rows() == source.declared.rows()


def is_honest(data: Path, source: HistoryStore) -> None:
    """Between two lives: each row that is there is one of the site, once; while one is missing there is a gap."""
    store = opened_above(data).store
    here, there = all_rows(store), all_rows(source)
    for kind in KINDS:
        own = [row for row in here[kind] if "let_go" not in row]
        assert len(own) == len(set(own))
        assert set(own) <= set(there[kind])
    is_missing = any(len(there[kind]) > sum("let_go" not in row for row in here[kind]) for kind in KINDS)
    assert bool(store.manifest.holes) or not is_missing, "the gap went before the rows were durable"
    assert len(store.manifest.holes) == sum("let_go" in row for row in here[FileKind.GAPS])


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_crash_above_at_any_step_loses_and_doubles_nothing(tmp_path: Path, is_power_cut: bool) -> None:
    """One life; what a crash leaves at each step is the start of another one."""
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, node=NORTH)
    above_of(tmp_path / "whole", log, first, last)
    crash_at_each_step(
        tmp_path,
        STRIDE,
        lambda data, files: life(data, source, files),
        lambda data: is_honest(data, source),
        lambda data: check(data, source),
        is_power_cut=is_power_cut,
    )


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_both_sides_at_their_worst_end_with_each_row_once(tmp_path: Path, seed: int) -> None:
    """From a seed: above each life is killed, below files are merged, and answers are lost, late or damaged."""
    chance = random.Random(seed)
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, seal_every=1, node=NORTH)
    above_of(tmp_path / "above", log, first, last)
    calm_after = 8
    for lives in itertools.count(1):
        is_wild = lives <= calm_after
        files = DyingFiles(chance.randint(10, 150), is_power_cut=chance.random() < 0.5) if is_wild else DyingFiles()
        try:
            copy = filling(source, opened_above(tmp_path / "above", files))
            if is_wild:
                wild(copy, chance)
            copy.run()
        except Died:
            continue
        finally:
            is_honest(tmp_path / "above", source)
        if not is_wild:
            break
    assert lives == calm_after + 1
    check(tmp_path / "above", source)


def wild(copy: Copy, chance: random.Random) -> None:
    """Have things happen to answers, and to the files of the site."""
    kept: list[tuple[Word, Piece]] = []

    def tamper(word: Word, piece: Piece) -> tuple[Word, Piece] | None:
        kept.append((word, piece))
        match chance.randrange(12):
            case 0:
                return None
            case 1:
                return chance.choice(kept)
            case 2 if piece:
                at = chance.randrange(len(piece))
                return word, bytes(piece[:at]) + bytes([piece[at] ^ 1]) + bytes(piece[at + 1 :])
            case 3:
                merge_once(copy.source, 2**62)
        return word, piece

    copy.tamper = tamper
