"""A program with many consumers, each of a subscription of its own to one topic: tells when all have a message.

    python -m bench.brokers.crowd KEYS NUMBER CLIENTS CONSUMERS ENDPOINT PLACE ENDPOINT PLACE

It says `ready`, then `all BODY` for each message that all its consumers have got.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path

from albireo.client import aconnect
from albireo.client.topic_consumer import AsyncTopicConsumer
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

TOPIC = "crowd"
AT_ONCE = 50
PREFETCH_BYTES = 4_096


async def play(keys: Keys, number: int, clients: int, each: int, members: list[LineTo]) -> None:
    consumers: list[AsyncTopicConsumer] = []
    counts: Counter[bytes] = Counter()

    async def read(consumer: AsyncTopicConsumer) -> None:
        while True:
            found = await consumer.take(None)
            for message in found:
                counts[message.body] += 1
                if counts[message.body] == len(consumers):
                    sys.stdout.write(f"all {message.body.decode()}\n")
                    sys.stdout.flush()
            await consumer.acknowledge(found[-1])

    for index in range(clients):
        client = await aconnect(members, keys=keys, timeout_s=60.0, name=f"crowd-{number}-{index}")

        topics = client.topics
        for first in range(0, each, AT_ONCE):
            names = [f"crowd-{number}-{index}-{one}" for one in range(first, min(each, first + AT_ONCE))]
            await asyncio.gather(*(topics.subscribe(TOPIC, subscriber=name) for name in names))
            begun = (topics.consumer(TOPIC, subscriber=name, prefetch_bytes=PREFETCH_BYTES) for name in names)
            consumers += await asyncio.gather(*begun)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.gather(*map(read, consumers))


def main(arguments: list[str]) -> None:
    keys, number, clients, each, *places = arguments
    members = [LineTo(*places[:2]), LineTo(*places[2:])]
    asyncio.run(play(Keys.load(Path(keys)), int(number), int(clients), int(each), members))


if __name__ == "__main__":
    main(sys.argv[1:])
