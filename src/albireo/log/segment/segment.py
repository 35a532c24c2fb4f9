"""A segment: one file of frames end to end, zeros behind them, named by its first sequence.

    <first sequence, 20 digits>.segment   frames, then zeros up to the length it was prepared with
    <first sequence, 20 digits>.index     sidecar of a sealed segment: the result of a scan of it

    sidecar = magic:"ALBX" format:u16 0:u16 crc:u32 length:u32 body:msgpack[length]

A sidecar is a cache: when it is missing or does not fit, the segment is scanned again.
Spec: docs/formats/log.md.
"""

import struct
from bisect import bisect_right
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.codec.frame import FrameHeader
from albireo.log.files import FileSystem, read_file, write_aside
from albireo.model.feature import STORE_FORMAT

SUFFIX: Final = ".segment"
INDEX_SUFFIX: Final = ".index"
FILLING: Final = "next.filling"
"""A segment being zero-filled; worthless after a crash."""
PREPARED: Final = "next.prepared"
"""A zero-filled, synced segment without a name yet."""
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
_PREFIX: Final = struct.Struct("<4sHHII")
_MAGIC: Final = b"ALBX"
_CRC_FROM: Final = 12
_MASK_BITS: Final = 64
_ANY: Final = (1 << _MASK_BITS) - 1
"""Bits of a stretch that may have frames of any stream."""


