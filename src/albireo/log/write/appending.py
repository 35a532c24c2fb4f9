"""The appending side: where the log ends, and what the next frame must continue.

Own entries get epoch, sequence, chain and log time here. Frames of a pair's holder bring all of these, and are taken
only if they continue this log exactly. Both come out as one group for the sync thread.
"""

from collections.abc import Sequence

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import BODY_BYTES_MAX, HEADER_BYTES, Frame, FrameHeader, Origin, frame_bytes, frames, seal
from albireo.log.config import LogConfig
from albireo.log.errors import Backlogged, EntryTooLarge, FramesRefused
from albireo.log.segment.table import Queued
from albireo.model.position import EpochHistory, Position


class Entry(msgspec.Struct, frozen=True):
    """A batch to append, as its producer made it."""

    stream: int
    kind: int
    record_count: int
    body: bytes | memoryview
    body_crc: int
    """CRC-32C, computed by the producer; the caller has checked it."""
    flags: int = 0
    origin: Origin | None = None


class End(msgspec.Struct, frozen=True):
    """End of a log."""

    position: Position
    header_crc: int
    """CRC of the last frame's header; 0: there is no frame, or it is lost."""
    log_time_ms: int


class Stamp(msgspec.Struct, frozen=True):
    """Fields of an own frame besides its place in the log."""

    epoch: int
    elapsed_ms: int
    node_ns: int
    committed_sequence: int


class Appender:
    """The end of the log, durable or not, and the frames that continue it."""

    def __init__(self, config: LogConfig, log_id: bytes, end: End) -> None:
        self._log_id = log_id
        self._pending_bytes_max = config.pending_bytes_max
        self._frame_bytes_max = config.segment_bytes
        self._body_bytes_max = min(BODY_BYTES_MAX, config.segment_bytes - HEADER_BYTES)
        self.appended_bytes = 0
        """Bytes of frames appended since open, or since a cut."""
        self.set_end(end)

    def set_end(self, end: End) -> None:
        self.end = end.position
        self.next_sequence = end.position.sequence + 1
        self._chain = end.header_crc
        self.log_time_ms = end.log_time_ms

    def own(self, entries: Sequence[Entry], stamp: Stamp, pending_bytes: int) -> list[Queued]:
        """Make frames of own entries, of all or of none. Raises EntryTooLarge, Backlogged."""
        added = 0
        for entry in entries:
            if len(entry.body) > self._body_bytes_max:
                raise EntryTooLarge(len(entry.body), self._body_bytes_max)
            added += frame_bytes(len(entry.body))
        if pending_bytes + added > self._pending_bytes_max:
            raise Backlogged(pending_bytes)
        group = [self._queued(entry, stamp, 0 if place else stamp.elapsed_ms) for place, entry in enumerate(entries)]
        if group:
            self.end = group[-1].frame.header.last
        return group

    def _queued(self, entry: Entry, stamp: Stamp, elapsed_ms: int) -> Queued:
        body = entry.body
        self.log_time_ms += elapsed_ms
        header, encoded = seal(
            FrameHeader(
                self._log_id,
                stamp.epoch,
                self.next_sequence,
                entry.record_count,
                entry.stream,
                entry.kind,
                len(body),
                entry.body_crc,
                self._chain,
                entry.flags,
                elapsed_ms,
                self.log_time_ms,
                stamp.node_ns,
                stamp.committed_sequence,
                entry.origin,
            )
        )
        self._chain = header.header_crc
        self.next_sequence += entry.record_count
        self.appended_bytes += header.frame_bytes
        return Queued(encoded, Frame(header, body), self.appended_bytes)

    def raw(self, chunk: bytes | memoryview, history: EpochHistory, pending_bytes: int) -> list[Queued]:
        """Take the holder's frames, all or none. Raises FramesRefused, Backlogged."""
        data = bytes(chunk)  # No copy when it is bytes; a view could change under us before it is written.
        if pending_bytes + len(data) > self._pending_bytes_max:
            raise Backlogged(pending_bytes)
        found = self._continuing(data, history)
        group: list[Queued] = []
        place, total = 0, self.appended_bytes
        for frame in found:
            total += frame.header.frame_bytes
            group.append(Queued(data[place : place + HEADER_BYTES], frame, total))
            place += frame.header.frame_bytes
        if found:
            last = found[-1].header
            self.set_end(End(last.last, last.header_crc, last.log_time_ms))
        self.appended_bytes = total
        return group

    def again(self, group: list[Queued]) -> list[Queued]:
        """Append frames once more that were appended before a cut and stay."""
        kept: list[Queued] = []
        for queued in group:
            self.appended_bytes += queued.frame.header.frame_bytes
            kept.append(msgspec.structs.replace(queued, total_bytes=self.appended_bytes))
        last = group[-1].frame.header
        self.set_end(End(last.last, last.header_crc, last.log_time_ms))
        return kept

    def mend(self, header: FrameHeader) -> None:
        """Chain the next frame to the last one, which was lost and has been repaired."""
        if header.last_sequence + 1 == self.next_sequence and not self._chain:
            self.set_end(End(header.last, header.header_crc, header.log_time_ms))

    def _continuing(self, data: bytes, history: EpochHistory) -> list[Frame]:
        found: list[Frame] = []
        end = End(self.end, self._chain, self.log_time_ms)
        try:
            for header, body in frames(data):
                reason = self._why_refused(header, end, history)
                if reason:
                    raise FramesRefused(reason)
                end = End(header.last, header.header_crc, header.log_time_ms)
                found.append(Frame(header, body))
        except DecodeError as error:
            raise FramesRefused(f"offset {error.offset}: {error.reason}") from error
        return found

    def _why_refused(self, header: FrameHeader, end: End, history: EpochHistory) -> str:
        """Reason to refuse a frame, or empty if it continues a log that ends at `end`."""
        sequence = end.position.sequence + 1
        if header.log_id != self._log_id:
            return "frame of another log"
        if header.first_sequence != sequence:
            return f"sequence {header.first_sequence} where {sequence} belongs"
        if header.epoch < end.position.epoch:
            return f"epoch {header.epoch} behind epoch {end.position.epoch}"
        if header.epoch != history.epoch_of(sequence):
            return f"epoch {header.epoch} where the history says {history.epoch_of(sequence)}"
        # The chain of a log whose end is lost is not known: the other member's frames bring it back.
        is_known = end.header_crc != 0 or sequence == 1
        if is_known and header.previous_header_crc != end.header_crc:
            return f"frame {sequence} does not follow the one before it"
        if is_known and header.log_time_ms != end.log_time_ms + header.elapsed_ms:
            return f"log time of frame {sequence} does not follow"
        if header.frame_bytes > self._frame_bytes_max:
            most = self._frame_bytes_max
            return f"a frame of {header.frame_bytes} bytes, segments hold {most}: make them as large as the holder's"
        return ""
