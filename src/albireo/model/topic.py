"""Topics: durable series of messages by name, and who is to get which of them.

A name is levels with a dot between them: `plant.events`. A pattern of a subscription has `*` for any one level, and `>`
at its end for one level or more. Names and patterns are compared by their characters, nothing is folded.

Spec: ADR-0243.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import INT64_MAX, Count, Name, Signed
from albireo.model.settings import StreamReplication
from albireo.model.topic_lease import (
    NOBODY,
    MessageLease,
    Range,
    Sharing,
    changed,
    count_of,
    expired,
    first_of,
    joined,
    spans,
    within,
    without,
)

TOPICS_MAX: Final = 10_000
"""Most topics of a node."""
SUBSCRIPTIONS_MAX: Final = 100_000
CURSORS_MAX: Final = 200_000
"""Most topics of subscriptions, each topic counted for each subscription that means it."""
PATTERNS_MAX: Final = 16
"""Most patterns of one subscription."""
KEY_BYTES_MAX: Final = 1_024
KEYS_MAX: Final = 100_000
"""Most keys of all key-value stores of a node."""
MARK_PARTS: Final = 64
"""Marks by which the age, or size, of a topic is parted: limits hold to one of so many parts."""
MARKS_MAX: Final = 160
SECONDS_MAX: Final = 10 * 366 * 86_400
DONE_MAX: Final = 1_000
"""Most ranges above what is done without a gap that a cursor holds."""
OUT_MAX: Final = DONE_MAX - 1
"""Most messages of a topic that consumers of a shared subscription have, or gave back: each may part what is done."""
ANY_LEVEL: Final = "*"
ALL_BELOW: Final = ">"

_LEVEL: Final = r"[^.*>\x00-\x1f\x7f-\x9f\u2028\u2029]+"
TopicName = Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"\A{_LEVEL}(\.{_LEVEL})*\Z")]
"""Any characters but control characters and wildcards; no level is empty."""
TopicPattern = Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"\A(({_LEVEL}|\*)\.)*({_LEVEL}|\*|>)\Z")]
"""A name, or one with wildcards."""
Patterns = Annotated[tuple[TopicPattern, ...], Meta(min_length=1, max_length=PATTERNS_MAX)]
SubscriberName = Annotated[Name, Meta(min_length=1, pattern=r"\A[^\x00-\x1f\x7f-\x9f]+\Z")]
Ranges = Annotated[tuple[Range, ...], Meta(max_length=DONE_MAX)]


class WhenFull(StrEnum):
    """Fate of a message for which its topic has no room."""

    DROP_OLDEST = "drop_oldest"
    """It is taken, and the oldest messages go: whoever lacks them is told how many."""
    REJECT = "reject"
    """It is refused."""
    BLOCK = "block"
    """Its producer waits until somebody has read. A transaction is refused."""


class TopicPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long a topic keeps its messages. Without any limit: until all subscriptions have them done."""

    max_messages: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    """Most messages that are kept (a ring, if the oldest are dropped); 0: no limit."""
    max_bytes: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    """Most bytes of their bodies; 0: no limit."""
    max_age_s: Annotated[int, Meta(ge=0, le=SECONDS_MAX)] = 0
    """Time to live: older messages go, whoever lacks them; 0: no limit."""
    keep_s: Annotated[int, Meta(ge=0, le=SECONDS_MAX)] = 0
    """Time for which messages are kept though all have them done: a later subscription may begin with them."""
    last_value: bool = False
    """The last message of each key is kept, whoever has it done, and no other: the topic is a key-value store."""
    when_full: WhenFull = WhenFull.DROP_OLDEST
    """Fate of a message at `max_messages` and `max_bytes`."""

    @property
    def drops_oldest(self) -> bool:
        """True: its size is kept by letting the oldest go."""
        return self.when_full is WhenFull.DROP_OLDEST

    @property
    def horizon_ms(self) -> int:
        """Age of messages that is still looked at."""
        return 1_000 * max(self.max_age_s, self.keep_s)

    def problem(self) -> str:
        """Why it makes no sense; empty: it does."""
        if self.max_age_s and self.keep_s > self.max_age_s:
            return "messages are kept for keep_s, which is longer than max_age_s, after which they go"
        if self.last_value and (self.keep_s or not self.drops_oldest):
            return "with last_value the last message of each key is kept: neither keep_s nor when_full has a meaning"
        return ""


UNTIL_READ: Final = TopicPolicy()
"""Messages are kept until all subscriptions have them done."""


