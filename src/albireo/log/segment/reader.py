"""Reading committed frames, at the head and far behind it.

Every frame handed out has been checked: header CRC, log id, sequence, body CRC. A read that meets unknown damage has
the segment scanned once; from then on reads go around the damage and raise `Corrupted`. Used by one thread.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.frame import HEADER_BYTES, Frame, FrameHeader, NeedMore, check_body, decode_header
from albireo.log.config import LogConfig
from albireo.log.errors import Corrupted, Pruned, ReadFailed
from albireo.log.files import FileSystem
from albireo.log.segment.recovery import CorruptRange
from albireo.log.segment.scan import Window, scan
from albireo.log.segment.segment import Damage, Segment
from albireo.log.segment.table import SegmentTable

_CURSORS_MAX: Final = 256
"""Remembered ends of reads: a follower that reads on finds its place without the index."""
_READ_BYTES_MIN: Final = 16 * 1024


class SegmentReader:
    """Finds and checks frames. Errors are those of `Log.read`."""

    def __init__(
        self, files: FileSystem, config: LogConfig, table: SegmentTable, log_id: bytes, begin_sequence: int
    ) -> None:
        self._files = files
        self._config = config
        self._table = table
        self.log_id = log_id
        self._handles: OrderedDict[Segment, int] = OrderedDict()
        self._cursors: OrderedDict[int, tuple[Segment, int]] = OrderedDict()
        self.begin_sequence = begin_sequence
        """First sequence that is not gone by retention; from here on a missing segment is damage."""
        self.found: list[CorruptRange] = []
        """Damage that reads and scrub have met since open."""

    def read(self, after_sequence: int, to_sequence: int, bytes_max: int) -> bytes:
        """Whole frames of one segment that begin in (after_sequence, to_sequence], or hold after_sequence + 1.

        At least one frame if there is any; b"" when after_sequence >= to_sequence.
        """
        return self._read(after_sequence, to_sequence, bytes_max)[0]

    def select(
        self, after_sequence: int, to_sequence: int, bytes_max: int, streams: Collection[int]
    ) -> tuple[bytes, int]:
        """As `Log.select`: frames of some streams as `read` gives them, and the sequence up to which all were looked
        at. By the index most stretches without any are not read."""
        wanted = after_sequence + 1
        if wanted > to_sequence:
            return b"", after_sequence
        segment, _ = self._segment_of(wanted, to_sequence)
        begin, end = segment.stretch_of(streams, wanted, self._files) if streams else (wanted, to_sequence)
        if begin > min(to_sequence, segment.last_sequence):
            return b"", min(to_sequence, segment.last_sequence)
        chunk, headers = self._read(begin - 1, min(end, to_sequence), bytes_max)
        parts, place = [], 0
        for header in headers:
            if not streams or header.stream in streams:
                parts.append(chunk[place : place + header.frame_bytes])
            place += header.frame_bytes
        return chunk if len(parts) == len(headers) else b"".join(parts), headers[-1].last_sequence

    def frames(self, after_sequence: int, to_sequence: int, bytes_max: int) -> Iterator[Frame]:
        """The same, decoded."""
        chunk, headers = self._read(after_sequence, to_sequence, bytes_max)
        view, place = memoryview(chunk), HEADER_BYTES
        for header in headers:
            yield Frame(header, view[place : place + header.body_bytes])
            place += header.frame_bytes

    def _read(self, after_sequence: int, to_sequence: int, bytes_max: int) -> tuple[bytes, list[FrameHeader]]:
        """Frames end to end, and their headers."""
        wanted = after_sequence + 1
        if wanted > to_sequence:
            return b"", []
        segment, limit = self._segment_of(wanted, to_sequence)
        try:
            try:
                return self._collect(segment, wanted, to_sequence, limit, bytes_max)
            except DecodeError:
                self.inspect(segment, to_sequence)
                return self._collect(segment, wanted, to_sequence, limit, bytes_max)
        except DecodeError as error:
            # Damaged between two looks, or while it is looked at.
            raise Corrupted(wanted, wanted, error.reason) from error
        except OSError as error:
            raise ReadFailed(segment.path.name, error) from error

    def header_at(self, sequence: int) -> FrameHeader:
        """Header of the committed frame that holds `sequence`."""
        header = decode_header(self.read(sequence - 1, sequence, 1))
        assert isinstance(header, FrameHeader)
        return header

    def inspect(self, segment: Segment, to_sequence: int) -> list[Damage]:
        """Scan a segment for damage at or below `to_sequence`, note it, and return the damage that was not known."""
        fresh = Segment(segment.path, segment.first_sequence, segment.capacity_bytes)
        end = segment.summary.end_offset
        scan(
            Window(self._files, self._handle(segment), end),
            fresh,
            self.log_id,
            previous_header_crc=None,
            sequence_limit=segment.last_sequence + 1,
            index_every_bytes=self._config.index_every_bytes,
        )
        damages = fresh.summary.damages
        if fresh.last_sequence < min(to_sequence, segment.last_sequence) and not fresh.has_lost_end:
            # Zeros up to the end: to a scan they look like room that was never written.
            damages = (*damages, Damage(fresh.summary.end_offset, end, fresh.last_sequence + 1, 0, "frames missing"))
        found = tuple(damage for damage in damages if damage.first_sequence <= to_sequence)
        known = {damage.offset for damage in segment.summary.damages}
        news = [damage for damage in found if damage.offset not in known]
        if news:
            # Known damage can only have grown: bytes do not heal, and a lost end has no valid frame behind it.
            segment.note_damages(tuple(sorted({*segment.summary.damages, *news}, key=lambda damage: damage.offset)))
            self.found += [self._range_of(segment, damage) for damage in news]
        return news

    def forget(self, segment: Segment) -> None:
        """Close a segment that is about to be deleted or replaced."""
        handle = self._handles.pop(segment, None)
        if handle is not None:
            self._files.close(handle)
        for sequence in [key for key, (held, _) in self._cursors.items() if held is segment]:
            del self._cursors[sequence]

    def close(self) -> None:
        for handle in self._handles.values():
            self._files.close(handle)
        self._handles.clear()

    def _range_of(self, segment: Segment, damage: Damage) -> CorruptRange:
        last = damage.next_sequence - 1 if damage.next_sequence else segment.last_sequence
        return CorruptRange(damage.first_sequence, last, segment.path.name, damage.offset, damage.reason)

    def _segment_of(self, wanted: int, to_sequence: int) -> tuple[Segment, int]:
        """The segment that holds `wanted`, and the first sequence behind that segment."""
        if wanted < self.begin_sequence:
            raise Pruned(self.begin_sequence)
        segments = self._table.segments
        at = bisect_right(segments, wanted, key=lambda segment: segment.first_sequence) - 1
        if at < 0:
            last = min(segments[0].first_sequence - 1, to_sequence) if segments else to_sequence
            raise Corrupted(wanted, last, "segment missing")
        segment = segments[at]
        limit = segments[at + 1].first_sequence if at + 1 < len(segments) else to_sequence + 1
        if wanted > segment.last_sequence:
            damages = segment.summary.damages
            raise Corrupted(wanted, limit - 1, damages[-1].reason if damages else "segment missing")
        return segment, limit

    def _collect(
        self, segment: Segment, wanted: int, to_sequence: int, limit: int, bytes_max: int
    ) -> tuple[bytes, list[FrameHeader]]:
        """Frames from the one that holds `wanted` on, up to damage, `to_sequence` or `bytes_max`."""
        for damage in segment.summary.damages:
            behind = damage.next_sequence or limit
            if damage.first_sequence <= wanted < behind:
                raise Corrupted(wanted, behind - 1, damage.reason)
            if damage.first_sequence > wanted:
                to_sequence = min(to_sequence, damage.first_sequence - 1)
        to_sequence = min(to_sequence, segment.last_sequence)
        handle = self._handle(segment)
        start = self._seek(segment, handle, wanted)
        end = segment.summary.end_offset
        buffer = self._files.pread(handle, min(max(bytes_max, _READ_BYTES_MIN), end - start), start)
        first = _whole(decode_header(buffer), start)
        if first.frame_bytes > len(buffer):
            buffer = self._files.pread(handle, first.frame_bytes, start)
        headers: list[FrameHeader] = []
        length, expected, chain = 0, first.first_sequence, first.previous_header_crc
        while expected <= to_sequence:
            header = decode_header(buffer, length)
            if isinstance(header, NeedMore) or length + header.frame_bytes > len(buffer):
                break
            if length and length + header.frame_bytes > bytes_max:
                break
            self._check(header, length, expected)
            if header.previous_header_crc != chain:
                raise DecodeError(start + length, "frame does not follow the one before it")
            check_body(header, buffer, length)
            headers.append(header)
            length += header.frame_bytes
            expected, chain = header.last_sequence + 1, header.header_crc
        if not length:
            raise DecodeError(start, "frame is cut short")
        self._remember(expected, segment, start + length)
        return buffer[:length], headers

    def _seek(self, segment: Segment, handle: int, wanted: int) -> int:
        """Offset of the frame that holds `wanted`."""
        held = self._cursors.get(wanted)
        if held is not None and held[0] is segment:
            return held[1]
        offset, expected = segment.start_for(wanted, self._files)
        end = segment.summary.end_offset
        window = Window(self._files, handle, end, window_bytes=2 * self._config.index_every_bytes, is_strict=True)
        while True:
            header = _whole(decode_header(*window.at(offset, HEADER_BYTES)), offset)
            self._check(header, offset, expected)
            if header.last_sequence >= wanted:
                return offset
            offset += header.frame_bytes
            expected = header.last_sequence + 1

    def _check(self, header: FrameHeader, offset: int, expected: int) -> None:
        if header.log_id != self.log_id or header.first_sequence != expected:
            raise DecodeError(offset, f"sequence {header.first_sequence} where {expected} belongs")

    def _remember(self, sequence: int, segment: Segment, offset: int) -> None:
        if offset < segment.summary.end_offset or not segment.is_sealed:
            self._cursors[sequence] = (segment, offset)
            self._cursors.move_to_end(sequence)
            if len(self._cursors) > _CURSORS_MAX:
                self._cursors.popitem(last=False)

    def _handle(self, segment: Segment) -> int:
        handle = self._handles.get(segment)
        if handle is None:
            handle = self._handles[segment] = self._files.open(segment.path)
            if len(self._handles) > self._config.handles_max:
                oldest, surplus = self._handles.popitem(last=False)
                self._files.close(surplus)
                oldest.forget_index()
        else:
            self._handles.move_to_end(segment)
        return handle


def _whole(header: FrameHeader | NeedMore, offset: int) -> FrameHeader:
    if isinstance(header, NeedMore):
        raise DecodeError(offset, "frame is cut short")
    return header
