"""The log's way to the disk: with its two threads once started, in the caller's thread without them.

Owns what is shared between them: what waits to be written, what is durable, why the log has stopped.
Not here: what is appended (`appending`), how it is written (`writer`), the threads' loops (`commit`).

`suspend` and `resume` are a barrier: between them nothing else writes to the store.
"""

import threading
from collections.abc import Callable
from typing import Final

from albireo.log.config import LogConfig
from albireo.log.errors import LogStopped
from albireo.log.write.commit import Housekeeper, LogFailure, SyncThread, Task
from albireo.log.write.writer import Preparer, Queued, Writer
from albireo.model.position import Position

_MS_PER_S: Final = 1000


class Work:
    """Everything but `_announced` and `failed` is called from the thread that appends."""

    def __init__(self, config: LogConfig, preparer: Preparer, tidy: Task) -> None:
        self._retry_s = config.prepare_retry_ms / _MS_PER_S
        self._preparer = preparer
        self._tidy = tidy
        self._prepared = threading.Condition()
        self._writer: Writer | None = None
        self._sync: SyncThread | None = None
        self._house: Housekeeper | None = None
        self._on_durable: Callable[[Position], None] | None = None
        self._on_failed: Callable[[LogFailure], None] | None = None
        self._is_started = False
        self._waiting: list[Queued] = []
        self.failure: LogFailure | None = None
        self.durable = Position()
        self.durable_bytes = 0
        """Of those appended since open."""
        self.groups = 0

    def attach(self, writer: Writer, durable: Position) -> None:
        """The end of the log on disk, as an open or a cut left it."""
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
        """Whom to tell; without threads `flush` tells it."""
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
        """One piece of housekeeping."""
        if self._house is not None:
            self._house.put(task)
        else:
            task()

    def flush(self) -> None:
        """Without threads: write and sync what waits, as far as there is room. Raises LogStopped."""
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
        """Both threads have ended and every task is done; returns what was not written.

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
        """Go on with `left`; another writer may have been attached."""
        self._waiting = left
        if self._is_started:
            self._start_threads()

    def stop(self) -> None:
        """Everything queued is durable, as far as there is room, and nothing writes any more."""
        if self._sync is not None:
            self._sync.stop(drain=True)
        elif self.failure is None:
            self.flush()
        if self._house is not None:
            self._house.stop()
        if self._writer is not None:
            self._writer.close()

    def admission(self, pending_bytes: int, pending_bytes_max: int) -> str:
        """Empty, or why nothing is to be let in now."""
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
        """The disk refused what must not be refused. Always raises LogStopped."""
        self.failed(LogFailure(f"{what}: {error.strerror or error}", error.errno or 0))
        self.stop_if_failed()

    def stop_if_failed(self) -> None:
        if self.failure is not None:
            raise LogStopped(self.failure.reason)
