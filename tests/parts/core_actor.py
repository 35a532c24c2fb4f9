"""Parts that tests share: cORE as an actor on a real log, without the rest of a node."""

import asyncio
from pathlib import Path

from albireo.client import connect
from tests.parts.waiting import PATIENCE_S

ARGUMENTS = {"node": "root", "cluster": "c", "log": {"segment_bytes": 1 << 20, "free_bytes_min": 0}}


async def status(data: Path) -> dict[str, object]:
    def ask() -> object:
        with connect(data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            return client.ask("status")

    found = await asyncio.get_running_loop().run_in_executor(None, ask)
    assert isinstance(found, dict)
    return found
