"""A manifest as it is found: one file, read and judged."""

from pathlib import Path
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.history import MANIFEST_BYTES_MAX, Manifest, decode_manifest

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
