"""Consumers of topics: a subscription's messages, one after the other, each until it is acknowledged."""

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Final, Protocol, Self

from albireo.client.engine import Engine
from albireo.client.errors import ClientClosed, ClientError
from albireo.client.topic_line import MessageInbox, TopicLine
from albireo.client.topic_message import TopicMessage
from albireo.client.topic_sharing import MessageFate
from albireo.codec.questions.topics import SubscriptionTold
from albireo.model.position import BEGINNING, Position

PREFETCH_BYTES: Final = 1 << 20
"""Most bytes of messages that are under way to a reader, or here and not taken."""
PREFETCH_BYTES_MAX: Final = 1 << 30
CLOSE_S: Final = 5.0
"""Longest wait of `close` for what was acknowledged."""


class MessageReading(Protocol):
    """Front of a reader, as consumers need it. For any thread."""

    inbox: MessageInbox
    is_closed: bool

    def took(self, messages: list[TopicMessage]) -> list[TopicMessage]:
        """Take note of what the reader has now."""

    def acknowledge(self, message: TopicMessage) -> None:
        """Say that a message is done."""

    def recorded(self, message: TopicMessage) -> "Future[None]":
        """Say so; ends once that is on record."""

    def settles(self, message: TopicMessage, fate: MessageFate) -> "Future[None]":
        """Say what becomes of a message of a shared subscription."""

    def settled(self) -> "Future[None]":
        """Ends once everything that was said is on record."""

    def leave(self) -> None:
        """End."""


