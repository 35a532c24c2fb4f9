"""A lone node with the actor `topics` beside a real CORE, and a client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from albireo.client import AsyncClient, TopicMessage, TopicPolicy, aconnect
from albireo.client.topic_consumer import AsyncTopicConsumer
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.arguments import TopicsArguments
from albireo.runtime import running
from tests.parts.lone import NODE, LoneNode
from tests.parts.waiting import PATIENCE_S

DESK = "desk"
"""Subscriber of each topic."""


@asynccontextmanager
async def topics_plant(tmp_path: Path, topics: dict[str, TopicPolicy]) -> AsyncIterator[AsyncClient]:
    """A node with these topics, to each of which the desk subscribes."""
    node = LoneNode(tmp_path)
    actor = TopicsActor(TopicsArguments(node=NODE))
    async with node.core_up(), running(actor, node.data), aclient(node) as client:
        for name, policy in topics.items():
            await client.topics.create(name, policy)
            await client.topics.subscribe(name, subscriber=DESK)
        yield client


@asynccontextmanager
async def aclient(node: LoneNode) -> AsyncIterator[AsyncClient]:
    async with await aconnect(str(node.data), timeout_s=PATIENCE_S) as client:
        yield client


async def take(consumer: AsyncTopicConsumer, count: int) -> list[TopicMessage]:
    """So many messages."""
    found: list[TopicMessage] = []
    while len(found) < count:
        came = await consumer.take(PATIENCE_S)
        assert came, f"{len(found)} of {count} came"
        found += came
    return found


async def unread(client: AsyncClient, name: str) -> int:
    """Messages of a topic that the desk has still to read."""
    readers = await client.topics.readers(name)
    (found,) = [one.unread for one in readers if one.subscription.subscriber == DESK]
    return found
