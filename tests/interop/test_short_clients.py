"""Programs that connect, ask once and leave, thousands of them: the node has nothing left of any, and answers on."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from albireo.client import connect
from tests.long_form import IS_LONG
from tests.parts.core_pair import aside, until
from tests.parts.tree import tree_of
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

CLIENTS = 5_000 if IS_LONG else 500
AT_ONCE = 10


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_nothing_is_left_of_programs_that_came_and_went(tmp_path: Path) -> None:
    (root,) = tree_of(tmp_path, "root").values()

    def come_and_go(_: int) -> str:
        with connect(root.endpoint, timeout_s=PATIENCE_S) as client:
            return client.status().node

    async def story() -> None:
        async with root.core_up():
            await aside(lambda: come_and_go(0))
            before = descriptors()
            with ThreadPoolExecutor(AT_ONCE) as people:
                told = await aside(lambda: set(people.map(come_and_go, range(CLIENTS))))
            assert told == {"root"}
            await until(lambda: descriptors() <= before, "the connections end")

    asyncio.run(story())
