"""Records of topics and subscriptions (stream STATE). They are part of `codec.record.Record`.

Spec: ADR-0243.
"""

import msgspec

from albireo.model.bounded import Count, Name, Signed
from albireo.model.settings import StreamReplication
from albireo.model.topic import UNTIL_READ, Patterns, SubscriberName, TopicName, TopicPolicy
from albireo.model.topic_lease import Sharing


class TopicDeclared(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic exists from here on; its id is the sequence of this record. Stream STATE."""

    name: TopicName
    since_ns: Signed
    policy: TopicPolicy = UNTIL_READ
    replication: StreamReplication = StreamReplication.ALL
    member: Count = 0


class TopicChanged(msgspec.Struct, frozen=True, kw_only=True, tag="topic_changed"):
    """A topic has another policy from here on. Stream STATE."""

    topic_id: Count
    policy: TopicPolicy
    gone: Count = 0
    """Number up to which nothing was kept before."""


class TopicPurged(msgspec.Struct, frozen=True, kw_only=True, tag="topic_purged"):
    """All messages that a topic was put before this record are gone. Stream STATE."""

    topic_id: Count


class TopicDropped(msgspec.Struct, frozen=True, kw_only=True, tag="topic_dropped"):
    """A topic is gone, with all its messages; one of its name that is declared later is another one. Stream STATE."""

    topic_id: Count


class Subscribed(msgspec.Struct, frozen=True, kw_only=True, tag="subscribed"):
    """A subscription begins; its id is the sequence of this record. Stream STATE."""

    subscriber: SubscriberName
    principal: Name
    patterns: Patterns
    since_ns: Signed
    is_from_first: bool = False
    """It gets what is kept, too."""
    sharing: Sharing | None = None


class Unsubscribed(msgspec.Struct, frozen=True, kw_only=True, tag="unsubscribed"):
    """A subscription is over. Stream STATE."""

    subscription_id: Count


TopicRecord = TopicDeclared | TopicDropped | TopicChanged | TopicPurged | Subscribed | Unsubscribed
