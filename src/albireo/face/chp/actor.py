"""ChpActor: a CHP server as an actor of its node. The server runs in a thread, as it does for `albireo chp`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from albireo.client import connect
from albireo.face.chp.face import ChpFace
from albireo.face.chp.settings import ChpSettings
from albireo.face.kinds import FacePlace
from albireo.machine.chp.server import ChpNoted
from albireo.model.instant import Instant
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.sockets import Letter


class ChpActor:
    """Behaviour of the actor."""

    def __init__(self, settings: ChpSettings, place: FacePlace) -> None:
        self.name = f"face.{place.name}"
        self._settings = settings
        self._place = place

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._face = await asyncio.to_thread(self._made, actor.data)
        actor.at_end(self._face.stop)
        self._serving = actor.loop.create_task(asyncio.to_thread(self._face.run))
        self._serving.add_done_callback(self._ended)

    def drained(self, letters: Sequence[Letter]) -> None:
        """Nobody writes to a face."""

    def ticked(self, now: Instant) -> None:
        """No time is awaited here."""

    async def stop(self) -> None:
        self._face.stop()
        await asyncio.wait([self._serving])

    def _made(self, data: Path) -> ChpFace:
        """The server, listening, before a member acts."""
        client = connect(self._place.target(data), keys=self._place.keys or None, name="chp", waits=False)
        return ChpFace(client, self._settings, lambda noted: self._actor.call(self._tell, noted))

    def _tell(self, noted: ChpNoted) -> None:
        self._actor.log.limited("chp", noted.what, what=noted.what, detail=noted.detail)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._actor.fail(f"{type(error).__name__}: {error}")
