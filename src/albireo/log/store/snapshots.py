"""Snapshots: the folds as bytes, at one exact commit position.

    <epoch, 20 digits>-<sequence, 20 digits>-<header CRC, 8 hex digits>.snapshot

    snapshot = magic:"ALBP" format:u16 0:u16 crc:u32 length:u64 head:msgpack[length] part*
    head     = {position, log_time, frame_crc, parts: [[name, bytes, crc]]}      parts of a section follow each other

`crc` covers what follows it, up to the end of the head.

The name ties a snapshot to the frame at which it was taken, so that a snapshot of another log is not used, be it after
a cut or in a directory that was put together from two. The newest ones are kept; when the newest is bad the previous
one is used. So none is deleted before a newer one has been read back.
Spec: docs/formats/log.md.
"""

import contextlib
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.log.errors import SnapshotFailed
from albireo.log.files import Buffer, FileSystem, write_aside
from albireo.model.feature import STORE_FORMAT
from albireo.model.instant import LogTime
from albireo.model.position import Position

HEAD_BYTES_MAX: Final = 1024 * 1024
READ_BYTES: Final = 64 * 1024 * 1024
_NAME: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})\.snapshot")
_PREFIX: Final = struct.Struct("<4sHHIQ")
_MAGIC: Final = b"ALBP"
_CRC_FROM: Final = 12


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of snapshots."""

    bytes_max: int = 64 * 1024 * 1024 * 1024
    """Largest one that is written or read: a million items with all the text that they may have."""
    part_bytes: int = 64 * 1024 * 1024


USUAL: Final = SnapshotLimits()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State of the folds after the frame at `position`."""

    position: Position
    log_time: LogTime
    frame_crc: int
    """CRC of the header of the frame that ends at `position`."""
    sections: dict[str, bytes]
    """Encoded state of each fold, by its name."""


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True):
    """A section, or a part of a long one, as the head of a snapshot lists it."""

    section: str
    size_bytes: int
    crc: int


class SnapshotHead(msgspec.Struct, frozen=True, kw_only=True):
    """Head of a snapshot."""

    position: Position
    log_time: LogTime
    frame_crc: int
    parts: tuple[SnapshotPart, ...]


class SnapshotName(msgspec.Struct, frozen=True, order=True):
    position: Position
    frame_crc: int

    def __str__(self) -> str:
        return f"{self.position.epoch:020d}-{self.position.sequence:020d}-{self.frame_crc:08x}.snapshot"


