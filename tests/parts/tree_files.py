"""Parts that tests share: files go from node to node in parts, over real links, and arrive once, whole and checked."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from threading import Event

from albireo.client import Client
from albireo.client.message.files import FILE
from tests.parts.core_pair import aside, until
from tests.parts.tree import TreeNode
from tests.parts.tree_orders import PUMP, ROOT

NODES = (ROOT, "root/north", PUMP)


def receive_files(client: Client, directory: Path, ends: Event) -> list[Path]:
    found = []
    while not ends.is_set():
        for message in client.inbox("files", timeout_s=0.3):
            assert message.kind == FILE
            path = client.receive_file(message, directory)
            found += [path] if path is not None else []
    return found


def run(nodes: dict[str, TreeNode], story_of: Callable[[], None]) -> None:
    """Play a story once all nodes serve."""

    async def story() -> None:
        async with contextlib.AsyncExitStack() as ends:
            cores = [await ends.enter_async_context(one.core_up()) for one in nodes.values()]
            await until(lambda: all(one.root.tree.post.messages.is_serving for one in cores), "all serve")
            await aside(story_of)

    asyncio.run(story())
