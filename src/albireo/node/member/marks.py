"""Marks that a member keeps for people over a restart, in `<data>/pair.json`:

    maintenance_since_ns    it is in maintenance: somebody works on its machine
    at_risk_since_ns        its records exist once only
    cases                   what was cut here, or may be lost, until somebody has looked (`albireo pair seen`)
    actions                 entries of admin actions that are not on record in the log yet

None of it decides who leads; the voters do. A member in maintenance only does not ask them (ADR-0117).

A file that can't be read may have said anything. It is kept as `pair.json.unreadable`, a case says so, and the member
is in maintenance until a person ends that: ADR-0145.

Every write is synced and put in place whole: a file that is not on the disk yet must not take the place of one that is.
Marks that must not lie in the way of a takeover are written by the log's housekeeper, soon.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.record import Audited
from albireo.log import FileSystem, OsFileSystem, write_aside

NAME: Final = "pair.json"
UNREADABLE_NAME: Final = "pair.json.unreadable"
UNREADABLE: Final = "marks_unreadable"
"""Case of marks that could not be read."""
BYTES_MAX: Final = 256 * 1024
"""Largest file that is read; far above what ACTIONS_MAX entries with their texts take."""
ACTIONS_MAX: Final = 64
"""Most entries that wait for the log; one more, and the oldest is in the journal only."""


class MarkedCase(msgspec.Struct, frozen=True):
    """A case that stands until somebody has looked at it."""

    since_ns: int
    detail: str


class MarkFile(msgspec.Struct, frozen=True, kw_only=True):
    """Body of the file; wall times, Unix ns; 0: not so."""

    maintenance_since_ns: int = 0
    at_risk_since_ns: int = 0
    cases: dict[str, MarkedCase] = {}
    actions: tuple[Audited, ...] = ()


Later = Callable[[Callable[[], None]], object]
"""Runs work soon, in the order given; in a thread of its own or right here."""


class Marks:
    """The file and its content. For one actor."""

    def __init__(
        self, data: Path, files: FileSystem | None = None, later: Later | None = None, wall_ns: int = 1
    ) -> None:
        """Read the file. `wall_ns`: now, from which on the member is in maintenance if the file can't be read."""
        self._later = later or (lambda work: work())
        self._writing = threading.Lock()
        self._is_due = False
        self._path = data / NAME
        self._files = files or OsFileSystem()
        self.unreadable = ""
        """Reason why the file that was found could not be read; empty: it could, or there was none."""
        found = self._found()
        try:
            self._marked = MarkFile() if found is None else _decoded(found)
        except ValueError as error:
            self.unreadable = str(error)
            self._marked = MarkFile(
                maintenance_since_ns=max(1, wall_ns),
                cases={UNREADABLE: MarkedCase(wall_ns, f"kept as {UNREADABLE_NAME}: {error}")},
            )
            self._keep_aside(found or b"")

    def _found(self) -> bytes | None:
        """The bytes of the file, no more than one too many; None: there is none."""
        try:
            handle = self._files.open(self._path)
        except FileNotFoundError:
            return None
        try:
            return self._files.pread(handle, min(self._files.size(handle), BYTES_MAX + 1), 0)
        finally:
            self._files.close(handle)

    def _keep_aside(self, found: bytes) -> None:
        """Copy the file that can't be read, then write the marks in its place. After a crash it is read once more."""
        with contextlib.suppress(OSError):  # On a full disk it stays where it is, and the next start finds it.
            write_aside(self._files, self._path.with_name(UNREADABLE_NAME), [found])
            self._write(self._marked)

    @property
    def maintenance_since_ns(self) -> int:
        return self._marked.maintenance_since_ns

    @property
    def at_risk_since_ns(self) -> int:
        return self._marked.at_risk_since_ns

    @property
    def cases(self) -> dict[str, MarkedCase]:
        return self._marked.cases

    @property
    def actions(self) -> tuple[Audited, ...]:
        """Entries that wait for the log, oldest first."""
        return self._marked.actions

    def maintenance(self, since_ns: int) -> None:
        """Keep since when the member is in maintenance; 0: it is not. Durable when it returns. Raises OSError."""
        self._keep(msgspec.structs.replace(self._marked, maintenance_since_ns=since_ns))

    def case(self, name: str, case: MarkedCase | None) -> None:
        """Keep a case; None: it is over. Durable when this returns; if the disk refuses, a restart forgets it."""
        if self._marked.cases.get(name) == case:
            return
        others = {one: kept for one, kept in self._marked.cases.items() if one != name}
        marked = msgspec.structs.replace(self._marked, cases=others if case is None else {**others, name: case})
        with contextlib.suppress(OSError):
            self._keep(marked)
        self._marked = marked

    def at_risk(self, since_ns: int) -> None:
        """Keep the earliest instant until it is over (0). Durable soon: a sync would lie in the way of a takeover."""
        if bool(self._marked.at_risk_since_ns) != bool(since_ns):
            self._put(msgspec.structs.replace(self._marked, at_risk_since_ns=since_ns))

    def waiting(self, entries: Sequence[Audited]) -> None:
        """Keep all entries that wait for the log. Durable soon: the journal has them too."""
        self._put(msgspec.structs.replace(self._marked, actions=tuple(entries)[-ACTIONS_MAX:]))

    def _keep(self, marked: MarkFile) -> None:
        with self._writing:
            self._write(marked)
            self._marked = marked

    def _put(self, marked: MarkFile) -> None:
        self._marked = marked
        if not self._is_due:
            self._is_due = True
            self._later(self._write_latest)

    def _write_latest(self) -> None:
        """Write the marks as they are now; what changes from here on is another write."""
        self._is_due = False
        with self._writing, contextlib.suppress(OSError):  # A full disk must not end the member.
            self._write(self._marked)

    def _write(self, marked: MarkFile) -> None:
        write_aside(self._files, self._path, [msgspec.json.encode(marked) + b"\n"])


def _decoded(found: bytes) -> MarkFile:
    """Raises ValueError: the bytes are no such file, or too many."""
    if len(found) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    return msgspec.json.decode(found, type=MarkFile)
