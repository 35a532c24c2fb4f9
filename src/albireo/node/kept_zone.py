"""Zone by which a node runs, kept with its data: whoever reads the files of one that stands has no topology."""

import contextlib
from pathlib import Path
from typing import Final

from albireo.log.files import OsFileSystem, write_aside

_NAME: Final = "zone"


def keep_zone(data: Path, zone: str) -> None:
    """Keep the name of the zone; on a disk that takes nothing the one from before stays, and the node runs on."""
    if kept_zone(data) != zone:
        with contextlib.suppress(OSError):
            write_aside(OsFileSystem(), data / _NAME, [zone.encode()])


def kept_zone(data: Path) -> str:
    """Name of the zone that was kept last; UTC: none was."""
    try:
        return (data / _NAME).read_text(errors="replace")
    except FileNotFoundError:
        return "UTC"
