"""Housekeeping of CORE's log: measurements, snapshots, pruning, scrub. Once a second, and never long.

Spec: design/log-and-feed.md, Snapshots, Streams.
"""

import asyncio
import math
from collections.abc import Callable
from itertools import chain
from typing import Final

import msgspec

from albireo.codec.files_told import MessagesTold, SealTold
from albireo.log import Corrupted, FileSystem, LogConfig, ReadFailed
from albireo.log.log import Log
from albireo.log.retention import PRUNED_MAX
from albireo.log.store.quarantine import Trimmer
from albireo.machine.fold.folds import Folds, joined
from albireo.machine.kernel.events import ActorsTold, Measured, TopologyTold
from albireo.machine.kernel.named import HISTORY, NamedFollower
from albireo.machine.root.root import Root
from albireo.model.instant import MS, SECOND, Instant, LogTime
from albireo.model.position import Position
from albireo.node.core.boot_questions import BootQuestions
from albireo.node.membership.membership import Membership
from albireo.node.membership.private_log import PrivateLog
from albireo.runtime import ActorContext, Letter

EVERY_NS: Final = SECOND
SNAPSHOT_RECORDS: Final = 2_000_000
"""A snapshot after this many records bounds the replay of large frames at a start to about a second."""
SNAPSHOT_FRAMES: Final = 100_000
"""The same for small frames: a replay takes 6 us for each if they are folded together, and 40 if none can be."""
SCRUB_BYTES_MAX: Final = 4 << 20
"""Most bytes that one housekeeping turn checks: about 2 ms."""
DAY_NS: Final = 86_400 * SECOND
PRUNE_NS: Final = 60 * SECOND
"""Time between two prunings, or that between two snapshots if it is shorter, for these let segments go."""


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long records stay once history and snapshots have them, and how often snapshots and checks are made."""

    keep_h: float = 24.0
    bytes_max: int = 64 << 30
    snapshot_every_s: int = 300
    scrub_bytes_per_s: int = 4 << 20
    named: tuple[NamedFollower, ...] = (HISTORY,)
    """Followers for which records stay that they lack."""


class Housekeeping:
    """Work that has to be done now and then, around the logs of one run of CORE and its folds."""

    def __init__(
        self,
        actor: ActorContext,
        files: FileSystem,
        log: Log,
        private: PrivateLog | None,
        root: Root,
        config: LogConfig,
        retention: Retention,
        step: Callable[[Measured | ActorsTold | TopologyTold], None],
        membership: Membership,
    ) -> None:
        self._actor = actor
        self._files = files
        self._log = log
        self._private = private
        self._root = root
        self._config = config
        self._retention = retention
        self._step = step
        self._membership = membership
        self._messages_lacking = 0
        self._seal_trouble: str | None = None
        self._at = Instant(0)
        self._snapshot_at = Instant(0)
        self._prune_at = Instant(0)
        self._snapshot_sequence = root.folded_to.sequence
        self._snapshot_frames = root.frames_folded
        self._saving: asyncio.Task[None] | None = None
        self._is_saving = False
        self._trouble = ""
        self._boot = BootQuestions(actor, step)

    def hears(self, letter: Letter, *, is_local: bool) -> bool:
        """True: the letter is boot's, or tells figures of another actor, and is dealt with."""
        if is_local and isinstance(letter.message, MessagesTold):
            self._messages_lacking = letter.message.lacking
            return True
        if is_local and isinstance(letter.message, SealTold):
            self._seal_trouble = letter.message.trouble
            return True
        return self._boot.hears(letter)

    def deadline(self) -> Instant:
        return self._at

    def ticked(self, now: Instant) -> None:
        if now < self._at:
            return
        self._at = Instant(now + EVERY_NS)
        size_bytes = sum(log.stats().size_bytes for log in self._logs())
        self._step(
            Measured(
                turn_ms=self._actor.turns.recent_ns(now) / MS,
                log_bytes=size_bytes,
                corrupt_ranges=sum(len(log.corrupt) for log in self._logs()) + bool(self._root.config.lacks_to),
                room_bytes=self._room_bytes(),
                messages_lacking=self._messages_lacking,
                seal_trouble=self._seal_trouble,
                keys_unreadable=float(bool(self._actor.key_trouble())),
                held_percent=self._held(size_bytes),
                pair=self._membership.figures(),
            )
        )
        if self._root.actors.asks_boot:
            self._boot.ask("actors")
        if self._root.config.topology_hash:
            self._boot.ask_topology(now)
        is_due = now >= self._snapshot_at or self._is_replay_long()
        if is_due and not (self._is_saving or self._actor.is_stopping):
            self._snapshot_at = Instant(now + self._retention.snapshot_every_s * SECOND)
            self._is_saving = True
            self._saving = self._actor.loop.create_task(self._save_snapshot())
            self._saving.add_done_callback(self._snapshot_ended)
        if now >= self._prune_at:
            self._prune_at = Instant(now + min(PRUNE_NS, self._retention.snapshot_every_s * SECOND))
            self._prune(size_bytes)
            for log in self._logs():
                log.trimmer.trim(self._actor.wall_ns(), self._log.log_time)
        self._scrub()
        for log in self._logs():
            self._tell_let_go(log.trimmer)
        if self._log.trouble != self._trouble:
            self._trouble = self._log.trouble
            if self._trouble:
                self._actor.log.error("log_housekeeping_failed", reason=self._trouble)

    def _is_replay_long(self) -> bool:
        root = self._root
        if root.folded_to.sequence - self._snapshot_sequence >= SNAPSHOT_RECORDS:
            return True
        return root.frames_folded - self._snapshot_frames >= SNAPSHOT_FRAMES

    def _logs(self) -> list[Log]:
        return [self._log] if self._private is None else [self._log, self._private.log]

    def _tell_let_go(self, trimmer: Trimmer) -> None:
        """Tell what quarantine does not keep any more: somebody may have meant to look at it."""
        log = self._actor.log
        for gone in trimmer.let_go():
            what = gone.what
            records = f"{what.first_sequence} to {what.last_sequence}"
            log.warning("quarantine_let_go", name=what.name, records=records, was=what.why, reason=gone.because)
        if trimmer.trouble:
            log.limited("quarantine_not_trimmed", "disk", reason=trimmer.trouble)

    def save_snapshot(self) -> None:
        """Have a snapshot begun at the next tick."""
        self._at = self._snapshot_at = Instant(0)

    async def stop(self) -> None:
        """Save the last snapshot. Ticks go on until it is there and begin no other one: the log is closed behind it."""
        if self._saving is not None:
            await self._saving
        await self._save_snapshot()
        self._boot.close()

    def _room_bytes(self) -> int:
        return max(0, self._files.free_bytes(self._actor.data) - self._config.free_bytes_min)

    def _held(self, size_bytes: int) -> dict[str, float]:
        """Used part of the bounds of each follower that has some, percent, by its name."""
        return {one.name: self._held_percent(one, size_bytes) for one in self._retention.named if one.is_bounded}

    def _held_percent(self, one: NamedFollower, size_bytes: int) -> float:
        """Used part of the bounds up to which records stay for a follower, as `_prune` applies them."""
        bytes_max, days = (math.inf if bound is None else bound for bound in (one.bytes_max, one.days))
        if not bytes_max or not days:
            return math.nan
        begin, end = self._log.begin_sequence, self._log.committed.sequence
        first = max(begin, self._root.feeds.leader.wanted_from(one.name) + 1)
        if first > end:
            return 0.0
        try:
            age_ns = self._log.log_time - self._log.header_at(first).log_time_ms * MS
        except (Corrupted, ReadFailed):
            age_ns = 0
        size = size_bytes * (end + 1 - first) / (end + 1 - begin) / bytes_max
        return 100 * max(size, age_ns / (days * DAY_NS))

    async def _save_snapshot(self) -> None:
        """Copy the folds as they are at the commit position, encode them between turns, hand them to the log."""
        folds, position, frames_folded = self._root.folds, self._root.folded_to, self._root.frames_folded
        log_time, drawn = LogTime(folds.log_time_ms * MS), []
        mirrors = self._root.tree.kept_slices(self._actor.wall_ns())
        slices = chain(folds.snapshot_slices(), mirrors) if self._may_keep(folds, position) else ()
        for one in slices:
            drawn.append(one)
            await asyncio.sleep(0)
        if not drawn or not self._may_keep(folds, position):
            self._is_saving = False
            return
        try:
            if self._log.save_snapshot(position, log_time, joined(drawn)):
                self._snapshot_sequence, self._snapshot_frames = position.sequence, frames_folded
        except (Corrupted, ReadFailed) as error:  # The frame that names the snapshot can't be read now.
            self._actor.log.limited("log_unreadable", "snapshot", reason=str(error))
        self._is_saving = False

    def _may_keep(self, folds: Folds, position: Position) -> bool:
        """False: a follower was given folds ahead of its log, has started over, or lacks damaged records."""
        is_here = self._log.begin_sequence <= position.sequence <= self._log.committed.sequence
        return is_here and folds is self._root.folds and self._membership.has_all_folded()

    def _snapshot_ended(self, task: asyncio.Task[None]) -> None:
        """Fail on a bug: it must not pass for "no snapshot was due", while the replay of the next start only grows."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._actor.fail(f"snapshot: {type(error).__name__}: {error}")

    def _scrub(self) -> None:
        bytes_max = min(SCRUB_BYTES_MAX, self._retention.scrub_bytes_per_s)
        if not bytes_max:
            return
        logs = self._logs()
        try:
            found = [damage for log in logs for damage in log.scrub_step(bytes_max // len(logs)).found]
        except ReadFailed as error:
            self._actor.log.limited("log_unreadable", "scrub", reason=str(error))
            return
        for damage in found:
            self._actor.log.error("log_corrupt", first=damage.first_sequence, last=damage.last_sequence)

    def _prune(self, size_bytes: int) -> None:
        """Let go of segments that every follower has or may not hold, and that are old, or too much.

        Ages are log time: a wall clock that jumps makes nothing old, nor does the time for which the node was down.
        """
        retention = self._retention
        begin, end = self._log.begin_sequence, self._log.committed.sequence
        cut = self._first_since(round(retention.keep_h * 3600 * SECOND))
        if size_bytes > retention.bytes_max:
            cut = max(cut, begin + (end - begin) * (size_bytes - retention.bytes_max) // size_bytes)
        lagging = self._membership.wanted_from()
        if lagging is not None and size_bytes <= retention.bytes_max:
            cut = min(cut, lagging + 1)
        gone = self._log.prune(min(cut, *(self._held_from(one, size_bytes) for one in retention.named)))
        if len(gone) == PRUNED_MAX:
            self._prune_at = self._at  # There may be more.
        for segment in gone:
            self._actor.log.info("segment_pruned", last=segment.last_sequence)
        if self._private is not None and (count := self._private.prune()):
            self._actor.log.info("private_segments_pruned", count=count)

    def _held_from(self, one: NamedFollower, size_bytes: int) -> int:
        """First sequence that stays for a follower: of what it lacks, as much as lies within its bounds."""
        begin, end = self._log.begin_sequence, self._log.committed.sequence
        held = self._root.feeds.leader.wanted_from(one.name) + 1
        if one.days is not None:
            held = max(held, self._first_since(round(one.days * DAY_NS)))
        if one.bytes_max is not None and size_bytes > one.bytes_max:
            held = max(held, begin + (end - begin) * (size_bytes - one.bytes_max) // size_bytes)
        return held

    def _first_since(self, age_ns: int) -> int:
        """First sequence that is no older, by bisection: log time rises with the sequence."""
        since_ms = (self._log.log_time - age_ns) // MS
        low, high = self._log.begin_sequence, self._log.committed.sequence + 1
        while low < high:
            middle = (low + high) // 2
            try:
                header = self._log.header_at(middle)
            except (Corrupted, ReadFailed):
                return self._log.begin_sequence  # Keep everything: damage is no reason to delete.
            if header.log_time_ms < since_ms:
                low = header.last_sequence + 1
            else:
                high = header.first_sequence
        return low
