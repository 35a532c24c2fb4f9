"""Work on the disk: done by the log's two threads once they are started, in the caller's thread without them.

This owns the state that the threads share: frames that wait, the durable position, the reason why the log has stopped.
Not here: the end of the log (`appending`), segments on the disk (`writer`), the threads' loops (`commit`).

Between `suspend` and `resume` nothing else writes to the store.
"""

import threading
from collections.abc import Callable
from typing import Final

from albireo.log.config import LogConfig, Task
from albireo.log.errors import LogStopped
from albireo.log.segment.table import Queued
from albireo.log.write.commit import Housekeeper, LogFailure, SyncThread
from albireo.log.write.writer import Preparer, SegmentWriter
from albireo.model.position import Position

_MS_PER_S: Final = 1000


class Work:
    """All methods but `_announced` and `failed` are called from the thread that appends."""

    def __init__(self, config: LogConfig, preparer: Preparer, tidy: Task) -> None:
        self._retry_s = config.prepare_retry_ms / _MS_PER_S
        self._preparer = preparer
        self._tidy = tidy
        self._prepared = threading.Condition()
        self._writer: SegmentWriter | None = None
        self._sync: SyncThread | None = None
        self._house: Housekeeper | None = None
        self._on_durable: Callable[[Position], None] | None = None
        self._on_failed: Callable[[LogFailure], None] | None = None
        self._is_started = False
        self._waiting: list[Queued] = []
        self.failure: LogFailure | None = None
        self.durable = Position()
        self.durable_bytes = 0
        """Bytes that are durable, counted as `Appender.appended_bytes`."""
        self.groups = 0

    def attach(self, writer: SegmentWriter, durable: Position) -> None:
        """Write behind `durable`, the end of the log on the disk as an open or a cut left it."""
        if self._writer is not None:
            self._writer.close()
        self._writer = writer
        self.durable = durable

    def start(self, on_durable: Callable[[Position], None], on_failed: Callable[[LogFailure], None]) -> None:
        assert not self._is_started, "started twice"
        self._is_started = True
        self.listen(on_durable, on_failed)
        self._start_threads()

    def listen(self, on_durable: Callable[[Position], None], on_failed: Callable[[LogFailure], None]) -> None:
        """Set the callbacks of `start`; without threads `flush` calls them."""
        self._on_durable = on_durable
        self._on_failed = on_failed

    def _start_threads(self) -> None:
        assert self._writer is not None
        house = Housekeeper(self._preparer, self._prepared, self._retry_s, self._tidy)
        sync = SyncThread(self._writer, self._prepared, self._preparer, self._announced, self.failed, house.wake)
        self._house, self._sync = house, sync
        if self._waiting:
            sync.queue.put(self._waiting)
            self._waiting = []
        house.start()
        sync.start()

    def put(self, group: list[Queued]) -> None:
        if self._sync is not None:
            self._sync.queue.put(group)
        else:
            self._waiting += group

    def do(self, task: Task) -> None:
        """Have a piece of housekeeping done."""
        if self._house is not None:
            self._house.put(task)
        else:
            task()

    def flush(self) -> None:
        """As `Log.flush`."""
        assert self._sync is None and self._writer is not None, "the sync thread does this"
        self.stop_if_failed()
        while self._waiting:
            try:
                count = self._writer.write(self._waiting)
            except OSError as error:
                self.fail("writing the log failed", error)
            if count:
                self._announced(self._waiting[count - 1])
                del self._waiting[:count]
            if self._waiting:
                self._preparer.step()
                if not self._preparer.is_ready:
                    break

    def keep_house(self) -> None:
        assert self._house is None, "the housekeeper does this"
        self._preparer.step()
        self._tidy()

    def suspend(self) -> list[Queued]:
        """End both threads once every task is done; returns the frames that were not written.

        Raises:
            LogStopped: a write or sync failed, now or before.
        """
        self.stop_if_failed()
        left = self._waiting
        self._waiting = []
        if self._sync is not None and self._house is not None:
            left = self._sync.recall()
            self._house.stop()
            self._sync = self._house = None
        self.stop_if_failed()
        return left

    def resume(self, left: list[Queued]) -> None:
        """Go on with `left` still to be written, perhaps by another writer."""
        self._waiting = left
        if self._is_started:
            self._start_threads()

    def stop(self) -> None:
        """Make everything queued durable, as far as there is room, and write no more."""
        if self._sync is not None:
            self._sync.stop()
        elif self.failure is None:
            self.flush()
        if self._house is not None:
            self._house.stop()
        if self._writer is not None:
            self._writer.close()

    def admission(self, pending_bytes: int, pending_bytes_max: int) -> str:
        """As `Log.admission`."""
        if self.failure is not None:
            return self.failure.reason
        if not self._preparer.is_ready and self._preparer.reason:
            return self._preparer.reason
        return f"{pending_bytes} bytes wait for the disk" if 2 * pending_bytes > pending_bytes_max else ""

    def _announced(self, queued: Queued) -> None:
        self.durable_bytes = queued.total_bytes
        self.groups += 1
        self.durable = position = queued.frame.header.last
        if self._on_durable is not None:
            self._on_durable(position)

    def failed(self, failure: LogFailure) -> None:
        self.failure = failure
        if self._on_failed is not None:
            self._on_failed(failure)

    def fail(self, what: str, error: OSError) -> None:
        """Stop the log because the disk refused a call that must not fail. Always raises LogStopped."""
        self.failed(LogFailure(f"{what}: {error.strerror or error}", error.errno or 0))
        self.stop_if_failed()

    def stop_if_failed(self) -> None:
        if self.failure is not None:
            raise LogStopped(self.failure.reason)
