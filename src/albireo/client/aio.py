"""AsyncClient: the same as `Client`, for asyncio. It waits where that one blocks, on the same engine.

    async with await aconnect("tcp://10.0.0.5:7700", keys="keys") as client:
        print((await client.read("co_1")).value)

For users: docs/client.md. Decision: ADR-0156.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar, overload

from albireo.client.asking import AskingClient
from albireo.client.consumer import Deliveries, Reader
from albireo.client.conversation import patterns_of
from albireo.client.conversed import LoopClient, made_aside
from albireo.client.core import ANSWER_S, ClientCore
from albireo.client.errors import ClientError
from albireo.client.inbox import Inbox
from albireo.client.live import Changes
from albireo.client.message import messages
from albireo.client.nodes import by_node, readings
from albireo.client.producer import CLOSE_S, Desk, Receipts
from albireo.client.store import AsyncKeyValueStore
from albireo.client.target import AnyKeys, AnyTarget, target_of
from albireo.client.topics import LoopTopics
from albireo.client.transaction import AsyncTransaction
from albireo.codec.questions.messages import InboxMessage
from albireo.machine.feed.viewing import StateChange
from albireo.machine.producer.config import ProducerConfig
from albireo.model.item import DataItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.samples import SampleBatch
from albireo.model.tree.message import DEFAULT_INBOX

_Taken = TypeVar("_Taken")
_Wanted = TypeVar("_Wanted")


async def aconnect(
    target: AnyTarget,
    *,
    keys: AnyKeys = None,
    timeout_s: float = ANSWER_S,
    name: str | None = None,
    waits: bool = True,
    is_pinned: bool = False,
) -> "AsyncClient":
    """Connect to a node, and wait until it answers. Arguments and errors: as `connect`."""
    aimed = target_of(target, keys, is_pinned=is_pinned)
    core = await made_aside(lambda: ClientCore(aimed, timeout_s, name), lambda made: made.engine.end())
    client = AsyncClient(core)
    try:
        if waits and not is_pinned:
            await client.converse(core.greeting())
    except BaseException:  # Whatever it was goes on; the thread does not.
        core.engine.end()
        raise
    return client


class AsyncClient(AskingClient, LoopClient):
    """A connected client, for coroutines of one loop. Methods mean what those of `Client` do."""

    @overload
    async def read(self, names: str) -> Reading: ...  # type: ignore[overload-overlap]  # A str is a sequence of str, too.
    @overload
    async def read(self, names: Sequence[str]) -> list[Reading]: ...
    async def read(self, names: str | Sequence[str]) -> Reading | list[Reading]:
        """Latest reading of an item, or of several in their sequence."""
        found = await self.converse(readings(patterns_of(names)))
        return found[0] if isinstance(names, str) else found

    async def watch(
        self, names: str | Sequence[str] = "*", *, timeout_s: float | None = None
    ) -> AsyncIterator[Changes]:
        """Changes as they come; at first everything."""
        reader = self._core.watching(await self.converse(by_node(patterns_of(names))))
        try:
            while True:
                yield await arrived(reader, timeout_s)
        finally:
            self._core.leave(reader)

    async def inbox(self, inbox: str = DEFAULT_INBOX, *, timeout_s: float | None = None) -> AsyncIterator[InboxMessage]:
        """Messages to this node, as `Client.inbox` gives them."""
        while (found := await self.converse(messages.receive(inbox, timeout_s))) is not None:
            yield found

    @property
    def topics(self) -> LoopTopics:
        """Topics of the node."""
        return LoopTopics(self._core)

    def store(self, name: str) -> AsyncKeyValueStore:
        """The key-value store of this name; `create` declares it."""
        return AsyncKeyValueStore(self._core, name)

    def transaction(self) -> AsyncTransaction:
        """A block whose puts to topics, and acknowledgements of their messages, are done together or not at all."""
        return AsyncTransaction(self._core)

    def producer(
        self, name: str, items: Sequence[DataItem], config: ProducerConfig | None = None
    ) -> "AsyncSampleProducer":
        """A producer of samples, each committed once."""
        return AsyncSampleProducer(self._core.desk(name, items, config))

    def consumer(
        self,
        name: str | None = None,
        *,
        after: Position = BEGINNING,
        streams: Sequence[int] = (),
        log_id: bytes = b"",
    ) -> "AsyncRecordConsumer":
        """A reader of every committed record."""
        return AsyncRecordConsumer(self._core.reader(name, after, streams, log_id))

    async def follow_state(self, pause_s: float = 0.1) -> AsyncIterator[StateChange | None]:
        """The live state as the feed has it, as `Client.follow_state` gives it."""
        reader = self._core.following()
        try:
            while True:
                for change in await arrived(reader, pause_s) or (None,):
                    yield change
        finally:
            self._core.leave(reader)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Give open producers `timeout_s` to have everything recorded, and end."""
        left = await asyncio.to_thread(self._core.close, timeout_s)
        if left is not None:
            raise left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(ClientError):  # It was logged; what ended the program's block is to be told.
            await self.close(0.0)


class AsyncSampleProducer:
    """As `SampleProducer`, for coroutines."""

    def __init__(self, desk: Desk) -> None:
        """Use `AsyncClient.producer`."""
        self._desk = desk

    def offer(self, batches: Sequence[SampleBatch]) -> int:
        """Take batches to be committed; the number of the last one."""
        return self._desk.offer(batches)

    async def wait(self, timeout_s: float) -> Receipts:
        """Receipts and refusals of batches, at once if there are any; empty after `timeout_s`."""
        self._desk.push()
        return await arrived(self._desk.part.inbox, timeout_s)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until it is known of every batch what became of it; False after `timeout_s`."""
        return await in_time(self._desk.delivered(), timeout_s)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Flush for at most `timeout_s`, and close; raises NotDelivered as `SampleProducer.close`."""
        if not self._desk.is_closed:
            await asyncio.to_thread(self._desk.settle, timeout_s)
            await asyncio.to_thread(self._desk.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(ClientError):  # What ended the program's block is to be told.
            await self.close(0.0)


class AsyncRecordConsumer:
    """As `RecordConsumer`, for coroutines."""

    def __init__(self, reader: Reader) -> None:
        """Use `AsyncClient.consumer`."""
        self._reader = reader

    @property
    def position(self) -> Position:
        """Position of the last record taken."""
        return self._reader.position

    async def take(self, timeout_s: float) -> Deliveries:
        """Deliveries since the last call, at once if there are any; empty after `timeout_s`."""
        return self._reader.taken(await arrived(self._reader.part.inbox, timeout_s))

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def arrived(inbox: Inbox[_Taken], timeout_s: float | None) -> _Taken:
    """Everything in an inbox, once something is there or the time is over."""
    await in_time(inbox.arrival(), timeout_s)
    return inbox.take()


async def in_time(future: "Future[None]", timeout_s: float | None) -> bool:
    """True: the future has ended; False: it has not within `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wrap_future(future)
    except TimeoutError:
        return False
    return True
