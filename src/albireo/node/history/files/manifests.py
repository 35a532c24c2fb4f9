"""Manifests as they are found: one file read and judged, and a folder without a usable one moved out of the way."""

from pathlib import Path
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.history import MANIFEST_BYTES_MAX, Manifest, decode_manifest
from albireo.log.files import FileSystem

MISSING: Final = "there is none"


def load(path: Path) -> tuple[Manifest | None, str]:
    """A manifest, or why there is none."""
    try:
        with path.open("rb") as file:
            buffer = file.read(MANIFEST_BYTES_MAX + 1)
    except FileNotFoundError:
        return None, MISSING
    except OSError as error:
        return None, str(error)
    try:
        return decode_manifest(buffer), ""
    except DecodeError as error:
        return None, str(error)


def move_aside(root: Path, files: FileSystem) -> str:
    """Rename the folder to the first free `<folder>.damaged-<n>` and make a new one; returns the name."""
    number = 1
    while root.with_name(f"{root.name}.damaged-{number}").exists():
        number += 1
    target = root.with_name(f"{root.name}.damaged-{number}")
    files.rename(root, target)
    files.make_directory(root)
    files.sync_directory(root.parent)
    return target.name
