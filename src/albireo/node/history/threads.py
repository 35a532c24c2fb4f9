"""The threads of a history, and how their results come back to its loop.

One thread writes (seals and manifests, in order), one merges files, one takes files of the other member, one reads for
questions. None of them changes data that another reads: a content and a manifest are replaced, never changed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from albireo.node.history.errors import HistoryError
from albireo.runtime import ActorContext

Result = TypeVar("Result")


class HistoryThreads:
    """The threads, for the loop of the actor. `work` is done in a thread; its result, or an error of disk or files,
    goes to `done` in the loop."""

    def __init__(self, actor: ActorContext) -> None:
        self._actor = actor
        self._writer, self._merger, self._copier, self._reader = (
            ThreadPoolExecutor(1, f"history-{name}") for name in ("writer", "merger", "copier", "reader")
        )

    def write(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        self._run(self._writer, work, done)

    def merge(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        self._run(self._merger, work, done)

    def copy(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        self._run(self._copier, work, done)

    def read(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        self._run(self._reader, work, done)

    def end(self) -> None:
        """Wait until every thread has done its work, and end them."""
        for executor in (self._merger, self._copier, self._writer, self._reader):
            executor.shutdown()

    def _run(
        self, executor: ThreadPoolExecutor, work: Callable[[], Result], done: Callable[[Result | Exception], None]
    ) -> None:
        def run() -> None:
            outcome: Result | Exception
            try:
                outcome = work()
            except (OSError, HistoryError) as error:
                outcome = error
            self._actor.call(done, outcome)

        future = executor.submit(run)
        future.add_done_callback(lambda ended: ended.exception() and self._actor.call(ended.result))
