"""Scrub: sealed segments are read again, slowly, so that rot is found while somebody still has a good copy.

One step reads a bounded number of bytes and checks every frame in them; after the last sealed segment it begins anew.
The bytes of the next step are fetched from the disk meanwhile, so that a step seldom waits for them.
"""

import contextlib

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import HEADER_BYTES, NeedMore, check_body, decode_header
from albireo.log.errors import ReadFailed
from albireo.log.files import FileSystem, opened
from albireo.log.segment.reader import SegmentReader
from albireo.log.segment.recovery import CorruptRange
from albireo.log.segment.segment import Segment
from albireo.log.segment.table import SegmentTable


class ScrubProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one step."""

    checked_bytes: int
    """Bytes checked; 0: there is no sealed segment."""
    segment: str
    rounds: int
    """Number of times that all sealed segments have been checked since open."""
    found: tuple[CorruptRange, ...]
    """Damage that was not known before."""


class Scrubber:
    """Checks sealed segments step by step. Used by the thread that reads."""

    def __init__(self, files: FileSystem, table: SegmentTable, reader: SegmentReader) -> None:
        self._files = files
        self._table = table
        self._reader = reader
        self._sequence = 0
        self._offset = 0
        self._rounds = 0

    def step(self, bytes_max: int) -> ScrubProgress:
        """Check up to `bytes_max` bytes, at least one frame, of one segment."""
        segment = self._current()
        if segment is None:
            return ScrubProgress(checked_bytes=0, segment="", rounds=self._rounds, found=())
        start = self._offset
        known = len(self._reader.found)
        try:
            self._check(segment, bytes_max)
        except DecodeError:
            self._reader.inspect(segment, segment.last_sequence)
            self._offset = _behind_damage(segment, self._offset)
        except OSError as error:
            raise ReadFailed(segment.path.name, error) from error
        progress = ScrubProgress(
            checked_bytes=self._offset - start,
            segment=segment.path.name,
            rounds=self._rounds,
            found=tuple(self._reader.found[known:]),
        )
        self._fetch_next(segment, start, bytes_max)
        return progress

    def _fetch_next(self, checked: Segment, start: int, bytes_max: int) -> None:
        with contextlib.suppress(OSError):  # Then the next step reads it itself.
            with opened(self._files, checked.path) as handle:
                self._files.forget(handle, self._offset - start, start)
            upcoming = self._current()
            assert upcoming is not None
            with opened(self._files, upcoming.path) as handle:
                self._files.expect(handle, bytes_max, self._offset)

    def _current(self) -> Segment | None:
        """Segment to go on in; the next one when the last is done or gone."""
        sealed = [segment for segment in self._table.segments if segment.is_sealed]
        if not sealed:
            return None
        for segment in sealed:
            if segment.first_sequence < self._sequence:
                continue
            if segment.first_sequence > self._sequence:
                self._sequence, self._offset = segment.first_sequence, 0
            self._offset = _behind_damage(segment, self._offset)
            if self._offset < segment.summary.end_offset:
                return segment
        self._rounds += 1
        self._sequence, self._offset = sealed[0].first_sequence, 0
        self._offset = _behind_damage(sealed[0], 0)
        return sealed[0]

    def _check(self, segment: Segment, bytes_max: int) -> None:
        """Move `_offset` over valid frames, up to known damage. Raises DecodeError at a frame that is not valid."""
        stops = [damage.offset for damage in segment.summary.damages if damage.offset >= self._offset]
        end = min([segment.summary.end_offset, *stops])
        start = self._offset
        chain: int | None = None
        with opened(self._files, segment.path) as handle:
            buffer = self._files.pread(handle, min(max(bytes_max, HEADER_BYTES), end - start), start)
            while self._offset < end:
                place = self._offset - start
                header = decode_header(buffer, place)
                if isinstance(header, NeedMore) or place + header.frame_bytes > len(buffer):
                    if place:
                        return
                    size = HEADER_BYTES if isinstance(header, NeedMore) else header.frame_bytes
                    if size <= len(buffer) or start + size > end:
                        raise DecodeError(self._offset, "frame is cut short")
                    buffer = self._files.pread(handle, size, start)
                    if len(buffer) < size:
                        raise DecodeError(self._offset, "frame is cut short")
                    continue
                check_body(header, buffer, place)
                if chain is not None and header.previous_header_crc != chain:
                    raise DecodeError(self._offset, "frame does not follow the one before it")
                chain = header.header_crc
                self._offset += header.frame_bytes


def _behind_damage(segment: Segment, offset: int) -> int:
    for damage in segment.summary.damages:
        if damage.offset <= offset < damage.end_offset:
            offset = damage.end_offset
    return offset
