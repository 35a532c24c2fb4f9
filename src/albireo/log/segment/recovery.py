"""Recovery: from the files of a store, however it was left, to a log that can go on.

It decides which damage is a torn tail, to be cut, and which is corruption, to be reported and left alone.
Not here: repair from another member; appending.

C is the highest commit position found in any valid frame or in the store header. Somebody may have seen the records up
to C; nobody has been told of those above it.

    damage starts at a sequence   it is         what happens
    <= C                          corruption    nothing is cut; the range is reported
    >  C                          a torn tail   everything from there on goes to quarantine, valid frames included, and
                                                the rest of the segment is zeroed; later segments are removed
    <= C, and reaches beyond C    both          the part up to C is reported; what follows goes to quarantine

"A valid frame follows, so it is corruption" would be wrong: with random page survival up to 94 % of honest power cuts
look like that (design/log-and-feed.md, Recovery).

If records up to C are missing at the end, the log goes on at C + 1 in a new segment: no sequence is ever given twice.
Before any position is called durable again, the frames above C are rewritten and synced, because a page whose
write-back failed before the crash may read back fine from the page cache and still not be on the disk.

`plan` is pure. Every step of `recover` is durable before the next, and repeating it after a crash in the middle gives
the same result: C goes to the store header before the frames that prove it are cut.

Spec: ADR-0012.
"""

from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import LogConfig
from albireo.log.files import FileSystem, opened, write_all, write_aside
from albireo.log.segment.cutting import Cutter, bytes_from, zero_from
from albireo.log.segment.scan import Window, scan
from albireo.log.segment.segment import FILLING, INDEX_SUFFIX, Segment, sequence_of
from albireo.log.store.quarantine import Quarantine, Quarantined
from albireo.log.store.store import Store

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_NO_LIMIT: Final = 2**63


class CorruptRange(msgspec.Struct, frozen=True, array_like=True):
    """Committed records that are damaged or missing; both ends included."""

    first_sequence: int
    last_sequence: int
    segment: str
    """Name of the segment's file."""
    offset: int
    reason: str


class TornTail(msgspec.Struct, frozen=True, array_like=True):
    """Records that were cut: nobody had been told of them, unless the disk lied."""

    first_sequence: int
    """First sequence that was cut."""
    last_sequence: int
    """Last sequence of a valid frame that was cut; first_sequence - 1 when there was none."""
    size_bytes: int
    files: tuple[str, ...]
    """Names of the copies in quarantine."""
    reason: str


class CutPlace(msgspec.Struct, frozen=True):
    """Place at which recovery cuts the log."""

    index: int
    """Index of the segment."""
    offset: int
    """Offset in that segment; 0: the whole segment goes."""
    first_sequence: int
    """First sequence that goes."""
    reason: str


