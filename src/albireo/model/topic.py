"""Topics: durable series of messages by name, and who is to get which of them.

A name is levels with a dot between them: `plant.events`. A pattern of a subscription has `*` for any one level, and `>`
at its end for one level or more. Names and patterns are compared by their characters, nothing is folded.

Spec: ADR-0243.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Count, Name, Signed

TOPICS_MAX: Final = 10_000
"""Most topics of a node."""
SUBSCRIPTIONS_MAX: Final = 100_000
CURSORS_MAX: Final = 200_000
"""Most topics of subscriptions, each topic counted for each subscription that means it."""
PATTERNS_MAX: Final = 16
"""Most patterns of one subscription."""
DONE_MAX: Final = 1_000
"""Most ranges above what is done without a gap that a cursor holds."""
ANY_LEVEL: Final = "*"
ALL_BELOW: Final = ">"

_LEVEL: Final = r"[^.*>\x00-\x1f\x7f-\x9f\u2028\u2029]+"
TopicName = Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"\A{_LEVEL}(\.{_LEVEL})*\Z")]
"""Any characters but control characters and wildcards; no level is empty."""
TopicPattern = Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"\A(({_LEVEL}|\*)\.)*({_LEVEL}|\*|>)\Z")]
"""A name, or one with wildcards."""
Patterns = Annotated[tuple[TopicPattern, ...], Meta(min_length=1, max_length=PATTERNS_MAX)]
SubscriberName = Annotated[Name, Meta(min_length=1, pattern=r"\A[^\x00-\x1f\x7f-\x9f]+\Z")]
Range = tuple[Count, Count]
"""Numbers of messages of a topic: from, up to and with."""
Ranges = Annotated[tuple[Range, ...], Meta(max_length=DONE_MAX)]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic."""

    topic_id: Count
    """Sequence of the record that declared it: never another topic's in this log, also under the same name."""
    name: Name
    count: Count = 0
    """Messages that were put, and so the number of the last one; the first has the number 1."""
    size_bytes: Count = 0
    """Bytes of their bodies."""
    since_ns: Signed
    """Wall time at which it was declared."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: it gets every message that is put behind its record to a topic that one of its patterns means."""

    subscription_id: Count
    """Sequence of its record."""
    subscriber: Name
    principal: Name
    """Who subscribed (model.principal), to whom it belongs."""
    patterns: Annotated[tuple[Name, ...], Meta(max_length=PATTERNS_MAX)]
    since_ns: Signed


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a subscription is in one topic."""

    subscription_id: Count
    topic_id: Count
    low: Count
    """Number up to which every message is done, or came before the subscription."""
    done: Ranges = ()
    """Numbers above it that are done, rising, with gaps between them."""

    @property
    def done_count(self) -> int:
        """Messages above `low` that are done."""
        return sum(last - first + 1 for first, last in self.done)

    def moved(self, low: int, done: Ranges, count: int) -> "Cursor":
        """The cursor with more done; never less, and nothing above the topic's `count`."""
        low = max(self.low, min(low, count))
        kept: list[Range] = []
        for first, last in sorted((*self.done, *done)):
            first, last = max(first, low + 1), min(last, count)
            if first > last:
                continue
            if kept and first <= kept[-1][1] + 1:
                kept[-1] = (kept[-1][0], max(kept[-1][1], last))
            else:
                kept.append((first, last))
        if kept and kept[0][0] == low + 1:
            low = kept.pop(0)[1]
        return msgspec.structs.replace(self, low=low, done=tuple(kept[:DONE_MAX]))


def is_wild(pattern: str) -> bool:
    """True: the pattern has a wildcard."""
    return ANY_LEVEL in pattern or ALL_BELOW in pattern


def prefix_of(pattern: str) -> str:
    """Characters with which every name begins that the pattern means."""
    return re.split(r"[*>]", pattern, maxsplit=1)[0]


def matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    """An expression that matches, as a whole, the names of the topics that one of these patterns means."""
    levels = {ANY_LEVEL: r"[^.]+", ALL_BELOW: r".+"}
    found = ([levels.get(level, re.escape(level)) for level in one.split(".")] for one in patterns)
    return re.compile("|".join(map(r"\.".join, found)))
