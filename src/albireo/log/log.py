"""The log of a node: append, group commit, read, recover.

Purpose: keep every record that must not be lost, in one order, and hand them to folds and followers once committed.
Not here: what a record means, who may append (only CORE does), what is committed (CORE says so), marks and clocks.

Positions, from left to right:

    begin ...... committed ...... durable ...... end
      |  readers see   |  on disk, not |  queued   |
      |  these         |  yet told     |  or being |
      |                |               |  written  |

Threads: everything is called from one thread (CORE's loop), but for the callbacks given to `start`, which come from the
sync thread, and for `save_snapshot`, which any one thread may call. Without `start` the log has no threads: `flush` and
`keep_house` do the work in the caller's thread. That is how simulations and crash tests run it.

Spec: design/log-and-feed.md, Log; ADR-0010 to 0016; docs/formats/log.md.
"""

import operator
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from albireo.codec.frame import Frame, FrameHeader
from albireo.log.config import LogConfig, StoreIdentity
from albireo.log.files import FileSystem, OsFileSystem
from albireo.log.opening import QUARANTINE, SEGMENTS, Entropy, OpenedStore, end_of, recovered, taken
from albireo.log.retention import LogRetention, PrunedSegment
from albireo.log.segment.cutting import CutNote, Cutter, NotAtAnEnd, copied_bytes_max
from albireo.log.segment.recovery import CorruptRange, Recovered, Recovery, RecoveryReport
from albireo.log.segment.scrub import ScrubProgress
from albireo.log.segment.stored_log import LogStats, StoredLog
from albireo.log.segment.table import Queued
from albireo.log.store.quarantine import Quarantine, Quarantined, Trimmer
from albireo.log.store.snapshots import Snapshot
from albireo.log.store.store import Base, StoreHeader
from albireo.log.write.appending import Appender, Entry, Stamp
from albireo.log.write.claims import Claims
from albireo.log.write.commit import LogFailure
from albireo.log.write.work import Work
from albireo.log.write.writer import Preparer, SegmentWriter
from albireo.model.instant import MS, LogTime
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, EpochHistory, Position