class TopicMark(msgspec.Struct, frozen=True, array_like=True):
    """Place in a topic behind some messages that came after each other."""

    number: Count
    """Number of the last of them."""
    size_bytes: Count
    """Bytes of all bodies up to it, since the topic began."""
    at_ms: Count
    """Log time at which the first of them came."""


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
    replication: StreamReplication = StreamReplication.ALL
    """`all`: both members of a pair have its messages. `configuration`: only the one that took them; the other knows
    the topic, its cursors, and how many it lacks. `none`: the same, and the topic ends when another member leads."""
    member: Count = 0
    """Member that led when it was declared."""
    policy: TopicPolicy = UNTIL_READ
    gone: Count = 0
    """Number up to which messages are gone by the policy, or purged."""
    gone_bytes: Count = 0
    """Bytes of these, or of some less."""
    marks: Annotated[tuple[TopicMark, ...], Meta(max_length=MARKS_MAX)] = ()
    """Places by which age and size are judged, rising; the last one grows."""

    @property
    def stays_here(self) -> bool:
        """True: its messages are with one member only."""
        return self.replication is not StreamReplication.ALL

    def grown(self, count: int, size_bytes: int, now_ms: int) -> "Topic":
        """The topic with so many more messages."""
        marks = self.marks
        end = TopicMark(self.count + count, self.size_bytes + size_bytes, now_ms)
        policy = self.policy
        if policy.horizon_ms or policy.max_bytes:
            if marks and not self._is_large(marks[-1], now_ms):
                marks = (*marks[:-1], TopicMark(end.number, end.size_bytes, marks[-1].at_ms))
            else:
                marks = (*marks[1 - MARKS_MAX :], end)
        topic = msgspec.structs.replace(self, count=end.number, size_bytes=end.size_bytes, marks=marks)
        return topic.trimmed(now_ms)

    def _is_large(self, last: TopicMark, now_ms: int) -> bool:
        """True: the messages behind the last mark are so many, or so old, that the next one begins."""
        before = self.marks[-2].size_bytes if len(self.marks) > 1 else 0
        is_old = 0 < self.policy.horizon_ms <= MARK_PARTS * (now_ms - last.at_ms)
        return is_old or 0 < self.policy.max_bytes <= MARK_PARTS * (last.size_bytes - before)

    def trimmed(self, now_ms: int) -> "Topic":
        """The topic without what its policy lets go now."""
        policy, gone = self.policy, self.gone
        if policy.max_messages and policy.drops_oldest:
            gone = max(gone, self.count - policy.max_messages)
        for mark in self.marks:
            is_over = policy.max_bytes and policy.drops_oldest and self.size_bytes - mark.size_bytes >= policy.max_bytes
            if is_over or (policy.max_age_s and self._is_older(mark, policy.max_age_s, now_ms)):
                gone = max(gone, mark.number)
        if gone == self.gone:
            return self
        gone_bytes = max([self.gone_bytes, *(one.size_bytes for one in self.marks if one.number <= gone)])
        kept = tuple(one for one in self.marks if one.number > gone)
        return msgspec.structs.replace(self, gone=gone, gone_bytes=gone_bytes, marks=kept)

    def _is_older(self, mark: TopicMark, age_s: int, now_ms: int) -> bool:
        """True: all messages up to a mark are of this age."""
        return now_ms - mark.at_ms >= 1_000 * age_s + self.policy.horizon_ms // MARK_PARTS

    def due_ms(self) -> int | None:
        """Log time at which messages grow too old; None: none do."""
        if not self.policy.max_age_s or not self.marks:
            return None
        return self.marks[0].at_ms + 1_000 * self.policy.max_age_s + self.policy.horizon_ms // MARK_PARTS

    def kept_from(self, read: int, now_ms: int) -> int:
        """Number up to which no message is kept any more.

        Args:
            read: number up to which all subscriptions have its messages done.
        """
        if self.policy.last_value:
            return self.gone
        if self.policy.keep_s:
            old = (one.number for one in self.marks if self._is_older(one, self.policy.keep_s, now_ms))
            read = min(read, max(old, default=self.gone))
        return max(read, self.gone)

    def held_bytes(self, read: int) -> int:
        """Bytes of messages behind this number, or some more."""
        before = max((one.size_bytes for one in self.marks if one.number <= read), default=0)
        return self.size_bytes - max(before, self.gone_bytes) if read < self.count else 0


