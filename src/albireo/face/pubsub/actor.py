"""PubsubActor: the door's machine on a ROUTER socket, beside a client of the node; all in the actor's loop.

socket --letters--> PubsubDoor --PerformRequest, FetchMessage--> tasks: client --> node
   ^------AnswerClient--------/ ^------what became of it-----/
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from albireo.client import AsyncClient, ClientClosed, ClientError, NodeRefused, aconnect
from albireo.client.errors import SessionOver
from albireo.client.topic_consumer import AsyncTopicConsumer
from albireo.client.topic_message import TopicMessage
from albireo.face.behaviour import FOR_GOOD, FaceBehaviour
from albireo.face.kinds import FacePlace
from albireo.face.pubsub import door
from albireo.face.pubsub.settings import PubsubSettings
from albireo.face.pubsub.words import PubsubRequest, done, failed, given
from albireo.model.instant import MS, Instant
from albireo.model.refusal import RefusalCode, kind_of_code
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.link import LinkLimits
from albireo.runtime.link.plain import Fate, PlainSockets
from albireo.runtime.link.sockets import Sockets

LIMITS: Final = LinkLimits(message_bytes_max=1 << 20, linger_ms=200, stall_ms=10_000)
"""A peer that sends a larger part is cut off."""
LOOK_NS: Final = 100 * MS
LETTERS_MAX: Final = 256
"""Letters that are taken in one turn."""
PREFETCH_BYTES: Final = 16 * 1024
AGAIN_S: Final = 0.05
"""Pause before the node is asked again what it refused for now only."""


class _Messages:
    """Messages of one reader."""

    def __init__(self, consumer: AsyncTopicConsumer) -> None:
        self.consumer = consumer
        self.given: TopicMessage | None = None
        """The one that is given, until it is on record as read."""
        self.waiting: deque[TopicMessage] = deque()


class PubsubActor(FaceBehaviour):
    """Behaviour of the actor."""

    def __init__(self, settings: PubsubSettings, place: FacePlace) -> None:
        super().__init__(place)
        self._door = door.PubsubDoor(settings.patience_ms * MS)
        self._settings = settings
        self._readers: dict[PubsubRequest, _Messages] = {}
        self._is_looking = False
        self._client: AsyncClient

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        sockets = PlainSockets()
        actor.at_end(partial(sockets.close, LIMITS.linger_ms))
        self._socket = sockets.bind(Sockets.router, self._settings.bind, LIMITS)
        place = self._place
        name = f"{place.name}.{place.own}"  # A name puts for one program only, and the other member has a door.
        self._client = await aconnect(place.target(actor.data), keys=place.keys or None, name=name, waits=False)
        descriptor = self._socket.descriptor()
        actor.loop.add_reader(descriptor, self._look_soon)
        actor.at_end(lambda: actor.loop.remove_reader(descriptor))
        actor.at_ready(self._look_soon)

    def ticked(self, now: Instant) -> None:
        self._look_soon()

    async def stop(self) -> None:
        self._is_over = True
        await self._client.close(0.0)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look_soon(self) -> None:
        if not self._is_looking and not self._is_over:
            self._is_looking = True
            self._actor.loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_looking = False
        letters = self._socket.drain(LETTERS_MAX)
        is_empty = len(letters) < LETTERS_MAX
        now, leads = self._actor.now(), self._client.acting == self._place.own
        self._do(self._door.looked(letters, now, leads=leads, is_empty=is_empty))
        if not is_empty:
            self._look_soon()
        self._actor.arm(Instant(now + LOOK_NS))

    def _do(self, effects: Sequence[door.Effect]) -> None:
        for effect in effects:
            match effect:
                case door.AnswerClient(peer, answer, reading):
                    fate = self._socket.send([peer, b"", answer])
                    if reading is not None and fate is Fate.QUEUED:
                        self._door.answer_left(reading, self._actor.now())
                    self._look_soon()  # The send may have swallowed the signal of the descriptor.
                case door.PerformRequest(number, request):
                    self._begin(self._perform(number, request))
                case door.FetchMessage():
                    self._begin(self._fetch(effect))
                case door.ForgetReader(reading):
                    self._begin(self._forget(reading))
                case door.TellDropped(why):
                    self._actor.log.limited("request_dropped", why, why=why)

    # Work of requests.

    async def _perform(self, number: int, request: PubsubRequest) -> None:
        answer = await self._in_time(partial(self._performed, request))
        self._do(self._door.performed(number, answer, self._actor.now()))

    async def _performed(self, request: PubsubRequest) -> bytes:
        topics = self._client.topics
        match request.operation:
            case "PUT":
                try:
                    await topics.put(request.topic, request.message)
                except NodeRefused as error:
                    if error.code != RefusalCode.UNKNOWN_TOPIC:
                        raise
                    await topics.create(request.topic)
                    await topics.put(request.topic, request.message)
            case "SUBSCRIBE":
                await topics.create(request.topic)
                await topics.subscribe(request.topic, subscriber=request.subscriber)
            case _:
                try:
                    await topics.unsubscribe(request.topic, subscriber=request.subscriber)
                finally:
                    await self._forget(PubsubRequest("GET", request.topic, request.client))
        return done(request.operation)

    async def _fetch(self, wanted: door.FetchMessage) -> None:
        answer = await self._in_time(partial(self._fetched, wanted))
        self._do(self._door.fetched(wanted.reading, answer, self._actor.now()))

    async def _fetched(self, wanted: door.FetchMessage) -> bytes:
        reading = wanted.reading
        while True:
            messages = self._readers.get(reading)
            if messages is None and not wanted.is_wanted:
                return b""
            if messages is None:
                consumer = self._client.topics.consumer
                found = await consumer(reading.topic, subscriber=reading.subscriber, prefetch_bytes=PREFETCH_BYTES)
                messages = self._readers[reading] = _Messages(found)
            try:
                return await self._next(messages, wanted)
            except (NodeRefused, ClientClosed):  # The subscription is over, or another reads it: a new one tells.
                if self._readers.get(reading) is not messages:
                    raise TimeoutError("it is read no more") from None
                del self._readers[reading]
            await asyncio.sleep(AGAIN_S)

    async def _forget(self, reading: PubsubRequest) -> None:
        """Let go what was fetched for a reader and not given."""
        if (messages := self._readers.pop(reading, None)) is not None:
            await messages.consumer.close()

    async def _next(self, messages: _Messages, wanted: door.FetchMessage) -> bytes:
        if wanted.is_read and messages.given is not None:
            await messages.consumer.acknowledge(messages.given)
            messages.given = None
        if not wanted.is_wanted:
            return b""
        reading = wanted.reading
        if messages.given is None:
            if not messages.waiting:
                found = await messages.consumer.take(0.0)
                if not found and await self._has_all(reading):
                    return failed(f"NO MESSAGE ON TOPIC {reading.topic} FOR SUBSCRIBER {reading.client}")
                messages.waiting.extend(found or await messages.consumer.take(None))
            messages.given = messages.waiting.popleft()
        return given(reading.topic, messages.given.body)

    async def _has_all(self, reading: PubsubRequest) -> bool:
        """Whether the node knows of no message that is still to be read."""
        readers = await self._client.topics.readers(reading.topic)
        own = (reading.subscriber, (reading.topic,))
        return any(
            own == (one.subscription.subscriber, one.subscription.patterns) and not one.unread for one in readers
        )

    async def _in_time(self, work: Callable[[], Awaitable[bytes]]) -> bytes | None:
        """The answer that work comes to; None: it is not done in time, or nobody knows."""
        try:
            async with asyncio.timeout(self._settings.patience_ms / 1000):
                while True:
                    try:
                        return await work()
                    except NodeRefused as error:
                        if isinstance(error, SessionOver):
                            raise
                        if not kind_of_code(error.code).may_pass:
                            return failed(error.reason)
                    await asyncio.sleep(AGAIN_S)
        except FOR_GOOD:
            raise
        except (ClientError, TimeoutError) as error:
            why = str(error) or "not done in time"
            self._actor.log.limited("request_not_answered", type(error).__name__, why=why)
            return None
