"""Whether a stored file is as it was written, as far as Parquet does not see to it itself.

Page checksums cover the content of pages. The footer says where pages begin and which values a row group has, so one
wrong bit there gives other rows, or leaves some out; page headers have no checksum either. Small files are therefore
checked whole against the manifest, of large ones the footer: each once in a process, unless the file changes.
"""

import os
import time
from functools import _lru_cache_wrapper, lru_cache
from pathlib import Path
from typing import Final

from albireo.codec.crc import crc32c
from albireo.codec.history import FileEntry
from albireo.node.history.errors import HistoryDamaged

WHOLE_BYTES_MAX: Final = 1 << 20
"""Largest file that is checked whole before a question reads any of it."""
READ_BYTES: Final = 1 << 20
TRAILER_BYTES: Final = 8
"""Length of the footer and the magic word, at the end of the file."""
SETTLED_NS: Final = 2_000_000_000
"""Age of a file's last change from which its checksum is remembered."""
_KNOWN_MAX: Final = 65_536


def check_file(path: Path, entry: FileEntry) -> None:
    """Compare a file with its line in the manifest: as a whole if it is small, else its footer.

    Raises:
        HistoryDamaged: it differs.
        OSError: it can't be read.
    """
    size_bytes = path.stat().st_size
    if size_bytes <= WHOLE_BYTES_MAX:
        check_whole(path, entry)
    else:
        _compare(_footer_crc, path, entry, entry.footer_crc)


def check_whole(path: Path, entry: FileEntry) -> None:
    """Compare all of a file with its line in the manifest.

    Raises:
        HistoryDamaged: it differs.
        OSError: it can't be read.
    """
    _compare(_whole_crc, path, entry, entry.content_crc)


State = tuple[int, int, int]
"""Inode, time of the last change, and size: a file with the same ones is the same."""


def _compare(of: "_lru_cache_wrapper[int]", path: Path, entry: FileEntry, crc: int) -> None:
    status = path.stat()
    state = (status.st_ino, status.st_mtime_ns, status.st_size)
    # Two changes within one tick of the file system's clock can't be told apart.
    is_settled = abs(time.time_ns() - status.st_mtime_ns) > SETTLED_NS
    if (of if is_settled else of.__wrapped__)(str(path), state) != crc:
        raise HistoryDamaged(entry.path, "its bytes are not those that were written")


@lru_cache(_KNOWN_MAX)
def _whole_crc(path: str, _state: State) -> int:
    crc = 0
    with Path(path).open("rb") as file:
        while data := file.read(READ_BYTES):
            crc = crc32c(data, crc)
    return crc


@lru_cache(_KNOWN_MAX)
def _footer_crc(path: str, state: State) -> int:
    """Checksum of the footer; of nothing, if it says that it is longer than the file."""
    size_bytes = state[2]
    with Path(path).open("rb") as file:
        file.seek(-TRAILER_BYTES, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little") + TRAILER_BYTES
        if length > size_bytes:
            return 0
        file.seek(-length, os.SEEK_END)
        crc: int = crc32c(file.read(length))
        return crc
