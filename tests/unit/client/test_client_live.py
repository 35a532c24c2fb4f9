"""Changes as a watching program gets them: items with their readings, and whether the node is heard at all."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from albireo.client import Changes, connect
from albireo.client.live import Watching
from albireo.model.item import DataItem, KnownItem
from albireo.model.value import ItemId, ValueType
from albireo.node.core.actor import create
from albireo.runtime import running
from tests.parts.core_pair import aside
from tests.unit.client.test_client import produce
from tests.unit.node.core.test_core_actor import ARGUMENTS


def known(number: int, name: str, *, is_retired: bool = False) -> KnownItem:
    item = DataItem(name=name, value_type=ValueType.FLOAT64)
    return KnownItem(item_id=ItemId(number), node="root", item=item, is_retired=is_retired)


def test_declarations_come_with_what_is_taken_next_and_wake_nobody() -> None:
    reader = Watching(["co*"])
    reader.put(Changes(items=[known(1, "co"), known(2, "no")], is_whole=True))
    assert [one.item.name for one in reader.take().items] == ["co"]
    reader.put(Changes(items=[known(1, "co", is_retired=True)]))
    assert not reader.arrival().done()
    assert [one.is_retired for one in reader.take().items] == [True]
    assert reader.take().items == []


@pytest.mark.slow
def test_a_program_that_looks_hears_that_the_node_is_gone_and_when_it_is_back(tmp_path: Path) -> None:
    def look(changes: Iterator[Changes], is_wanted: Callable[[Changes], bool]) -> Changes:
        return next(one for one in changes if is_wanted(one))

    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            client = await aside(lambda: connect(tmp_path))
            await aside(lambda: produce(client, 1, 1))
            changes = client.watch(timeout_s=0.05)
            assert (await aside(lambda: look(changes, lambda one: one.is_live))).is_whole
        gone = await aside(lambda: look(changes, lambda one: not one.is_live))
        assert gone.readings == []
        async with running(create(ARGUMENTS), tmp_path):
            back = await aside(lambda: look(changes, lambda one: one.is_live))
            assert back.is_whole
            assert "root:number" in [one.full_name for one in back.items]
            await aside(client.close)

    asyncio.run(story())
