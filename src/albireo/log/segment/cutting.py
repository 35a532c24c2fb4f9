"""Cutting a log back: records that another branch has made wrong leave the log, for quarantine.

    copied      the bytes above the cut in the segment that stays, and the frames that were not written yet
    decided     the mark stands in the store header: from here on the cut happens, before it nothing has happened
    carried out later segments move to quarantine, the rest of the segment is zeroed, a note says why
    done        the mark goes

Each step is durable before the next. `carry_out` may be repeated any number of times; recovery does so while there is a
mark, so after a crash a log is uncut or cut.

Spec: ADR-0111; design/pair.md, rule 6.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.frame import HEADER_BYTES, NeedMore, decode_header, padding
from albireo.log.files import Buffer, FileSystem, opened, write_all
from albireo.log.segment.scan import Window
from albireo.log.segment.segment import INDEX_SUFFIX, Segment, name_of, sequence_of
from albireo.log.segment.table import Queued
from albireo.log.store.quarantine import Quarantine, Quarantined
from albireo.log.store.store import CutMark

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_NOTE_BYTES_MAX: Final = 64 * 1024
"""Room for the note, and for the growth of directories."""
_NO_SEGMENT: Final = 2**63 - 1


class CutNote(msgspec.Struct, frozen=True):
    """Description of a cut, for the note in quarantine."""

    first_sequence: int
    """First sequence that leaves the log."""
    last_sequence: int
    when_ns: int
    why: str
    tag: str


class NotAtAnEnd(ValueError):
    """The sequence is in the middle of a batch."""


def place_of(files: FileSystem, segments: Sequence[Segment], sequence: int) -> tuple[int, int]:
    """(index of the segment, offset in it) at which the records above `sequence` begin; (count, 0) when there are none.

    Raises:
        NotAtAnEnd: no frame ends there.
        DecodeError: damage that the segment's summary does not know.
        OSError: the segment can't be read.
    """
    for index, segment in enumerate(segments):
        if segment.first_sequence > sequence:
            return index, 0
        if segment.last_sequence > sequence:
            return index, _offset_behind(files, segment, sequence)
        if segment.has_lost_end and segment.summary.damages[-1].first_sequence > sequence:
            return index, segment.summary.damages[-1].offset
    return len(segments), 0


def copied_bytes_max(segments: Sequence[Segment], sequence: int) -> int:
    """Most bytes that a cut behind `sequence` copies to quarantine; whole segments are moved there and take no room."""
    stays = [one for one in segments if one.first_sequence <= sequence < one.last_sequence]
    return sum(one.summary.end_offset for one in stays) + _NOTE_BYTES_MAX


def _offset_behind(files: FileSystem, segment: Segment, sequence: int) -> int:
    """Offset of the first frame, or damage, above `sequence`."""
    stops = {damage.offset: damage for damage in segment.summary.damages}
    offset, first = segment.start_for(sequence + 1, files)
    with opened(files, segment.path) as handle:
        window = Window(files, handle, segment.summary.end_offset, is_strict=True)
        while first <= sequence:
            if offset in stops:
                return stops[offset].end_offset
            header = decode_header(*window.at(offset, HEADER_BYTES))
            assert not isinstance(header, NeedMore)
            offset += header.frame_bytes
            first = header.last_sequence + 1
    if first != sequence + 1:
        raise NotAtAnEnd(f"sequence {sequence} is in the middle of a batch that ends at {first - 1}")
    return offset


class Cutter:
    """Cuts the files of a store to which nobody else writes meanwhile."""

    def __init__(self, files: FileSystem, directory: Path, quarantine: Quarantine) -> None:
        self._files = files
        self._directory = directory
        self._quarantine = quarantine

    def prepare(self, segments: Sequence[Segment], dropped: Sequence[Queued], note: CutNote) -> CutMark:
        """Copy to quarantine what can't be moved there; returns the mark by which the cut is decided.

        Args:
            dropped: frames above the cut that were never written.

        Raises: as `place_of`.
        """
        sequence = note.first_sequence - 1
        if dropped and dropped[0].frame.header.first_sequence <= sequence:
            raise NotAtAnEnd(f"sequence {sequence} is in the middle of a batch")
        index, offset = place_of(self._files, segments, sequence)
        copies = [self._copy(segments[index], offset, note.tag)] if offset else []
        if dropped:
            copies.append(self._copy_queued(dropped, note.tag))
        written = sum(segment.summary.end_offset for segment in segments[index:]) - offset
        return CutMark(
            segment=segments[index].first_sequence if index < len(segments) else _NO_SEGMENT,
            offset=offset,
            tag=note.tag,
            first_sequence=note.first_sequence,
            last_sequence=note.last_sequence,
            size_bytes=written + sum(queued.frame.header.frame_bytes for queued in dropped),
            when_ns=note.when_ns,
            why=note.why,
            files=tuple(copies),
        )

    def _copy(self, segment: Segment, offset: int, tag: str) -> str:
        """Keep the bytes of a segment from `offset` on; returns the name of the copy."""
        name = _cut_name(segment.first_sequence, str(offset), tag)
        self._quarantine.keep(name, bytes_from(self._files, segment, offset))
        return name

    def _copy_queued(self, queued: Sequence[Queued], tag: str) -> str:
        name = _cut_name(queued[0].frame.header.first_sequence, "queued", tag)
        buffers: list[Buffer] = []
        for one in queued:
            buffers += (one.encoded, one.frame.body, padding(one.frame.header.body_bytes))
        self._quarantine.keep(name, buffers)
        return name

    def carry_out(self, mark: CutMark) -> None:
        """Carry out the cut of `mark`, as far as it is not done yet."""
        names = self._files.names(self._directory)
        firsts = [first for first in map(sequence_of, names) if first is not None]
        leaving = [first for first in firsts if first > mark.segment or (first == mark.segment and not mark.offset)]
        for first in leaving:
            self._drop_sidecar(first, names)
            target = self._quarantine.directory / _cut_name(first, "0", mark.tag)
            self._files.rename(self._directory / name_of(first), target)
        self._files.sync_directory(self._quarantine.directory)
        if mark.segment in firsts and mark.offset:
            self._drop_sidecar(mark.segment, names)
            zero_from(self._files, self._directory / name_of(mark.segment), mark.offset)
        self._files.sync_directory(self._directory)
        if mark.size_bytes:
            self._quarantine.note(self._note_of(mark))

    def _note_of(self, mark: CutMark) -> Quarantined:
        moved = [name for name in self._files.names(self._quarantine.directory) if name.endswith(f"-0-{mark.tag}.cut")]
        return Quarantined(
            name=f"{mark.first_sequence:020d}-{mark.tag}.note",
            first_sequence=mark.first_sequence,
            last_sequence=mark.last_sequence,
            size_bytes=mark.size_bytes,
            when_ns=mark.when_ns,
            why=mark.why,
            files=(*mark.files, *moved),
        )

    def _drop_sidecar(self, first: int, names: Sequence[str]) -> None:
        index = (self._directory / name_of(first)).with_suffix(INDEX_SUFFIX)
        if index.name in names:
            self._files.unlink(index)


def bytes_from(files: FileSystem, segment: Segment, offset: int) -> list[Buffer]:
    """Bytes of a segment from `offset` on, trailing zeros left out."""
    with opened(files, segment.path) as handle:
        end = Window(files, handle, segment.capacity_bytes).last_nonzero(offset)
        window = Window(files, handle, end, window_bytes=_CHUNK_BYTES)
        parts: list[Buffer] = []
        for at in range(offset, end, _CHUNK_BYTES):
            buffer, place = window.at(at, min(_CHUNK_BYTES, end - at))
            parts.append(memoryview(buffer)[place : place + _CHUNK_BYTES])
        return parts


def zero_from(files: FileSystem, path: Path, offset: int) -> None:
    """Overwrite a file with zeros from `offset` to its end, and sync it."""
    with opened(files, path) as handle:
        end = Window(files, handle, files.size(handle)).last_nonzero(offset)
        zeros = memoryview(bytes(min(_CHUNK_BYTES, end - offset)))
        while offset < end:
            offset = write_all(files, handle, [zeros[: end - offset]], offset)
        files.sync(handle)


def _cut_name(first_sequence: int, place: str, tag: str) -> str:
    return f"{first_sequence:020d}-{place}-{tag}.cut"
