"""Putting groups of frames into segments, and preparing the next segment.

Neither class knows threads: `commit.py` runs the writer in the sync thread and the preparer in the housekeeper; tests
and simulations run both in their own.

Zero-filling ahead makes a commit a pure data write: no block is allotted and no length changes, so fdatasync needs no
journal commit (measured: 1.45 to 1.65 times more durable commits per second). It also means that a full disk is met
while the *next* segment is made, where it costs nothing but the admission of new records.
"""

import contextlib
from pathlib import Path
from typing import Final

from albireo.codec.frame import padding
from albireo.log.config import LogConfig
from albireo.log.files import Buffer, FileSystem, opened, write_all
from albireo.log.segment.segment import FILLING, PREPARED, Segment, name_of
from albireo.log.segment.table import Queued, SegmentTable

_FILL_CHUNK: Final = 1024 * 1024
_JOIN_BYTES_MAX: Final = 64 * 1024
"""Groups up to this size are joined into one buffer: cheaper than a vector per part."""


class Preparer:
    """Makes the next segment. `step` tries once; `reason` says why there is none."""

    def __init__(self, files: FileSystem, directory: Path, config: LogConfig) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self.is_ready = PREPARED in files.names(directory)
        self.reason = ""
        self._full: Segment | None = None

    def step(self) -> None:
        """Prepare a segment unless one is ready; an error of the file system becomes `reason`."""
        if self.is_ready:
            return
        self._forget_the_full()
        needed = self._config.segment_bytes + self._config.free_bytes_min
        try:
            free = self._files.free_bytes(self._directory)
            if free < needed:
                self.reason = (
                    f"disk full: {free} bytes free in {self._directory}, the next log segment needs {needed}: make room"
                )
                return
            self._fill()
        except OSError as error:
            why = f"{error.strerror or error} ({error.errno})"
            self.reason = f"the next log segment of {needed} bytes can't be prepared in {self._directory}: {why}"
            with contextlib.suppress(OSError):
                self._files.unlink(self._directory / FILLING)
            return
        self.reason = ""
        self.is_ready = True

    def take(self, first_sequence: int, full: Segment | None) -> Path:
        """Give the prepared segment its name. Call only when `is_ready`.

        Args:
            full: the segment before it.

        Raises:
            OSError: is fatal, as every error of a prepared segment is.
        """
        assert self.is_ready
        path = self._directory / name_of(first_sequence)
        self._files.rename(self._directory / PREPARED, path)
        self._files.sync_directory(self._directory)
        self._full = full
        self.is_ready = False
        return path

    def _forget_the_full(self) -> None:
        """Give the full segment's page cache to the next one: readers near the end use the log's tail (ADR-0132)."""
        if self._full is None:
            return
        with contextlib.suppress(OSError):  # Pruned by now, perhaps.
            with opened(self._files, self._full.path) as handle:
                self._files.forget(handle, self._full.capacity_bytes, 0)
        self._full = None

    def _fill(self) -> None:
        size = self._config.segment_bytes
        filling = self._directory / FILLING
        zeros = memoryview(bytes(min(_FILL_CHUNK, size)))
        handle = self._files.open(filling, create=True)
        try:
            for offset in range(0, size, len(zeros)):
                write_all(self._files, handle, [zeros[: size - offset]], offset)
                # One sync at the end would hold up the commits that go on meanwhile.
                self._files.sync(handle)
        finally:
            self._files.close(handle)
        self._files.rename(filling, self._directory / PREPARED)
        self._files.sync_directory(self._directory)


class SegmentWriter:
    """Owns the end of the log on disk. An OSError out of it is fatal: the caller must never call it again."""

    def __init__(self, files: FileSystem, config: LogConfig, table: SegmentTable, preparer: Preparer) -> None:
        self._files = files
        self._config = config
        self._table = table
        self._preparer = preparer
        self.rolls = 0
        """Number of prepared segments taken; after each the next one is wanted."""
        self._handle = -1
        last = table.segments[-1] if table.segments else None
        self._segment = last if last is not None and not last.is_sealed else None
        if self._segment is not None:
            self._handle = files.open(self._segment.path)

    def write(self, group: list[Queued]) -> int:
        """Write a group and make it durable.

        Returns:
            Number of frames that are durable now; fewer than all when the next segment is not ready.
        """
        buffers: list[Buffer] = []
        start = self._segment.summary.end_offset if self._segment is not None else 0
        for count, queued in enumerate(group):
            header = queued.frame.header
            segment = self._segment
            if segment is None or segment.room_bytes < header.frame_bytes:
                self._flush(buffers, start)
                if not self._preparer.is_ready:
                    return count
                segment = self._roll(header.first_sequence)
                buffers, start = [], 0
            segment.note(header, segment.summary.end_offset, self._config.index_every_bytes)
            buffers.append(queued.encoded)
            buffers.append(queued.frame.body)
            if header.body_bytes % 8:
                buffers.append(padding(header.body_bytes))
        self._flush(buffers, start)
        return len(group)

    def close(self) -> None:
        if self._handle >= 0:
            self._files.close(self._handle)
            self._handle = -1

    def _flush(self, buffers: list[Buffer], start: int) -> None:
        if not buffers:
            return
        assert self._segment is not None
        if self._segment.summary.end_offset - start <= _JOIN_BYTES_MAX:
            joined = b"".join(buffers)
            taken = self._files.pwrite_durably(self._handle, joined, start)  # Each call also hands the GIL over twice.
            if taken == len(joined):
                return
            buffers, start = [joined[taken:]], start + taken
        write_all(self._files, self._handle, buffers, start)
        self._files.sync(self._handle)

    def _roll(self, first_sequence: int) -> Segment:
        """Seal the segment that is full and go on in the prepared one."""
        self.close()
        if self._segment is not None:
            self._segment.is_sealed = True
        path = self._preparer.take(first_sequence, self._segment)
        self.rolls += 1
        self._handle = self._files.open(path)
        self._segment = Segment(path, first_sequence, self._files.size(self._handle))
        self._table.add(self._segment)
        return self._segment
