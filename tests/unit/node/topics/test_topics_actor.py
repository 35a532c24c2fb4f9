"""The actor `topics` beside a real CORE, over real links: what it serves before and after it starts anew."""

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from albireo.client import AsyncClient, NodeRefused, aconnect
from albireo.client.topic_message import TopicMessage
from albireo.codec.topic_files import MessagesAsked, encode_word
from albireo.model.instant import SECOND
from albireo.model.topic import TopicPolicy
from albireo.node.topics import actor as module
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.arguments import TopicsArguments
from albireo.runtime import ActorContext, running
from tests.parts.field import until
from tests.parts.history_actor import in_a_loop
from tests.parts.lone import NODE, LoneNode
from tests.parts.waiting import PATIENCE_S

EVENTS = "plant.events"


def topics_of(node: LoneNode) -> AbstractAsyncContextManager[ActorContext]:
    return running(TopicsActor(TopicsArguments(node=NODE)), node.data)


async def read(client: AsyncClient, count: int, subscriber: str = "billing") -> list[TopicMessage]:
    """So many messages, all acknowledged."""
    found: list[TopicMessage] = []
    async with await client.topics.consumer(EVENTS, subscriber=subscriber) as consumer:
        while len(found) < count:
            came = await consumer.take(PATIENCE_S)
            assert came, f"{len(found)} of {count} came"
            found += came
            await consumer.acknowledge(found[-1])
    return found


@in_a_loop
async def test_messages_are_read_from_memory_and_after_a_new_start_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = LoneNode(tmp_path)
    async with node.core_up(), await aconnect(str(node.data), timeout_s=PATIENCE_S) as client:
        await client.topics.create(EVENTS)
        for subscriber in ("billing", "archive"):
            await client.topics.subscribe(EVENTS, subscriber=subscriber)
        async with topics_of(node):
            await client.topics.put_many(EVENTS, [b"%d" % number for number in range(100)])
            assert [one.body for one in await read(client, 100)] == [b"%d" % number for number in range(100)]
        assert list(node.data.glob("topics/*.parquet")), "a clean stop seals what is in memory"
        await client.topics.put(EVENTS, b"while away")
        async with topics_of(node):
            assert [one.body for one in await read(client, 1)] == [b"while away"]
            found = await read(client, 101, "archive")
            assert [one.number for one in found] == list(range(1, 102)) and found[-1].body == b"while away"
            assert [one.unread for one in await client.topics.readers(EVENTS)] == [0, 0]
            monkeypatch.setattr(module, "SEAL_NS", 1)
            monkeypatch.setattr(module, "LEVEL_NS", 1)
            await until(lambda: not list(node.data.glob("topics/*.parquet")), "nobody wants any of them")


@in_a_loop
async def test_a_large_tail_goes_into_files_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEAL_BYTES", 50_000)
    node = LoneNode(tmp_path)
    async with node.core_up(), topics_of(node), await aconnect(str(node.data), timeout_s=PATIENCE_S) as client:
        await client.topics.create(EVENTS)
        await client.topics.subscribe(EVENTS, subscriber="billing")
        for batch in range(60):
            await client.topics.put_many(EVENTS, [b"%d" % batch + b"x" * 100] * 100)
        found = await read(client, 6_000)
        assert [one.number for one in found] == list(range(1, 6_001))
        assert [one.body for one in found] == [b"%d" % (number // 100) + b"x" * 100 for number in range(6_000)]


@in_a_loop
async def test_what_the_other_member_lacks_goes_into_files_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the next seal, up to a minute, and whoever reads at the other member with it."""
    monkeypatch.setattr(module, "SEAL_NS", 3_600 * SECOND)
    node, topics = LoneNode(tmp_path), TopicsActor(TopicsArguments(node=NODE))
    async with node.core_up(), running(topics, node.data), await aconnect(str(node.data)) as client:
        await client.topics.create(EVENTS, TopicPolicy(keep_s=86_400))
        await client.topics.subscribe(EVENTS, subscriber="billing")
        await client.topics.put(EVENTS, b"in memory")
        assert [one.body for one in await read(client, 1)] == [b"in memory"]
        up_to = (await client.status()).log.sequence
        asked = MessagesAsked(number=1, log_id=topics._store.manifest.log_id, after=0, up_to=up_to)
        topics._filling.heard([encode_word(asked)], topics._store, topics._tables)
        await until(lambda: bool(list(node.data.glob("topics/*.parquet"))), "the messages are in a file")


@in_a_loop
async def test_files_of_another_log_are_not_served(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        node = LoneNode(tmp_path / name)
        async with node.core_up(), await aconnect(str(node.data), timeout_s=PATIENCE_S) as client:
            await client.topics.create(EVENTS)
            await client.topics.subscribe(EVENTS, subscriber="billing")
            await client.topics.put(EVENTS, name.encode())
            if name == "new":
                shutil.copytree(tmp_path / "old" / "data" / "topics", node.data / "topics")
            async with topics_of(node), await client.topics.consumer(EVENTS, subscriber="billing") as consumer:
                assert [one.body for one in await consumer.take(4.0)] == ([b"old"] if name == "old" else [])


@in_a_loop
async def test_a_consumer_hears_why_it_gets_nothing(tmp_path: Path) -> None:
    node = LoneNode(tmp_path)
    async with node.core_up(), topics_of(node), await aconnect(str(node.data), timeout_s=PATIENCE_S) as client:
        await client.topics.create(EVENTS)
        with pytest.raises(NodeRefused, match="no subscription"):
            await client.topics.consumer(EVENTS, subscriber="billing")
        await client.topics.subscribe(EVENTS, subscriber="billing")
        first = await client.topics.consumer(EVENTS, subscriber="billing")
        await client.topics.put(EVENTS, b"1")
        (message,) = await first.take(PATIENCE_S)
        second = await client.topics.consumer(EVENTS, subscriber="billing")
        assert [one.body for one in await second.take(PATIENCE_S)] == [b"1"], "the first has not acknowledged it"
        with pytest.raises(NodeRefused, match="another program"):
            await first.take(PATIENCE_S)
        with pytest.raises(NodeRefused, match="another program"):
            await asyncio.wait_for(first.acknowledge(message), PATIENCE_S)
        await client.topics.unsubscribe(EVENTS, subscriber="billing")
        with pytest.raises(NodeRefused, match="subscription was ended"):
            await second.take(PATIENCE_S)
        await first.close()
        await second.close()
