"""What a member remembers for people over a restart: since when it is drained, since when its records exist once only.

    <data>/pair.json    {"drained_since_ns": ..., "at_risk_since_ns": ...}

Neither decides who leads; the voters do. A drained member only does not ask them (ADR-0117).
"""

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from albireo.log import FileSystem, OsFileSystem, read_file, write_aside
from albireo.log.files import write_all

NAME: Final = "pair.json"
BYTES_MAX: Final = 4096


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """Body of the file; wall times, Unix ns; 0: not so."""

    drained_since_ns: int = 0
    at_risk_since_ns: int = 0


class Marks:
    """The file and its content. For one actor."""

    def __init__(self, data: Path, files: FileSystem | None = None) -> None:
        """A file that can't be read is none: nothing depends on it that a person would not see in the status."""
        self._path = data / NAME
        self._files = files or OsFileSystem()
        try:
            self._marked = msgspec.json.decode(read_file(self._files, self._path, BYTES_MAX) or b"", type=Marked)
        except msgspec.DecodeError:
            self._marked = Marked()

    @property
    def drained_since_ns(self) -> int:
        return self._marked.drained_since_ns

    @property
    def at_risk_since_ns(self) -> int:
        return self._marked.at_risk_since_ns

    def drained(self, since_ns: int) -> None:
        """Durable when it returns. Raises OSError."""
        marked = msgspec.structs.replace(self._marked, drained_since_ns=since_ns)
        write_aside(self._files, self._path, [_body(marked)])
        self._marked = marked

    def at_risk(self, since_ns: int) -> None:
        """Keep the earliest instant until it is over (0). Not synced: a sync would lie in the way of a takeover."""
        if bool(self._marked.at_risk_since_ns) == bool(since_ns):
            return
        self._marked = msgspec.structs.replace(self._marked, at_risk_since_ns=since_ns)
        aside = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # A full disk must not end the member; a restart forgets the time then.
            handle = self._files.open(aside, create=True)
            try:
                write_all(self._files, handle, [_body(self._marked)], 0)
            finally:
                self._files.close(handle)
            self._files.rename(aside, self._path)


def _body(marked: Marked) -> bytes:
    return msgspec.json.encode(marked) + b"\n"
