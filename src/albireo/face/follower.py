"""PlantFollower: what the member beside a face knows, taken into the state of the face as it comes.

The client is pinned to that member, acting or not: so the face of the passive one knows the same.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from albireo.client import AsyncClient, ClientClosed, ClientError, SessionOver
from albireo.client.live import Changes
from albireo.model.instant import SECOND, Instant

TICK_S: Final = 0.05
"""Shortest time between two changes: a node tells what is new ten times a second, several of them at other moments."""
QUIET_S: Final = 0.2
"""Time after which it is looked who is heard, when nothing comes."""
LOOK_NS: Final = 5 * SECOND
"""Time between two looks whether other nodes are known."""
AGAIN_S: Final = 0.3
EVERYTHING: Final = "*:*"


class PlantFollower:
    """Follows until it is cancelled."""

    def __init__(
        self,
        pinned: AsyncClient,
        take: Callable[[Changes], object],
        now: Callable[[], Instant],
        lost: Callable[[], object],
    ) -> None:
        """
        Args:
            take: takes what changed, perhaps nothing.
            lost: is called when nobody is heard any more, and what is known may be old.
        """
        self._pinned = pinned
        self._take = take
        self._now = now
        self._lost = lost

    async def run(self) -> None:
        """Follow, and begin anew after whatever went wrong.

        Raises:
            ClientClosed: the client ended. SessionOver: somebody ended its session; another client has another.
        """
        while True:
            try:
                await self._follow()
            except (ClientClosed, SessionOver):
                raise
            except ClientError:
                self._lost()
            await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        """Follow all nodes that are known now, until others are."""
        known = await self._nodes()
        look_at = Instant(self._now() + LOOK_NS)
        loop = asyncio.get_running_loop()
        async for changes in self._pinned.watch(EVERYTHING, timeout_s=QUIET_S):
            begun = loop.time()
            self._take(changes)
            if self._now() >= look_at:
                look_at = Instant(self._now() + LOOK_NS)
                if await self._nodes() != known:
                    return
            await asyncio.sleep(max(0.0, begun + TICK_S - loop.time()))

    async def _nodes(self) -> frozenset[str]:
        return frozenset(one.node for one in await self._pinned.tree())
