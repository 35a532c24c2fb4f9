"""Repair of damaged committed records with the same frames from the other member of a pair.

    the damage                                     what happens
    lies between valid frames, its place is known  the frames are written there, byte for byte as they were
    is the end of a segment, or a whole segment    the frames become a segment of their own, put in place whole

A range may be repaired in pieces, from its beginning on. A frame counts only if it has the sequences that are missing,
the epoch that the history names, and chains to the frame before it and, once the range is complete, to the frame behind
it. A sidecar is deleted before its segment is touched, so after a crash a scan finds what is really there.

Spec: ADR-0112.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader, frames
from albireo.log.config import LogConfig
from albireo.log.errors import Corrupted, FramesRefused, ReadFailed, RepairFailed
from albireo.log.files import FileSystem, opened, write_all, write_aside
from albireo.log.segment.cutting import zero_from
from albireo.log.segment.reader import SegmentReader
from albireo.log.segment.recovery import CorruptRange
from albireo.log.segment.segment import Damage, Segment, name_of
from albireo.log.segment.table import SegmentTable
from albireo.log.store.store import Base
from albireo.model.position import EpochHistory


class Piece(msgspec.Struct, frozen=True):
    """Verified frames for the beginning of a damaged range."""

    headers: tuple[FrameHeader, ...]
    data: memoryview
    is_last: bool
    """True: the piece completes the range."""

    @property
    def first_sequence(self) -> int:
        return self.headers[0].first_sequence

    @property
    def last_sequence(self) -> int:
        return self.headers[-1].last_sequence


class Repairer:
    """Repairs segments in the thread that reads. The caller keeps sidecars from being written meanwhile."""

    def __init__(
        self, files: FileSystem, directory: Path, config: LogConfig, table: SegmentTable, reader: SegmentReader
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._table = table
        self._reader = reader

    def verified(
        self, chunk: bytes | memoryview, corrupt: Sequence[CorruptRange], history: EpochHistory, base: Base | None
    ) -> Piece:
        """Frames of `chunk` that repair the range with which it begins. Raises FramesRefused."""
        try:
            headers = [header for header, _ in frames(chunk)]
        except DecodeError as error:
            raise FramesRefused(f"offset {error.offset}: {error.reason}") from error
        found = [one for one in corrupt if headers and one.first_sequence == headers[0].first_sequence]
        if not found:
            raise FramesRefused("no known damage begins where they begin")
        damaged = found[0]
        headers = [header for header in headers if header.last_sequence <= damaged.last_sequence]
        if not headers:
            raise FramesRefused(f"the first frame goes beyond the damage, which ends at {damaged.last_sequence}")
        self._check(headers, self._crc_before(damaged.first_sequence, base), history)
        piece = Piece(
            tuple(headers),
            memoryview(chunk)[: sum(header.frame_bytes for header in headers)],
            headers[-1].last_sequence == damaged.last_sequence,
        )
        if piece.is_last:
            self._check_behind(piece)
        return piece

    def _check(self, headers: Sequence[FrameHeader], crc: int | None, history: EpochHistory) -> None:
        expected = headers[0].first_sequence
        for header in headers:
            if header.log_id != self._reader.log_id:
                raise FramesRefused("frame of another log")
            if header.first_sequence != expected:
                raise FramesRefused(f"sequence {header.first_sequence} where {expected} belongs")
            if header.epoch != history.epoch_of(expected):
                raise FramesRefused(f"epoch {header.epoch} where the history says {history.epoch_of(expected)}")
            if crc is not None and header.previous_header_crc != crc:
                raise FramesRefused(f"frame {expected} does not follow the one before it")
            expected, crc = header.last_sequence + 1, header.header_crc

    def _crc_before(self, sequence: int, base: Base | None) -> int | None:
        """Header CRC to which the frame at `sequence` chains; None when that frame is gone by retention."""
        if base is not None and base.position.sequence == sequence - 1:
            return base.header_crc
        if sequence <= self._reader.begin_sequence:
            return 0 if sequence == 1 else None
        try:
            return self._reader.header_at(sequence - 1).header_crc
        except (Corrupted, ReadFailed) as error:
            raise FramesRefused(f"what stands before them must be repaired first: {error}") from error

    def _check_behind(self, piece: Piece) -> None:
        """Check that the next frame, if it can be read, chains to the piece, or to nothing because that was lost."""
        following = piece.last_sequence + 1
        if all(segment.last_sequence < following for segment in self._table.segments):
            return
        try:
            crc = self._reader.header_at(following).previous_header_crc
        except (Corrupted, ReadFailed):
            return
        if crc not in (0, piece.headers[-1].header_crc):
            raise FramesRefused(f"frame {following} does not follow them")

    def apply(self, piece: Piece) -> None:
        """Put the frames in place; durable when this returns. Raises FramesRefused, RepairFailed."""
        segment, damage = self._place_of(piece.first_sequence)
        try:
            if segment is not None and damage is not None and damage.end_offset <= segment.summary.end_offset:
                self._write_between(segment, damage, piece)
            else:
                self._write_aside(segment, damage, piece)
        except OSError as error:
            name = segment.path.name if segment is not None else name_of(piece.first_sequence)
            raise RepairFailed(name, error) from error

    def _place_of(self, sequence: int) -> tuple[Segment | None, Damage | None]:
        for segment in self._table.segments:
            for damage in segment.summary.damages:
                if damage.first_sequence == sequence:
                    return segment, damage
        return None, None

    def _write_between(self, segment: Segment, damage: Damage, piece: Piece) -> None:
        size = len(piece.data)
        room = damage.end_offset - damage.offset
        if size > room or (piece.is_last and size != room):
            raise FramesRefused(f"they take {size} bytes, the damage {room}")
        segment.drop_sidecar(self._files)
        with opened(self._files, segment.path) as handle:
            write_all(self._files, handle, [piece.data], damage.offset)
            self._files.sync(handle)
        rest = Damage(
            damage.offset + size, damage.end_offset, piece.last_sequence + 1, damage.next_sequence, damage.reason
        )
        segment.mend(damage, None if piece.is_last else rest, piece.headers)

    def _write_aside(self, segment: Segment | None, damage: Damage | None, piece: Piece) -> None:
        """Put the new segment in place, then remove the lost end; that both are there in between harms nothing."""
        path = self._directory / name_of(piece.first_sequence)
        mended = Segment(path, piece.first_sequence, len(piece.data))
        mended.drop_sidecar(self._files)  # The sidecar of a segment that was lost, or is empty now.
        for one in self._table.segments:
            if one.first_sequence == piece.first_sequence:
                self._reader.forget(one)
        write_aside(self._files, path, [piece.data])
        offset = 0
        for header in piece.headers:
            mended.note(header, offset, self._config.index_every_bytes)
            offset += header.frame_bytes
        mended.is_sealed = True
        self._table.put(mended)
        if segment is not None and damage is not None and segment.path != path:
            segment.drop_sidecar(self._files)
            zero_from(self._files, segment.path, damage.offset)
            segment.mend(damage, None, ())
            segment.summary.last_header_crc = piece.headers[0].previous_header_crc


def shrunk(ranges: Sequence[CorruptRange], piece: Piece) -> list[CorruptRange]:
    """Known damage that is left once a piece of it is repaired."""
    left: list[CorruptRange] = []
    for one in ranges:
        if one.first_sequence != piece.first_sequence:
            left.append(one)
        elif one.last_sequence > piece.last_sequence:
            offset = one.offset + len(piece.data)
            left.append(msgspec.structs.replace(one, first_sequence=piece.last_sequence + 1, offset=offset))
    return left
