"""A member's process, as far as connections go: `python peer_main.py ENDPOINT DATA` listens until it is ended."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Letter, run_actor


class Peer:
    name = "peer"

    async def start(self, actor: ActorContext) -> None:
        actor.bind_tcp("peer", sys.argv[1], None)
        print("listening", flush=True)

    def drained(self, letters: Sequence[Letter]) -> None: ...
    def ticked(self, now: Instant) -> None: ...
    async def stop(self) -> None: ...


if __name__ == "__main__":
    asyncio.run(run_actor(Peer(), Path(sys.argv[2])))
