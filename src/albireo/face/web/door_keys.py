"""DoorKeys: keys that knocked at the member beside the face, and letting one of them in.

    knock --CORE's door--> status --> page: the whole key --admin--> role on record, as the person --> trusted.json

The role is judged and recorded by the node; then the key is trusted on this machine, where whoever serves the node may
write. The other member of a pair has its own list (docs/keys.md). Methods of pages alone: REST has none of them.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from albireo.client import AsyncClient
from albireo.face.web.method import method, named
from albireo.face.web.people import access, grant
from albireo.model.bounded import Name, Text
from albireo.model.principal import PERSON_NAME_PATTERN
from albireo.model.status import Knock
from albireo.runtime.errors import KeysRefused
from albireo.runtime.link.keys import Keys

BY_HAND: Final = "albireo keys trust, on the machine of the node"


class DoorKeys:
    """The keys at the door of one member."""

    def __init__(self, directory: str, pinned: AsyncClient, told: Callable[..., object]) -> None:
        """
        Args:
            directory: keys of the member; empty: it has none.
            pinned: client of the member.
            told: tells the log of a key that is trusted from now on.
        """
        self._directory = directory
        self._pinned = pinned
        self._told = told
        self.methods = named(
            method(is_reading=True, is_for_pages=True)(self.knocks), method(is_for_pages=True)(self.trust)
        )

    async def knocks(self, client: AsyncClient) -> list[Knock]:
        """Keys that are not trusted, and wanted to be let in here."""
        await access.function(client)  # Refused to who may not know.
        return await self._knocks()

    async def _knocks(self) -> list[Knock]:
        door = (await self._pinned.status()).door
        if door is None or not self._directory:
            return []
        keys = await asyncio.to_thread(self._keys)
        return [one for one in reversed(door.knocks) if one.public not in keys.trusted]

    async def trust(
        self,
        client: AsyncClient,
        *,
        principal: Annotated[str, Meta(pattern=PERSON_NAME_PATTERN)],
        public: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")],
        role: Name,
        node: Text = "",
    ) -> None:
        """Trust one of them, once its role is on record. Its name is none that a node could have.

        Raises ValueError: it did not knock, or its name is another's.
        """
        if public not in {one.public for one in await self._knocks()}:
            raise ValueError(f"no such key knocked here since the node runs: {BY_HAND}")
        keys = await asyncio.to_thread(self._keys)
        if keys.keys_of(principal):
            raise ValueError(f"{principal!r} has a key already: choose another name, or {BY_HAND}")
        await grant.function(client, principal=principal, role=role, node=node)
        try:
            await asyncio.to_thread(keys.trust, principal, public)
        except KeysRefused as error:
            raise ValueError(str(error)) from error
        self._told("key_trusted", name=principal, public=public, by=client.user)

    def _keys(self) -> Keys:
        try:
            return Keys.load(Path(self._directory))
        except KeysRefused as error:
            raise ValueError(str(error)) from error
