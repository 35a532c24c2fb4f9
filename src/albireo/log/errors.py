"""Errors of the log.

LogError
+- OpenRefused            the store can't be opened; a human must act
|  +- StoreLocked         another process holds the directory
|  +- StoreDamaged        both copies of the store header are unreadable, or the segments contradict each other
|  +- WrongStore          the directory belongs to another cluster or node, or has another format
|  +- OpenFailed          the file system refused what opening needs
+- LogStopped             a write or sync has failed: nothing is appended any more, ever, by this process
+- Backlogged             more waits for the disk than `pending_bytes_max`; ask `admission()` first
+- FramesRefused          frames of the other member that do not continue this log; nothing was taken
+- EntryTooLarge          a body above what a frame or a segment can hold
+- Pruned                 the records asked for are gone by retention
+- Corrupted              the records asked for are damaged
+- RepairFailed           the file system refused a repair; the damage is still known
+- ReadFailed             the file system refused a read
+- SnapshotFailed         a snapshot could not be written; the log itself is not concerned
"""

import errno
from typing import ClassVar, Final

from albireo.model.position import Position

_NO_ROOM: Final = "make room on this disk; the next start goes on where this one stopped"
_NOT_OURS: Final = "give the user that runs the node this directory"
OTHER_FORMAT: Final = "start the software that wrote it, or move it away to begin anew"
"""Remedy for a store that this software does not know; nothing in it has changed."""
_REMEDIES: Final = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EACCES: _NOT_OURS,
    errno.EPERM: _NOT_OURS,
    errno.EROFS: "mount this disk for writing",
}


class LogError(Exception):
    """Root of everything the log raises."""


class OpenRefused(LogError):
    """The store stays as it is."""

    may_pass: ClassVar[bool] = False
    """True: a later try may succeed although nobody changes anything in this directory."""


class StoreLocked(OpenRefused):
    may_pass = True

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(f"{directory} is in use by process {holder}: stop that node, or give this one another --data")
        self.directory = directory
        self.holder = holder


class StoreDamaged(OpenRefused):
    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory}: {reason}; restore it from a copy, or move it away to start anew")
        self.directory = directory
        self.reason = reason


class WrongStore(OpenRefused):
    def __init__(self, directory: str, reason: str, remedy: str = "") -> None:
        super().__init__("; ".join(filter(None, (f"{directory}: {reason}", remedy))))
        self.directory = directory
        self.reason = reason
        self.remedy = remedy


class OpenFailed(OpenRefused):
    may_pass = True

    def __init__(self, directory: str, error: OSError) -> None:
        remedy = _REMEDIES.get(error.errno or 0, "look at this disk before you start it again")
        super().__init__(f"{directory}: {error.strerror or error} ({error.errno}); {remedy}")
        self.directory = directory
        self.errno = error.errno


class LogStopped(LogError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the log has stopped: {reason}")
        self.reason = reason


class Backlogged(LogError):
    def __init__(self, pending_bytes: int) -> None:
        super().__init__(f"{pending_bytes} bytes wait for the disk already")
        self.pending_bytes = pending_bytes


class EntryTooLarge(LogError):
    def __init__(self, body_bytes: int, bytes_max: int) -> None:
        super().__init__(f"a body of {body_bytes} bytes, at most {bytes_max}")
        self.body_bytes = body_bytes
        self.bytes_max = bytes_max


class FramesRefused(LogError):
    """Ask the other member again from this log's end, or compare the histories anew."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"frames refused: {reason}")
        self.reason = reason


class Pruned(LogError):
    def __init__(self, first_sequence: int) -> None:
        super().__init__(f"gone by retention; the log begins at sequence {first_sequence}")
        self.first_sequence = first_sequence


class Corrupted(LogError):
    """Ask again after `last_sequence` to go on behind the damage."""

    def __init__(self, first_sequence: int, last_sequence: int, reason: str) -> None:
        super().__init__(f"sequences {first_sequence}..{last_sequence} are damaged: {reason}")
        self.first_sequence = first_sequence
        self.last_sequence = last_sequence
        self.reason = reason


class ReadFailed(LogError):
    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name}: {error.strerror or error} ({error.errno})")
        self.name = name
        self.errno = error.errno


class RepairFailed(LogError):
    """The disk itself may be failing: look at it before trying again."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name} can't be repaired: {error.strerror or error} ({error.errno})")
        self.name = name
        self.errno = error.errno


class SnapshotFailed(LogError):
    def __init__(self, position: Position, reason: str) -> None:
        super().__init__(f"snapshot at {position}: {reason}")
        self.position = position
        self.reason = reason
