"""The real log without its threads: syncs, snapshots and deletions happen when the world lets them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from albireo.codec.frame import Frame, frames
from albireo.log import Corrupted, FileSystem, LogConfig
from albireo.log.config import Task
from albireo.log.log import Log
from albireo.log.opening import OpenedStore
from albireo.log.segment.table import Queued
from albireo.log.write.commit import LogFailure
from albireo.model.instant import LogTime
from albireo.model.position import EpochHistory, Position

READ_BYTES = 1 << 20


class Watcher(Protocol):
    """Watcher that sees what happens to one member's log."""

    def opened(self, log: "StagedLog") -> None: ...

    def appended(self, frames: Sequence[Frame]) -> None: ...

    def committed(self, position: Position) -> None: ...

    def cutting(self, sequence: int) -> None: ...

    def cut(self, sequence: int) -> None: ...


class StagedLog(Log):
    """Log whose housekeeper's tasks wait for `keep_house`, and whose groups wait for `flush`."""

    watcher: ClassVar[Watcher]

    def __init__(self, directory: Path, config: LogConfig, files: FileSystem, opened: OpenedStore) -> None:
        super().__init__(directory, config, files, opened)
        self._tasks: deque[Task] = deque()
        self._retention._do = self._tasks.append
        self.watcher.opened(self)

    def start(self, on_durable: Callable[[Position], None], on_failed: Callable[[LogFailure], None]) -> None:
        self._work.listen(on_durable, on_failed)

    @property
    def wants_house(self) -> bool:
        """True: the housekeeper has something to do."""
        return bool(self._tasks) or not self._preparer.is_ready

    def keep_house(self) -> None:
        while self._tasks:
            self._tasks.popleft()()
        super().keep_house()

    def frames(self) -> Iterator[Frame]:
        """Yield the frames that are on the disk, as far as they can be read."""
        after = self.begin_sequence - 1
        while after < self.durable.sequence:
            try:
                chunk = self._stored.reader.read(after, self.durable.sequence, READ_BYTES)
            except Corrupted as damage:
                after = damage.last_sequence
                continue
            for header, body in frames(chunk, verify=False):
                after = header.last_sequence
                yield Frame(header, body)

    def _put(self, group: list[Queued]) -> list[Frame]:
        appended = super()._put(group)
        self.watcher.appended(appended)
        return appended

    def commit(self, position: Position) -> None:
        super().commit(position)
        self.watcher.committed(position)

    def cut_to(self, sequence: int, *, why: str = "", node_ns: int = 0) -> Position:
        self._finish()
        self.watcher.cutting(sequence)
        end = super().cut_to(sequence, why=why, node_ns=node_ns)
        self.watcher.cut(end.sequence)
        return end

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
        self._finish()
        self.watcher.cutting(0)
        super().start_over(after, header_crc, log_time, history=history, why=why, node_ns=node_ns)
        self.watcher.cut(0)

    def close(self, *, clean: bool = True, shutdown_id: str = "") -> None:
        self._finish()
        super().close(clean=clean, shutdown_id=shutdown_id)

    def _finish(self) -> None:
        """Do what was begun, as threads do that end behind a barrier."""
        while self._tasks:
            self._tasks.popleft()()
