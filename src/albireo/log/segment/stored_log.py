"""The stored log: segments as they stand on the disk, their newest frames in memory, and what reads and repairs them.

It is made anew from what recovery finds, at open and after a cut. One thread uses it; the housekeeper calls `tidy`.
"""

import contextlib
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.frame import Frame
from albireo.log.config import LogConfig
from albireo.log.errors import Corrupted, ReadFailed
from albireo.log.files import FileSystem
from albireo.log.segment.reader import SegmentReader
from albireo.log.segment.recovery import CorruptRange, Recovered
from albireo.log.segment.repair import Piece, Repairer, shrunk
from albireo.log.segment.scrub import Scrubber
from albireo.log.segment.table import SegmentTable
from albireo.log.segment.tail import FEED_BYTES, Tail
from albireo.log.store.store import Store, StoreHeader
from albireo.model.log_view import Beginning

_REPLAY_BYTES: Final = 4 * 1024 * 1024


class LogStats(msgspec.Struct, frozen=True, kw_only=True):
    """Figures for diagnostics items and the demo's summary."""

    segments: int
    size_bytes: int
    """Bytes of frames on the disk, without the zeros ahead."""
    pending_bytes: int
    """Bytes that are appended and not yet durable."""
    groups: int
    """Number of syncs since open."""


class StoredLog:
    """See the module."""

    def __init__(self, files: FileSystem, directory: Path, config: LogConfig, store: Store, found: Recovered) -> None:
        self._files = files
        self._store = store
        self.log_id = bytes.fromhex(store.header.log_id)
        self.table = SegmentTable(found.segments)
        self.reader = SegmentReader(files, config, self.table, self.log_id, store.header.begin_sequence)
        self.scrubber = Scrubber(files, self.table, self.reader)
        self.tail = Tail(min(config.tail_bytes_max, FEED_BYTES))
        self._repairer = Repairer(files, directory, config, self.table, self.reader)
        self._found = found.corrupt
        self._beginning: Beginning | None = None
        self._sidecars = threading.Lock()
        """Held while a sidecar is written, and while a segment is repaired."""

    @property
    def corrupt(self) -> tuple[CorruptRange, ...]:
        """As `Log.corrupt`; what retention has let go of since is damage to nothing."""
        begin = self.reader.begin_sequence
        return tuple(one for one in (*self._found, *self.reader.found) if one.last_sequence >= begin)

    @property
    def damaged_from(self) -> int:
        """First sequence of that; 0: there is none. Looked at with each event, so nothing is built for it."""
        if not self._found and not self.reader.found:
            return 0
        return min((one.first_sequence for one in self.corrupt), default=0)

    @property
    def size_bytes(self) -> int:
        return sum(segment.summary.end_offset for segment in self.table.segments)

    def beginning(self, header: StoreHeader) -> Beginning:
        """Beginning of the log; read from its first frame once, until retention or a repair changes it."""
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

    def read(self, after_sequence: int, to_sequence: int, durable_sequence: int, bytes_max: int) -> bytes:
        """As `Log.read_appended`, up to `to_sequence`: from memory, or else from the disk up to `durable_sequence`."""
        recent, _ = self.tail.read(after_sequence, bytes_max, to_sequence)
        return recent or self.reader.read(after_sequence, durable_sequence, bytes_max)

    def select(
        self, after_sequence: int, to_sequence: int, bytes_max: int, streams: Collection[int]
    ) -> tuple[bytes, int]:
        """As `Log.select`, up to `to_sequence`, which is durable."""
        recent, looked_to = self.tail.read(after_sequence, bytes_max, to_sequence, streams)
        if looked_to > after_sequence:
            return recent, looked_to
        return self.reader.select(after_sequence, to_sequence, bytes_max, streams)

    def replay(self, after_sequence: int, to_sequence: int) -> Iterator[Frame]:
        """As `Log.replay`, for frames that are durable."""
        while after_sequence < to_sequence:
            for frame in self.reader.frames(after_sequence, to_sequence, _REPLAY_BYTES):
                yield frame
                after_sequence = frame.header.last_sequence

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
        """Write missing sidecars, which are a cache, so a full disk does not matter; believe claims up to their end."""
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
    """True: claims are believed less far than the end of a sealed segment, which is durable (ADR-0110)."""
    return header.claims_to is not None and header.claims_to < sequence