class Damage(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of a segment that holds no valid frame although it is not empty."""

    offset: int
    end_offset: int
    """Offset at which the next valid frame starts, or the end of the file."""
    first_sequence: int
    """Sequence that should have stood here."""
    next_sequence: int
    """Sequence of the next valid frame in this segment; 0: none follows."""
    reason: str


class Summary(msgspec.Struct, kw_only=True):
    """Content of a segment in short. Filled by the writer or by a scan; kept in the sidecar."""

    first_sequence: int
    last_sequence: int
    """Last sequence in the segment; first_sequence - 1 while it is empty."""
    end_offset: int = 0
    """Offset behind the last valid frame."""
    last_header_crc: int = 0
    """Header CRC of the last frame; 0: it is unknown, the chain starts anew."""
    epoch: int = 0
    log_time_ms: int = 0
    committed_sequence: int = 0
    node_ns: int = 0
    """Highest wall time of a frame, which says how old the segment is."""
    frame_count: int = 0
    streams: dict[int, int] = {}
    """Last sequence of each stream that occurs."""
    damages: tuple[Damage, ...] = ()


class _Sidecar(msgspec.Struct):
    log_id: bytes
    summary: Summary
    sequences: list[int]
    offsets: list[int]
    streams: list[int]
    """Streams of the frames from each index entry up to the next, as one bit each (`_mask`)."""


class Segment:
    """One segment and its sparse index.

    Written by one thread (the writer's, or the one that scans); others read only what lies at or below the commit
    position, which the writer has noted before it can be committed.
    """

    def __init__(self, path: Path, first_sequence: int, capacity_bytes: int) -> None:
        self.path = path
        self.capacity_bytes = capacity_bytes
        self.summary = Summary(first_sequence=first_sequence, last_sequence=first_sequence - 1, streams={})
        self.is_sealed = False
        self._sequences: list[int] = []
        self._offsets: list[int] = []
        self._streams: list[int] = []
        self._is_mended = False
        """True: the index does not tell the streams of frames that a repair put in."""
        self.has_sidecar = False
        self._has_index = True

    @property
    def first_sequence(self) -> int:
        return self.summary.first_sequence

    @property
    def last_sequence(self) -> int:
        return self.summary.last_sequence

    @property
    def room_bytes(self) -> int:
        return self.capacity_bytes - self.summary.end_offset

    @property
    def has_lost_end(self) -> bool:
        """True: the frames at its end are damaged, and nothing may be written behind them."""
        damages = self.summary.damages
        return bool(damages) and damages[-1].next_sequence == 0

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    def reset(self) -> None:
        """Forget everything but the name, before a scan."""
        self.summary = Summary(first_sequence=self.first_sequence, last_sequence=self.first_sequence - 1, streams={})
        self._sequences, self._offsets, self._streams = [], [], []
        self.has_sidecar = False
        self._has_index = True

    def note(self, header: FrameHeader, offset: int, index_every_bytes: int) -> None:
        """Note a frame at `offset`, behind every frame noted before."""
        summary = self.summary
        if not self._offsets or offset - self._offsets[-1] >= index_every_bytes:
            # Readers look up sequences first, so an entry is complete once its sequence is there.
            self._offsets.append(offset)
            self._streams.append(0)
            self._sequences.append(header.first_sequence)
        self._streams[-1] |= 1 << header.stream % _MASK_BITS
        last = header.first_sequence + header.record_count - 1
        summary.streams[header.stream] = last
        summary.last_header_crc = header.header_crc
        summary.epoch = header.epoch
        summary.log_time_ms = header.log_time_ms
        summary.frame_count += 1
        if header.node_ns > summary.node_ns:
            summary.node_ns = header.node_ns
        if header.committed_sequence > summary.committed_sequence:
            summary.committed_sequence = header.committed_sequence
        summary.end_offset = offset + header.frame_bytes
        summary.last_sequence = last

    def start_for(self, sequence: int, files: FileSystem) -> tuple[int, int]:
        """(offset, sequence) of the last known frame that starts at or before `sequence`."""
        if not self._has_index:
            self._load_index(files)
        at = bisect_right(self._sequences, sequence) - 1
        found = (self._offsets[at], self._sequences[at]) if at >= 0 else (0, self.first_sequence)
        for damage in self.summary.damages:
            if 0 < damage.next_sequence <= sequence:
                found = max(found, (damage.end_offset, damage.next_sequence))
        return found

    def stretch_of(self, streams: Collection[int], sequence: int, files: FileSystem) -> tuple[int, int]:
        """First and last sequence of the next stretch, from `sequence` on, in which frames of these streams may stand.

        Where there is damage the streams of what stood there are not known: nothing is passed over then.
        """
        summary = self.summary
        last = summary.last_sequence
        if summary.damages or self._is_mended:
            return sequence, last
        if all(summary.streams.get(stream, 0) < sequence for stream in streams):
            return last + 1, last
        if not self._has_index:
            self._load_index(files)
        mask, begin = _mask(streams), 0
        first = bisect_right(self._sequences, sequence) - 1
        if first < 0:  # Frames that a repair put before those that the index knows.
            return sequence, last
        for at in range(first, len(self._sequences)):
            if self._streams[at] & mask:
                begin = begin or max(sequence, self._sequences[at])
            elif begin:
                return begin, self._sequences[at] - 1
        return begin or sequence, last

    def note_damages(self, damages: tuple[Damage, ...]) -> None:
        """Note damage found after the segment was written; a sealed segment's sidecar has to be written again."""
        self.summary.damages = damages
        self.has_sidecar = False

    def mend(self, damage: Damage, rest: Damage | None, headers: Sequence[FrameHeader]) -> None:
        """Note that frames stand where `damage` was, and that `rest` of it remains. The index does without them."""
        summary = self.summary
        summary.damages = tuple(
            one for one in (rest if old == damage else old for old in summary.damages) if one is not None
        )
        for header in headers:
            # The writer may note newer frames meanwhile: only what no valid frame has said is added.
            summary.streams.setdefault(header.stream, header.last_sequence)
            if self.is_sealed:
                summary.streams[header.stream] = max(summary.streams[header.stream], header.last_sequence)
                summary.frame_count += 1
        self._is_mended = self._is_mended or bool(headers)
        self.has_sidecar = False

    def drop_sidecar(self, files: FileSystem) -> None:
        """Delete the sidecar, because the file is about to change; from now on a scan tells what is in it."""
        if not self._has_index:
            self._load_index(files)
        self.has_sidecar = False
        if self.index_path.name in files.names(self.index_path.parent):
            files.unlink(self.index_path)
            files.sync_directory(self.index_path.parent)

    def write_sidecar(self, files: FileSystem, log_id: bytes) -> None:
        """Keep summary and index beside a sealed segment."""
        assert self.is_sealed
        if not self._has_index:
            self._load_index(files)
        streams = [_ANY] * len(self._streams) if self._is_mended else self._streams
        body = msgspec.msgpack.encode(_Sidecar(log_id, self.summary, self._sequences, self._offsets, streams))
        covered = struct.pack("<I", len(body)) + body
        write_aside(files, self.index_path, [struct.pack("<4sHHI", _MAGIC, STORE_FORMAT, 0, crc32c(covered)) + covered])
        self.has_sidecar = True

    def forget_index(self) -> None:
        """Give the memory back; the next look-up reads the sidecar."""
        if self.has_sidecar and self._has_index:
            self._has_index = False
            self._sequences, self._offsets, self._streams = [], [], []

    def read_sidecar(self, files: FileSystem, log_id: bytes) -> bool:
        """Take summary and index from the sidecar; False when it does not fit the file or is damaged."""
        sidecar = _read_sidecar(files, self.index_path)
        if sidecar is None or sidecar.log_id != log_id:
            return False
        summary = sidecar.summary
        if summary.first_sequence != self.first_sequence or summary.end_offset > self.capacity_bytes:
            return False
        self.summary = summary
        self.is_sealed = True
        self.has_sidecar = True
        self._has_index = False
        return True

    def _load_index(self, files: FileSystem) -> None:
        sidecar = _read_sidecar(files, self.index_path)
        # Without an index a read walks the segment from its start: slower, never wrong.
        self._offsets = [] if sidecar is None else sidecar.offsets
        self._streams = [] if sidecar is None else sidecar.streams
        self._sequences = [] if sidecar is None else sidecar.sequences
        self._has_index = True


def _mask(streams: Collection[int]) -> int:
    """One bit for each stream; two streams that are a multiple of 64 apart share one, and are both read then."""
    mask = 0
    for stream in streams:
        mask |= 1 << stream % _MASK_BITS
    return mask


def name_of(first_sequence: int) -> str:
    return f"{first_sequence:020d}{SUFFIX}"


def sequence_of(name: str) -> int | None:
    """First sequence of a segment file by its name, None for another file."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def _read_sidecar(files: FileSystem, path: Path) -> _Sidecar | None:
    data = read_file(files, path, INDEX_BYTES_MAX)
    if data is None or len(data) < _PREFIX.size:
        return None
    magic, form, _, crc, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC or form != STORE_FORMAT or length != len(data) - _PREFIX.size:
        return None
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        return None
    try:
        sidecar = msgspec.msgpack.decode(memoryview(data)[_PREFIX.size :], type=_Sidecar)
    except msgspec.DecodeError:
        return None
    return sidecar if len(sidecar.sequences) == len(sidecar.offsets) == len(sidecar.streams) else None
