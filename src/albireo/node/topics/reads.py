"""Reads of stored messages, in a thread."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from albireo.node.topics.store import MessagesDamaged, StoredPiece, TopicStore
from albireo.runtime import ActorContext

Then = Callable[[StoredPiece | None, str], None]
"""Takes what was read; None: it could not be, and why."""


class StoreReads:
    """The thread of one actor."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "topics-reader")
        self._actor: ActorContext

    def open(self, actor: ActorContext) -> None:
        """Answer in the loop of this actor."""
        self._actor = actor

    def close(self) -> None:
        self._executor.shutdown()

    def read(
        self, store: TopicStore, wanted: Mapping[int, int], after: int, up_to: int, bytes_max: int, then: Then
    ) -> None:
        """Read as `TopicStore.read` does, and go on with `then`."""
        reading = self._executor.submit(store.read, wanted, after, up_to, bytes_max)
        reading.add_done_callback(lambda done: self._actor.call(self._was_read, done, then))

    def _was_read(self, done: "Future[StoredPiece]", then: Then) -> None:
        error = done.exception()
        if isinstance(error, OSError | MessagesDamaged):
            self._actor.log.limited("messages_damaged", "read", reason=str(error))
            then(None, str(error))
        else:
            then(done.result(), "")
