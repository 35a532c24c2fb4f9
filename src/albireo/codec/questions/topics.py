"""Questions about topics and who subscribes to them."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.bounded import INT64_MAX, Count, Name
from albireo.model.order_text import OrderText
from albireo.model.position import Position
from albireo.model.settings import StreamReplication
from albireo.model.topic import (
    KEY_BYTES_MAX,
    UNTIL_READ,
    Patterns,
    StoredKey,
    SubscriberName,
    Subscription,
    Topic,
    TopicName,
    TopicPolicy,
)
from albireo.model.topic_lease import Sharing


class TopicAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `topic_delete` and `topic_purge`."""

    name: TopicName
    user: OrderText = "unknown"
    reason: OrderText = ""


class TopicPolicyAsked(TopicAsked, frozen=True, kw_only=True):
    """Arguments of `topic_create` and `topic_change`."""

    policy: TopicPolicy = UNTIL_READ
    replication: StreamReplication | None = None
    """Which member has its messages, as `topic_create` takes it; None: as the topology says."""


class TopicsAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `topics`, besides those of a piece."""


class TopicNamed(Asked, frozen=True, kw_only=True):
    """Arguments of `topic` and `topic_readers`."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]


class SubscriptionAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `subscription` and `unsubscribe`."""

    subscriber: SubscriberName
    patterns: Patterns
    user: OrderText = "unknown"
    reason: OrderText = ""


class SubscribeAsked(SubscriptionAsked, frozen=True, kw_only=True):
    """Arguments of `subscribe`."""

    is_from_first: bool = False
    """It gets what is kept, too."""
    sharing: Sharing | None = None
    """How several consumers share it; None: it has one."""


class SubscriptionTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `subscription`."""

    subscription: Subscription
    not_before: Position
    """Place of the last change of topics that may be about it: what was acknowledged before is not behind it."""


class StoreKeyAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `store_key`."""

    name: TopicName
    key: Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]


class StoreKeysAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `store_keys`, besides those of a piece."""

    name: TopicName
    prefix: Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)] = b""


class StoreKeyTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `store_key`."""

    entry: StoredKey | None
    """None: the key is not there."""


class TopicMessageAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `topic_message`."""

    topic_id: Count
    number: Annotated[int, Meta(ge=1, le=INT64_MAX)]
    sequence: Annotated[int, Meta(ge=1, le=INT64_MAX)]


class TopicMessageTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `topic_message`."""

    body: bytes
    headers: dict[str, str]
    at_ns: int


class LastPutAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `topic_last_put`."""

    name: Name
    """Name under which a client puts (`connect(name=...)`)."""


class LastPut(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `topic_last_put`: how far the program came that put last under a name."""

    batches: int = 0
    """Batches of it that are on record; of one that puts one after the other, each put is a batch."""
    sequence: int = 0
    """Place of the last message of the last one in the log."""
    at_ns: int = 0
    """Wall time of that; Unix ns, UTC."""


class TopicReader(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that gets the messages of a topic."""

    subscription: Subscription
    unread: int
    """Messages that it has still to read."""
    leased: int = 0
    """Messages of these that consumers of a shared subscription have now."""


class TopicTablesTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `topic_tables`."""

    position: Position
    sections: dict[Name, bytes]
    """Snapshots of the tables, by name."""


TOPIC_TABLES: Final = QuestionKind(
    name="topic_tables",
    shape=Nothing,
    answer=TopicTablesTold,
    answerer=Answerer.CORE,
    role=AccessRole.ADMIN,
    meaning="by the actor `topics`: topics, subscriptions and cursors",
    told="snapshots of the tables, and the record as of which they are, for an actor whose log begins too late",
    is_reading=True,
)
TOPIC_LAST_PUT: Final = QuestionKind(
    name="topic_last_put",
    shape=LastPutAsked,
    answer=LastPut,
    answerer=Answerer.ACTING,
    meaning="how far a program came that put to topics under a name",
    told="batches of its last life that are on record, and the place of the last one; 0 of a name that is not known",
    is_reading=True,
)
TOPIC_CREATE: Final = QuestionKind(
    name="topic_create",
    shape=TopicPolicyAsked,
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
TOPIC_CHANGE: Final = QuestionKind(
    name="topic_change",
    shape=TopicPolicyAsked,
    answer=Topic,
    answerer=Answerer.ACTING,
    role=AccessRole.ENGINEER,
    meaning="give a topic another policy",
    told="the topic with it, once that is committed",
)
TOPIC_PURGE: Final = QuestionKind(
    name="topic_purge",
    shape=TopicAsked,
    answer=Topic,
    answerer=Answerer.ACTING,
    role=AccessRole.ENGINEER,
    meaning="let go of all messages that a topic was put so far",
    told="the topic as it was, once it is committed that they are gone",
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
SUBSCRIPTION: Final = QuestionKind(
    name="subscription",
    shape=SubscriptionAsked,
    answer=SubscriptionTold,
    answerer=Answerer.ACTING,
    meaning="a subscription by its subscriber and patterns",
    told="the subscription, whose id a consumer says to the actor `topics`, and what is committed",
    is_reading=True,
)
STORE_KEY: Final = QuestionKind(
    name="store_key",
    shape=StoreKeyAsked,
    answer=StoreKeyTold,
    answerer=Answerer.ACTING,
    meaning="a key of a key-value store",
    told="its version, and where its value stands",
    is_reading=True,
)
STORE_KEYS: Final = QuestionKind(
    name="store_keys",
    shape=StoreKeysAsked,
    answer=list[StoredKey],
    answerer=Answerer.ACTING,
    meaning="which keys a key-value store has",
    told="keys with their versions, by the time of their last change",
    is_reading=True,
)
TOPIC_MESSAGE: Final = QuestionKind(
    name="topic_message",
    shape=TopicMessageAsked,
    answer=TopicMessageTold,
    answerer=Answerer.TOPICS,
    meaning="one message of a topic, as the value of a key",
    told="the message, once the actor has come to its sequence",
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
    shape=SubscriptionAsked,
    answer=Subscription,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="end a subscription; that of another principal needs admin",
    told="the subscription as it was, once it is committed that it is over",
)
KINDS: Final = (
    TOPIC_TABLES,
    TOPIC_LAST_PUT,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_CHANGE,
    TOPIC_PURGE,
    TOPIC,
    TOPICS,
    TOPIC_READERS,
    SUBSCRIPTION,
    STORE_KEY,
    STORE_KEYS,
    TOPIC_MESSAGE,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
