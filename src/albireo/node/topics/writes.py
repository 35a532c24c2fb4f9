"""Writes of stored messages, in a thread: one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.model.instant import SECOND, Instant
from albireo.node.topics.store import MessagesDamaged
from albireo.runtime import ActorContext

REST_NS: Final = SECOND
"""Time after a write that failed in which nothing is begun."""
Then = Callable[[Exception | None], None]
"""Takes why it could not be written: the disk, or a damaged file; None: it was."""


class StoreWrites:
    """The thread of one actor."""

    def __init__(self, thread: Executor) -> None:
        self._executor = thread
        self._actor: ActorContext
        self._under_way: set[Future[object]] = set()
        self._rests_until = Instant(0)

    def open(self, actor: ActorContext) -> None:
        """Answer in the loop of this actor."""
        self._actor = actor

    @property
    def is_busy(self) -> bool:
        """Something is being written, or could not be a moment ago."""
        return bool(self._under_way) or self._actor.now() < self._rests_until

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
            self._rests_until = Instant(self._actor.now() + REST_NS)
            self._actor.log.limited("messages_not_written", type(error).__name__, reason=str(error))
        then(error)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        if self._under_way:
            await asyncio.wait([asyncio.wrap_future(one) for one in self._under_way])

    def close(self) -> None:
        self._executor.shutdown()
