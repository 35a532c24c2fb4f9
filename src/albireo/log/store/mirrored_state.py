"""A mirrored state: one small body that its owner must not forget, in a mirrored file below the data directory.

    <data>/<folder>/store.a  store.b        JSON

When neither copy can be read the owner begins without a body, and says so (`is_damaged`). A disk that refuses anything
is used no more, because after a failed sync nobody knows what is on it (log/files.py).

Used for the promises of a voter and for the guard of a gate (ADR-0103).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from albireo.log.errors import OTHER_FORMAT, WrongStore
from albireo.log.files import FileSystem, sync_names
from albireo.log.store.mirrored_file import MirroredFile, MirrorFormat

Body = TypeVar("Body", bound=msgspec.Struct)


class MirroredStateFailed(Exception):
    """The disk refused a read, a write or a sync. The owner may say nothing any more that rests on it."""

    def __init__(self, directory: Path, error: OSError, loss: str) -> None:
        reason = f"{error.strerror or error} ({error.errno})"
        remedy = "Make room or replace the disk, then start it again"
        super().__init__(f"the disk of {directory} failed: {reason}; {loss}. {remedy}")
        self.directory = directory
        self.errno = error.errno


class MirroredState(Generic[Body]):
    """One body on the disk. Opened once per start; for one thread."""

    def __init__(
        self,
        files: FileSystem,
        data: Path,
        folder: str,
        form: MirrorFormat,
        body_type: type[Body],
        foreign: Callable[[Body], str],
        loss: str,
    ) -> None:
        """Read what is there and make sure that it is durable, which also shows that the disk takes writes.

        Args:
            folder: place of the two files below `data`.
            foreign: names a body that is not the owner's; empty: it is the owner's.
            loss: says in the error what the owner no longer does once the disk has failed.
        Raises:
            MirroredStateFailed: the disk refuses.
            WrongStore: the body is another owner's, or has another format.
        """
        self.directory = data / folder
        self.saves = 0
        """Number of saves since the start."""
        self.repaired_copies: tuple[str, ...] = ()
        """Copies that were missing, damaged or behind, and were written anew."""
        self.is_damaged = False
        """True: a file is there, and neither copy could be read."""
        self.body: Body | None = None
        """Body as it stands on the disk; None: there is none."""
        self._files = files
        self._body_type = body_type
        self._foreign = foreign
        self._loss = loss
        self._copies = MirroredFile(files, self.directory, form)
        self._failure: MirroredStateFailed | None = None
        self._guarded(self._load)

    @property
    def generation(self) -> int:
        return self._copies.generation

    def save(self, body: Body) -> None:
        """Replace the body; durable in both copies when this returns.

        Raises:
            MirroredStateFailed: nobody knows what is on the disk now; so does every later call.
        """
        if self._failure is not None:
            raise self._failure
        self._guarded(lambda: self._write(body))
        self.body = body
        self.is_damaged = False
        self.saves += 1

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._failure = MirroredStateFailed(self.directory, error, self._loss)
            raise self._failure from error

    def _write(self, body: Body) -> None:
        if self.body is None:
            self._files.make_directory(self.directory)
            sync_names(self._files, self.directory)
        self._copies.write(msgspec.json.encode(body) + b"\n")

    def _load(self) -> None:
        try:
            there = [name for name in self._files.names(self.directory) if name.startswith("store.")]
        except FileNotFoundError:
            return
        found = self._copies.read()
        if found is None:
            self.is_damaged = bool(there)
            return
        encoded, self.repaired_copies = found
        try:
            body = msgspec.json.decode(encoded, type=self._body_type)
        except msgspec.DecodeError as error:
            raise WrongStore(str(self.directory), f"is whole but not understood: {error}", OTHER_FORMAT) from error
        foreign = self._foreign(body)
        if foreign:
            raise WrongStore(str(self.directory), f"holds {foreign}")
        self._copies.settle(encoded, self.repaired_copies)
        self.body = body
