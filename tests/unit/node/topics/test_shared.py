"""Consumers of a shared subscription get each message once, again where one of them fails, beside a real CORE."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from albireo.client import AsyncClient, NodeRefused, Sharing
from albireo.client.topic_consumer import AsyncTopicConsumer
from albireo.model.refusal import RefusalCode
from albireo.model.topic import UNTIL_READ, TopicPolicy
from tests.parts.history_actor import in_a_loop
from tests.parts.topics_plant import take, topics_plant
from tests.parts.waiting import PATIENCE_S

JOBS, FAILED = "plant.jobs", "plant.failed"
WORKERS = "workers"


async def worker(client: AsyncClient, at_once: int = 16) -> AsyncTopicConsumer:
    return await client.topics.consumer(JOBS, subscriber=WORKERS, at_once=at_once)


async def left(client: AsyncClient, name: str = JOBS, subscriber: str = WORKERS) -> int:
    """Messages that are not done."""
    readers = await client.topics.readers(name)
    (found,) = [one.unread for one in readers if one.subscription.subscriber == subscriber]
    return found


@in_a_loop
async def test_each_message_is_given_to_one_of_several(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: UNTIL_READ}) as client:
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=True)
        for begin in range(0, 500, 50):
            await client.topics.put_many(JOBS, [b"%d" % one for one in range(begin, begin + 50)])
        seen: list[tuple[int, bytes]] = []

        async def work(number: int) -> None:
            async with await worker(client, 7) as consumer:
                while len(seen) < 500 and (found := await consumer.take(2)):
                    for one in found:
                        seen.append((number, one.body))
                        await consumer.acknowledge(one, waits=False)

        await asyncio.gather(*map(work, range(4)))
        assert sorted(int(body) for _, body in seen) == list(range(500))
        assert len({number for number, _ in seen}) == 4
        assert await left(client) == 0


@in_a_loop
async def test_what_is_given_back_comes_again_and_at_last_to_the_dead_letters(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: UNTIL_READ, FAILED: UNTIL_READ}) as client:
        sharing = Sharing(lease_s=60, deliveries_max=3, dead_letters=FAILED)
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=sharing)
        await client.topics.put(JOBS, b"bad", key=b"k", headers={"a": "b"})
        await client.topics.put(JOBS, b"good")
        async with await worker(client, 1) as consumer:
            tries: list[tuple[int, bool]] = []
            while (found := await take(consumer, 1))[0].body == b"bad":
                tries.append((found[0].deliveries, found[0].is_redelivered))
                await consumer.give_back(found[0])
            assert tries == [(1, False), (2, True), (3, True)]
            await consumer.acknowledge(found[0])
            assert found[0].body == b"good"
        async with await client.topics.consumer(FAILED, subscriber="desk") as dead:
            (one,) = await take(dead, 1)
        assert (one.body, one.key, one.headers["a"]) == (b"bad", b"k", "b")
        told = {name: value for name, value in one.headers.items() if name.startswith("dead.")}
        assert told.pop("dead.position")
        assert told == {
            "dead.topic": JOBS,
            "dead.number": "1",
            "dead.subscriber": WORKERS,
            "dead.deliveries": "3",
        }
        assert await left(client) == 0


@in_a_loop
async def test_a_lease_that_is_over_gives_the_message_to_another_one(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: UNTIL_READ}) as client:
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=Sharing(lease_s=2))
        await client.topics.put_many(JOBS, [b"1", b"2"])
        slow, quick = await worker(client), await worker(client)
        first, second = await take(slow, 2)
        await slow.extend(second)
        again = sorted(await take(quick, 2), key=lambda one: one.number)
        assert [(one.body, one.is_redelivered) for one in again] == [(b"1", True), (b"2", True)]
        assert again[0].deliveries == 2  # The other one's failed, too, if its lease was over apart from this one's.
        with pytest.raises(NodeRefused) as refused:
            await slow.acknowledge(first)
        assert refused.value.code == RefusalCode.CHANGED
        with pytest.raises(NodeRefused) as refused:
            async with client.transaction() as tx:
                tx.put(JOBS, b"made of 1")
                tx.acknowledge(first)
        assert refused.value.code == RefusalCode.CHANGED
        async with client.transaction() as tx:
            tx.put(JOBS, b"made of 1")
            tx.acknowledge(again[0])
        await quick.acknowledge(again[1])
        (made,) = await take(quick, 1)
        assert made.body == b"made of 1"
        await quick.acknowledge(made)
        for one in (slow, quick):
            await one.close()
        assert await left(client) == 0


@in_a_loop
async def test_a_consumer_that_leaves_gives_back_what_it_has(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: UNTIL_READ}) as client:
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=Sharing(lease_s=3_600))
        await client.topics.put_many(JOBS, [b"%d" % one for one in range(10)])
        async with await worker(client) as first:
            found = await take(first, 10)
            await first.acknowledge(found[3])
        async with await worker(client) as second:
            assert [one.body for one in await take(second, 9)] == [b"%d" % one for one in range(10) if one != 3]


@in_a_loop
async def test_messages_that_a_policy_took_are_told_and_hold_nobody_up(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: TopicPolicy(max_messages=5)}) as client:
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=True)
        await client.topics.put_many(JOBS, [b"%d" % one for one in range(12)])
        async with await worker(client) as consumer:
            found = await take(consumer, 5)
            assert [one.body for one in found] == [b"%d" % one for one in range(7, 12)]
            assert [one.lost_before for one in found] == [7, 0, 0, 0, 0]
            for one in found:
                await consumer.acknowledge(one)
            await client.topics.put(JOBS, b"next")
            assert (await take(consumer, 1))[0].lost_before == 0


@in_a_loop
async def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with topics_plant(tmp_path, {JOBS: UNTIL_READ, FAILED: UNTIL_READ}) as client:
        for sharing, code in (
            (Sharing(deliveries_max=3), RefusalCode.BAD_VALUE),
            (Sharing(deliveries_max=3, dead_letters="plant.none"), RefusalCode.UNKNOWN_TOPIC),
            (Sharing(deliveries_max=3, dead_letters=JOBS), RefusalCode.BAD_VALUE),
        ):
            with pytest.raises(NodeRefused) as refused:
                await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=sharing)
            assert refused.value.code == code
        await client.topics.subscribe(JOBS, subscriber=WORKERS, shared=True)
        with pytest.raises(NodeRefused) as refused:
            await client.topics.subscribe(JOBS, subscriber=WORKERS)
        assert refused.value.code == RefusalCode.BAD_VALUE
        with pytest.raises(ValueError, match="at once"):
            await worker(client, 0)
        async with await client.topics.consumer(JOBS, subscriber="desk") as alone:
            await client.topics.put(JOBS, b"1")
            (one,) = await take(alone, 1)
            with pytest.raises(ValueError, match="not shared"):
                await alone.give_back(one)
        async with await worker(client) as consumer:
            (one,) = await take(consumer, 1)
            await consumer.acknowledge(one)
            for never in (structs.replace(one, number=number) for number in (2, 10**15)):
                with pytest.raises(NodeRefused) as refused:
                    await asyncio.wait_for(consumer.acknowledge(never), PATIENCE_S)
                assert refused.value.code == RefusalCode.CHANGED
        assert await left(client) == 0
