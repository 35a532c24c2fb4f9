"""What a gate must not forget, on its disk: two copies of one small body (log/copies.py).

    <data>/gate/store.a  store.b        JSON: cluster, name of the gate, number of its last start, guard

A store that can't be read is no store: the gate begins with another boot number, which refuses whatever was ordered
before, as a PLC's does that forgot its guard. A disk that refuses anything is used no more: after a failed sync nobody
knows what is on it.

Spec: core/pair/gate.py; ADR-0126; ADR-0103.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.log import FileSystem, WrongStore
from albireo.log.copies import Kind, TwoCopies

FOLDER: Final = "gate"
KIND: Final = Kind(magic=b"ALBG", version=1, bytes_max=16 * 1024)


class GateDiskFailed(Exception):
    """The disk refused a read, a write or a sync. The gate lets nothing pass any more."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(
            f"the disk of {directory} failed: {reason}; this gate lets no order pass any more. "
            "Make room or replace the disk, then start it again"
        )
        self.directory = directory


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a copy. Later versions may add fields with defaults."""

    cluster: str
    gate: str
    """Whose guard this is: that of another one's PLC says nothing here."""
    boot: int
    guard: int


class GateDisk:
    """The memory of one gate. Opened once per start; for one thread."""

    def __init__(self, files: FileSystem, data: Path, cluster: str, gate: str) -> None:
        """Read what is there.

        Raises:
            GateDiskFailed: the disk refuses.
            WrongStore: it holds something else: another gate's guard, a newer version.
        """
        self.directory = data / FOLDER
        self._files = files
        self._data = data
        self._cluster = cluster
        self._gate = gate
        self._copies = TwoCopies(files, self.directory, KIND)
        self._kept: Kept | None = None
        self._repaired: tuple[str, ...] = ()
        self._is_damaged = False
        self._saves = 0
        self._failure = ""
        try:
            self._load()
        except OSError as error:
            raise GateDiskFailed(self.directory, str(error)) from error

    @property
    def boot(self) -> int | None:
        return None if self._kept is None else self._kept.boot

    @property
    def guard(self) -> int:
        return 0 if self._kept is None else self._kept.guard

    @property
    def told(self) -> Mapping[str, object]:
        return {"saves": self._saves, "repaired_copies": ", ".join(self._repaired), "is_damaged": self._is_damaged}

    def save(self, boot: int, guard: int) -> None:
        """Durable in both copies when this returns.

        Raises:
            GateDiskFailed: nobody knows what is on the disk now; so does every later call.
        """
        if self._failure:
            raise GateDiskFailed(self.directory, self._failure)
        kept = Kept(cluster=self._cluster, gate=self._gate, boot=boot, guard=guard)
        try:
            if self._kept is None:
                self._make_directory()
            self._copies.write(msgspec.json.encode(kept) + b"\n")
        except OSError as error:
            self._failure = f"{error.strerror or error} ({error.errno})"
            raise GateDiskFailed(self.directory, self._failure) from error
        self._kept = kept
        self._saves += 1

    def _load(self) -> None:
        try:
            there = [name for name in self._files.names(self.directory) if name.startswith("store.")]
        except FileNotFoundError:
            return
        found = self._copies.read()
        if found is None:
            self._is_damaged = bool(there)
            return
        body, self._repaired = found
        try:
            kept = msgspec.json.decode(body, type=Kept)
        except msgspec.DecodeError as error:
            raise WrongStore(str(self.directory), f"is whole but not understood: {error}") from error
        if (kept.cluster, kept.gate) != (self._cluster, self._gate):
            text = f"holds the guard of {kept.gate} in cluster {kept.cluster}, not of {self._gate} in {self._cluster}"
            raise WrongStore(str(self.directory), text)
        self._kept = kept

    def _make_directory(self) -> None:
        self._files.make_directory(self.directory)
        self._files.sync_directory(self._data)