class StoredKey(msgspec.Struct, frozen=True):
    """A key of a topic that keeps the last message of each."""

    topic_id: Count
    key: Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]
    number: Count
    """Number of its last message."""
    version: Count
    """Sequence of that."""
    is_deleted: bool = False
    """Its last message says that it is gone."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: it gets every message that is put behind its record to a topic that one of its patterns means."""

    subscription_id: Count
    """Sequence of its record."""
    subscriber: Name
    principal: Name
    """Who subscribed (model.principal), to whom it belongs."""
    patterns: Annotated[tuple[Name, ...], Meta(max_length=PATTERNS_MAX)]
    since_ns: Signed
    sharing: Sharing | None = None
    """How several consumers share it; None: it has one, who gets everything."""


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a subscription is in one topic."""

    subscription_id: Count
    topic_id: Count
    low: Count
    """Number up to which every message is done, or came before the subscription."""
    done: Ranges = ()
    """Numbers above it that are done, rising, with gaps between them."""

    leases: Annotated[tuple[MessageLease, ...], Meta(max_length=2 * DONE_MAX)] = ()
    """Messages of a shared subscription that somebody was given and that are not done, rising."""

    @property
    def done_count(self) -> int:
        """Messages above `low` that are done."""
        return count_of(self.done)

    def moved(self, low: int, done: Ranges, count: int) -> "Cursor":
        """The cursor with more done; never less, and nothing above the topic's `count`."""
        low = max(self.low, min(low, count))
        kept = joined((max(first, low + 1), min(last, count)) for first, last in (*self.done, *done) if last > low)
        kept = [one for one in kept if one[0] <= one[1]]
        if kept and kept[0][0] == low + 1:
            low = kept.pop(0)[1]
        left = self.leases
        if left:
            left = tuple(within(left, without(spans(left), [(0, low), *kept])))
        return msgspec.structs.replace(self, low=low, done=tuple(kept[:DONE_MAX]), leases=left)

    # Of a shared subscription.

    def leased(self, ranges: Ranges, consumer: int, until_ms: int, count: int) -> "Cursor":
        """The cursor with messages that are a consumer's now; what is done, or behind the topic's `count`, stays so."""
        all_numbers = [(self.low + 1, count)] if count > self.low else []
        left = without(without(all_numbers, without(all_numbers, joined(ranges))), self.done)
        known = within(self.leases, left)
        parts = [
            msgspec.structs.replace(
                one, consumer=consumer, until_ms=until_ms, given=one.given + (one.consumer != consumer)
            )
            for one in known
        ]
        parts += [MessageLease(first, last, consumer, until_ms) for first, last in without(left, spans(known))]
        return msgspec.structs.replace(self, leases=changed(self.leases, parts))

    def given_back(self, ranges: Ranges, consumer: int, *, has_failed: bool) -> "Cursor":
        """The cursor with messages that a consumer has no more, perhaps because it could not deal with them."""
        parts = [
            msgspec.structs.replace(one, consumer=NOBODY, until_ms=0, failed=one.failed + has_failed)
            for one in within(self.leases, joined(ranges))
            if one.consumer == consumer
        ]
        return msgspec.structs.replace(self, leases=changed(self.leases, parts))

    def at(self, now_ms: int) -> "Cursor":
        """The cursor at a log time: leases that are over are nobody's."""
        return msgspec.structs.replace(self, leases=expired(self.leases, now_ms))

    @property
    def due_ms(self) -> int | None:
        """Log time at which the next lease is over; None: there is none."""
        return min((one.until_ms for one in self.leases if one.consumer != NOBODY), default=None)

    def has(self, ranges: Ranges, consumer: int) -> bool:
        """True: all these messages are this consumer's."""
        own = [one for one in self.leases if one.consumer == consumer]
        return not without(joined(ranges), joined(spans(own)))

    def free(self, gone: int, count: int, room: int, failed_max: int) -> list[Range]:
        """Messages up to the topic's `count` that are nobody's, the first ones of them; those up to `gone` are no more.

        Args:
            room: most messages.
            failed_max: failed deliveries from which a message is given to no consumer; 0: it always is.
        """
        out = sum(one.count for one in self.leases)
        again = [one for one in self.leases if one.consumer == NOBODY and not 0 < failed_max <= one.failed]
        found = first_of(without(spans(again), [(0, gone)]), room)
        new = without([(max(self.low, gone) + 1, count)], joined([*self.done, *spans(self.leases)]))
        more = min(room - count_of(found), OUT_MAX - out)
        return joined([*found, *first_of(new, more)])

    def dead(self, gone: int, failed_max: int) -> list[Range]:
        """Messages that no consumer could deal with, and that are nobody's."""
        found = (one for one in self.leases if one.consumer == NOBODY and 0 < failed_max <= one.failed)
        return without(spans(found), [(0, gone)])


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
