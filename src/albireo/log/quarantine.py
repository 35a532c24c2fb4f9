"""What was taken out of the log and is kept for people: torn tails, cuts, damaged snapshots.

    <first sequence:20>-<offset>-<run id>.torn      bytes that recovery cut
    <first sequence:20>-<offset or "queued">-<tag>.cut   bytes that a cut took; offset 0: a whole segment
    <first sequence:20>-<tag or run id>.note        JSON: what the files of one cut hold, when and why it was made
    *.snapshot                                      damaged, or of another log

Nothing here is ever read by the log again, and nothing is deleted by it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.files import Buffer, FileSystem, read_file, write_aside

NOTE_BYTES_MAX: Final = 1024 * 1024
_UNNOTED: Final = "no note: a copy made for a cut that did not come to pass, or older than notes"


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """What one cut, or one damaged file, left."""

    name: str
    """Of the note, or of the file that has none."""
    first_sequence: int
    last_sequence: int
    """first_sequence - 1 when no valid frame is known to be in it."""
    size_bytes: int
    when_ns: int
    """Wall time, Unix ns; 0: not known."""
    why: str
    files: tuple[str, ...]


class Quarantine:
    """The directory."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self.directory = directory

    def keep(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Write a file; durable when it returns."""
        write_aside(self._files, self.directory / name, buffers)

    def note(self, note: Quarantined) -> None:
        self.keep(note.name, [msgspec.json.encode(note) + b"\n"])

    def listing(self) -> list[Quarantined]:
        """Everything here, by name; files that belong to a note are listed with it."""
        names = self._files.names(self.directory)
        notes = [note for name in names if name.endswith(".note") and (note := self._read(name)) is not None]
        noted = {name for note in notes for name in (note.name, *note.files)}
        rest = [self._unnoted(name) for name in names if name not in noted and not name.endswith(".aside")]
        return sorted([*notes, *rest], key=lambda one: one.name)

    def _read(self, name: str) -> Quarantined | None:
        data = read_file(self._files, self.directory / name, NOTE_BYTES_MAX)
        try:
            return None if data is None else msgspec.json.decode(data, type=Quarantined)
        except msgspec.DecodeError:
            return None

    def _unnoted(self, name: str) -> Quarantined:
        handle = self._files.open(self.directory / name)
        try:
            size = self._files.size(handle)
        finally:
            self._files.close(handle)
        number = name.split("-")[1 if name.endswith(".snapshot") else 0]
        first = int(number) if number.isascii() and number.isdigit() else 0
        why = "a snapshot that was damaged or of another log" if name.endswith(".snapshot") else _UNNOTED
        return Quarantined(
            name=name, first_sequence=first, last_sequence=first - 1, size_bytes=size, when_ns=0, why=why, files=(name,)
        )
