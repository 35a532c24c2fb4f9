"""The store header: who this store is, what it has promised, how it was left.

Kept twice, in `store.a` and `store.b` (log/store/copies.py): JSON, so that a person can read it.
Spec: docs/formats/log.md.
"""

import threading
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.errors import NEWER, StoreDamaged, WrongStore
from albireo.log.files import FileSystem
from albireo.log.store.copies import PAGE, Kind, TwoCopies
from albireo.model.position import EpochHistory, Position

HEADER_BYTES_MAX: Final = 4 * 1024 * 1024
"""An epoch takes about 45 bytes."""
KIND: Final = Kind(magic=b"ALBH", version=1, bytes_max=HEADER_BYTES_MAX)


class CutMark(msgspec.Struct, frozen=True, kw_only=True):
    """A cut that is decided and perhaps not done: until it is done every open does it again (ADR-0111)."""

    segment: int
    """First sequence of the segment that is cut; later ones leave the log. 0: all leave."""
    offset: int
    """Zeros from here on. 0: the segment itself leaves."""
    tag: str
    """In the names of the files in quarantine."""
    first_sequence: int
    """First one that is cut."""
    last_sequence: int
    size_bytes: int
    when_ns: int
    """Wall time, Unix ns."""
    why: str
    files: tuple[str, ...]
    """Copied to quarantine already."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What a log that was started over continues from (`Log.start_over`)."""

    position: Position
    header_crc: int
    log_time_ms: int


class StoreHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Ids are random bytes in hexadecimal. Later versions may add fields with defaults."""

    cluster: str
    node: str
    store_id: str
    """This directory; never copied."""
    log_id: str
    """The log; equal on both members of a pair."""
    history: EpochHistory = EpochHistory()
    run_id: str = ""
    """Drawn at each open."""
    is_clean: bool = False
    """Closed cleanly and not opened since."""
    shutdown_id: str = ""
    """Drawn at a clean close, else empty: two members that share it hold the same records."""
    committed_sequence: int = 0
    """A commit position known to have been reached; frames may know a higher one."""
    durable: Position = Position()
    """Last durable position at a clean close."""
    begin_sequence: int = 1
    """Lower ones are gone by retention; a segment missing from here on is damage."""
    tried_epoch: int = 0
    accepted_epoch: int = 0
    plc_registers: bytes = b""
    """Copy of the PLC's register block (pairs)."""
    claims_to: int | None = None
    """While the log catches up with a holder: commit positions in frames prove nothing above this one (ADR-0110)."""
    cut: CutMark | None = None
    base: Base | None = None


class Store:
    """The two copies and their present content. `update` may be called from any thread."""

    def __init__(self, copies: TwoCopies, directory: Path, header: StoreHeader) -> None:
        self._copies = copies
        self._directory = directory
        self._lock = threading.Lock()
        self.header = header
        self.repaired_copies: tuple[str, ...] = ()

    @classmethod
    def load(cls, files: FileSystem, directory: Path) -> "Store | None":
        """The store in `directory`, None when neither copy is readable.

        Raises:
            WrongStore: it is whole, and this program does not know what it says.
        """
        copies = TwoCopies(files, directory, KIND)
        found = copies.read()
        if found is None:
            return None
        body, stale = found
        try:
            header = msgspec.json.decode(body, type=StoreHeader)
        except msgspec.DecodeError as error:
            raise WrongStore("store", f"header is whole but not understood: {error}", NEWER) from error
        copies.settle(body, stale)
        store = cls(copies, directory, header)
        store.repaired_copies = stale
        return store

    @classmethod
    def create(cls, files: FileSystem, directory: Path, header: StoreHeader) -> "Store":
        """Write both copies for the first time."""
        copies = TwoCopies(files, directory, KIND)
        copies.write(_body(header))
        return cls(copies, directory, header)

    def update(self, **changes: object) -> StoreHeader:
        """Replace fields; durable in both copies when it returns."""
        with self._lock:
            header = msgspec.structs.replace(self.header, **changes)
            body = _body(header)
            if len(body) > HEADER_BYTES_MAX - PAGE:
                raise StoreDamaged(str(self._directory), "the epoch history has outgrown the store header")
            self.header = header
            self._copies.write(body)
            return header


def _body(header: StoreHeader) -> bytes:
    return msgspec.json.encode(header) + b"\n"
