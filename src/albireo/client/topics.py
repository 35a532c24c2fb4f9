"""Topics of a client: which there are, and to declare, end, subscribe and unsubscribe."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial

from albireo.client.conversation import Conversation, all_rows, asks, patterns_of
from albireo.client.conversed import AnyClient, LoopClient, ThreadClient, conversed, made_aside
from albireo.client.orders import ACTION_S
from albireo.client.putting import TopicPutting, received, receives
from albireo.client.topic_consumer import PREFETCH_BYTES, AsyncTopicConsumer, MessageReading, TopicConsumer
from albireo.client.topic_message import NewMessage, TopicMessage
from albireo.client.topic_sharing import AT_ONCE
from albireo.codec.questions.topics import (
    SUBSCRIBE,
    SUBSCRIPTION,
    TOPIC_CHANGE,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_LAST_PUT,
    TOPIC_PURGE,
    TOPIC_READERS,
    TOPICS,
    UNSUBSCRIBE,
    LastPut,
    LastPutAsked,
    SubscribeAsked,
    SubscriptionAsked,
    TopicAsked,
    TopicNamed,
    TopicPolicyAsked,
    TopicReader,
    TopicsAsked,
)
from albireo.machine.producer.sending import Acknowledged
from albireo.model.settings import StreamReplication
from albireo.model.topic import UNTIL_READ, Subscription, Topic, TopicPolicy
from albireo.model.topic_lease import Sharing


class TopicMethods(AnyClient):
    """The topics of a node, whoever waits for its answers. A pattern has `*` for a level and `>` for all below."""

    @conversed
    def create(
        self,
        name: str,
        policy: TopicPolicy = UNTIL_READ,
        reason: str = "",
        *,
        replication: StreamReplication | str | None = None,
    ) -> Conversation[Topic]:
        """Declare a topic, or get the one of this name, as it is. Both members of a pair have it when this returns.

        Args:
            replication: `all`: both members have its messages, too. `configuration`: the one that took them has them.
                `none`: the same, and the topic ends when the other member leads. None: as the topology says.
        Raises:
            AccessRefused: it needs the role engineer.
            NodeRefused: it can't be a name, the policy makes no sense, or there are too many.
        """
        which = None if replication is None else StreamReplication(replication)
        asked = TopicPolicyAsked(name=name, policy=policy, replication=which, user=self.user, reason=reason)
        return asks(TOPIC_CREATE, asked, ACTION_S)

    @conversed
    def change(self, name: str, policy: TopicPolicy, reason: str = "") -> Conversation[Topic]:
        """Give a topic another policy. What this one does not keep goes at once. Raises: as `create`."""
        return asks(TOPIC_CHANGE, TopicPolicyAsked(name=name, policy=policy, user=self.user, reason=reason), ACTION_S)

    @conversed
    def purge(self, name: str, reason: str = "") -> Conversation[Topic]:
        """Let go of all messages that a topic was put so far: nobody gets them any more. Raises: as `create`."""
        return asks(TOPIC_PURGE, TopicAsked(name=name, user=self.user, reason=reason), ACTION_S)

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
    def last_put(self) -> Conversation[LastPut]:
        """How far the program came that put last under the name of this client, such as its own life before.

        A program that was killed while it put asks this before it puts: by the number of batches it can tell whether
        the one of which it has no receipt is on record.
        """
        return asks(TOPIC_LAST_PUT, LastPutAsked(name=self.user))

    @conversed
    def subscribe(
        self,
        patterns: str | Sequence[str],
        *,
        subscriber: str,
        from_first: bool = False,
        shared: bool | Sharing = False,
        reason: str = "",
    ) -> Conversation[Subscription]:
        """Subscribe to topics by names or patterns, 16 at most: to every message that is put after this returns.

        The subscription lasts until `unsubscribe`, whether anybody reads or not. The name of a subscriber belongs to
        the principal that subscribed under it first.

        Args:
            from_first: it gets the messages that are kept, too.
            shared: several consumers share it, of which one gets each message: a work queue.
        Raises:
            NodeRefused: there is no such topic, or the subscriber's name is another principal's.
        """
        asked = self._asked(patterns, subscriber, reason)
        fields = {name: getattr(asked, name) for name in asked.__struct_fields__}
        sharing = shared if isinstance(shared, Sharing) else Sharing() if shared else None
        return asks(SUBSCRIBE, SubscribeAsked(**fields, is_from_first=from_first, sharing=sharing), ACTION_S)

    @conversed
    def unsubscribe(
        self, patterns: str | Sequence[str], *, subscriber: str, reason: str = ""
    ) -> Conversation[Subscription]:
        """End the subscription of a subscriber to these patterns. Raises NodeRefused: it has none, or is another's."""
        return asks(UNSUBSCRIBE, self._asked(patterns, subscriber, reason), ACTION_S)

    def _reading(
        self, patterns: str | Sequence[str], subscriber: str, prefetch_bytes: int, at_once: int
    ) -> "Conversation[Callable[[], MessageReading]]":
        """Look up a subscription; ends with what begins to read it."""
        known = yield from asks(SUBSCRIPTION, self._asked(patterns, subscriber, ""))
        return partial(self._core.reading, known, prefetch_bytes, at_once)

    def _asked(self, patterns: str | Sequence[str], subscriber: str, reason: str) -> SubscriptionAsked:
        return SubscriptionAsked(
            subscriber=subscriber, patterns=tuple(patterns_of(patterns)), user=self.user, reason=reason
        )


