"""Texts of files that people name."""

from pathlib import Path

from albireo.codec.topology.topology import FILE_CHARS_MAX


class TextReader:
    """Text of a file below a directory, bounded before it is read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> str:
        """The text. Raises OSError, UnicodeDecodeError, or ValueError for what is too long to be meant."""
        path = self._directory / name
        if not path.is_file():
            # A directory, a pipe or a device named by mistake must not be read to its end.
            raise FileNotFoundError(2, "no such file" if not path.exists() else "not a regular file", name)
        if path.stat().st_size > 4 * FILE_CHARS_MAX:
            raise ValueError(f"longer than {FILE_CHARS_MAX} characters")
        return path.read_bytes().decode("utf-8")
