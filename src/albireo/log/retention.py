"""Retention: the snapshots and segments that a log keeps, and those that it lets go.

A segment goes when nothing in it is wanted, and only from the oldest on, so that the rest is one gap-free sequence.
Nothing goes that is above the oldest kept snapshot: the fall-back from a bad newest snapshot needs it.

Spec: ADR-0014, ADR-0015.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import LogConfig, Task
from albireo.log.errors import Corrupted, SnapshotFailed
from albireo.log.files import FileSystem
from albireo.log.opening import QUARANTINE, SEGMENTS, SNAPSHOTS
from albireo.log.segment.reader import SegmentReader
from albireo.log.segment.segment import Segment
from albireo.log.segment.stored_log import StoredLog
from albireo.log.segment.table import SegmentTable
from albireo.log.store.snapshots import Snapshot, SnapshotName, Snapshots
from albireo.log.store.store import Store
from albireo.model.position import Position

PRUNED_MAX: Final = 64
"""Most segments that go at once: whatever was meant by it can be stopped still."""


class PrunedSegment(msgspec.Struct, frozen=True):
    """A segment that was deleted."""

    first_sequence: int
    last_sequence: int
    size_bytes: int


class LogRetention:
    """Keeps and deletes for one log. The caller's thread decides, the housekeeper writes and deletes files."""

    def __init__(
        self, files: FileSystem, directory: Path, config: LogConfig, store: Store, do: Callable[[Task], None]
    ) -> None:
        self._files = files
        self._directory = directory / SEGMENTS
        self._snapshots = Snapshots(files, directory / SNAPSHOTS, directory / QUARANTINE, config.snapshots_kept)
        self._store = store
        self._do = do
        self._table: SegmentTable
        self._reader: SegmentReader
        self._is_writing = False
        self.snapshot = Position()
        """Position of the last snapshot saved since open."""
        self.trouble = ""
        """Why the last snapshot or deletion failed, or could not be read; empty: none. The log itself goes on."""

    def attach(self, stored: StoredLog) -> None:
        """Take the segments as an open or a cut left them."""
        self._table = stored.table
        self._reader = stored.reader

    def save(self, snapshot: Snapshot) -> bool:
        """Have the housekeeper write a snapshot; False while the previous one is still being written."""
        if self._is_writing:
            return False
        self._is_writing = True
        self._do(partial(self._write, snapshot))
        return True

    def load(self, committed_sequence: int) -> Iterator[Snapshot]:
        """As `Log.load_snapshots`."""
        for snapshot in self._snapshots.load():
            self._tell_rejected()
            sequence = snapshot.position.sequence
            if sequence > committed_sequence or sequence + 1 < self._reader.begin_sequence:
                continue
            if self._fits(snapshot):
                yield snapshot
        self._tell_rejected()

    def _tell_rejected(self) -> None:
        if self._snapshots.rejected:
            self.trouble = f"unreadable snapshots, kept in quarantine: {', '.join(self._snapshots.rejected)}"
            self._snapshots.rejected.clear()

    def delete_above(self, sequence: int) -> list[SnapshotName]:
        return self._snapshots.delete_above(sequence)

    def prune(self, wanted_from: int, committed_sequence: int) -> list[PrunedSegment]:
        """As `Log.prune`."""
        segments = self._table.segments
        # The last committed frame stays: the next snapshot is named after it, and chain and log time go on from it.
        count = min(
            PRUNED_MAX,
            prunable(segments, min(wanted_from - 1, self._snapshots.oldest_sequence(), committed_sequence - 1)),
        )
        if not count:
            return []
        gone = segments[:count]
        self._table.drop_oldest(count)
        for segment in gone:
            self._reader.forget(segment)
        self._reader.begin_sequence = gone[-1].last_sequence + 1
        self._do(partial(self._delete, gone, self._reader.begin_sequence))
        return [PrunedSegment(one.first_sequence, one.last_sequence, one.capacity_bytes) for one in gone]

    def _write(self, snapshot: Snapshot) -> None:
        try:
            # A snapshot proves a commit position that no frame may know yet; recovery has to know it.
            if snapshot.position.sequence > self._store.header.committed_sequence:
                self._store.update(committed_sequence=snapshot.position.sequence)
            self._snapshots.save(snapshot)
            self.snapshot = snapshot.position
            self.trouble = ""
        except (SnapshotFailed, OSError) as error:
            self.trouble = str(error)
        finally:
            self._is_writing = False

    def _fits(self, snapshot: Snapshot) -> bool:
        """True unless another frame stands where the snapshot was taken; damage of that frame proves nothing."""
        sequence, base = snapshot.position.sequence, self._store.header.base
        if base is not None and base.position.sequence == sequence:
            crc = base.header_crc
        elif sequence < self._reader.begin_sequence:
            return True
        else:
            try:
                crc = self._reader.header_at(sequence).header_crc
            except Corrupted:
                return True
        if crc == snapshot.frame_crc:
            return True
        self._snapshots.reject(SnapshotName(snapshot.position, snapshot.frame_crc))
        return False

    def _delete(self, gone: Sequence[Segment], begin_sequence: int) -> None:
        """Delete segments once the header says so, because a missing segment would count as damage otherwise."""
        try:
            self._store.update(begin_sequence=begin_sequence)
            for segment in gone:
                with contextlib.suppress(FileNotFoundError):
                    self._files.unlink(segment.index_path)
                self._files.unlink(segment.path)
            self._files.sync_directory(self._directory)
        except OSError as error:
            self.trouble = f"old segments could not be deleted: {error.strerror or error}"


def prunable(segments: Sequence[Segment], needless_sequence: int) -> int:
    """Number of segments that may go, counted from the oldest.

    Args:
        segments: oldest first.
        needless_sequence: records above it are needed: the oldest kept snapshot, the end, or somebody lacks them.
    """
    count = 0
    for segment in segments:
        if not segment.is_sealed or segment.last_sequence > needless_sequence:
            break
        count += 1
    return count
