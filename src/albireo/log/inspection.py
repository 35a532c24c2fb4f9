"""Inspection of a store without opening it: nothing is written, locked, repaired or cut.

It serves people who compare two data directories before they start anything. It tells what recovery would find; for a
log that a node is writing right now the answer may be a moment old.

Spec: design/pair.md, rule 8 (`albireo stores`); docs/formats/log.md.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import LogConfig
from albireo.log.errors import OTHER_FORMAT, StoreDamaged, WrongStore
from albireo.log.files import FileSystem, OsFileSystem, opened
from albireo.log.opening import QUARANTINE, SEGMENTS, SNAPSHOTS
from albireo.log.segment.recovery import CorruptRange, plan
from albireo.log.segment.scan import Window, scan
from albireo.log.segment.segment import Segment, sequence_of
from albireo.log.store.mirrored_file import MirroredFile
from albireo.log.store.quarantine import Quarantine, Quarantined
from albireo.log.store.snapshots import Snapshot, Snapshots
from albireo.log.store.store import KIND, StoreHeader
from albireo.model.position import EpochHistory, Position

_NO_LIMIT: Final = 2**63
_INDEX_EVERY_BYTES: Final = LogConfig().index_every_bytes


class ReadOnly(OsFileSystem):
    """The real file system, for looking only: also on a medium or in a directory that can't be written."""

    def open(self, path: Path, *, create: bool = False) -> int:
        assert not create, "an inspection makes nothing"
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class StoreSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a store."""

    header: StoreHeader
    end: Position
    """Position of the last record that a start would keep."""
    committed_sequence: int
    """Highest commit position that anything in the store proves."""
    last_ns: int
    """Wall time of the newest frame; 0: none."""
    cut_from: int
    """First sequence that a start would cut as a torn tail, or that a decided cut takes; 0: nothing."""
    corrupt: tuple[CorruptRange, ...]
    size_bytes: int
    stale_copies: tuple[str, ...]
    """Copies of the store header that are damaged or behind."""


def inspect(directory: Path) -> StoreSeen:
    """Look at the log in `directory`, which is `<data>/log` of a node.

    Raises:
        StoreDamaged: neither copy of the store header can be read.
        WrongStore: the store has a format that this software does not know.
        OSError: the file system refused.
    """
    files = ReadOnly()
    header, stale = _header(files, directory)
    segments = _scanned(files, directory / SEGMENTS, header)
    claimed = max((segment.summary.committed_sequence for segment in segments), default=0)
    believed = claimed if header.claims_to is None else min(claimed, header.claims_to)
    committed = max(header.committed_sequence, believed)
    decided = plan(segments, header.begin_sequence, committed)
    last = decided.next_sequence - 1
    cut_from = 0 if decided.cut is None else decided.cut.first_sequence
    if header.cut is not None and header.cut.first_sequence <= last:
        cut_from, last = header.cut.first_sequence, header.cut.first_sequence - 1
    return StoreSeen(
        header=header,
        end=header.position(last),
        committed_sequence=committed,
        last_ns=max((segment.summary.node_ns for segment in segments), default=0),
        cut_from=cut_from,
        corrupt=decided.corrupt,
        size_bytes=sum(segment.summary.end_offset for segment in segments),
        stale_copies=stale,
    )


def header_of(directory: Path) -> StoreHeader:
    """The store header of the log in `directory`. Raises as `inspect`."""
    return _header(ReadOnly(), directory)[0]


def newest_snapshot(directory: Path) -> Snapshot | None:
    """The newest snapshot of the log in `directory` that can be read."""
    return Snapshots(ReadOnly(), directory / SNAPSHOTS, directory / QUARANTINE, kept=1).newest()


def _header(files: FileSystem, directory: Path) -> tuple[StoreHeader, tuple[str, ...]]:
    """The store header, and which copies of it are damaged or behind."""
    found = MirroredFile(files, directory, KIND).read()
    if found is None:
        raise StoreDamaged(str(directory), "no readable store header")
    body, stale = found
    try:
        return msgspec.json.decode(body, type=StoreHeader), stale
    except msgspec.DecodeError as error:
        raise WrongStore(str(directory), f"header is whole but not understood: {error}", OTHER_FORMAT) from error


def quarantined(directory: Path) -> list[Quarantined]:
    """Cuts of the log in `directory` that are kept for people; empty when there is no such folder."""
    try:
        return Quarantine(ReadOnly(), directory / QUARANTINE).listing()
    except FileNotFoundError:
        return []


def delete_quarantined(directory: Path, name: str) -> Quarantined:
    """Delete the cut that is listed under `name`, for good, also while the node runs.

    Raises:
        LookupError: there is no such cut, or it is not finished.
        StoreDamaged, WrongStore: the header that tells whether the cut is finished can't be read.
        OSError: the file system refused.
    """
    found = next((one for one in quarantined(directory) if name in (one.name, *one.files)), None)
    if found is None:
        raise LookupError(f"there is nothing of the name {name}")
    mark = _header(ReadOnly(), directory)[0].cut
    if mark is not None and any(mark.tag in one for one in (found.name, *found.files)):
        raise LookupError(f"{name} belongs to a cut that the next start of the node will finish")
    Quarantine(OsFileSystem(), directory / QUARANTINE).delete(found)
    return found


def _scanned(files: FileSystem, directory: Path, header: StoreHeader) -> list[Segment]:
    """The segments, oldest first: read from their sidecars where these fit, the last segment from its frames."""
    log_id = bytes.fromhex(header.log_id)
    firsts = sorted(first for first in map(sequence_of, files.names(directory)) if first is not None)
    found: list[Segment] = []
    for first, following in zip(firsts, [*firsts[1:], _NO_LIMIT], strict=True):
        if following <= header.begin_sequence:
            continue
        path = directory / f"{first:020d}.segment"
        with opened(files, path) as handle:
            segment = Segment(path, first, files.size(handle))
            is_known = following != _NO_LIMIT and segment.read_sidecar(files, log_id)
            if not is_known or segment.last_sequence >= following:
                segment.reset()
                window = Window(files, handle, segment.capacity_bytes)
                scan(
                    window,
                    segment,
                    log_id,
                    previous_header_crc=None,
                    sequence_limit=following,
                    index_every_bytes=_INDEX_EVERY_BYTES,
                )
        found.append(segment)
    return found


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing two stores."""

    kind: str
    """`foreign`, `same_store`, `equal`, `ahead` (one continues the other) or `forked` (both go on differently)."""
    common: int = 0
    """Last sequence up to which both are known to hold the same records."""
    newest: int | None = None
    """Index of the store whose last record has the higher (epoch, sequence); None: both end alike."""


