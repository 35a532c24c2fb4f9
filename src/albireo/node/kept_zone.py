"""Name of the zone by which a node runs, kept with its data: whoever reads those of one that stands has no topology."""

import contextlib
from pathlib import Path

from albireo.log.files import OsFileSystem, write_aside


def keep_zone(data: Path, zone: str) -> None:
    """Keep it; on a disk that takes nothing the one from before stays, and the node runs on."""
    with contextlib.suppress(OSError):
        if kept_zone(data) != zone:
            write_aside(OsFileSystem(), data / "zone", [zone.encode()])


def kept_zone(data: Path) -> str:
    """The one that was kept last; UTC: none was."""
    file = data / "zone"
    return file.read_text(errors="replace") if file.exists() else "UTC"
