"""Records of topics and subscriptions (stream STATE). They are part of `codec.record.Record`.

Spec: ADR-0243.
"""

import msgspec

from albireo.model.bounded import Count, Name, Signed
from albireo.model.topic import Patterns, SubscriberName, TopicName


class TopicDeclared(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic exists from here on; its id is the sequence of this record. Stream STATE."""

    name: TopicName
    since_ns: Signed


class TopicDropped(msgspec.Struct, frozen=True, kw_only=True, tag="topic_dropped"):
    """A topic is gone, with all its messages; one of its name that is declared later is another one. Stream STATE."""

    topic_id: Count


class Subscribed(msgspec.Struct, frozen=True, kw_only=True, tag="subscribed"):
    """A subscription begins; its id is the sequence of this record. Stream STATE."""

    subscriber: SubscriberName
    principal: Name
    patterns: Patterns
    since_ns: Signed


class Unsubscribed(msgspec.Struct, frozen=True, kw_only=True, tag="unsubscribed"):
    """A subscription is over. Stream STATE."""

    subscription_id: Count


TopicRecord = TopicDeclared | TopicDropped | Subscribed | Unsubscribed
