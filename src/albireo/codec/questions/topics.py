"""Questions about topics and who subscribes to them."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.order_text import OrderText
from albireo.model.topic import Patterns, SubscriberName, Subscription, Topic, TopicName


class TopicAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `topic_create` and `topic_delete`."""

    name: TopicName
    user: OrderText = "unknown"
    reason: OrderText = ""


class TopicsAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `topics`, besides those of a piece."""


class TopicNamed(Asked, frozen=True, kw_only=True):
    """Arguments of `topic` and `topic_readers`."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]


class SubscribeAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `subscribe` and `unsubscribe`."""

    subscriber: SubscriberName
    patterns: Patterns
    user: OrderText = "unknown"
    reason: OrderText = ""


class TopicReader(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that gets the messages of a topic."""

    subscription: Subscription
    unread: int
    """Messages that it has still to read."""


TOPIC_CREATE: Final = QuestionKind(
    name="topic_create",
    shape=TopicAsked,
    answer=Topic,
    answerer=Answerer.ACTING,
    role=AccessRole.ENGINEER,
    meaning="declare a topic",
    told="the topic, once it is committed; of a name that there is, the topic that has it",
    is_known_again=True,
)
TOPIC_DELETE: Final = QuestionKind(
    name="topic_delete",
    shape=TopicAsked,
    answer=Topic,
    answerer=Answerer.ACTING,
    role=AccessRole.ENGINEER,
    meaning="end a topic, with its messages and the subscriptions that name no other one",
    told="the topic as it was, once it is committed that it is gone",
)
TOPIC: Final = QuestionKind(
    name="topic",
    shape=TopicNamed,
    answer=Topic,
    answerer=Answerer.CORE,
    meaning="one topic by its name",
    told="the topic with how many messages it was put",
    is_reading=True,
)
TOPICS: Final = QuestionKind(
    name="topics",
    shape=TopicsAsked,
    answer=list[Topic],
    answerer=Answerer.CORE,
    meaning="which topics there are",
    told="topics with how many messages each was put",
    is_reading=True,
)
TOPIC_READERS: Final = QuestionKind(
    name="topic_readers",
    shape=TopicNamed,
    answer=list[TopicReader],
    answerer=Answerer.CORE,
    meaning="who has how much of a topic still to read",
    told="subscriptions that get its messages, each with how many it has still to read; of these 1,000 at most",
    is_reading=True,
)
SUBSCRIBE: Final = QuestionKind(
    name="subscribe",
    shape=SubscribeAsked,
    answer=Subscription,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="subscribe to topics",
    told="the subscription, once it is committed: it gets what is put behind that; one that there is, as it is",
    is_known_again=True,
)
UNSUBSCRIBE: Final = QuestionKind(
    name="unsubscribe",
    shape=SubscribeAsked,
    answer=Subscription,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="end a subscription; that of another principal needs admin",
    told="the subscription as it was, once it is committed that it is over",
)
KINDS: Final = (TOPIC_CREATE, TOPIC_DELETE, TOPIC, TOPICS, TOPIC_READERS, SUBSCRIBE, UNSUBSCRIBE)
