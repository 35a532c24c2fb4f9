"""Writes of stored messages, in a thread: one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from albireo.codec.errors import DecodeError
from albireo.node.topics.store import MessagesDamaged
from albireo.runtime import ActorContext

Then = Callable[[Exception | None], None]
"""Takes why it could not be written: the disk, or a damaged file; None: it was."""


class StoreWrites:
    """The thread of one actor."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "topics-writer")
        self._actor: ActorContext
        self._under_way: set[Future[object]] = set()

    def open(self, actor: ActorContext) -> None:
        """Answer in the loop of this actor."""
        self._actor = actor

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def write(self, work: Callable[[], object], then: Then) -> None:
        """Carry out this work, and go on with `then`."""
        writing: Future[object] = self._executor.submit(work)
        self._under_way.add(writing)
        writing.add_done_callback(lambda done: self._actor.call(self._written, done, then))

    def _written(self, done: "Future[object]", then: Then) -> None:
        self._under_way.discard(done)
        error = done.exception()
        if error is not None and not isinstance(error, OSError | MessagesDamaged | DecodeError):
            raise error
        if error is not None:
            self._actor.log.limited("messages_not_written", type(error).__name__, reason=str(error))
        then(error)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        if self._under_way:
            await asyncio.wait([asyncio.wrap_future(one) for one in self._under_way])

    def close(self) -> None:
        self._executor.shutdown()