class Snapshots:
    """The snapshot directory. `save` may be called from any one thread, loads from the one that opened the log."""

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        quarantine: Path,
        kept: int,
        limits: SnapshotLimits = USUAL,
    ) -> None:
        self._files = files
        self._directory = directory
        self._quarantine = quarantine
        self._kept = kept
        self._limits = limits
        self.rejected: list[str] = []
        """Names of the snapshots that were moved out of the way, until somebody has told of them."""

    def names(self) -> list[SnapshotName]:
        """Names of all snapshots, newest first by sequence."""
        found = [_NAME.fullmatch(name) for name in self._files.names(self._directory)]
        names = [SnapshotName(Position(int(m[1]), int(m[2])), int(m[3], 16)) for m in found if m is not None]
        return sorted(names, key=lambda name: (name.position.sequence, name.position.epoch), reverse=True)

    def oldest_sequence(self) -> int:
        """Sequence of the oldest kept snapshot, above which frames are still needed; 0 when there is none."""
        names = self.names()
        return names[-1].position.sequence if names else 0

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot, read it back, and then delete the oldest beyond the number kept.

        Raises:
            SnapshotFailed: it is too large, the file system refused, or other bytes came back; the older ones are
                untouched.
        """
        size_bytes = sum(map(len, snapshot.sections.values()))
        limits = self._limits
        if size_bytes > limits.bytes_max:
            raise SnapshotFailed(snapshot.position, f"{size_bytes} bytes, at most {limits.bytes_max} can be read back")
        name = SnapshotName(snapshot.position, snapshot.frame_crc)
        path = self._directory / str(name)
        try:
            write_aside(self._files, path, _file_of(snapshot, limits.part_bytes))
            if not self._is_right(name):
                self._files.unlink(path)
                raise SnapshotFailed(snapshot.position, "what was written can't be read back: look at the disk")
            for old in self.names()[self._kept :]:
                self._files.unlink(self._directory / str(old))
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise SnapshotFailed(snapshot.position, f"{error.strerror or error} ({error.errno})") from error

    def load(self) -> Iterator[Snapshot]:
        """Valid snapshots, newest first; a damaged one is moved to quarantine."""
        for name in self.names():
            snapshot = self._read(name)
            if snapshot is None:
                self.reject(name)
            else:
                yield snapshot

    def newest(self) -> Snapshot | None:
        """The newest valid snapshot, for looking only: a damaged one stays where it is."""
        return next((one for one in map(self._read, self.names()) if one is not None), None)

    def reject(self, name: SnapshotName) -> None:
        """Move a snapshot out of the way, so that it does not count among the kept ones."""
        self.rejected.append(str(name))
        with contextlib.suppress(OSError):
            self._files.rename(self._directory / str(name), self._quarantine / str(name))
            self._files.sync_directory(self._directory)

    def delete_above(self, sequence: int) -> list[SnapshotName]:
        """Delete the snapshots above `sequence`, which a cut has made wrong; returns their names."""
        above = [name for name in self.names() if name.position.sequence > sequence]
        for name in above:
            self._files.unlink(self._directory / str(name))
        if above:
            self._files.sync_directory(self._directory)
        return above

    def _is_right(self, name: SnapshotName) -> bool:
        """True if the file has the length and the checksums that it claims. No more than a part of it is in memory."""
        try:
            with self._opened(name) as file:
                return file.is_right()
        except OSError:
            return False

    def _read(self, name: SnapshotName) -> Snapshot | None:
        """The snapshot; None: there is none, or its file is damaged, too large, or has another place in it."""
        try:
            with self._opened(name) as file:
                snapshot = file.snapshot() if file.is_right() else None
        except (OSError, msgspec.DecodeError):
            return None
        if snapshot is None or SnapshotName(snapshot.position, snapshot.frame_crc) != name:
            return None
        return snapshot

    @contextlib.contextmanager
    def _opened(self, name: SnapshotName) -> Iterator["_SnapshotFile"]:
        handle = self._files.open(self._directory / str(name))
        try:
            yield _SnapshotFile(self._files, handle, self._limits.bytes_max)
        finally:
            self._files.close(handle)


class _SnapshotFile:
    """A snapshot file that is open for reading."""

    def __init__(self, files: FileSystem, handle: int, bytes_max: int) -> None:
        self._files = files
        self._handle = handle
        self._bytes_max = bytes_max
        self._size = files.size(handle)

    def is_right(self) -> bool:
        prefix = self._files.pread(self._handle, _PREFIX.size, 0)
        if len(prefix) < _PREFIX.size or self._size > self._bytes_max + _PREFIX.size + HEAD_BYTES_MAX:
            return False
        magic, form, _, crc, length = _PREFIX.unpack(prefix)
        if (magic, form) != (_MAGIC, STORE_FORMAT) or not 0 <= length <= min(HEAD_BYTES_MAX, self._size - _PREFIX.size):
            return False
        return self._crc(_CRC_FROM, _PREFIX.size - _CRC_FROM + length) == crc and self._are_parts_right()

    def snapshot(self) -> Snapshot:
        """The content of a right file. Raises msgspec.DecodeError."""
        head, sections = self._head(), dict[str, list[bytes]]()
        for offset, part in self._parts(head):
            sections.setdefault(part.section, []).extend(self._pieces(offset, part.size_bytes))
        return Snapshot(
            position=head.position,
            log_time=head.log_time,
            frame_crc=head.frame_crc,
            sections={name: b"".join(pieces) for name, pieces in sections.items()},
        )

    def _are_parts_right(self) -> bool:
        try:
            head = self._head()
        except msgspec.DecodeError:
            return False
        end = _PREFIX.size + self._head_bytes()
        for offset, part in self._parts(head):
            end = offset + part.size_bytes
            if not 0 <= part.size_bytes <= self._size - offset or self._crc(offset, part.size_bytes) != part.crc:
                return False
        return end == self._size

    def _head_bytes(self) -> int:
        length: int = _PREFIX.unpack(self._files.pread(self._handle, _PREFIX.size, 0))[-1]
        return length

    def _head(self) -> SnapshotHead:
        return msgspec.msgpack.decode(self._bytes(_PREFIX.size, self._head_bytes()), type=SnapshotHead)

    def _parts(self, head: SnapshotHead) -> Iterator[tuple[int, SnapshotPart]]:
        """Each part with its offset."""
        offset = _PREFIX.size + self._head_bytes()
        for part in head.parts:
            yield offset, part
            offset += part.size_bytes

    def _pieces(self, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a range, READ_BYTES at a time; less, if the file ends before."""
        end = offset + size
        while offset < end:
            piece = self._files.pread(self._handle, min(READ_BYTES, end - offset), offset)
            if not piece:
                return
            yield piece
            offset += len(piece)

    def _bytes(self, offset: int, size: int) -> bytes:
        return b"".join(self._pieces(offset, size))

    def _crc(self, offset: int, size: int) -> int:
        crc = 0
        for piece in self._pieces(offset, size):
            crc = crc32c(piece, crc)
        return crc


def _file_of(snapshot: Snapshot, part_bytes: int) -> list[Buffer]:
    parts: list[memoryview] = []
    listed: list[SnapshotPart] = []
    for name, part in _cut(snapshot.sections, part_bytes):
        parts.append(part)
        listed.append(SnapshotPart(name, len(part), crc32c(part)))
    head = SnapshotHead(
        position=snapshot.position, log_time=snapshot.log_time, frame_crc=snapshot.frame_crc, parts=tuple(listed)
    )
    content = msgspec.msgpack.encode(head)
    length = struct.pack("<Q", len(content))
    crc = crc32c(content, crc32c(length))
    return [struct.pack("<4sHHI", _MAGIC, STORE_FORMAT, 0, crc), length, content, *parts]


def _cut(sections: Mapping[str, bytes], part_bytes: int) -> Iterator[tuple[str, memoryview]]:
    """The sections in parts; an empty one has one part."""
    for name, section in sections.items():
        view = memoryview(section)
        for start in range(0, max(1, len(view)), part_bytes):
            yield name, view[start : start + part_bytes]
