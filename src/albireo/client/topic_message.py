"""Messages of a topic, as a program puts them, and as it gets them."""

from collections.abc import Mapping

import msgspec

from albireo.model.position import Position


class NewMessage(msgspec.Struct, frozen=True):
    """A message that is to be put, with what stands beside its body."""

    body: bytes
    key: bytes | None = None
    headers: Mapping[str, str] = {}
    since: int | None = None
    """Version that its key must have, of a topic that keeps the last message of each; None: any."""
    is_deleted: bool = False
    """Its key is to be gone."""


class TopicMessage(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A message; its identity is its position."""

    topic: str
    topic_id: int
    number: int
    """Number of the message in its topic, from 1."""
    position: Position
    """Position of the message in the log; the same at both members."""
    at_ns: int
    """Wall time at which the node took it; Unix ns, UTC."""
    key: bytes | None
    headers: Mapping[str, str]
    body: bytes
    is_deleted: bool
    """True: it says that its key is gone."""
    is_redelivered: bool
    """True: somebody may have been given it before, who did not acknowledge it."""
    subscription_id: int
    lost_before: int
    """Messages of its topic before it that this subscription does not get: the topic's policy took them."""
    deliveries: int = 1
    """Number of this delivery of a shared subscription, counting those that failed."""
    consumer: int = 0
    """Id of the consumer of a shared subscription whose it is; 0: the subscription is not shared."""
