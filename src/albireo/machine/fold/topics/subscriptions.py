"""Subscription fold, and cursor fold: who is to get the messages of which topics, and how far each is.

A subscription gets what is put behind its record, also to topics that are declared later: its cursors in topics that
there are begin behind their last message, those in later ones at the first. So what is unread is a difference of two
numbers, less what is done above the cursor, and both members get the same by the same fold.

    absent --Subscribed--> there --Unsubscribed--> gone
"""

import re
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import CursorMoved, LeaseMoved, LeaseStep, PutHead
from albireo.codec.record import Marked
from albireo.codec.topic_records import Subscribed, TopicDeclared, TopicDropped, Unsubscribed
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import TableFold, Tables
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import INT64_MAX
from albireo.model.instant import MS, LogTime
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic import CURSORS_MAX, SUBSCRIPTIONS_MAX, Cursor, Subscription, Topic, is_wild, matcher
from albireo.model.topic_lease import NOBODY

SUBSCRIPTIONS: Final = TableShape(
    "subscriptions", Subscription, lambda one: one.subscription_id, SUBSCRIPTIONS_MAX, is_shown_above=False
)
CURSORS: Final = TableShape(
    "cursors", Cursor, lambda one: key_of(one.subscription_id, one.topic_id), CURSORS_MAX, is_shown_above=False
)


SAME_FIELDS: Final = ("subscriber", "principal", "patterns", "since_ns", "sharing")
"""Fields of a subscription that stand in its record."""


def key_of(subscription_id: int, topic_id: int) -> str:
    """Key of a cursor."""
    return f"{subscription_id}:{topic_id}"


class Subscriptions(TableFold[int, Subscription]):
    """The fold of subscriptions."""

    shape = SUBSCRIPTIONS
    records = (Subscribed, Unsubscribed)

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, set[int]] = {}
        """Subscriptions that have a name for a pattern, by that name."""
        self._wild: dict[int, re.Pattern[str]] = {}
        """Expressions for the names that those mean which have a pattern with wildcards."""
        self._ids: dict[tuple[str, tuple[str, ...]], int] = {}
        self._of_subscriber: dict[str, set[int]] = {}
        self.with_dead_letters: set[int] = set()
        """Shared subscriptions whose messages are given up after some deliveries."""

    def fold(self, record: Subscribed | Unsubscribed, sequence: int, header: FrameHeader) -> None:
        match record:
            case Subscribed():
                fields = {name: getattr(record, name) for name in SAME_FIELDS}
                one = Subscription(subscription_id=sequence, **fields)
                self.table.put(one, sequence)
                self._note(one)
            case Unsubscribed(subscription_id=subscription_id):
                if (gone := self.table.remove(subscription_id, sequence)) is not None:
                    self._ids.pop((gone.subscriber, gone.patterns), None)
                    _take_out(self._of_subscriber, gone.subscriber, subscription_id)
                    self._wild.pop(subscription_id, None)
                    self.with_dead_letters.discard(subscription_id)
                    for name in gone.patterns:
                        _take_out(self._by_name, name, subscription_id)

    def _note(self, one: Subscription) -> None:
        self._ids[one.subscriber, one.patterns] = one.subscription_id
        self._of_subscriber.setdefault(one.subscriber, set()).add(one.subscription_id)
        if one.sharing is not None and one.sharing.deliveries_max:
            self.with_dead_letters.add(one.subscription_id)
        if any(map(is_wild, one.patterns)):
            self._wild[one.subscription_id] = matcher(one.patterns)
        else:
            for name in one.patterns:
                self._by_name.setdefault(name, set()).add(one.subscription_id)

    def of(self, subscriber: str, patterns: tuple[str, ...]) -> Subscription | None:
        """The subscription of a subscriber to these patterns."""
        return self.find(self._ids.get((subscriber, patterns), 0))

    def owner(self, subscriber: str) -> str | None:
        """Principal to whom the name of a subscriber belongs while it has a subscription; None: it is free."""
        found = next((self.table.get(one) for one in self._of_subscriber.get(subscriber, ())), None)
        return None if found is None else found.principal

    def to(self, name: str) -> list[Subscription]:
        """Subscriptions that mean the topic of this name, by rising id."""
        found = set(self._by_name.get(name, ()))
        found.update(each for each, matches in self._wild.items() if matches.fullmatch(name))
        return [one for each in sorted(found) if (one := self.table.get(each)) is not None]

    def restore(self, section: bytes) -> None:
        super().restore(section)
        for one in self:
            self._note(one)


def _take_out(sets: dict[str, set[int]], key: str, one: int) -> None:
    """Take a number out of a set, and the set out if nothing is left: names come and go without end."""
    if (found := sets.get(key)) is not None:
        found.discard(one)
        if not found:
            del sets[key]