class RecoveryPlan(msgspec.Struct, frozen=True):
    """Decision of recovery: damage to report, and the cut if there is a torn tail."""

    corrupt: tuple[CorruptRange, ...]
    cut: CutPlace | None
    next_sequence: int
    """Sequence of the next record to be appended."""


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Findings and deeds of an open."""

    is_new: bool
    """The store was made by this open."""
    was_clean: bool
    committed_sequence: int
    """Commit position C."""
    end_sequence: int
    """Last sequence of the log now; all of the log is durable."""
    corrupt: tuple[CorruptRange, ...] = ()
    torn: TornTail | None = None
    rewritten_bytes: int = 0
    """Bytes of the frames above C, which were written once more."""
    scanned_bytes: int = 0
    repaired_copies: tuple[str, ...] = ()
    """Copies of the store header that were damaged or stale."""
    deleted_snapshots: tuple[str, ...] = ()
    """Names of the snapshots that lay above a cut."""


def plan(segments: list[Segment], begin_sequence: int, committed_sequence: int) -> RecoveryPlan:
    """Apply the rules in the module's table to what scans found.

    Args:
        segments: oldest first, each above the one before.
        begin_sequence: first sequence that is not gone by retention.
        committed_sequence: C.
    """
    corrupt: list[CorruptRange] = []
    expected = begin_sequence
    for index, segment in enumerate(segments):
        name = segment.path.name
        if segment.first_sequence > expected:
            # The end of the segment before is damaged or missing, or a whole segment is.
            offset, reason = _before(segments, index)
            behind = segment.first_sequence - 1
            if expected <= committed_sequence:
                last = min(behind, committed_sequence)
                corrupt.append(CorruptRange(expected, last, name, offset, reason))
                expected = last + 1
            if behind > committed_sequence:
                return RecoveryPlan(tuple(corrupt), CutPlace(index, 0, expected, reason), expected)
        for damage in segment.summary.damages:
            if damage.first_sequence > committed_sequence:
                cut = CutPlace(index, damage.offset, damage.first_sequence, damage.reason)
                return RecoveryPlan(tuple(corrupt), cut, cut.first_sequence)
            if not damage.next_sequence:
                break
            last = min(damage.next_sequence - 1, committed_sequence)
            corrupt.append(CorruptRange(damage.first_sequence, last, name, damage.offset, damage.reason))
            if damage.next_sequence - 1 > committed_sequence:
                cut = CutPlace(index, damage.end_offset, committed_sequence + 1, damage.reason)
                return RecoveryPlan(tuple(corrupt), cut, committed_sequence + 1)
        expected = segment.last_sequence + 1
    if expected <= committed_sequence:
        offset, reason = _before(segments, len(segments))
        name = segments[-1].path.name if segments else ""
        corrupt.append(CorruptRange(expected, committed_sequence, name, offset, reason))
        expected = committed_sequence + 1
    return RecoveryPlan(tuple(corrupt), None, expected)


def _before(segments: list[Segment], index: int) -> tuple[int, str]:
    """(offset, reason) of the damage in front of segment `index`."""
    if index == 0:
        return 0, "segment missing"
    summary = segments[index - 1].summary
    lost = [damage for damage in summary.damages if not damage.next_sequence]
    return (lost[0].offset, lost[0].reason) if lost else (summary.end_offset, "frames missing")


class Recovered(msgspec.Struct, frozen=True):
    """State of the disk from which the log goes on."""

    segments: tuple[Segment, ...]
    next_sequence: int
    committed_sequence: int
    corrupt: tuple[CorruptRange, ...]
    torn: TornTail | None
    rewritten_bytes: int
    scanned_bytes: int


class Recovery:
    """One pass over one store, whose header the caller has marked as not clean before."""

    def __init__(self, files: FileSystem, directory: Path, quarantine: Path, config: LogConfig, store: Store) -> None:
        self._files = files
        self._directory = directory
        self._quarantine = quarantine
        self._config = config
        self._store = store
        self._log_id = bytes.fromhex(store.header.log_id)
        self._scanned_bytes = 0

    def recover(self) -> Recovered:
        """Scan the segments that may be torn, cut the torn tail, rewrite what is above C.

        Raises:
            OSError: the disk refused; nothing was called durable.
        """
        mark = self._store.header.cut
        if mark is not None:
            Cutter(self._files, self._directory, Quarantine(self._files, self._quarantine)).carry_out(mark)
            self._store.update(cut=None)
        begin = self._store.header.begin_sequence
        segments = self._listed(begin)
        committed = self._scan_unsafe(segments)
        if committed > self._store.header.committed_sequence:
            self._store.update(committed_sequence=committed)
        decided = plan(segments, begin, committed)
        torn = self._cut(segments, decided.cut) if decided.cut is not None else None
        rewritten = sum(self._rewrite(segment, committed) for segment in segments)
        self._seal(segments, decided.next_sequence)
        if self._store.header.claims_to is not None:
            # All records that the remaining frames call committed are durable now.
            claimed = max((segment.summary.committed_sequence for segment in segments), default=0)
            committed = max(committed, min(claimed, decided.next_sequence - 1))
            self._store.update(claims_to=None, committed_sequence=committed)
        return Recovered(
            tuple(segments), decided.next_sequence, committed, decided.corrupt, torn, rewritten, self._scanned_bytes
        )

    def _listed(self, begin_sequence: int) -> list[Segment]:
        """Segments by their files; leftovers are deleted, sidecars are read where they fit."""
        names = self._files.names(self._directory)
        for name in names:
            if name.endswith(".aside") or name == FILLING:
                self._files.unlink(self._directory / name)
        firsts = sorted(first for first in map(sequence_of, names) if first is not None)
        segments = [self._opened(first) for first in firsts]
        for segment, following in zip(segments, firsts[1:], strict=False):
            segment.is_sealed = True
            if not segment.read_sidecar(self._files, self._log_id) or segment.last_sequence >= following:
                self._scan(segment, None, following)
        gone = [s for s, following in zip(segments, firsts[1:], strict=False) if following <= begin_sequence]
        for segment in gone:
            # Retention was interrupted between its mark and the deletion.
            self._remove(segment)
        return segments[len(gone) :]

    def _opened(self, first_sequence: int) -> Segment:
        path = self._directory / f"{first_sequence:020d}.segment"
        with opened(self._files, path) as handle:
            return Segment(path, first_sequence, self._files.size(handle))

    def _scan_unsafe(self, segments: list[Segment]) -> int:
        """Scan the last segment and every one that reaches above C; returns C."""
        committed = self._store.header.committed_sequence
        for segment in segments[:-1]:
            committed = max(committed, self._believed(segment.summary.committed_sequence))
        for index in range(len(segments) - 1, -1, -1):
            segment = segments[index]
            is_last = index == len(segments) - 1
            if not is_last and segment.last_sequence <= committed:
                break
            before = segments[index - 1].summary if index else None
            joins = before is not None and before.last_sequence + 1 == segment.first_sequence
            crc = before.last_header_crc if before is not None and joins and before.last_header_crc else None
            self._scan(segment, crc, _NO_LIMIT if is_last else segments[index + 1].first_sequence)
            committed = max(committed, self._believed(segment.summary.committed_sequence))
        return committed

    def _believed(self, claimed_sequence: int) -> int:
        """Commit position that a frame proves: none above the records that were durable here when it was written."""
        claims_to = self._store.header.claims_to
        return claimed_sequence if claims_to is None else min(claimed_sequence, claims_to)

    def _scan(self, segment: Segment, previous_header_crc: int | None, limit: int, end: int | None = None) -> None:
        segment.reset()
        end = segment.capacity_bytes if end is None else end
        with opened(self._files, segment.path) as handle:
            scan(
                Window(self._files, handle, end),
                segment,
                self._log_id,
                previous_header_crc=previous_header_crc,
                sequence_limit=limit,
                index_every_bytes=self._config.index_every_bytes,
            )
        self._scanned_bytes += end

    def _cut(self, segments: list[Segment], cut: CutPlace) -> TornTail:
        """Copy everything behind the cut to quarantine, then remove it, the newest first."""
        last = max((s.last_sequence for s in segments[cut.index :]), default=0)
        kept: list[str] = []
        size = 0
        for index in range(cut.index, len(segments)):
            offset = cut.offset if index == cut.index else 0
            name, length = self._keep(segments[index], offset)
            size += length
            kept += [name] if length else []
        torn = TornTail(cut.first_sequence, max(last, cut.first_sequence - 1), size, tuple(kept), cut.reason)
        self._note(torn)
        for segment in reversed(segments[cut.index + 1 :]):
            self._remove(segment)
        segment = segments[cut.index]
        if cut.offset == 0:
            self._remove(segment)
            del segments[cut.index :]
        else:
            self._drop_sidecar(segment)
            zero_from(self._files, segment.path, cut.offset)
            del segments[cut.index + 1 :]
            self._scan(segment, None, cut.first_sequence, cut.offset)
        return torn

    def _note(self, torn: TornTail) -> None:
        name = f"{torn.first_sequence:020d}-{self._store.header.run_id}.note"
        note = Quarantined(
            name=name,
            first_sequence=torn.first_sequence,
            last_sequence=torn.last_sequence,
            size_bytes=torn.size_bytes,
            when_ns=0,
            why=f"torn tail: {torn.reason}",
            files=torn.files,
        )
        Quarantine(self._files, self._quarantine).note(note)

    def _keep(self, segment: Segment, offset: int) -> tuple[str, int]:
        """Copy the bytes from `offset` on, without trailing zeros, to a file in quarantine; (name, length)."""
        name = f"{segment.path.stem}-{offset}-{self._store.header.run_id}.torn"
        parts = bytes_from(self._files, segment, offset)
        if parts:
            write_aside(self._files, self._quarantine / name, parts)
        return name, sum(map(len, parts))

    def _remove(self, segment: Segment) -> None:
        for path in (segment.path.with_suffix(INDEX_SUFFIX), segment.path):
            try:
                self._files.unlink(path)
            except FileNotFoundError:
                continue
        self._files.sync_directory(self._directory)

    def _drop_sidecar(self, segment: Segment) -> None:
        if segment.index_path.name in self._files.names(self._directory):
            self._files.unlink(segment.index_path)
            self._files.sync_directory(self._directory)

    def _rewrite(self, segment: Segment, committed_sequence: int) -> int:
        """Write the frames above C again, byte for byte, and sync them; returns how many bytes."""
        if segment.last_sequence <= committed_sequence:
            return 0
        with opened(self._files, segment.path) as handle:
            end = segment.summary.end_offset
            window = Window(self._files, handle, end)
            offset, _ = segment.start_for(committed_sequence + 1, self._files)
            header = window.frame(offset)
            while header is not None and header.last_sequence <= committed_sequence:
                offset += header.frame_bytes
                header = window.frame(offset)
            start = offset
            while offset < end:
                buffer, place = window.at(offset, min(_CHUNK_BYTES, end - offset))
                offset = write_all(self._files, handle, [memoryview(buffer)[place : place + _CHUNK_BYTES]], offset)
            self._files.sync(handle)
        return end - start

    def _seal(self, segments: list[Segment], next_sequence: int) -> None:
        """Only a segment whose end is whole and joins the next sequence may be written on."""
        for segment in segments[:-1]:
            segment.is_sealed = True
        if segments and (segments[-1].has_lost_end or segments[-1].last_sequence + 1 != next_sequence):
            segments[-1].is_sealed = True
        elif segments:
            # It was sealed if a later one has been cut or lost; what its sidecar says ends to be true with a write.
            self._drop_sidecar(segments[-1])
