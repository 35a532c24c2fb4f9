"""Topics of a client: which there are, and to declare, end, subscribe and unsubscribe."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from albireo.client.conversation import Conversation, all_rows, asks, patterns_of
from albireo.client.conversed import AnyClient, LoopClient, ThreadClient, conversed
from albireo.client.errors import NodeRefused, OutcomeUnknown
from albireo.client.orders import ACTION_S
from albireo.codec.puts import encode_unnumbered
from albireo.codec.questions.topics import (
    SUBSCRIBE,
    TOPIC,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_READERS,
    TOPICS,
    UNSUBSCRIBE,
    SubscribeAsked,
    TopicAsked,
    TopicNamed,
    TopicReader,
    TopicsAsked,
)
from albireo.machine.producer.flight import MESSAGE_BYTES, PutOffer
from albireo.machine.producer.sending import Acknowledged
from albireo.model.refusal import RefusalCode
from albireo.model.topic import Subscription, Topic
from albireo.runtime.clock import wall_ns

PUT_BYTES_MAX: Final = MESSAGE_BYTES
"""Most bytes of the messages of one batch, with their lengths. The smallest segment, 1 MiB, holds it."""
LENGTH_BYTES: Final = 4
"""Bytes that a batch takes for a message beside the message."""


class TopicMethods(AnyClient):
    """The topics of a node, whoever waits for its answers. A pattern has `*` for a level and `>` for all below."""

    @conversed
    def create(self, name: str, reason: str = "") -> Conversation[Topic]:
        """Declare a topic, or get the one of this name. Both members of a pair have it when this returns.

        Raises:
            AccessRefused: it needs the role engineer. NodeRefused: it can't be a name, or there are too many.
        """
        return asks(TOPIC_CREATE, TopicAsked(name=name, user=self.user, reason=reason), ACTION_S)

    @conversed
    def delete(self, name: str, reason: str = "") -> Conversation[Topic]:
        """End a topic, with its messages and the subscriptions that name no other one. Raises: as `create`."""
        return asks(TOPIC_DELETE, TopicAsked(name=name, user=self.user, reason=reason), ACTION_S)

    @conversed
    def all(self) -> Conversation[list[Topic]]:
        """Topics by name, with the number of messages that each was put."""
        found = yield from all_rows(TOPICS, TopicsAsked())
        return sorted(found, key=lambda one: one.name)

    @conversed
    def readers(self, name: str) -> Conversation[list[TopicReader]]:
        """Subscriptions that get the messages of a topic, and how many each has still to read."""
        return asks(TOPIC_READERS, TopicNamed(name=name))

    @conversed
    def subscribe(
        self, patterns: str | Sequence[str], *, subscriber: str, reason: str = ""
    ) -> Conversation[Subscription]:
        """Subscribe to topics by names or patterns, 16 at most: to every message that is put after this returns.

        The subscription lasts until `unsubscribe`, whether anybody reads or not. The name of a subscriber belongs to
        the principal that subscribed under it first.

        Raises:
            NodeRefused: there is no such topic, or the subscriber's name is another principal's.
        """
        return asks(SUBSCRIBE, self._asked(patterns, subscriber, reason), ACTION_S)

    @conversed
    def unsubscribe(
        self, patterns: str | Sequence[str], *, subscriber: str, reason: str = ""
    ) -> Conversation[Subscription]:
        """End the subscription of a subscriber to these patterns. Raises NodeRefused: it has none, or is another's."""
        return asks(UNSUBSCRIBE, self._asked(patterns, subscriber, reason), ACTION_S)

    def _asked(self, patterns: str | Sequence[str], subscriber: str, reason: str) -> SubscribeAsked:
        return SubscribeAsked(
            subscriber=subscriber, patterns=tuple(patterns_of(patterns)), user=self.user, reason=reason
        )

    def _offered(self, name: str, bodies: Sequence[bytes]) -> "Conversation[Future[Acknowledged]]":
        """Put messages to the topic that has this name now; ends with what will be the receipt."""
        size_bytes = sum(map(len, bodies)) + LENGTH_BYTES * len(bodies)
        if not bodies or size_bytes > PUT_BYTES_MAX:
            limits = f"put one or more, of {PUT_BYTES_MAX:,} bytes together, each with {LENGTH_BYTES} for its length"
            raise ValueError(f"{len(bodies):,} messages of {size_bytes:,} bytes are no batch: {limits}")
        ids = self._core.topic_ids
        if name not in ids:
            ids[name] = (yield from asks(TOPIC, TopicNamed(name=name))).topic_id
        batch = PutOffer(encode_unnumbered([(ids[name], bodies)]), len(bodies), wall_ns())
        return self._core.putter().deliver(batch)

    def _is_made_anew(self, name: str, error: NodeRefused) -> bool:
        """True: the topic is gone whose id was known, so nothing was put, and one of its name may be there."""
        return error.code == RefusalCode.UNKNOWN_TOPIC and self._core.topic_ids.pop(name, None) is not None


class ThreadTopics(TopicMethods, ThreadClient):
    """`Client.topics`."""

    def put(self, name: str, body: bytes) -> Acknowledged:
        """Put a message to a topic: it is on the disks of both members when this returns, once. See `put_many`."""
        return self.put_many(name, [body])

    def put_many(self, name: str, bodies: Sequence[bytes]) -> Acknowledged:
        """Put messages to a topic, as one batch: all of them, or none.

        What is put comes under the name of the client (`connect(name=...)`), one program at a time: by it a batch that
        is sent again through a takeover is known, and taken once.

        Returns:
            The receipt; its position is at or behind the last message.
        Raises:
            ValueError: there are no messages, or more than 512 KiB of them. NodeRefused: there is no such topic.
            NameTaken: another program puts under this name since.
            OutcomeUnknown: no answer came in time; it may still be taken.
        """
        try:
            return self.converse(self._offered(name, bodies)).result(ACTION_S)
        except NodeRefused as error:
            if not self._is_made_anew(name, error):
                raise
            return self.put_many(name, bodies)
        except TimeoutError as error:
            raise _unknown() from error


class LoopTopics(TopicMethods, LoopClient):
    """`AsyncClient.topics`."""

    async def put(self, name: str, body: bytes) -> Acknowledged:
        """Put a message to a topic, as `Client.topics.put` does."""
        return await self.put_many(name, [body])

    async def put_many(self, name: str, bodies: Sequence[bytes]) -> Acknowledged:
        """Put messages to a topic, as `Client.topics.put_many` does."""
        import asyncio  # A program of threads does without it.

        try:
            receipt = await self.converse(self._offered(name, bodies))
            return await asyncio.wait_for(asyncio.wrap_future(receipt), ACTION_S)
        except NodeRefused as error:
            if not self._is_made_anew(name, error):
                raise
            return await self.put_many(name, bodies)
        except TimeoutError as error:
            raise _unknown() from error


def _unknown() -> OutcomeUnknown:
    return OutcomeUnknown("put", f"no answer within {ACTION_S:g} s")
