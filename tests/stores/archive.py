"""Where kept stores lie, and how they are packed: `<version>/<name>.tar.xz`, with `<name>.json` saying what it tells.

Segments are zeros behind their frames; xz makes nothing of these.
"""

import tarfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
LEFT_OUT: Final = ("lock", "run", "keys", "logs")
"""Names in a data directory that belong to the processes which used it; no part of the store."""


def kept() -> list[Path]:
    """Every archive of every release, the oldest release first."""
    return sorted(FOLDER.glob("*/*.tar.xz"), key=lambda one: (release_of(one), one.name))


def release_of(archive: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in archive.parent.name.split("."))


def told_beside(archive: Path) -> Path:
    """The file with the answer of the release that wrote the archive."""
    return archive.with_name(archive.name.removesuffix(".tar.xz") + ".json")


def pack(home: Path, archive: Path) -> None:
    """Everything below `home` that is a store or a topology."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(home.rglob("*")):
            inner = path.relative_to(home)
            if path.is_file() and path.suffix != ".log" and not set(LEFT_OUT) & set(inner.parts):
                tar.add(path, str(inner), filter=_anonymous)


def unpack(archive: Path, home: Path) -> None:
    """Put back what `pack` found; directories that held nothing are not there."""
    with tarfile.open(archive) as tar:
        tar.extractall(home, filter="data")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o600
    return entry
