"""FaceBehaviour: what the faces have in common as actors: nobody of the node writes to one, and its work is tasks."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from albireo.client.errors import ClientClosed, NameTaken, ProducerRefused, SessionOver
from albireo.face.kinds import FacePlace
from albireo.model.instant import Instant
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.sockets import Letter

FOR_GOOD: Final = (ClientClosed, NameTaken, ProducerRefused, SessionOver)
"""Errors after which a client does nothing any more: the next life of the actor has another one."""


class FaceBehaviour:
    """Base of the behaviour of a face, which has `start` and `stop` of its own."""

    def __init__(self, place: FacePlace) -> None:
        self.name = f"face.{place.name}"
        self._place = place
        self._is_over = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._actor: ActorContext

    def drained(self, letters: Sequence[Letter]) -> None:
        """Nobody of the node writes to a face."""

    def ticked(self, now: Instant) -> None:
        """No time is awaited here."""

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin work; its failure is the actor's."""
        task = self._actor.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._is_over:
            self._actor.fail(f"{type(error).__name__}: {error}")

    async def _end_tasks(self) -> None:
        self._is_over = True
        for one in self._tasks:
            one.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
