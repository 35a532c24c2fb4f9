"""A kept store as a later release might leave it: its header says something that no program of today knows.

The two copies of a header, by docs/formats/log.md: magic, version, CRC, length, generation, JSON.
"""

import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

COPIES: Final = ("store.a", "store.b")
LATER: Final = 9
"""A format version that no program knows."""
REMEDY: Final = "start the version that wrote it, or a newer one"
_BODY: Final = 24


def make_later(copy: Path) -> None:
    """Give a copy a later format version."""
    data = bytearray(copy.read_bytes())
    struct.pack_into("<H", data, 4, LATER)
    _write(copy, data, _body(data))


def make_strange(copy: Path) -> None:
    """Make a number of a text that every header has."""
    data = bytearray(copy.read_bytes())
    before, _, behind = _body(data).partition(b'"cluster":"')
    _write(copy, data, before + b'"cluster":7' + behind[behind.index(b'"') + 1 :])


def add_field(copy: Path) -> None:
    """Add a field to the header that no program of today knows."""
    data = bytearray(copy.read_bytes())
    _write(copy, data, _body(data).rstrip().removesuffix(b"}") + b',"later":[1]}\n')


def _body(data: bytearray) -> bytes:
    (length,) = struct.unpack_from("<I", data, 12)
    return bytes(data[_BODY : _BODY + length])


def _write(copy: Path, data: bytearray, body: bytes) -> None:
    """Put the body in place, with a CRC that fits."""
    end = _BODY + len(body)
    data[_BODY:] = body + bytes(len(data) - end)
    struct.pack_into("<I", data, 12, len(body))
    struct.pack_into("<I", data, 8, crc32c(bytes(data[12:end]), crc32c(bytes(data[:8]))))
    copy.write_bytes(data)
