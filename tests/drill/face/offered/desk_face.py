"""A face of the tests' own, as another distribution offers one: what the node has, as one JSON line per connection."""

import asyncio
import json
import os
from collections.abc import Sequence

import msgspec

from albireo.client import AsyncClient, aconnect
from albireo.face.kinds import FaceKind, FacePlace
from albireo.model.instant import Instant
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.sockets import Letter


class DeskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    port: int
    word: str = "welcome"
    dies: bool = False


class Desk:
    def __init__(self, settings: DeskSettings, place: FacePlace) -> None:
        self.name = f"face.{place.name}"
        self._settings = settings
        self._place = place
        self._items: dict[int, str] = {}

    async def start(self, actor: ActorContext) -> None:
        if self._settings.dies:
            raise RuntimeError("the desk is closed")
        target = self._place.target(actor.data)
        self._client = await aconnect(target, keys=self._place.keys or None, name="desk", waits=False)
        self._following = actor.loop.create_task(self._follow(self._client))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._settings.port)

    async def _follow(self, client: AsyncClient) -> None:
        async for change in client.follow_state():
            if change is not None:
                if change.state.is_snapshot:
                    self._items.clear()
                self._items.update((one.item_id, one.full_name) for one in change.state.items)

    async def _serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = {"word": self._settings.word, "node": self._place.node, "pid": os.getpid()}
        told |= {"acting": self._client.acting, "items": sorted(self._items.values())}
        writer.write(json.dumps(told).encode() + b"\n")
        writer.close()

    def drained(self, letters: Sequence[Letter]) -> None: ...

    def ticked(self, now: Instant) -> None: ...

    async def stop(self) -> None:
        self._server.close()
        self._following.cancel()
        await self._client.close()


KIND = FaceKind(settings=DeskSettings, create=Desk)
