"""Reads of stored messages, in a thread."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import partial

from albireo.node.topics.store import MessagesDamaged, StoredPiece, TopicStore
from albireo.runtime import ActorContext

Then = Callable[[StoredPiece | None, str], None]
"""Takes what was read; None: it could not be, and why."""
GiveUp = Callable[[str, Callable[[], None]], object]
"""Moves a damaged file aside, and then calls."""


class StoreReads:
    """The thread of one actor."""

    def __init__(self, thread: Executor) -> None:
        self._executor = thread
        self._actor: ActorContext
        self._give_up: GiveUp

    def open(self, actor: ActorContext, give_up: GiveUp) -> None:
        """Answer in the loop of this actor."""
        self._actor = actor
        self._give_up = give_up

    def close(self) -> None:
        self._executor.shutdown()

    def read(
        self, store: TopicStore, wanted: Mapping[int, int], after: int, up_to: int, bytes_max: int, then: Then
    ) -> None:
        """Read as `TopicStore.read` does, and go on with `then`."""
        reading = self._executor.submit(store.read, wanted, after, up_to, bytes_max)
        again = partial(self.read, store, wanted, after, up_to, bytes_max, then)
        reading.add_done_callback(lambda done: self._actor.call(self._was_read, done, then, again))

    def _was_read(self, done: "Future[StoredPiece]", then: Then, again: Callable[[], None]) -> None:
        error = done.exception()
        if isinstance(error, MessagesDamaged):
            self._actor.log.error("messages_damaged", file=error.name, reason=str(error))
            self._give_up(error.name, again)
        elif isinstance(error, OSError):
            self._actor.log.limited("messages_not_read", "read", reason=str(error))
            then(None, str(error))
        else:
            then(done.result(), "")
