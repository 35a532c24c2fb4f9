"""Journal of an adapter as a topic of the node.

    put --batches, one at a time--> topic "adapters.NAME" --> reader of each member --> `read`

Each member's adapter reads with a subscription of its own, which begins with the topic.

Invariant: `read` is told every entry of the topic that was not let go, once, in its order.
"""

import asyncio
import contextlib
from collections import deque
from pathlib import Path
from typing import Final

from albireo.client import AsyncClient, ClientError, aconnect
from albireo.client.topic_message import TopicMessage
from albireo.field.journal import JOURNAL_PREFIX, JournalEntryRead, JournalLost, JournalPlace, Read
from albireo.runtime.errors import RuntimeFault

BATCH_BYTES: Final = 256 * 1024
"""Bytes that go together in one batch, at least one entry."""
PREFETCH_BYTES: Final = 1 << 20


class TopicJournal:
    """The journal of one adapter in one life of it."""

    def __init__(self, name: str, place: JournalPlace, data: Path) -> None:
        """`name`: that of the adapter. `data`: directory of the node."""
        self._topic = f"{JOURNAL_PREFIX}{name}"
        self._place = place
        self._data = data
        self._queue: deque[bytes] = deque()
        self._came = asyncio.Event()
        self._newest: deque[TopicMessage] = deque()
        """Messages that were read and not let go."""
        self._let_go: TopicMessage | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._client: AsyncClient | None = None
        self.trouble = ""

    async def open(self, read: Read) -> None:
        place = self._place
        name = f"{self._topic}.{place.member}"
        try:
            self._client = client = await aconnect(
                place.target(self._data), keys=place.keys or None, name=name, waits=False
            )
            topics = client.topics
            await topics.create(self._topic)
            for member in range(len(place.doors)):
                await topics.subscribe(self._topic, subscriber=f"{self._topic}.{member}", from_first=True)
            self._consumer = await topics.consumer(self._topic, subscriber=name, prefetch_bytes=PREFETCH_BYTES)
        except (ClientError, RuntimeFault, TimeoutError) as error:
            raise JournalLost(str(error)) from error
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._read(read))]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def put(self, data: bytes) -> None:
        self._queue.append(data)
        self._came.set()

    def let_go(self, number: int) -> None:
        last = None
        while self._newest and self._newest[0].number < number:
            last = self._newest.popleft()
        if last is not None:
            self._let_go = last
            self._came.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            with contextlib.suppress(ClientError, RuntimeFault):
                await self._client.close(0.0)
        self.trouble = self.trouble or "it was closed"

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.trouble = f"the journal: {error}"

    async def _write(self) -> None:
        assert self._client is not None
        while True:
            await self._came.wait()
            self._came.clear()
            if (done := self._let_go) is not None:
                self._let_go = None
                await self._consumer.acknowledge(done, waits=False)
            while self._queue:
                await self._client.topics.put_many(self._topic, self._batch())

    def _batch(self) -> list[bytes]:
        batch = [self._queue.popleft()]
        size = len(batch[0])
        while self._queue and (size := size + len(self._queue[0])) <= BATCH_BYTES:
            batch.append(self._queue.popleft())
        return batch

    async def _read(self, read: Read) -> None:
        expected = 0
        while True:
            messages = await self._consumer.take(None)
            for one in messages:
                if one.lost_before or (expected and one.number != expected):
                    raise JournalLost(f"entries before number {one.number} are missing")
                expected = one.number + 1
            self._newest.extend(messages)
            read([JournalEntryRead(one.number, one.at_ns, one.position.epoch, one.body) for one in messages])
