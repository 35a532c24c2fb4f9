"""Branches: what a log that went another way leaves behind is taken out of the files, and kept beside them.

A log loses its end (a disk that lied, a forced promotion), and other records get the same sequences. The rows of the
branch that was left were true when they were recorded, so they are kept, in files of `cut_off/`. They are in no table,
and in answers about a node below only, whose store was another one then (joined.py). Everything that lay in files above
the common sequence when the log went another way is such a row.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albireo.codec.history import BUCKET_NS, SCHEMAS, FileEntry, FileKind, Hole, cut_hole, file_path, partials_path
from albireo.log.files import FileSystem
from albireo.machine.history.aggregate import Ints, merge, partials_of
from albireo.model.position import EpochEntry
from albireo.node.history.errors import HistoryDamaged
from albireo.node.history.files import parquet
from albireo.node.history.files.entries import entry_of

FOLDER: Final = "cut_off"
_KINDS: Final = (FileKind.SAMPLES, FileKind.GAPS, FileKind.EVENTS)


def holes_behind(holes: Sequence[Hole], forks: Sequence[int]) -> tuple[list[Hole], list[Hole]]:
    """Holes that stay as they are, and the rest of those that the log has left in part; others are gone.

    Args:
        forks: sequences behind which the log went another way.
    """
    if not forks:
        return list(holes), []
    fork = min(forks)
    across = [one for one in holes if one.first_sequence <= fork < one.last_sequence]
    return [one for one in holes if one.last_sequence <= fork], [cut_hole(one, fork) for one in across]


class CutFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a cut; all new files are durable, none is listed yet."""

    gone: tuple[FileEntry, ...] = ()
    """Files with rows of the branch that was left, and the partials beside them."""
    living: tuple[FileEntry, ...] = ()
    """Files of their other rows."""
    dead: tuple[FileEntry, ...] = ()
    """Files of the rows of that branch, in FOLDER."""


class BranchCutter:
    """Cuts the files of one manifest at one sequence."""

    def __init__(self, root: Path, files: FileSystem, make_folder: Callable[[Path], None], generation: int) -> None:
        """`make_folder`: makes the folder of a file. `generation`: number that no other file has."""
        self._root = root
        self.made: list[FileEntry] = []
        """Files written so far, to be removed if the cut fails."""
        self._files = files
        self._make_folder = make_folder
        self._generation = generation

    def cut(self, entries: Sequence[FileEntry], after_sequence: int) -> CutFiles:
        """Part the rows above `after_sequence` from the others.

        Raises:
            OSError: of the disk.
        """
        gone: list[FileEntry] = []
        living: list[FileEntry] = []
        dead: list[FileEntry] = []
        beside = {entry.path: entry for entry in entries if entry.kind is FileKind.PARTIALS}
        for entry in entries:
            if entry.kind not in _KINDS or entry.last_sequence <= after_sequence:
                continue
            try:
                table = parquet.read(self._root, [entry], SCHEMAS[entry.kind].names)
            except HistoryDamaged:
                continue  # It stays listed, so whoever asks for it is told; no seal waits for its repair.
            is_dead = _dead_rows(entry.kind, table, after_sequence)
            if not is_dead.any():
                continue
            gone += [entry, *(one for one in [beside.get(partials_path(entry.path))] if one is not None)]
            dead += self._rewritten(entry, table.filter(pa.array(is_dead)), f"{FOLDER}/")
            rest = table.filter(pa.array(~is_dead))
            if len(rest):
                living += self._rewritten(entry, rest)
        return CutFiles(gone=tuple(gone), living=tuple(living), dead=tuple(dead))

    def _rewritten(self, entry: FileEntry, rest: pa.Table, folder: str = "") -> list[FileEntry]:
        span = parquet.span(rest, "sequence")
        path = file_path(entry.kind, entry.node, entry.day, span, self._generation)
        made = [self._write(entry, rest, folder + path)]
        if entry.kind is FileKind.SAMPLES:
            sums = merge([partials_of(parquet.rows_from(one), BUCKET_NS) for one in parquet.blocks(rest)], BUCKET_NS)
            like = msgspec.structs.replace(entry, kind=FileKind.PARTIALS)
            made.append(self._write(like, parquet.partials_table(sums.partials), folder + partials_path(path), span))
        return made

    def _write(
        self, like: FileEntry, table: pa.Table, path: str, sequences: tuple[int, int] | None = None
    ) -> FileEntry:
        target = self._root / path
        self._make_folder(target)
        written = parquet.write(self._files, target, like.kind, table)
        partition = (like.node, like.day)
        made = entry_of(like.kind, path, table, partition, written, like.sealed_ns, sequences)
        made = msgspec.structs.replace(made, log_id=like.log_id, level=like.level)
        self.made.append(made)
        return made


def _dead_rows(kind: FileKind, table: pa.Table, after_sequence: int) -> NDArray[np.bool_]:
    is_dead: NDArray[np.bool_] = parquet.ints(table, "sequence") > after_sequence
    if kind is FileKind.EVENTS:  # That the log went another way is told for good.
        is_dead &= np.array(table.column("action").to_pylist()) != "log_forked"
    return is_dead


def living_rows(history: Sequence[EpochEntry], epoch: Ints, sequence: Ints) -> NDArray[np.bool_]:
    """Rows whose epoch is the one under which a log of this history wrote their sequence, or of which it knows none."""
    if not history:
        return np.ones(len(epoch), np.bool_)
    at = np.searchsorted(np.array([one.first_sequence for one in history]), sequence, side="right") - 1
    epochs = np.array([one.epoch for one in history])
    is_living: NDArray[np.bool_] = (at < 0) | (epochs[np.maximum(at, 0)] == epoch)
    return is_living