class ThreadTopics(TopicMethods, ThreadClient):
    """`Client.topics`."""

    def put(
        self, name: str, body: bytes, *, key: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Acknowledged:
        """Put a message to a topic: it is on the disks of both members when this returns, once. See `put_many`.

        Args:
            key: what the message is about, such as a machine; 1,024 bytes at most.
            headers: words beside the message, 64 at most.
        """
        return self.put_many(name, [NewMessage(body, key, headers or {}) if key is not None or headers else body])

    def put_many(self, name: str, messages: Sequence[bytes | NewMessage]) -> Acknowledged:
        """Put messages to a topic, as one batch: all of them, or none.

        What is put comes under the name of the client (`connect(name=...)`), one program at a time: by it a batch that
        is sent again through a takeover is known, and taken once.

        Returns:
            The receipt. Its position is that of the last message; it may be one behind it if `is_exact` is not true,
            which happens after a takeover.
        Raises:
            ValueError: there are no messages, or more than 512 KiB of them. NodeRefused: there is no such topic.
            NameTaken: another program puts under this name since.
            OutcomeUnknown: no answer came in time; it may still be taken.
        """
        return received(self, TopicPutting(self._core, [(name, messages)]))

    def consumer(
        self,
        patterns: str | Sequence[str],
        *,
        subscriber: str,
        prefetch_bytes: int = PREFETCH_BYTES,
        at_once: int = AT_ONCE,
    ) -> TopicConsumer:
        """Read a subscription: what was put since it was made, and is not acknowledged.

        A subscription has one consumer; one that begins later takes its place. A shared one has as many as come, and
        each message is given to one of them.

        Args:
            patterns: topics or patterns, as they were subscribed to.
            prefetch_bytes: most bytes of messages that are here or under way and not taken.
            at_once: most messages of a shared subscription that are this consumer's at once, 500 at most.
        Raises:
            NodeRefused: there is no such subscription.
        """
        return TopicConsumer(self.converse(self._reading(patterns, subscriber, prefetch_bytes, at_once))())

    def messages(
        self,
        patterns: str | Sequence[str],
        *,
        subscriber: str,
        timeout_s: float | None = None,
        at_most_once: bool = False,
    ) -> Iterator[TopicMessage]:
        """Messages of a subscription, each acknowledged as the next one is asked for; see `TopicConsumer.messages`."""
        with self.consumer(patterns, subscriber=subscriber) as consumer:
            yield from consumer.messages(timeout_s, at_most_once=at_most_once)


class LoopTopics(TopicMethods, LoopClient):
    """`AsyncClient.topics`."""

    async def put(
        self, name: str, body: bytes, *, key: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Acknowledged:
        """Put a message to a topic, as `Client.topics.put` does."""
        return await self.put_many(name, [NewMessage(body, key, headers or {}) if key is not None or headers else body])

    async def put_many(self, name: str, messages: Sequence[bytes | NewMessage]) -> Acknowledged:
        """Put messages to a topic, as `Client.topics.put_many` does."""
        return await receives(self, TopicPutting(self._core, [(name, messages)]))

    async def consumer(
        self,
        patterns: str | Sequence[str],
        *,
        subscriber: str,
        prefetch_bytes: int = PREFETCH_BYTES,
        at_once: int = AT_ONCE,
    ) -> AsyncTopicConsumer:
        """Read a subscription, as `Client.topics.consumer` does."""
        begin = await self.converse(self._reading(patterns, subscriber, prefetch_bytes, at_once))
        return AsyncTopicConsumer(await made_aside(begin, MessageReading.leave))

    async def messages(
        self,
        patterns: str | Sequence[str],
        *,
        subscriber: str,
        timeout_s: float | None = None,
        at_most_once: bool = False,
    ) -> AsyncIterator[TopicMessage]:
        """Messages of a subscription, as `Client.topics.messages` gives them."""
        async with await self.consumer(patterns, subscriber=subscriber) as consumer:
            async for message in consumer.messages(timeout_s, at_most_once=at_most_once):
                yield message
