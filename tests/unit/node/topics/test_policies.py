"""What a policy takes from a topic is gone for everybody, and told to whom it was taken from, beside a real CORE."""

import asyncio
from pathlib import Path

import pytest

from albireo.client import AsyncClient, NodeRefused, OutcomeUnknown, TopicMessage
from albireo.client import putting as putting_module
from albireo.model.refusal import RefusalCode
from albireo.model.topic import TopicPolicy, WhenFull
from albireo.node.topics import actor as module
from tests.parts.history_actor import in_a_loop
from tests.parts.topics_plant import take, topics_plant, unread
from tests.parts.waiting import PATIENCE_S

EVENTS = "plant.events"


@pytest.mark.parametrize("is_stored", [False, True])
@in_a_loop
async def test_a_ring_keeps_the_newest_and_tells_how_many_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    if is_stored:
        monkeypatch.setattr(module, "SEAL_BYTES", 2_000)
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy(max_messages=10)}) as client:
        for first in range(0, 100, 5):
            await client.topics.put_many(EVENTS, [b"%d" % one + b"." * 100 for one in range(first, first + 5)])
        assert await unread(client, EVENTS) == 10
        async with await client.topics.consumer(EVENTS, subscriber="desk") as consumer:
            found = await take(consumer, 10)
            assert [one.number for one in found] == list(range(91, 101))
            assert [one.lost_before for one in found] == [90] + 9 * [0]
            await consumer.acknowledge(found[-1])
            await client.topics.put(EVENTS, b"next")
            (message,) = await take(consumer, 1)
            assert (message.number, message.lost_before) == (101, 0)


@in_a_loop
async def test_size_is_kept_to_one_of_64_parts(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy(max_bytes=64_000)}) as client:
        for _ in range(200):
            await client.topics.put(EVENTS, b"x" * 1_000)
        assert 62 <= await unread(client, EVENTS) <= 64


@in_a_loop
async def test_messages_that_are_too_old_go_although_nothing_comes(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy(max_age_s=1)}) as client:
        await client.topics.put_many(EVENTS, [b"a", b"b"])
        assert await unread(client, EVENTS) == 2
        async with asyncio.timeout(PATIENCE_S):
            while await unread(client, EVENTS):
                pass
        await client.topics.put(EVENTS, b"c")
        async with await client.topics.consumer(EVENTS, subscriber="desk") as consumer:
            (message,) = await take(consumer, 1)
        assert (message.body, message.lost_before) == (b"c", 2)


@in_a_loop
async def test_a_full_topic_refuses_or_lets_its_producer_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy(max_messages=3, when_full=WhenFull.REJECT)}) as client:
        await client.topics.put_many(EVENTS, [b"1", b"2", b"3"])
        with pytest.raises(NodeRefused, match="full: 3 messages are not acknowledged by 'desk'") as refused:
            await client.topics.put(EVENTS, b"4")
        assert refused.value.code == RefusalCode.FULL
        await client.topics.change(EVENTS, TopicPolicy(max_messages=3, when_full=WhenFull.BLOCK))
        with pytest.raises(NodeRefused) as refused:
            async with client.transaction() as tx:
                tx.put(EVENTS, b"4")
                tx.acknowledge(await first(client))
        assert refused.value.code == RefusalCode.FULL
        monkeypatch.setattr(putting_module, "ACTION_S", 0.5)
        with pytest.raises(OutcomeUnknown, match="'desk'"):
            await client.topics.put(EVENTS, b"4")
        monkeypatch.undo()
        blocked = asyncio.create_task(client.topics.put(EVENTS, b"5"))
        async with await client.topics.consumer(EVENTS, subscriber="desk") as consumer:
            found = await take(consumer, 3)
            await consumer.acknowledge(found[-1])
            await blocked
            assert [one.body for one in await take(consumer, 2)] == [b"4", b"5"]


async def first(client: AsyncClient) -> TopicMessage:
    async with await client.topics.consumer(EVENTS, subscriber="desk") as consumer:
        return (await take(consumer, 1))[0]


@in_a_loop
async def test_what_is_kept_comes_to_a_later_subscription_until_it_is_purged(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy(keep_s=3_600)}) as client:
        await client.topics.put_many(EVENTS, [b"1", b"2"])
        async with await client.topics.consumer(EVENTS, subscriber="desk") as consumer:
            found = await take(consumer, 2)
            await consumer.acknowledge(found[-1])
        await client.topics.subscribe(EVENTS, subscriber="late", from_first=True)
        await client.topics.put(EVENTS, b"3")
        async with await client.topics.consumer(EVENTS, subscriber="late") as consumer:
            assert [one.body for one in await take(consumer, 3)] == [b"1", b"2", b"3"]
        topic = await client.topics.purge(EVENTS)
        assert topic.count == 3
        assert [one.unread for one in await client.topics.readers(EVENTS)] == [0, 0]
        await client.topics.put(EVENTS, b"4")
        async with await client.topics.consumer(EVENTS, subscriber="late") as consumer:
            (message,) = await take(consumer, 1)
            assert (message.body, message.lost_before) == (b"4", 3)
        with pytest.raises(NodeRefused, match="keep_s"):
            await client.topics.change(EVENTS, TopicPolicy(max_age_s=1, keep_s=2))


@in_a_loop
async def test_who_begins_to_read_gets_nothing_that_was_acknowledged_before(tmp_path: Path) -> None:
    """The actor may lag behind CORE as a program that acknowledged tells the next one to begin."""
    async with topics_plant(tmp_path, {EVENTS: TopicPolicy()}) as client:
        await client.topics.put_many(EVENTS, [b"%d" % one for one in range(60)])
        for number in range(60):
            async with await client.topics.consumer(EVENTS, subscriber="desk", prefetch_bytes=1) as consumer:
                message = (await consumer.take(PATIENCE_S))[0]
                assert message.number == number + 1
                await consumer.acknowledge(message)