class Cursors(TableFold[str, Cursor]):
    """The fold of cursors; it stands behind those of topics and subscriptions."""

    shape = CURSORS
    records = (TopicDeclared, TopicDropped, Subscribed, Unsubscribed, PutHead, Marked)

    def __init__(self) -> None:
        super().__init__()
        self._of_topic: dict[int, set[int]] = {}
        """Subscriptions that have a cursor in a topic."""
        self._of_subscription: dict[int, set[int]] = {}
        """Topics in which a subscription has one."""
        self._due: list[tuple[int, str]] = []
        """Log times, in ms, at which leases are over, by cursor, as a heap."""
        self.expirations = 0
        """Number of times that leases were over."""
        self._pending: dict[str, tuple[Cursor, int]] = {}
        """Cursors as appended batches leave them that are not folded yet, and how many these are."""

    def among(self, tables: Tables) -> None:
        self._topics, self._subscriptions = tables.of(Topics), tables.of(Subscriptions)

    def fold(
        self,
        record: TopicDeclared | TopicDropped | Subscribed | Unsubscribed | PutHead | Marked,
        sequence: int,
        header: FrameHeader,
    ) -> None:
        self.let_go(header.log_time_ms, header.last_sequence)
        match record:
            case TopicDeclared(name=name) if sequence in self._topics:
                for one in self._subscriptions.to(name):
                    self._put(one.subscription_id, sequence, 0, sequence)
            case Subscribed(patterns=patterns, is_from_first=is_from_first):
                for topic in self._topics.meant(patterns):
                    low = self.kept_from(topic, header.log_time_ms) if is_from_first else topic.count
                    self._put(sequence, topic.topic_id, low, sequence)
            case TopicDropped(topic_id=topic_id):
                for subscription_id in sorted(self._of_topic.pop(topic_id, ())):
                    self._of_subscription[subscription_id].discard(topic_id)
                    self.table.remove(key_of(subscription_id, topic_id), sequence)
            case Unsubscribed(subscription_id=subscription_id):
                for topic_id in sorted(self._of_subscription.pop(subscription_id, ())):
                    self._of_topic[topic_id].discard(subscription_id)
                    self.table.remove(key_of(subscription_id, topic_id), sequence)
            case PutHead(moves=moves, leases=leases):
                changes: list[CursorMoved | LeaseMoved] = [*moves, *leases]
                for change in changes:
                    key = key_of(change.subscription_id, change.topic_id)
                    known, there = self.find(key), self._topics.find(change.topic_id)
                    if known is not None and there is not None:
                        changed = self._changed(known, change, there.count, header.log_time_ms)
                        self.table.put(changed, header.last_sequence)
                        self._note_due(changed, known)
                    self._not_pending(key)

    def _changed(self, known: Cursor, one: CursorMoved | LeaseMoved, count: int, now_ms: int) -> Cursor:
        """A cursor behind what a batch says of it."""
        if isinstance(one, CursorMoved):
            return known.moved(one.low, one.done, count)
        if one.step in (LeaseStep.GIVEN_BACK, LeaseStep.RELEASED):
            return known.given_back(one.ranges, one.consumer, has_failed=one.step is LeaseStep.GIVEN_BACK)
        subscription = self._subscriptions.find(one.subscription_id)
        if subscription is None or subscription.sharing is None:
            return known
        return known.leased(one.ranges, one.consumer, now_ms + 1_000 * subscription.sharing.lease_s, count)

    def let_go(self, now_ms: int, sequence: int) -> None:
        """Let messages be given again whose lease is over."""
        while self._due and self._due[0][0] <= now_ms:
            _, key = heappop(self._due)
            if (known := self.find(key)) is not None and known.due_ms is not None and known.due_ms <= now_ms:
                self.expirations += 1
                left = known.at(now_ms)
                self.table.put(left, sequence)
                self._note_due(left)

    def _note_due(self, cursor: Cursor, before: Cursor | None = None) -> None:
        due_ms = cursor.due_ms
        if due_ms is not None and (before is None or before.due_ms != due_ms):
            heappush(self._due, (due_ms, key_of(cursor.subscription_id, cursor.topic_id)))

    def deadline(self) -> LogTime | None:
        return LogTime(self._due[0][0] * MS) if self._due else None

    # Appended view.

    def objection(self, move: CursorMoved, *, is_node: bool) -> Refusal | None:
        """Why a move can't be taken that builds on what is not so.

        Args:
            is_node: it comes from the node itself, which may move any cursor, however it is read.
        """
        if is_node and move.since is None and not move.consumer:
            return None
        subscription, topic = self._subscriptions.find(move.subscription_id), self._topics.find(move.topic_id)
        is_shared = subscription is not None and subscription.sharing is not None
        if is_shared != bool(move.consumer):
            cause = "of a shared subscription a consumer acknowledges what it has, of another one all up to a message"
            return Refusal(RefusalCode.BAD_VALUE, cause, "read it anew: it was made again")
        if not is_shared:
            return None if move.since is None else self.conflict(move)
        key = key_of(move.subscription_id, move.topic_id)
        known = self._pending[key][0] if key in self._pending else self.find(key)
        if known is None or topic is None or move.low > topic.gone or not known.has(move.done, move.consumer):
            cause = "a message that is acknowledged is another consumer's now: its lease was over"
            return Refusal(RefusalCode.CHANGED, cause, "drop what was made of it; a longer lease_s gives more time")
        return None

    def conflict(self, move: CursorMoved) -> Refusal | None:
        """Why a move can't be taken that builds on what was done before it: something behind that is done."""
        key = key_of(move.subscription_id, move.topic_id)
        known = self._pending[key][0] if key in self._pending else self.find(key)
        if known is None:
            cause = "the subscription is over, or the topic is gone, whose messages are acknowledged"
            return Refusal(RefusalCode.CHANGED, cause, "subscribe anew")
        since, low = move.since or 0, max([move.low, *(last for _, last in move.done)])
        if known.low > since or any(first <= low and last > since for first, last in known.done):
            cause = f"of the messages {since + 1} to {low} some are acknowledged already"
            return Refusal(RefusalCode.CHANGED, cause, "read on behind them: another program has acknowledged them")
        return None

    def appended(self, changes: Sequence[CursorMoved | LeaseMoved]) -> None:
        """Take note of cursors in a batch that is appended and not folded."""
        for one in changes:
            key = key_of(one.subscription_id, one.topic_id)
            known, count = self._pending.get(key, (self.find(key), 0))
            if known is not None:
                self._pending[key] = self._changed(known, one, INT64_MAX, 0), count + 1

    def _not_pending(self, key: str) -> None:
        if key in self._pending:
            known, count = self._pending.pop(key)
            if count > 1:
                self._pending[key] = known, count - 1

    def forget_pending(self) -> None:
        self._pending.clear()

    # Committed view.

    def _put(self, subscription_id: int, topic_id: int, low: int, sequence: int) -> None:
        one = Cursor(subscription_id=subscription_id, topic_id=topic_id, low=low)
        self.table.put(one, sequence)
        self._note(one)

    def _note(self, one: Cursor) -> None:
        self._of_topic.setdefault(one.topic_id, set()).add(one.subscription_id)
        self._of_subscription.setdefault(one.subscription_id, set()).add(one.topic_id)

    def restore(self, section: bytes) -> None:
        super().restore(section)
        for one in self:
            self._note(one)
            self._note_due(one)

    def of(self, subscription_id: int, topic_id: int) -> Cursor | None:
        """The cursor of a subscription in a topic."""
        return self.find(key_of(subscription_id, topic_id))

    def topics_of(self, subscription_id: int) -> frozenset[int]:
        """Topics in which a subscription has a cursor: those that it means."""
        return frozenset(self._of_subscription.get(subscription_id, ()))

    def readers(self, topic_id: int) -> frozenset[int]:
        """Subscriptions that get the messages of a topic."""
        return frozenset(self._of_topic.get(topic_id, ()))

    def unread(self, subscription_id: int, topic_id: int) -> int | None:
        """Messages of a topic that are still to be served to a subscription; None: it gets none of that topic."""
        cursor, topic = self.find(key_of(subscription_id, topic_id)), self._topics.find(topic_id)
        if cursor is None or topic is None:
            return None
        left = cursor if cursor.low >= topic.gone else cursor.moved(topic.gone, (), topic.count)
        return topic.count - left.low - left.done_count  # Of a topic with keys: at most.

    def leased(self, subscription_id: int, topic_id: int) -> int:
        """Messages of a topic that consumers of a shared subscription have."""
        cursor = self.of(subscription_id, topic_id)
        return 0 if cursor is None else sum(one.count for one in cursor.leases if one.consumer != NOBODY)

    def kept_from(self, topic: Topic, now_ms: int) -> int:
        """Number up to which no message of a topic is kept: all have it done, or its policy let it go."""
        slowest = self.slowest(topic)
        return topic.kept_from(topic.count if slowest is None else slowest.low, now_ms)

    def slowest(self, topic: Topic) -> Cursor | None:
        """The cursor in a topic that is behind all others; None: nobody subscribes."""
        cursors = (self.find(key_of(one, topic.topic_id)) for one in self._of_topic.get(topic.topic_id, ()))
        return min((one for one in cursors if one is not None), key=lambda one: one.low, default=None)
