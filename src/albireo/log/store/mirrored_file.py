"""A few bytes that must survive anything: kept in two files, written in place one after the other.

Each copy is synced before the next is touched, so one copy is whole at any moment although a write may be torn. Both
copies say the same, so either may rot. A rewrite allocates nothing, so a full disk refuses nothing.

    copy   = magic:bytes[4] format:u16 0:u16 crc:u32 length:u32 generation:u64 body:bytes[length] zeros
    crc    = CRC-32C of everything else up to the end of the body

The copy with the higher generation is right. `format` is that of the whole store (`STORE_FORMAT`): one with another
number is refused, and left as it is. Used for the store header of a log and for mirrored states
(mirrored_state.py).
Spec: docs/formats/log.md; ADR-0013.
"""

import struct
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.log.errors import OTHER_FORMAT, WrongStore
from albireo.log.files import FileSystem, read_file, write_all
from albireo.model.feature import STORE_FORMAT

NAMES: Final = ("store.a", "store.b")
PAGE: Final = 4096
"""Copies are padded to whole pages, so that a rewrite stays in place."""

_PREFIX: Final = struct.Struct("<4sHHIIQ")
_LEAD: Final = struct.Struct("<4sHH")
_CRC_FROM: Final = 12


class MirrorFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Format of the two files."""

    magic: bytes
    """Four bytes that begin each copy."""
    bytes_max: int
    """Longest copy; a longer one counts as damaged."""


def encode(form: MirrorFormat, body: bytes, generation: int) -> bytes:
    """Bytes of one copy."""
    covered = struct.pack("<IQ", len(body), generation) + body
    lead = _LEAD.pack(form.magic, STORE_FORMAT, 0)
    copy = lead + struct.pack("<I", crc32c(covered, crc32c(lead))) + covered
    return copy + bytes(-len(copy) % PAGE)


def decode(form: MirrorFormat, copy: bytes | None, directory: Path) -> tuple[int, bytes] | None:
    """(generation, body) of a copy, None when it is missing or damaged.

    Raises:
        WrongStore: the copy is whole, and of another format; it names `directory`.
    """
    if copy is None or len(copy) < _PREFIX.size:
        return None
    magic, found, _, crc, length, generation = _PREFIX.unpack_from(copy)
    if magic != form.magic or length > len(copy) - _PREFIX.size:
        return None
    if crc32c(memoryview(copy)[_CRC_FROM : _PREFIX.size + length], crc32c(copy[: _LEAD.size])) != crc:
        return None
    if found != STORE_FORMAT:
        reason = f"the store has format {found}, this software reads format {STORE_FORMAT}"
        raise WrongStore(str(directory), reason, OTHER_FORMAT)
    return generation, copy[_PREFIX.size : _PREFIX.size + length]


class MirroredFile:
    """The two files in one directory, which exists. Not for two threads at once. Every method may raise OSError."""

    def __init__(self, files: FileSystem, directory: Path, form: MirrorFormat) -> None:
        self._files = files
        self._directory = directory
        self._form = form
        self.generation = 0
        """Generation of the last body read or written; rises with each write."""

    def read(self) -> tuple[bytes, tuple[str, ...]] | None:
        """The body, and the names of those copies that are missing, damaged or behind; None when neither copy is whole.

        Raises:
            WrongStore: a copy has another format.
        """
        found = {name: self._copy(name) for name in NAMES}
        whole = [copy for copy in found.values() if copy is not None]
        if not whole:
            return None
        self.generation, body = max(whole, key=lambda copy: copy[0])
        return body, tuple(name for name, copy in found.items() if copy is None or copy[0] != self.generation)

    def settle(self, body: bytes, stale: tuple[str, ...]) -> None:
        """Make the body that `read` gave durable in both copies.

        The copies that are right are rewritten too, and first: after a failed sync they may be whole in the page cache
        only, and writing the stale copy would then put the last good bytes at risk. Equal bytes can't be torn.
        """
        for name in (*(name for name in NAMES if name not in stale), *stale):
            self._write(name, body)

    def write(self, body: bytes) -> None:
        """Replace the body; durable in both copies when this returns."""
        self.generation += 1
        for name in NAMES:
            self._write(name, body)

    def _copy(self, name: str) -> tuple[int, bytes] | None:
        copy = read_file(self._files, self._directory / name, self._form.bytes_max)
        return decode(self._form, copy, self._directory)

    def _write(self, name: str, body: bytes) -> None:
        path = self._directory / name
        try:
            handle, is_new = self._files.open(path), False
        except FileNotFoundError:
            handle, is_new = self._files.open(path, create=True), True
        try:
            write_all(self._files, handle, [encode(self._form, body, self.generation)], 0)
            self._files.sync(handle)
        finally:
            self._files.close(handle)
        if is_new:
            self._files.sync_directory(self._directory)