class ConsumerFront:
    """Front of a reader, before the engine. For any thread."""

    def __init__(self, engine: Engine, line: TopicLine, known: SubscriptionTold, prefetch_bytes: int) -> None:
        if not (isinstance(prefetch_bytes, int) and 0 < prefetch_bytes <= PREFETCH_BYTES_MAX):
            raise ValueError(f"prefetch_bytes is 1 to {PREFETCH_BYTES_MAX:,}, not {prefetch_bytes!r:.100}")
        self.inbox = MessageInbox(known.subscription.subscription_id)
        self._engine = engine
        self._line = line
        self._channel = engine.call(lambda: line.begin(self.inbox, prefetch_bytes, known.not_before)).result()
        self._acknowledged = BEGINNING
        self._is_pushed = self.is_closed = False

    def took(self, messages: list[TopicMessage]) -> list[TopicMessage]:
        """Take note of what the reader has now, so that more may come."""
        if messages and not self.is_closed:
            last = messages[-1].position
            self._engine.post(lambda: self._line.took(self._channel, last), self._line)
        return messages

    def acknowledge(self, message: TopicMessage) -> None:
        """Say that everything up to here is done; it leaves with what is said until the engine looks."""
        self._acknowledged = max(self._acknowledged, message.position)
        if not self._is_pushed:
            self._is_pushed = True
            self._engine.post(self._push, self._line)

    def _push(self) -> None:
        self._is_pushed = False
        self._line.acknowledge(self._channel, self._acknowledged)

    def recorded(self, message: TopicMessage) -> "Future[None]":
        """Acknowledge; ends once that is on record."""
        return self._recorded(message.position)

    def settles(self, message: TopicMessage, fate: MessageFate) -> "Future[None]":
        """Nothing but `recorded` can be said of a message here. Raises ValueError."""
        raise ValueError(
            "this subscription is not shared: its one consumer acknowledges messages, and keeps them until then"
        )

    def _recorded(self, position: Position) -> "Future[None]":
        if self.inbox.over is not None:
            raise self.inbox.over
        self._acknowledged = max(self._acknowledged, position)
        future: Future[None] = Future()
        self._engine.hand_over(lambda: self._line.acknowledge(self._channel, position, future), future)
        return future

    def settled(self) -> "Future[None]":
        """Ends once everything that was acknowledged is on record."""
        return self._recorded(self._acknowledged)

    def leave(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(ClientClosed):
                self._engine.call(lambda: self._line.leave(self._channel)).result()


class TopicConsumer:
    """A consumer for threads: one thread at a time. Use as a context manager, or call `close`."""

    def __init__(self, reading: MessageReading) -> None:
        """Use `Client.topics.consumer`."""
        self._reading = reading
        self._rest: Iterator[TopicMessage] = iter(())
        """Messages taken and not given to the program, as `messages` was left before."""

    def take(self, timeout_s: float | None) -> list[TopicMessage]:
        """Messages that are here, at once if there are any; empty after `timeout_s`.

        Raises:
            NodeRefused: the subscription is over, or another program reads it since.
        """
        found = list(self._rest)
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        while not found:  # What woke it may be another consumer's by now.
            found = self._reading.took(self._reading.inbox.wait(None if ends is None else ends - time.monotonic()))
            if ends is not None and time.monotonic() >= ends:
                break
        return found

    def acknowledge(self, message: TopicMessage, *, waits: bool = True) -> None:
        """Have this message, and all before it, never given to this subscriber again.

        Of a shared subscription it is this message alone. `waits`: return once that is on the disks of both members.

        Raises:
            NodeRefused: as `take`; with the code `changed`, it is another consumer's now.
        """
        if waits:
            self._reading.recorded(message).result()
        else:
            self._reading.acknowledge(message)

    def give_back(self, message: TopicMessage) -> None:
        """Let another consumer of this shared subscription have the message, at once. It counts as a failed delivery.

        Raises:
            ValueError: the subscription is not shared. NodeRefused: as `acknowledge`.
        """
        self._reading.settles(message, MessageFate.GIVEN_BACK).result()

    def extend(self, message: TopicMessage) -> None:
        """Keep the message of a shared subscription for the time of another lease. Raises: as `give_back`."""
        self._reading.settles(message, MessageFate.EXTENDED).result()

    def messages(self, timeout_s: float | None = None, *, at_most_once: bool = False) -> Iterator[TopicMessage]:
        """Messages one by one; each is acknowledged as the next one is asked for.

        Args:
            timeout_s: time without a message after which it ends; None: never.
            at_most_once: each is acknowledged before it is given: one may get lost, and none comes twice.
        """
        while found := self.take(timeout_s):
            self._rest = iter(found)
            for message in self._rest:
                if at_most_once:
                    self.acknowledge(message)
                    yield message
                else:
                    yield message
                    self.acknowledge(message, waits=False)

    def close(self) -> None:
        """Wait for at most CLOSE_S until what was acknowledged is on record, and end."""
        with contextlib.suppress(ClientError, TimeoutError):
            if not self._reading.is_closed:
                self._reading.settled().result(CLOSE_S)
        self._reading.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTopicConsumer:
    """As `TopicConsumer`, for coroutines."""

    def __init__(self, reading: MessageReading) -> None:
        """Use `AsyncClient.topics.consumer`."""
        self._reading = reading
        self._rest: Iterator[TopicMessage] = iter(())

    async def take(self, timeout_s: float | None) -> list[TopicMessage]:
        """Messages that are here, at once if there are any; empty after `timeout_s`."""
        import asyncio  # A program of threads does without it.

        found, clock = list(self._rest), asyncio.get_running_loop().time
        ends = None if timeout_s is None else clock() + timeout_s
        while not found:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    await asyncio.wrap_future(self._reading.inbox.arrival())
            found = self._reading.took(self._reading.inbox.take())
            if ends is not None and clock() >= ends:
                break
        return found

    async def acknowledge(self, message: TopicMessage, *, waits: bool = True) -> None:
        """Have this message, and all before it, never given to this subscriber again."""
        import asyncio  # A program of threads does without it.

        if waits:
            await asyncio.wrap_future(self._reading.recorded(message))
        else:
            self._reading.acknowledge(message)

    async def give_back(self, message: TopicMessage) -> None:
        """As `TopicConsumer.give_back`."""
        import asyncio  # A program of threads does without it.

        await asyncio.wrap_future(self._reading.settles(message, MessageFate.GIVEN_BACK))

    async def extend(self, message: TopicMessage) -> None:
        """As `TopicConsumer.extend`."""
        import asyncio  # A program of threads does without it.

        await asyncio.wrap_future(self._reading.settles(message, MessageFate.EXTENDED))

    async def messages(
        self, timeout_s: float | None = None, *, at_most_once: bool = False
    ) -> AsyncIterator[TopicMessage]:
        """Messages one by one, as `TopicConsumer.messages` gives them."""
        while found := await self.take(timeout_s):
            self._rest = iter(found)
            for message in self._rest:
                if at_most_once:
                    await self.acknowledge(message)
                    yield message
                else:
                    yield message
                    await self.acknowledge(message, waits=False)

    async def close(self) -> None:
        """Wait for at most CLOSE_S until what was acknowledged is on record, and end."""
        import asyncio  # A program of threads does without it.

        with contextlib.suppress(ClientError, TimeoutError):
            if not self._reading.is_closed:
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.wrap_future(self._reading.settled())
        await asyncio.to_thread(self._reading.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
