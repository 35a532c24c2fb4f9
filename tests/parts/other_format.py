"""A store header as other software may have written it, whole to the last byte: of another format, or in strange words.

A copy by docs/formats/log.md: magic, format, CRC, length, generation, JSON, zeros.
"""

import struct
from pathlib import Path

from albireo.codec.crc import crc32c
from albireo.log.store.mirrored_file import NAMES

OTHER = 9
"""A format that no software has."""
_BODY = 24


def of_format(number: int, copy: bytes) -> bytes:
    """The copy with this number of a format."""
    return _whole(copy[:4] + struct.pack("<H", number) + copy[6:])


def make_other(directory: Path, names: tuple[str, ...] = NAMES) -> None:
    """Give the copies in a directory another format."""
    for name in names:
        copy = directory / name
        copy.write_bytes(of_format(OTHER, copy.read_bytes()))


def make_strange(directory: Path) -> None:
    """Make a number of a text that the header of every log has."""
    for name in NAMES:
        copy = (directory / name).read_bytes()
        before, _, behind = copy.partition(b'"cluster":"')
        body = before[_BODY:] + b'"cluster":7' + behind[behind.index(b'"') + 1 :].rstrip(b"\0")
        length = struct.pack("<I", len(body))
        (directory / name).write_bytes(_whole(copy[:12] + length + copy[16:_BODY] + body))


def _whole(copy: bytes) -> bytes:
    """The copy with a checksum that fits."""
    (length,) = struct.unpack_from("<I", copy, 12)
    crc = crc32c(copy[12 : _BODY + length], crc32c(copy[:8]))
    return copy[:8] + struct.pack("<I", crc) + copy[12:]
