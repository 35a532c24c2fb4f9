"""The segments of a log as they stand on the disk, with all that reads, checks and repairs them.

Made anew from what recovery finds, at open and after a cut. Used by one thread but for `tidy`, which the housekeeper
calls.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.frame import Frame, frames
from albireo.log.config import LogConfig
from albireo.log.errors import Corrupted, ReadFailed
from albireo.log.files import FileSystem
from albireo.log.segment.reader import Reader
from albireo.log.segment.recovery import CorruptRange, Recovered
from albireo.log.segment.repair import Piece, Repairer, shrunk
from albireo.log.segment.scrub import Scrubber
from albireo.log.store.store import Store, StoreHeader
from albireo.log.write.writer import SegmentTable
from albireo.model.log_view import Beginning

_REPLAY_BYTES: Final = 4 * 1024 * 1024


class LogStats(msgspec.Struct, frozen=True, kw_only=True):
    """For diagnostics items and the demo's summary."""

    segments: int
    size_bytes: int
    """Frames on disk, without what is zero-filled ahead."""
    pending_bytes: int
    """Appended, not yet durable."""
    groups: int
    """Syncs since open."""


class Stock:
    """See the module."""

    def __init__(self, files: FileSystem, directory: Path, config: LogConfig, store: Store, found: Recovered) -> None:
        self._files = files
        self._store = store
        self.log_id = bytes.fromhex(store.header.log_id)
        self.table = SegmentTable(found.segments)
        self.reader = Reader(files, config, self.table, self.log_id, store.header.begin_sequence)
        self.scrubber = Scrubber(files, self.table, self.reader)
        self._repairer = Repairer(files, directory, config, self.table, self.reader)
        self._found = found.corrupt
        self._beginning: Beginning | None = None
        self._sidecars = threading.Lock()
        """Held while a sidecar is written, and while a segment is repaired."""

    @property
    def corrupt(self) -> tuple[CorruptRange, ...]:
        """Known damage: from recovery, and met since."""
        return (*self._found, *self.reader.found)

    @property
    def damaged_from(self) -> int:
        """First sequence of `corrupt`; 0: there is none."""
        if not self._found and not self.reader.found:
            return 0
        return min(one.first_sequence for one in self.corrupt)

    @property
    def size_bytes(self) -> int:
        return sum(segment.summary.end_offset for segment in self.table.segments)

    def beginning(self, header: StoreHeader) -> Beginning:
        """Where the log begins; read from its first frame once, until retention or a repair changes that."""
        if self._beginning is None or self._beginning.position.sequence + 1 != self.reader.begin_sequence:
            self._beginning = self._look_for_beginning(header)
        return self._beginning

    def _look_for_beginning(self, header: StoreHeader) -> Beginning:
        before, base = self.reader.begin_sequence - 1, header.base
        if not before:
            return Beginning()
        if base is not None and base.position.sequence == before:
            return Beginning(position=base.position, header_crc=base.header_crc, log_time_ms=base.log_time_ms)
        position = header.history.position(before)
        try:
            first = self.reader.header_at(before + 1)
        except (Corrupted, ReadFailed):
            return Beginning(position=position, is_known=False)
        log_time_ms = first.log_time_ms - first.elapsed_ms
        return Beginning(position=position, header_crc=first.previous_header_crc, log_time_ms=log_time_ms)

    def replay(self, after_sequence: int, to_sequence: int) -> Iterator[Frame]:
        """Frames that begin in (after_sequence, to_sequence], in order. Raises as `Log.read` does."""
        while after_sequence < to_sequence:
            for header, body in frames(self.reader.read(after_sequence, to_sequence, _REPLAY_BYTES), verify=False):
                yield Frame(header, body)
                after_sequence = header.last_sequence

    def repair(self, chunk: bytes | memoryview) -> Piece:
        """As `Log.repair`."""
        header = self._store.header
        piece = self._repairer.verified(chunk, self.corrupt, header.history, header.base)
        with self._sidecars:
            self._repairer.apply(piece)
        self._beginning = None
        self._found = tuple(shrunk(self._found, piece))
        self.reader.found[:] = shrunk(self.reader.found, piece)
        return piece

    def tidy(self) -> None:
        """Sidecars for sealed segments: a cache, so a full disk does not matter; claims up to their end count."""
        for segment in self.table.segments:
            if segment.is_sealed and not segment.has_sidecar:
                with contextlib.suppress(OSError), self._sidecars:
                    if segment in self.table.segments:
                        segment.write_sidecar(self._files, self.log_id)
        sealed = [segment.last_sequence for segment in self.table.segments if segment.is_sealed]
        if sealed and _is_behind(self._store.header, sealed[-1]):
            with contextlib.suppress(OSError):
                self._store.update(claims_to=sealed[-1])


def _is_behind(header: StoreHeader, sequence: int) -> bool:
    """A sealed segment is durable to its end, so what frames claim up to there can be believed (ADR-0110)."""
    return header.claims_to is not None and header.claims_to < sequence
