"""What a voter must not forget, on its disk: one directory per pair, two copies in it (log/copies.py).

    <data>/voters/<node>/store.a  store.b        JSON: the voter's name and its `VoterStore`

An answer tells only of what `save` has brought back from the disk. A store that can't be read is no store: the voter
is empty and votes for nobody, until `albireo pair init` or a holder admits it. A disk that refuses anything is used no
more: after a failed sync nobody knows what is on it (log/files.py), so the process ends.

Spec: design/pair.md, The voter protocol, exactly; ADR-0103.
"""

from pathlib import Path
from typing import Final

import msgspec

from albireo.core.pair import VoterStore
from albireo.log import FileSystem, WrongStore
from albireo.log.copies import Kind, TwoCopies
from albireo.model.position import BEGINNING, Position

FOLDER: Final = "voters"
KIND: Final = Kind(magic=b"ALBV", version=1, bytes_max=64 * 1024)
"""A store takes some 500 bytes: five voters, one record."""


class VoterDiskFailed(Exception):
    """The disk refused a read, a write or a sync. The voter answers nothing any more."""

    def __init__(self, directory: Path, error: OSError) -> None:
        super().__init__(
            f"the disk of {directory} failed: {error.strerror or error} ({error.errno}); this witness votes no more. "
            "Make room or replace the disk, then start it again"
        )
        self.directory = directory
        self.errno = error.errno


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a copy. Later versions may add fields with defaults."""

    voter: str
    """Whose promises these are: under another name they would count twice."""
    store: VoterStore


class VoterDisk:
    """The store of one voter for one pair. Opened once per start; for one thread."""

    def __init__(self, files: FileSystem, data: Path, node: str, voter: str, cluster: str) -> None:
        """Read what is there and make sure that it is durable, which also shows that the disk takes writes.

        Args:
            data: the witness's data directory.
            node: of the pair.
            voter: its name in the topology, such as `witness:w1`.
            cluster: identity of the pair.
        Raises:
            VoterDiskFailed: the disk refuses.
            WrongStore: it holds something else: another voter's promises, another pair, a newer version.
        """
        self.directory = data / FOLDER / node.replace("/", "~")
        self.saves = 0
        """Since the start."""
        self.repaired_copies: tuple[str, ...] = ()
        """Copies that were missing, damaged or behind, and were written anew."""
        self.is_damaged = False
        """Something is there and nothing of it could be read."""
        self._files = files
        self._data = data
        self._voter = voter
        self._copies = TwoCopies(files, self.directory, KIND)
        self.store: VoterStore | None = None
        """As it stands on the disk."""
        try:
            self._load()
        except OSError as error:
            raise VoterDiskFailed(self.directory, error) from error
        if self.store is not None and self.store.cluster != cluster:
            raise WrongStore(str(self.directory), f"holds the vote of {self.store.cluster}, not of {cluster}")

    @property
    def floor(self) -> Position:
        """The highest commit position that a restart would still know."""
        return self.store.floor if self.store else BEGINNING

    @property
    def generation(self) -> int:
        return self._copies.generation

    def save(self, store: VoterStore) -> None:
        """Durable in both copies when this returns.

        Raises:
            VoterDiskFailed: nobody knows what is on the disk now. Answer nothing any more.
        """
        try:
            if self.store is None:
                self._make_directory()
            self._copies.write(msgspec.json.encode(Kept(voter=self._voter, store=store)) + b"\n")
        except OSError as error:
            raise VoterDiskFailed(self.directory, error) from error
        self.store = store
        self.is_damaged = False
        self.saves += 1

    def _load(self) -> None:
        try:
            there = [name for name in self._files.names(self.directory) if name.startswith("store.")]
        except FileNotFoundError:
            return
        found = self._copies.read()
        if found is None:
            self.is_damaged = bool(there)
            return
        body, self.repaired_copies = found
        try:
            kept = msgspec.json.decode(body, type=Kept)
        except msgspec.DecodeError as error:
            raise WrongStore(str(self.directory), f"is whole but not understood: {error}") from error
        if kept.voter != self._voter:
            raise WrongStore(str(self.directory), f"holds the promises of {kept.voter}, not of {self._voter}")
        self._copies.settle(body, self.repaired_copies)
        self.store = kept.store

    def _make_directory(self) -> None:
        self._files.make_directory(self.directory)
        self._files.sync_directory(self.directory.parent)
        self._files.sync_directory(self._data)
