"""Topics of a client: which there are, and to declare, end, subscribe and unsubscribe."""

from collections.abc import Sequence

from albireo.client.conversation import Conversation, all_rows, asks, patterns_of
from albireo.client.conversed import AnyClient, LoopClient, ThreadClient, conversed
from albireo.client.orders import ACTION_S
from albireo.codec.questions.topics import (
    SUBSCRIBE,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_READERS,
    TOPICS,
    UNSUBSCRIBE,
    ReadersAsked,
    SubscribeAsked,
    TopicAsked,
    TopicReader,
    TopicsAsked,
)
from albireo.model.topic import Subscription, Topic


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
        return asks(TOPIC_READERS, ReadersAsked(name=name))

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


class ThreadTopics(TopicMethods, ThreadClient):
    """`Client.topics`."""


class LoopTopics(TopicMethods, LoopClient):
    """`AsyncClient.topics`."""
