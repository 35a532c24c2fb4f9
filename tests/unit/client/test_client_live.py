"""Changes as a watching program gets them: items with their readings, and whether the node is heard at all."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from albireo.client import Changes, aconnect, connect
from albireo.client.live import STATES_MAX, StateInbox, Watching
from albireo.codec.message import FeedState
from albireo.machine.feed.viewing import StateChange
from albireo.machine.table.told import TableChanges
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.core.actor import create
from albireo.runtime import running
from tests.parts.client import produce
from tests.parts.core_actor import ARGUMENTS
from tests.parts.core_pair import aside


def known(number: int, name: str, *, is_retired: bool = False) -> KnownItem:
    item = DataItem(name=name, value_type=ValueType.FLOAT64)
    return KnownItem(item_id=ItemId(number), node="root", item=item, is_retired=is_retired)


def test_declarations_come_with_what_is_taken_next_and_wake_nobody() -> None:
    reader = Watching({"": ["co*"]})
    reader.put("", Changes(items=[known(1, "co"), known(2, "no")], is_whole=True))
    assert [one.item.name for one in reader.take().items] == ["co"]
    reader.put("", Changes(items=[known(1, "co", is_retired=True)]))
    assert not reader.arrival().done()
    assert [one.is_retired for one in reader.take().items] == [True]
    assert reader.take().items == []


def test_a_reader_of_deltas_begins_with_a_snapshot_and_again_after_it_was_too_slow() -> None:
    def change(number: int, *, is_snapshot: bool = False) -> StateChange:
        at = Position(1, number)
        state = FeedState(epoch=1, position=at, previous=at, is_snapshot=is_snapshot)
        return StateChange(state, (), TableChanges(state, {}))

    reader = StateInbox()
    assert reader.put(change(1)), "it goes on to wait for its snapshot"
    assert reader.take() == []
    first = change(2, is_snapshot=True)
    deltas = [change(3 + one) for one in range(STATES_MAX)]
    assert [reader.put(one) for one in (first, *deltas)] == [True] * STATES_MAX + [False]
    assert reader.put(change(900))
    assert reader.take() == []
    again = change(901, is_snapshot=True)
    assert reader.put(again)
    assert reader.take() == [again]


@pytest.mark.slow
def test_a_coroutine_follows_the_state_of_a_node_that_is_not_there_yet(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            pass
        async with await aconnect(tmp_path, waits=False) as client, await aconnect(tmp_path, is_pinned=True) as pinned:
            following = client.follow_state(0.01)
            assert await anext(following) is None
            async with running(create(ARGUMENTS), tmp_path):
                assert (await pinned.status(0)).node == "root"
                first = await anext(one async for one in following if one is not None)
                assert first.state.is_snapshot

    asyncio.run(story())


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
