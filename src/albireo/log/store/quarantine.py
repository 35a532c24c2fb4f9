"""Quarantine: torn tails, cuts and damaged snapshots, taken out of the log and kept for people.

    <first sequence:20>-<offset>-<run id>.torn      bytes that recovery cut
    <first sequence:20>-<offset or "queued">-<tag>.cut   bytes that a cut took; offset 0: a whole segment
    <first sequence:20>-<tag or run id>.note        JSON: what the files of one cut hold, when and why it was made
    *.snapshot                                      damaged, or of another log

The log never reads these files again. `trim` deletes the oldest cuts when there are too many, when they have too many
bytes, or when they are too old by log time; never the newest one, which nobody may have seen yet. People delete by
`delete`.

Recovery has no clock, so its notes have no time; they get the time at which `trim` first sees them. Their order and age
are by the log time of that moment: a wall clock may jump, and a cut of today would go before those of last year.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import DAY_NS, LogConfig, Task
from albireo.log.files import Buffer, FileSystem, opened, read_file, write_aside

NOTE: Final = ".note"
NOTE_BYTES_MAX: Final = 1024 * 1024
TRIMMED_MAX: Final = 64
"""Most cuts that one call deletes."""
_UNNOTED: Final = "no note: a copy made for a cut that did not come to pass, or older than notes"


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """Files that one cut, or one damaged file, left behind."""

    name: str
    """Name of the note, or of the file when it has no note."""
    first_sequence: int
    last_sequence: int
    """Last sequence of a valid frame in the files; first_sequence - 1 when none is known."""
    size_bytes: int
    when_ns: int
    """Wall time, Unix ns; 0: not known."""
    why: str
    files: tuple[str, ...]
    seen_at: int = 0
    """Log time at which `trim` first saw it, by which its age counts; 0: it did not yet."""


class LetGo(msgspec.Struct, frozen=True):
    """A cut that is not kept any more."""

    what: Quarantined
    because: str


class Quarantine:
    """The directory of one store."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self.directory = directory

    def keep(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Write a file; durable when this returns."""
        write_aside(self._files, self.directory / name, buffers)

    def note(self, note: Quarantined) -> None:
        self.keep(note.name, [msgspec.json.encode(note) + b"\n"])

    def listing(self) -> list[Quarantined]:
        """Every cut in the directory, by name; files that belong to a note are listed with it."""
        names = self._files.names(self.directory)
        notes = [note for name in names if name.endswith(NOTE) and (note := self._read(name)) is not None]
        noted = {name for note in notes for name in (note.name, *note.files)}
        rest = [self._unnoted(name) for name in names if name not in noted and not name.endswith(".aside")]
        return sorted([*notes, *rest], key=lambda one: one.name)

    def delete(self, one: Quarantined) -> None:
        """Delete a cut, its note last, so that after a crash the rest is still explained. Raises OSError."""
        names = self._files.names(self.directory)
        for name in (*one.files, one.name):
            if name in names:  # A note is a file that somebody may have edited: it names nothing outside.
                with contextlib.suppress(FileNotFoundError):
                    self._files.unlink(self.directory / name)
        self._files.sync_directory(self.directory)

    def trim(self, config: LogConfig, wall_ns: int, log_time: int) -> Iterator[LetGo]:
        """Delete the oldest beyond the bounds of `config`, one at each step. Raises OSError."""
        dated = [self._dated(one, wall_ns, log_time) for one in self.listing()]
        kept = sorted(dated, key=lambda one: (one.seen_at, one.when_ns, one.name))
        sizes = [self._bytes_of(one) for one in kept]
        for index, oldest in enumerate(kept[:-1]):
            because = _too_much(len(kept) - index, sum(sizes[index:]), log_time - oldest.seen_at, config)
            if not because:
                return
            self.delete(oldest)
            yield LetGo(oldest, because)

    def _dated(self, one: Quarantined, wall_ns: int, log_time: int) -> Quarantined:
        if one.when_ns and 0 < one.seen_at <= log_time:  # A log that was replaced may be of an earlier log time.
            return one
        name = one.name if one.name.endswith(NOTE) else f"{one.name}{NOTE}"
        dated = msgspec.structs.replace(one, name=name, when_ns=one.when_ns or wall_ns, seen_at=max(1, log_time))
        self.note(dated)
        return dated

    def _bytes_of(self, one: Quarantined) -> int:
        """Bytes on the disk; a segment that was moved here has its zeros too."""
        names = self._files.names(self.directory)
        return sum(self._size(name) for name in one.files if name in names)

    def _size(self, name: str) -> int:
        with opened(self._files, self.directory / name) as handle:
            return self._files.size(handle)

    def _read(self, name: str) -> Quarantined | None:
        data = read_file(self._files, self.directory / name, NOTE_BYTES_MAX)
        try:
            return None if data is None else msgspec.json.decode(data, type=Quarantined)
        except msgspec.DecodeError:
            return None

    def _unnoted(self, name: str) -> Quarantined:
        number = name.split("-")[1 if name.endswith(".snapshot") else 0]
        first = int(number) if number.isascii() and number.isdigit() else 0
        why = "a snapshot that was damaged or of another log" if name.endswith(".snapshot") else _UNNOTED
        return Quarantined(
            name=name,
            first_sequence=first,
            last_sequence=first - 1,
            size_bytes=self._size(name),
            when_ns=0,
            why=why,
            files=(name,),
        )


class Trimmer:
    """Keeps quarantine within its bounds. The work is housekeeping, which never runs beside a cut."""

    def __init__(self, quarantine: Quarantine, config: LogConfig, do: Callable[[Task], None]) -> None:
        self._quarantine = quarantine
        self._config = config
        self._do = do
        self._gone: deque[LetGo] = deque()
        self.trouble = ""
        """Why the last deletion failed, or empty."""

    def trim(self, wall_ns: int, log_time: int) -> None:
        """Have the housekeeper trim soon."""
        self._do(partial(self._trim, wall_ns, log_time))

    def let_go(self) -> list[LetGo]:
        """Cuts deleted since the last call."""
        return [self._gone.popleft() for _ in range(len(self._gone))]

    def _trim(self, wall_ns: int, log_time: int) -> None:
        self.trouble = ""
        try:
            self._gone.extend(islice(self._quarantine.trim(self._config, wall_ns, log_time), TRIMMED_MAX))
        except OSError as error:
            self.trouble = str(error.strerror or error)


def _too_much(count: int, size_bytes: int, oldest_ns: int, config: LogConfig) -> str:
    """Bound that is exceeded, in words; empty: none."""
    if count > config.quarantine_count_max:
        return f"more than {config.quarantine_count_max} are kept"
    if size_bytes > config.quarantine_bytes_max:
        return f"more than {config.quarantine_bytes_max} bytes are kept"
    if oldest_ns > config.quarantine_days_max * DAY_NS:
        return f"it is older than {config.quarantine_days_max} days"
    return ""
