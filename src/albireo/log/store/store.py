"""The store header: identity of a store, its promises, and how it was left.

Kept twice, in `store.a` and `store.b` (log/store/mirrored_file.py): JSON, so that a person can read it.
Spec: docs/formats/log.md.
"""

import threading
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.errors import OTHER_FORMAT, StoreDamaged, WrongStore
from albireo.log.files import FileSystem
from albireo.log.store.mirrored_file import PAGE, MirroredFile, MirrorFormat
from albireo.model.position import EpochHistory, Position

HEADER_BYTES_MAX: Final = 4 * 1024 * 1024
"""An epoch takes about 45 bytes."""
KIND: Final = MirrorFormat(magic=b"ALBH", bytes_max=HEADER_BYTES_MAX)


class CutMark(msgspec.Struct, frozen=True, kw_only=True):
    """A cut that is decided and perhaps not done: until it is done every open does it again (ADR-0111)."""

    segment: int
    """First sequence of the segment that is cut; later segments leave the log. 0: all leave."""
    offset: int
    """Offset from which the segment is zeroed. 0: the segment itself leaves."""
    tag: str
    """Part of the names of the files in quarantine."""
    first_sequence: int
    """First sequence that is cut."""
    last_sequence: int
    size_bytes: int
    when_ns: int
    """Wall time, Unix ns."""
    why: str
    files: tuple[str, ...]
    """Names of the copies that are in quarantine already."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Place from which a log that was started over continues (`Log.start_over`)."""

    position: Position
    header_crc: int
    log_time_ms: int


class StoreHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the store header. Ids are random bytes in hexadecimal."""

    cluster: str
    node: str
    store_id: str
    """Id of this directory; never copied."""
    log_id: str
    """Id of the log; equal on both members of a pair."""
    history: EpochHistory = EpochHistory()
    run_id: str = ""
    """Drawn at each open."""
    is_clean: bool = False
    """True: closed cleanly and not opened since."""
    shutdown_id: str = ""
    """Drawn at a clean close, else empty: two members that share it hold the same records."""
    committed_sequence: int = 0
    """Commit position that is known to have been reached; frames may know a higher one."""
    durable: Position = Position()
    """Last durable position at the last clean close."""
    begin_sequence: int = 1
    """First sequence that is not gone by retention; a segment missing from here on is damage."""
    tried_epoch: int = 0
    """Highest epoch for which this member was a candidate (pairs)."""
    accepted_epoch: int = 0
    """Highest epoch that this member has followed or held (pairs)."""
    plc_registers: bytes = b""
    """Copies of this member's register blocks in the PLCs that vote (pairs)."""
    claims_to: int | None = None
    """Commit positions in frames prove nothing above this sequence while the log catches up with a holder (ADR-0110).
    None: they are believed."""
    cut: CutMark | None = None
    """The cut that the next open has to finish; None: none is under way."""
    base: Base | None = None
    """Set once the log was started over; its first frame chains to it."""

    def position(self, sequence: int) -> Position:
        """Position of the record `sequence`, or of the base."""
        if self.base is not None and self.base.position.sequence == sequence:
            return self.base.position
        return self.history.position(sequence)


class Store:
    """The store header on the disk and in memory. `update` may be called from any thread."""

    def __init__(self, copies: MirroredFile, directory: Path, header: StoreHeader) -> None:
        self._copies = copies
        self._directory = directory
        self._lock = threading.Lock()
        self.header = header
        self.repaired_copies: tuple[str, ...] = ()

    @classmethod
    def load(cls, files: FileSystem, directory: Path) -> "Store | None":
        """The store in `directory`, None when neither copy is readable.

        Raises:
            WrongStore: the header has another format, or is whole and not understood.
        """
        copies = MirroredFile(files, directory, KIND)
        found = copies.read()
        if found is None:
            return None
        body, stale = found
        try:
            header = msgspec.json.decode(body, type=StoreHeader)
        except msgspec.DecodeError as error:
            raise WrongStore(str(directory), f"header is whole but not understood: {error}", OTHER_FORMAT) from error
        copies.settle(body, stale)
        store = cls(copies, directory, header)
        store.repaired_copies = stale
        return store

    @classmethod
    def create(cls, files: FileSystem, directory: Path, header: StoreHeader) -> "Store":
        """Write both copies for the first time."""
        copies = MirroredFile(files, directory, KIND)
        copies.write(_body(header))
        return cls(copies, directory, header)

    def update(self, **changes: object) -> StoreHeader:
        """Replace fields; durable in both copies when this returns."""
        with self._lock:
            header = msgspec.structs.replace(self.header, **changes)
            body = _body(header)
            if len(body) > HEADER_BYTES_MAX - PAGE:
                reason = (
                    f"{len(header.history.entries)} epochs within the records that are kept, more than a header holds"
                )
                raise StoreDamaged(str(self._directory), f"{reason}; move the log away, and see why it starts so often")
            self.header = header
            self._copies.write(body)
            return header


def _body(header: StoreHeader) -> bytes:
    return msgspec.json.encode(header) + b"\n"
