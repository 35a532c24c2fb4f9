"""A few bytes that must survive anything: kept in two files, written in place one after the other.

Each copy is synced before the next is touched. So one is whole at any moment (a torn write), either can rot (they say
the same), and a full disk refuses nothing (a rewrite allocates nothing).

    copy   = magic:bytes[4] version:u16 0:u16 crc:u32 length:u32 generation:u64 body:bytes[length] zeros
    crc    = CRC-32C of everything else up to the end of the body

The copy with the higher generation is right. Used for the store header of a log and for keepsakes (keepsake.py).
Spec: docs/formats/log.md; ADR-0013.
"""

import struct
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.log.errors import NEWER, WrongStore
from albireo.log.files import FileSystem, read_file, write_all

NAMES: Final = ("store.a", "store.b")
PAGE: Final = 4096
"""Copies are padded to whole pages, so that a rewrite stays in place."""

_PREFIX: Final = struct.Struct("<4sHHIIQ")
_LEAD: Final = struct.Struct("<4sHH")
_CRC_FROM: Final = 12


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What two files hold."""

    magic: bytes
    version: int
    bytes_max: int
    """A longer copy is damage."""


def encode(kind: Kind, body: bytes, generation: int) -> bytes:
    """One copy."""
    covered = struct.pack("<IQ", len(body), generation) + body
    lead = _LEAD.pack(kind.magic, kind.version, 0)
    copy = lead + struct.pack("<I", crc32c(covered, crc32c(lead))) + covered
    return copy + bytes(-len(copy) % PAGE)


def decode(kind: Kind, copy: bytes | None) -> tuple[int, bytes] | None:
    """(generation, body) of a copy, None when it is missing or damaged.

    Raises:
        WrongStore: the copy is whole but of a version this program does not know.
    """
    if copy is None or len(copy) < _PREFIX.size:
        return None
    magic, version, _, crc, length, generation = _PREFIX.unpack_from(copy)
    if magic != kind.magic or length > len(copy) - _PREFIX.size:
        return None
    if crc32c(memoryview(copy)[_CRC_FROM : _PREFIX.size + length], crc32c(copy[: _LEAD.size])) != crc:
        return None
    if version != kind.version:
        raise WrongStore("store", f"format version {version}, this program reads version {kind.version}", NEWER)
    return generation, copy[_PREFIX.size : _PREFIX.size + length]


class TwoCopies:
    """The two files in one directory, which exists. Not for two threads at once. Every method may raise OSError."""

    def __init__(self, files: FileSystem, directory: Path, kind: Kind) -> None:
        self._files = files
        self._directory = directory
        self._kind = kind
        self.generation = 0
        """Of the last body read or written; rises with each write."""

    def read(self) -> tuple[bytes, tuple[str, ...]] | None:
        """The body, and the names of the copies that are missing, damaged or behind; None when neither is whole.

        Raises:
            WrongStore: a copy is of a version this program does not know.
        """
        found = {name: self._copy(name) for name in NAMES}
        whole = [copy for copy in found.values() if copy is not None]
        if not whole:
            return None
        self.generation, body = max(whole, key=lambda copy: copy[0])
        return body, tuple(name for name, copy in found.items() if copy is None or copy[0] != self.generation)

    def settle(self, body: bytes, stale: tuple[str, ...]) -> None:
        """Make durable what `read` gave, in both copies.

        The copies that are right are rewritten too, and first: after a failed sync they may be whole in the page cache
        only, and to write the other one would then put the last good bytes at risk. Equal bytes can't be torn.
        """
        for name in (*(name for name in NAMES if name not in stale), *stale):
            self._write(name, body)

    def write(self, body: bytes) -> None:
        """Replace the body; durable in both copies when this returns."""
        self.generation += 1
        for name in NAMES:
            self._write(name, body)

    def _copy(self, name: str) -> tuple[int, bytes] | None:
        return decode(self._kind, read_file(self._files, self._directory / name, self._kind.bytes_max))

    def _write(self, name: str, body: bytes) -> None:
        path = self._directory / name
        try:
            handle, is_new = self._files.open(path), False
        except FileNotFoundError:
            handle, is_new = self._files.open(path, create=True), True
        try:
            write_all(self._files, handle, [encode(self._kind, body, self.generation)], 0)
            self._files.sync(handle)
        finally:
            self._files.close(handle)
        if is_new:
            self._files.sync_directory(self._directory)