def compare(first: StoreSeen, second: StoreSeen) -> Comparison:
    """Which of two stores is newer, by their epoch histories. Pure."""
    one, two = first.header, second.header
    if (one.cluster, one.log_id) != (two.cluster, two.log_id):
        return Comparison(kind="foreign")
    if one.store_id == two.store_id:
        return Comparison(kind="same_store", newest=_higher(first.end, second.end))
    common = one.history.common_point(two.history, first.end.sequence, second.end.sequence)
    if common == first.end.sequence == second.end.sequence:
        return Comparison(kind="equal", common=common)
    is_prefix = common in (first.end.sequence, second.end.sequence)
    kind = "ahead" if is_prefix else "forked"
    return Comparison(kind=kind, common=common, newest=_higher(first.end, second.end))


def _higher(first: Position, second: Position) -> int | None:
    if first == second:
        return None
    return 0 if first > second else 1


def epochs_behind(history: EpochHistory, sequence: int, end: int) -> list[tuple[int, int, int]]:
    """(epoch, first, last) for each epoch with records behind `sequence` up to `end`."""
    entries = history.entries
    found = []
    for index, entry in enumerate(entries):
        last = entries[index + 1].first_sequence - 1 if index + 1 < len(entries) else end
        first = max(entry.first_sequence, sequence + 1)
        if first <= min(last, end):
            found.append((entry.epoch, first, min(last, end)))
    return found
