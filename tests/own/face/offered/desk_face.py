"""A face of the tests' own, as another distribution offers one: what the node has, as one JSON line per connection."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from albireo.client import AsyncClient, aconnect
from albireo.codec.message import Answer, Ask
from albireo.face.kinds import FaceKind, FacePlace
from albireo.model.access import AccessRole
from albireo.model.instant import Instant
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.actor.ticket_door import TicketDoor
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.sockets import Letter


class DeskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    port: int
    word: str = "welcome"
    dies: bool = False
    door: str = ""
    """Address at which it says to whoever shows a ticket who he is; empty: nowhere."""


class DeskFace:
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
        self._actor, self._door = actor, None
        if self._settings.door:
            keys = Keys.load(Path(self._place.keys)) if self._place.keys else None
            door = (self._place.name, self._settings.door, self._place.node, keys, AccessRole.OPERATE)
            self._door = TicketDoor(actor, *door)
            actor.at_ready(lambda: self.ticked(actor.now()))
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

    def drained(self, letters: Sequence[Letter]) -> None:
        assert self._door is not None
        for letter in self._door.take(letters):
            entrance = self._door.inside(letter)
            if isinstance(letter.message, Ask) and entrance is not None:
                who = {"principal": letter.principal, "session_id": entrance.session_id, "role": entrance.role}
                letter.link.send(Answer(request_id=letter.message.request_id, result=who), to=letter.sender)
        self._actor.arm(self._door.deadline())

    def ticked(self, now: Instant) -> None:
        assert self._door is not None
        self._door.ticked(now)
        self._actor.arm(self._door.deadline())

    async def stop(self) -> None:
        self._server.close()
        self._following.cancel()
        await self._client.close()


KIND = FaceKind(settings=DeskSettings, create=DeskFace)
