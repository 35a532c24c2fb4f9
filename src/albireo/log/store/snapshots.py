"""Snapshots: the folds as bytes, at one exact commit position.

    <epoch, 20 digits>-<sequence, 20 digits>-<header CRC, 8 hex digits>.snapshot

    snapshot = magic:"ALBP" version:u16 0:u16 crc:u32 length:u64 body:msgpack[length]
    body     = {position, log_time, frame_crc, sections: {name: bytes}}

The name ties a snapshot to the frame at which it was taken, so that a snapshot of another log is not used, be it after
a cut or in a directory that was put together from two. The newest ones are kept; when the newest is bad the previous
one is used.
Spec: docs/formats/log.md.
"""

import contextlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.log.errors import SnapshotFailed
from albireo.log.files import FileSystem, read_file, write_aside
from albireo.model.instant import LogTime
from albireo.model.position import Position

SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
_NAME: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})\.snapshot")
_PREFIX: Final = struct.Struct("<4sHHIQ")
_MAGIC: Final = b"ALBP"
_VERSION: Final = 1
_CRC_FROM: Final = 12


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State of the folds after the frame at `position`."""

    position: Position
    log_time: LogTime
    frame_crc: int
    """CRC of the header of the frame that ends at `position`."""
    sections: dict[str, bytes]
    """Encoded state of each fold, by its name."""


class SnapshotName(msgspec.Struct, frozen=True, order=True):
    position: Position
    frame_crc: int

    def __str__(self) -> str:
        return f"{self.position.epoch:020d}-{self.position.sequence:020d}-{self.frame_crc:08x}.snapshot"


class Snapshots:
    """The snapshot directory. `save` may be called from any one thread, loads from the one that opened the log."""

    def __init__(self, files: FileSystem, directory: Path, quarantine: Path, kept: int) -> None:
        self._files = files
        self._directory = directory
        self._quarantine = quarantine
        self._kept = kept

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
        """Write a snapshot and delete the oldest beyond the number kept.

        Raises:
            SnapshotFailed: the file system refused; the older ones are untouched.
        """
        body = msgspec.msgpack.encode(snapshot)
        covered = struct.pack("<Q", len(body)) + body
        prefix = struct.pack("<4sHHI", _MAGIC, _VERSION, 0, crc32c(covered))
        path = self._directory / str(SnapshotName(snapshot.position, snapshot.frame_crc))
        try:
            write_aside(self._files, path, [prefix, covered])
            for name in self.names()[self._kept :]:
                self._files.unlink(self._directory / str(name))
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

    def reject(self, name: SnapshotName) -> None:
        """Move a snapshot out of the way, so that it does not count among the kept ones."""
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

    def _read(self, name: SnapshotName) -> Snapshot | None:
        try:
            data = read_file(self._files, self._directory / str(name), SNAPSHOT_BYTES_MAX)
        except OSError:
            return None
        if data is None or len(data) < _PREFIX.size:
            return None
        magic, version, _, crc, length = _PREFIX.unpack_from(data)
        if magic != _MAGIC or version != _VERSION or length != len(data) - _PREFIX.size:
            return None
        if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
            return None
        try:
            snapshot = msgspec.msgpack.decode(memoryview(data)[_PREFIX.size :], type=Snapshot)
        except msgspec.DecodeError:
            return None
        return snapshot if SnapshotName(snapshot.position, snapshot.frame_crc) == name else None