class Log:
    """See the module. Made by `open` only."""

    def __init__(self, directory: Path, config: LogConfig, files: FileSystem, opened: OpenedStore) -> None:
        self._directory = directory
        self._config = config
        self._files = files
        self._lock = opened.lock
        self._entropy = opened.entropy
        self._store = store = opened.store
        self.log_id = bytes.fromhex(store.header.log_id)
        self._preparer = Preparer(files, directory / SEGMENTS, config)
        self._quarantine = Quarantine(files, directory / QUARANTINE)
        self._cutter = Cutter(files, directory / SEGMENTS, self._quarantine)
        self._work = Work(config, self._preparer, lambda: self._stored.tidy())
        self.trimmer = Trimmer(self._quarantine, config, self._work.do)
        self._retention = LogRetention(files, directory, config, store, self._work.do)
        self._adopt(opened.found)
        self._told = self.header.position(min(opened.found.committed_sequence, self.end.sequence))
        self._view = LogView()
        self._view_parts: tuple[object, ...] = (None,)
        """Fields of the last view, in their order."""
        self.do = self._work.do
        """Takes a piece of disk work that the housekeeper does soon; without threads it is done right here."""

    def _adopt(self, found: Recovered) -> None:
        """Go on from what recovery left on the disk; all of it is durable."""
        self._stored = StoredLog(self._files, self._directory / SEGMENTS, self._config, self._store, found)
        self._claims = Claims()
        self._retention.attach(self._stored)
        end = end_of(found, self.header)
        self._work.attach(SegmentWriter(self._files, self._config, self._stored.table, self._preparer), end.position)
        self._appender = Appender(self._config, self.log_id, end)

    @classmethod
    def open(
        cls,
        directory: Path,
        identity: StoreIdentity,
        config: LogConfig | None = None,
        files: FileSystem | None = None,
        entropy: Entropy = os.urandom,
    ) -> tuple["Log", RecoveryReport]:
        """Take the directory, recover what is there, or begin a new log.

        Raises:
            OpenRefused: or one of its subclasses; the directory is released.
        """
        config = LogConfig() if config is None else config
        files = OsFileSystem() if files is None else files
        with taken(files, directory) as lock:
            opened = recovered(lock, directory, identity, config, files, entropy)
            log = cls(directory, config, files, opened)
        return log, opened.report

    def start(self, on_durable: Callable[[Position], None], on_failed: Callable[[LogFailure], None]) -> None:
        """Start the sync thread and the housekeeper.

        Args:
            on_durable: called in the sync thread with the last position of each group; must not block. A cut in between
                makes such a position wrong, so whoever looks later takes `durable` instead.
            on_failed: called once in the sync thread when the log has stopped for good: acknowledge nothing more, exit.
        """
        self._work.start(on_durable, on_failed)

    def close(self, *, clean: bool = True, shutdown_id: str = "") -> None:
        """Make everything queued durable and release the directory.

        Args:
            clean: note a clean close in the store header, if nothing has failed and all is durable.
            shutdown_id: agreed with the other member, whose log ends alike; empty: drawn.
        """
        self._work.stop()
        self._stored.reader.close()
        try:
            if clean and self._work.failure is None and self.durable == self.end:
                self._store.update(
                    is_clean=True,
                    shutdown_id=shutdown_id or self._entropy(8).hex(),
                    committed_sequence=self.committed.sequence,
                    durable=self.durable,
                )
        finally:
            self._files.close(self._lock)

    def promise(self, tried_epoch: int, accepted_epoch: int, history: EpochHistory) -> None:
        """Keep what a member of a pair must not forget; it is in the store header when this returns.

        Args:
            history: replaces the stored one; a follower's history is its holder's.

        Raises:
            ValueError: an epoch would go back.
            LogStopped: the header could not be written.
        """
        header = self._store.header
        if tried_epoch < header.tried_epoch or accepted_epoch < header.accepted_epoch:
            stored = f"tried {header.tried_epoch}, accepted {header.accepted_epoch}"
            raise ValueError(f"tried epoch {tried_epoch}, accepted {accepted_epoch}; the store has {stored}")
        self._update_store(tried_epoch=tried_epoch, accepted_epoch=accepted_epoch, history=history)

    def keep_registers(self, copies: bytes) -> None:
        """Keep this member's blocks of the PLCs that vote, in the store header. Raises LogStopped."""
        self._update_store(plc_registers=copies)

    def grant(self, entry: EpochEntry) -> None:
        """Write what follows under a new epoch; it is in the store header when this returns.

        Granting the same entry again changes nothing.

        Raises:
            ValueError: the epoch is not higher, or does not begin at the next sequence.
            LogStopped: the header could not be written.
        """
        first = self._appender.next_sequence
        if entry.first_sequence != first:
            raise ValueError(f"epoch {entry.epoch} begins at {entry.first_sequence}, the log at {first}")
        if entry in self.history.entries[-1:]:
            return
        if entry.epoch <= self.history.epoch:
            raise ValueError(f"epoch {entry.epoch} granted after epoch {self.history.epoch}")
        self._update_store(history=self.history.granted(entry, self.begin_sequence))

    def append(self, entries: Sequence[Entry], *, elapsed_ms: int, node_ns: int) -> list[Frame]:
        """Assign epoch and sequences and queue for the sync thread; all of the entries or none.

        Args:
            elapsed_ms: boot-clock time since the previous append; goes into the first frame.
            node_ns: wall time.

        Raises:
            LogStopped, EntryTooLarge, Backlogged: nothing was taken.
        """
        self._work.stop_if_failed()
        stamp = Stamp(self.history.epoch, elapsed_ms, node_ns, self.committed.sequence)
        return self._put(self._appender.own(entries, stamp, self._pending_bytes))

    def append_raw(self, chunk: bytes | memoryview) -> list[Frame]:
        """Queue frames of the holder as they are; all of the chunk or nothing.

        Raises:
            FramesRefused: they are damaged, or do not continue this log exactly: next sequence, chain, log time, and
                the epoch that `history` names for them. Nothing was taken.
            LogStopped, Backlogged: nothing was taken.
        """
        self._work.stop_if_failed()
        group = self._appender.raw(chunk, self.history, self._pending_bytes)
        if group:
            self._note_claims(group)
        return self._put(group)

    def _put(self, group: list[Queued]) -> list[Frame]:
        if group:
            self._work.put(group)
            self._stored.tail.add(group, self.durable.sequence)
        return [queued.frame for queued in group]

    def _note_claims(self, group: list[Queued]) -> None:
        stored = self.header.claims_to
        claims_to = self._claims.taken([queued.frame.header for queued in group], self.durable.sequence, stored)
        if claims_to != stored:
            self._update_store(claims_to=claims_to)

    def commit(self, position: Position) -> None:
        """Call everything up to `position` committed: readers see it as far as it is durable here.

        Standalone this is what `on_durable` named, in a pair what both members have. A follower is told by its holder,
        perhaps before its own disk has it.
        """
        assert position.sequence <= self.end.sequence, f"{position} was never appended, the log ends at {self.end}"
        if position.sequence > self._told.sequence:
            self._told = position

    def cut_to(self, sequence: int, *, why: str = "", node_ns: int = 0) -> Position:
        """Take everything above `sequence` out of the log, into quarantine; done on the disk when this returns.

        A cut is a barrier: nothing else is written meanwhile, and positions told by `on_durable` before it are void.
        Snapshots and epochs above it go too. After a crash the log is either uncut or cut.

        Args:
            sequence: end of a frame; the new end of the log.
            why, node_ns: reason and wall time, for the note in quarantine.

        Returns:
            The new end: lower than asked only if records below the cut, above the commit position, are damaged.

        Raises:
            ValueError: `sequence` is above the end, or in the middle of a batch; nothing has changed.
            LogStopped: the disk refused; the next open finishes the cut if it was decided.
        """
        if not 0 <= sequence <= self.end.sequence:
            raise ValueError(f"cut to {sequence}: the log ends at {self.end}")
        if sequence == self.end.sequence:
            return self.end
        left = self._work.suspend()
        count = bisect_right(left, sequence, key=lambda queued: queued.frame.header.last_sequence)
        note = CutNote(sequence + 1, self.end.sequence, node_ns, why, self._entropy(4).hex())
        entries = tuple(entry for entry in self.history.entries if entry.first_sequence <= sequence)
        committed = min(max(self.header.committed_sequence, self.committed.sequence), sequence)
        changes = {"committed_sequence": committed, "history": EpochHistory(entries)}
        self._carry_out(note, left[:count], left[count:], changes)
        return self.end

    def room_lacked_by_cut(self, sequence: int) -> int:
        """Bytes that `cut_to` would lack on this disk now for what it copies to quarantine; 0: there is room."""
        needed = copied_bytes_max(self._stored.table.segments, sequence) + self._pending_bytes
        return max(0, needed - self._files.free_bytes(self._directory))

    def start_over(
        self,
        after: Position,
        header_crc: int,
        log_time: LogTime,
        *,
        history: EpochHistory | None = None,
        why: str = "",
        node_ns: int = 0,
    ) -> None:
        """Put everything into quarantine and go on behind `after`, where the other member's log begins.

        This is a barrier as `cut_to` is. Afterwards the log is empty, begins at `after` + 1, and has no snapshot.

        Args:
            header_crc: CRC of the header of the frame that ends at `after`, to which the next frame chains.
            log_time: log time at `after`.
            history: replaces the stored one.

        Raises:
            LogStopped: the disk refused; the next open finishes it if it was decided.
        """
        dropped = self._work.suspend()
        note = CutNote(self.begin_sequence, self.end.sequence, node_ns, why, self._entropy(4).hex())
        changes: dict[str, object] = {} if history is None else {"history": history}
        changes["base"] = Base(position=after, header_crc=header_crc, log_time_ms=log_time // MS)
        changes["begin_sequence"] = after.sequence + 1
        changes["committed_sequence"] = after.sequence
        self._carry_out(note, [], dropped, changes)
        self._told = after

    def _carry_out(self, note: CutNote, kept: list[Queued], dropped: list[Queued], changes: dict[str, object]) -> None:
        """Decide the cut, carry it out, and go on from what recovery finds then, with `kept` still to be written."""
        store, directory = self._store, self._directory
        has_new_base = "base" in changes
        try:
            mark = self._cutter.prepare(self._stored.table.segments, dropped, note)
            store.update(cut=mark, **changes)
            found = Recovery(self._files, directory / SEGMENTS, directory / QUARANTINE, self._config, store).recover()
            self._retention.delete_above(0 if has_new_base else note.first_sequence - 1)
        except NotAtAnEnd:
            self._work.resume(kept + dropped)
            raise
        except OSError as error:
            self._work.fail("cutting the log failed", error)
        self._stored.reader.close()
        self._adopt(found)
        self._work.durable_bytes = 0
        if not has_new_base:
            self._told = min(self._told, self.header.position(min(note.first_sequence - 1, self.end.sequence)))
        if kept and kept[0].frame.header.first_sequence == self._appender.next_sequence:
            kept = self._appender.again(kept)
            self._note_claims(kept)
            self._stored.tail.add(kept, self.durable.sequence)
        self._work.resume(kept)

    def flush(self) -> Position:
        """Without threads: write and sync what is queued, as far as there is room. Raises LogStopped."""
        self._work.flush()
        return self.durable

    def keep_house(self) -> None:
        """Without threads: prepare the next segment and write sidecars."""
        self._work.keep_house()

    def admission(self) -> str:
        """Reason to refuse producers now, or empty. The node's own records are taken up to `pending_bytes_max`."""
        return self._work.admission(self._pending_bytes, self._config.pending_bytes_max)

    def read(self, after_sequence: int, bytes_max: int) -> bytes:
        """Committed frames behind `after_sequence`, end to end, checked; at least one if there is any, else b"".

        The first frame may be larger than `bytes_max`, and may begin at or before `after_sequence` when that is in the
        middle of a batch. One call does not cross a segment. The newest frames come from memory.

        Raises:
            Pruned: gone by retention.
            Corrupted: the very next records are damaged; go on behind `error.last_sequence`.
            ReadFailed: the file system refused.
        """
        committed = self.committed.sequence
        return self._stored.read(after_sequence, committed, committed, bytes_max)

    def select(self, after_sequence: int, bytes_max: int, streams: Collection[int]) -> tuple[bytes, int]:
        """As `read`, frames of these streams only, if any are named, and the sequence to which all were looked at."""
        return self._stored.select(after_sequence, self.committed.sequence, bytes_max, streams)

    def read_appended(self, after_sequence: int, bytes_max: int) -> bytes:
        """As `read`, but up to `end`: for the other member, which has to have a record before it can be committed."""
        self._stored.tail.kept_bytes_max = self._config.tail_bytes_max
        return self._stored.read(after_sequence, self.end.sequence, self.durable.sequence, bytes_max)

    def replay(self, after_sequence: int, to_sequence: int) -> Iterator[Frame]:
        """Committed frames that begin in (after_sequence, to_sequence], in order. Raises as `read` does."""
        return self._stored.replay(after_sequence, min(to_sequence, self.committed.sequence))

    def header_at(self, sequence: int) -> FrameHeader:
        """Header of the committed frame that holds `sequence`. Raises as `read` does; ValueError: not committed."""
        if not 0 < sequence <= self.committed.sequence:
            raise ValueError(f"sequence {sequence} is not committed, {self.committed.sequence} is")
        return self._stored.reader.header_at(sequence)

    @property
    def end(self) -> Position:
        """Last record appended."""
        return self._appender.end

    @property
    def durable(self) -> Position:
        """Last record on the disk."""
        return self._work.durable

    @property
    def committed(self) -> Position:
        """Last record that readers see."""
        durable = self._work.durable
        return self._told if self._told.sequence <= durable.sequence else durable

    @property
    def history(self) -> EpochHistory:
        return self._store.header.history

    @property
    def header(self) -> StoreHeader:
        """Store header as it is on the disk."""
        return self._store.header

    @property
    def begin_sequence(self) -> int:
        """First sequence that is not gone by retention; may be one above the end."""
        return self._stored.reader.begin_sequence

    def view(self) -> LogView:
        """All positions at this instant, for the machines that decide about this log."""
        header, told, durable = self._store.header, self._told, self._work.durable
        committed = told if told.sequence <= durable.sequence else durable
        positions = (self._stored.beginning(header), committed, told, durable, self._appender.end, header.history)
        parts = (*positions, self._stored.damaged_from, self.admission())
        if not all(map(operator.is_, parts, self._view_parts)):  # A turn asks ten times, and most views are alike.
            self._view, self._view_parts = LogView(*parts), parts
        return self._view

    @property
    def log_time(self) -> LogTime:
        """Log time at `end`."""
        return LogTime(self._appender.log_time_ms * MS)

    @property
    def corrupt(self) -> tuple[CorruptRange, ...]:
        """Damage to committed records that is known so far: found at open, by reads, by scrub."""
        return self._stored.corrupt

    def repair(self, chunk: bytes | memoryview) -> tuple[int, int]:
        """Put frames of the other member where a range of `corrupt` begins; durable when this returns.

        Frames behind the range are left alone, so `chunk` may be the result of the other member's `read`.

        Returns:
            (first, last) sequence repaired; `corrupt` has shrunk by it.

        Raises:
            FramesRefused: the frames do not belong there; nothing has changed.
            RepairFailed: the disk refused; the range is still known as damaged.
        """
        piece = self._stored.repair(chunk)
        self._appender.mend(piece.headers[-1])
        return piece.first_sequence, piece.last_sequence

    def quarantine(self) -> list[Quarantined]:
        """Everything that was taken out of the log and is kept for people."""
        return self._quarantine.listing()

    def stats(self) -> LogStats:
        sizes = {"size_bytes": self._stored.size_bytes, "pending_bytes": self._pending_bytes}
        return LogStats(segments=len(self._stored.table.segments), groups=self._work.groups, **sizes)

    def save_snapshot(self, position: Position, log_time: LogTime, sections: Mapping[str, bytes]) -> bool:
        """Keep the folds as they were at a committed position; written by the housekeeper, without threads right here.

        Returns:
            False: the previous one is still being written, try later. `snapshot` and `trouble` tell the outcome.
        """
        header = self.header_at(position.sequence)
        assert header.last == position, f"{position} is not the end of a frame"
        crc = header.header_crc
        return self._retention.save(
            Snapshot(position=position, log_time=log_time, frame_crc=crc, sections=dict(sections))
        )

    def load_snapshots(self) -> Iterator[Snapshot]:
        """Valid snapshots that belong to this log and can be replayed from, newest first."""
        return self._retention.load(self.committed.sequence)

    @property
    def snapshot(self) -> Position:
        """Position of the last snapshot saved since open."""
        return self._retention.snapshot

    @property
    def trouble(self) -> str:
        """Why the last snapshot or deletion failed, or empty; the log itself goes on."""
        return self._retention.trouble

    def prune(self, wanted_from: int) -> list[PrunedSegment]:
        """Delete the oldest segments in which nothing is wanted, for no record of them reaches this sequence."""
        return self._retention.prune(wanted_from, self.committed.sequence)

    def scrub_step(self, bytes_max: int) -> ScrubProgress:
        """Check up to `bytes_max` bytes of sealed segments (at least one frame). Raises ReadFailed."""
        return self._stored.scrubber.step(bytes_max)

    @property
    def _pending_bytes(self) -> int:
        return self._appender.appended_bytes - self._work.durable_bytes

    def _update_store(self, **changes: object) -> None:
        self._work.stop_if_failed()
        try:
            self._store.update(**changes)
        except OSError as error:
            self._work.fail("writing the store header failed", error)
