"""Questions of consumers of shared subscriptions to the actor `topics`, on the link on which others follow.

    topic_take     --> answered with messages, each a raw part of codec/served.py, or with none after a while
    topic_settle   --> answered once it is on record

Spec: ADR-0246.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Count
from albireo.model.topic import OUT_MAX, Ranges
from albireo.model.topic_lease import DEAD_LETTERS

TAKE: Final = "topic_take"
SETTLE: Final = "topic_settle"
TAKE_BYTES_MAX: Final = 256 << 10
"""Most bytes of one answer, unless one message is larger."""
ASKED_TOPICS_MAX: Final = 500
"""Most topics of one question."""

ConsumerId = Annotated[int, Meta(ge=1, lt=DEAD_LETTERS)]
"""Id that a consumer draws by itself, once."""
ByTopic = Annotated[dict[Count, Ranges], Meta(max_length=ASKED_TOPICS_MAX)]
"""Numbers of messages by id of their topic."""


class TopicTake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A consumer asks for messages."""

    subscription_id: Count
    consumer: ConsumerId
    count: Annotated[int, Meta(ge=1, le=OUT_MAX)]
    """Most messages that become its own now."""
    holds: ByTopic = {}
    """Messages that it has and has not settled; it is given again what else is its own by record."""
    not_before: Count = 0
    """Record that has to be known first: what was done by a transaction is not given again."""


class TopicTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to one that asked: beside it stand messages, if there are any."""

    held_ms: Count = 0
    """Time for which the question was there before the lease of the messages began, or began anew."""


class TopicSettle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A consumer says what became of messages."""

    subscription_id: Count
    consumer: ConsumerId
    done: ByTopic = {}
    lows: Annotated[dict[Count, Count], Meta(max_length=ASKED_TOPICS_MAX)] = {}
    """Number up to which it was told that messages are gone by a policy."""
    given_back: ByTopic = {}
    """It could not deal with them: another one is to have them."""
    extended: ByTopic = {}
    """They are its own for the time of a lease, from now on."""
    is_leaving: bool = False
    """It asks for no more; others are to have what else is its own, to which it did not get."""


class TopicSettled(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `topic_settle`."""

    over: ByTopic = {}
    """Messages of these that are not its own any more, so nothing was recorded of them."""
