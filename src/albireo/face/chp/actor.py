"""ChpActor: a CHP server as an actor of its node. The server runs in a thread, as it does for `albireo chp`."""

import asyncio
from pathlib import Path

from albireo.client import connect
from albireo.face.behaviour import FaceBehaviour
from albireo.face.chp.face import ChpFace
from albireo.face.chp.settings import ChpSettings
from albireo.face.kinds import FacePlace
from albireo.machine.chp.server import ChpNoted
from albireo.runtime.actor.actor import ActorContext


class ChpActor(FaceBehaviour):
    """Behaviour of the actor."""

    def __init__(self, settings: ChpSettings, place: FacePlace) -> None:
        super().__init__(place)
        self._settings = settings

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._face = await asyncio.to_thread(self._made, actor.data)
        actor.at_end(self._face.stop)
        self._serving = self._begin(asyncio.to_thread(self._face.run))

    async def stop(self) -> None:
        self._face.stop()
        await asyncio.wait([self._serving])

    def _made(self, data: Path) -> ChpFace:
        """The server, listening, before a member acts."""
        client = connect(self._place.target(data), keys=self._place.keys or None, name="chp", waits=False)
        return ChpFace(client, self._settings, lambda noted: self._actor.call(self._tell, noted))

    def _tell(self, noted: ChpNoted) -> None:
        self._actor.log.limited("chp", noted.what, what=noted.what, detail=noted.detail)
