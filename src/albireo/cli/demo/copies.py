"""The copy of a site's samples at the root against the site's own: what is missing there, and what stands there twice.

Both are read from the files of the histories after a clean stop, up to where the shorter one ends: a node's history
stops before its CORE does, so its last records may lie in the copy only.
"""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from albireo.codec.history import MANIFEST_NAME, SCHEMAS, FileKind, Manifest, decode_manifest

COLUMNS: Final = ("item_id", "epoch", "sequence", "source_ns", "quality")
_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64)
_SHIFT: Final = np.uint64(29)


class CopyAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of one site."""

    rows: int
    """Samples that lie in the copy."""
    lost: int
    """Samples of the site that the copy lacks, by the numbers of each item."""
    doubled: int
    """Samples that the copy has too often, by the numbers of each item."""
    is_same: bool
    """All rows are the same, whatever their sequence."""
    behind: int
    """Samples of the site behind the end of the copy: its last ones, written as it stopped."""

    def complaints(self) -> list[str]:
        """Everything that is not as it should be, one sentence each."""
        found = []
        if self.lost or self.doubled:
            found.append(f"the root lacks {self.lost} samples and has {self.doubled} twice")
        elif not self.is_same:
            found.append("samples at the root differ from those of the site")
        return found


class CopyTally:
    """Number of rows of each item, and a sum over all rows that does not depend on their sequence."""

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self.mixed = 0
        self.behind = 0
        """Rows behind the last sequence that counts."""

    def add(self, columns: list[NDArray[np.int64]], upto: int) -> None:
        """Take in rows, given as their `COLUMNS`, up to a sequence."""
        counted = columns[2] <= upto
        self.behind += int((~counted).sum())
        item_id = columns[0][counted]
        counts = np.bincount(item_id, minlength=len(self.counts)).astype(np.int64)
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        mixed = item_id.astype(np.uint64)
        for column, odd in zip(columns[1:], _ODD, strict=True):
            mixed = (mixed ^ (mixed >> _SHIFT)) * odd + column[counted].astype(np.uint64)
        self.mixed = (self.mixed + int(((mixed ^ (mixed >> _SHIFT)) * _ODD[0]).sum(dtype=np.uint64))) % (1 << 64)


def copy_account(own: Path, copy: Path, since_ns: int) -> CopyAccount:
    """Compare two folders of histories, of the samples that the site appended at or after `since_ns` (wall time).

    Raises:
        OSError, DecodeError: there is no readable manifest.
    """
    manifest = decode_manifest((copy / MANIFEST_NAME).read_bytes())
    own_manifest = decode_manifest((own / MANIFEST_NAME).read_bytes())
    upto = min(manifest.position.sequence, own_manifest.position.sequence)
    there = _tally(copy, manifest, since_ns, upto)
    here = _tally(own, own_manifest, since_ns, upto)
    size = max(len(here.counts), len(there.counts))
    missing = np.zeros(size, np.int64)
    missing[: len(here.counts)] += here.counts
    missing[: len(there.counts)] -= there.counts
    return CopyAccount(
        rows=int(there.counts.sum()),
        lost=int(missing[missing > 0].sum()),
        doubled=int(-missing[missing < 0].sum()),
        is_same=here.mixed == there.mixed,
        behind=here.behind,
    )


def _tally(root: Path, manifest: Manifest, since_ns: int, upto: int) -> CopyTally:
    tally = CopyTally()
    paths = [str(root / entry.path) for entry in manifest.of_kind(FileKind.SAMPLES)]
    stored = ds.dataset(paths, schema=SCHEMAS[FileKind.SAMPLES], format="parquet")
    for batch in stored.to_batches(columns=list(COLUMNS), filter=ds.field("node_ns") >= since_ns):
        tally.add([batch.column(name).to_numpy().astype(np.int64) for name in COLUMNS], upto)
    return tally
