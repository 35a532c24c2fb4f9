"""The two threads of a log: the sync thread and the housekeeper.

Group commit without a clock: while one group is written and synced, the next one queues; an idle log never waits.

           append -> queue -> [sync thread: write group, sync, announce] -> on_durable
                                   | segment full                 ^ take
                                   v                              |
                              [housekeeper: prepare the next segment, write sidecars, snapshots, prune]

A write or sync that fails ends the sync thread for good (`on_failed`): the page cache may then differ from the disk,
and a second sync would report success (the "fsyncgate" of 2018). A segment that can't be *prepared* costs nothing but
time: the sync thread waits, the housekeeper tries again, `admission` says why.

Invariants
    Frames are announced in order, once, and only after the sync that covers them.
    After `on_failed` there is no `on_durable`.
    Both callbacks come from the sync thread and must not block.
"""

import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from albireo.log.config import Task
from albireo.log.segment.table import Queued
from albireo.log.write.writer import Preparer, SegmentWriter

_SWITCH: Final = None
"""Put into a queue: the thread stops when everything before it is done."""


class LogFailure(msgspec.Struct, frozen=True):
    """Why the log has stopped."""

    reason: str
    errno: int = 0


class SyncThread:
    """Takes queued frames to the disk, group by group."""

    def __init__(
        self,
        writer: SegmentWriter,
        prepared: threading.Condition,
        preparer: Preparer,
        announce: Callable[[Queued], None],
        fail: Callable[[LogFailure], None],
        wake_housekeeper: Callable[[], None],
    ) -> None:
        self.queue: SimpleQueue[list[Queued] | None] = SimpleQueue()
        self._writer = writer
        self._prepared = prepared
        self._preparer = preparer
        self._announce = announce
        self._fail = fail
        self._wake_housekeeper = wake_housekeeper
        self._is_abandoned = False
        self._is_recalled = False
        self._left: list[Queued] = []
        self._thread = threading.Thread(target=self._run, name="log-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; everything queued is durable when this returns, as far as there is room."""
        self.queue.put(_SWITCH)
        while self._thread.is_alive():
            self._thread.join(timeout=0.1)
            if not self._preparer.is_ready and self._preparer.reason:
                # No room for what is queued, and nobody has been told that it is durable.
                self.abandon()

    def recall(self) -> list[Queued]:
        """Stop behind the group under way; returns the frames that were not written, in order."""
        self._is_recalled = True
        self.abandon()
        self.queue.put(_SWITCH)
        self._thread.join()
        left = self._left
        with contextlib.suppress(Empty):
            while True:
                left += self.queue.get_nowait() or []
        return left

    def abandon(self) -> None:
        with self._prepared:
            self._is_abandoned = True
            self._prepared.notify_all()

    def _run(self) -> None:
        failure = LogFailure("the sync thread met a bug; see its traceback")
        try:
            failure = self._loop()
        except OSError as error:
            failure = LogFailure(f"writing the log failed: {error.strerror or error} ({error.errno})", error.errno or 0)
        finally:
            if failure.reason:
                self._fail(failure)

    def _loop(self) -> LogFailure:
        get, get_nowait = self.queue.get, self.queue.get_nowait
        is_last = False
        while not is_last:
            group = get()
            if group is None:
                break
            try:
                while True:
                    more = get_nowait()
                    if more is None:
                        is_last = True
                        break
                    group = [*group, *more] if len(more) < 64 else group + more
            except Empty:
                pass
            if self._is_recalled:
                self._left = group
                break
            if not self._write(group):
                break
        return LogFailure("")

    def _write(self, group: list[Queued]) -> bool:
        """Write all of a group, waiting for segments where need be; False when told to give up."""
        while True:
            rolls = self._writer.rolls
            count = self._writer.write(group)
            if self._writer.rolls != rolls:
                self._wake_housekeeper()
            if count:
                self._announce(group[count - 1])
            if count == len(group):
                return True
            group = group[count:]
            with self._prepared:
                while not self._preparer.is_ready and not self._is_abandoned:
                    self._prepared.wait()
                if self._is_abandoned:
                    self._left = group
                    return False


class Housekeeper:
    """Prepares segments and runs tasks, one after the other; tidies up between them."""

    def __init__(self, preparer: Preparer, prepared: threading.Condition, retry_s: float, tidy: Task) -> None:
        self._preparer = preparer
        self._tidy = tidy
        self._prepared = prepared
        self._retry_s = retry_s
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-house", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, task: Task) -> None:
        self._tasks.put(task)

    def wake(self) -> None:
        """Have the next segment prepared, because one was taken."""
        self._tasks.put(_nothing)

    def stop(self) -> None:
        """End the thread when every task put before is done."""
        self._tasks.put(_SWITCH)
        self._thread.join()

    def _run(self) -> None:
        while True:
            if not self._preparer.is_ready:
                self._preparer.step()
                with self._prepared:
                    self._prepared.notify_all()
            self._tidy()
            try:
                task = self._tasks.get(timeout=None if self._preparer.is_ready else self._retry_s)
            except Empty:
                continue
            if task is None:
                return
            task()


def _nothing() -> None:
    """Task that only wakes the housekeeper."""
