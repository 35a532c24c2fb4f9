"""Subscription fold, and cursor fold: who is to get the messages of which topics, and how far each is.

A subscription gets what is put behind its record, also to topics that are declared later: its cursors in topics that
there are begin behind their last message, those in later ones at the first. So what is unread is a difference of two
numbers, less what is done above the cursor, and both members get the same by the same fold.

    absent --Subscribed--> there --Unsubscribed--> gone
"""

import re
from typing import Final

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import PutHead
from albireo.codec.topic_records import Subscribed, TopicDeclared, TopicDropped, Unsubscribed
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import TableFold, Tables
from albireo.machine.table.shape import TableShape
from albireo.model.topic import CURSORS_MAX, SUBSCRIPTIONS_MAX, Cursor, Subscription, is_wild, matcher

SUBSCRIPTIONS: Final = TableShape(
    "subscriptions", Subscription, lambda one: one.subscription_id, SUBSCRIPTIONS_MAX, is_shown_above=False
)
CURSORS: Final = TableShape(
    "cursors", Cursor, lambda one: key_of(one.subscription_id, one.topic_id), CURSORS_MAX, is_shown_above=False
)


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

    def fold(self, record: Subscribed | Unsubscribed, sequence: int, header: FrameHeader) -> None:
        match record:
            case Subscribed():
                fields = {name: getattr(record, name) for name in Subscribed.__struct_fields__}
                one = Subscription(subscription_id=sequence, **fields)
                self.table.put(one, sequence)
                self._note(one)
            case Unsubscribed(subscription_id=subscription_id):
                if (gone := self.table.remove(subscription_id, sequence)) is not None:
                    self._ids.pop((gone.subscriber, gone.patterns), None)
                    _take_out(self._of_subscriber, gone.subscriber, subscription_id)
                    self._wild.pop(subscription_id, None)
                    for name in gone.patterns:
                        _take_out(self._by_name, name, subscription_id)

    def _note(self, one: Subscription) -> None:
        self._ids[one.subscriber, one.patterns] = one.subscription_id
        self._of_subscriber.setdefault(one.subscriber, set()).add(one.subscription_id)
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
    records = (TopicDeclared, TopicDropped, Subscribed, Unsubscribed, PutHead)

    def __init__(self) -> None:
        super().__init__()
        self._of_topic: dict[int, set[int]] = {}
        """Subscriptions that have a cursor in a topic."""
        self._of_subscription: dict[int, set[int]] = {}
        """Topics in which a subscription has one."""

    def among(self, tables: Tables) -> None:
        self._topics, self._subscriptions = tables.of(Topics), tables.of(Subscriptions)

    def fold(
        self,
        record: TopicDeclared | TopicDropped | Subscribed | Unsubscribed | PutHead,
        sequence: int,
        header: FrameHeader,
    ) -> None:
        match record:
            case TopicDeclared(name=name) if sequence in self._topics:
                for one in self._subscriptions.to(name):
                    self._put(one.subscription_id, sequence, 0, sequence)
            case Subscribed(patterns=patterns):
                for topic in self._topics.meant(patterns):
                    self._put(sequence, topic.topic_id, topic.count, sequence)
            case TopicDropped(topic_id=topic_id):
                for subscription_id in sorted(self._of_topic.pop(topic_id, ())):
                    self._of_subscription[subscription_id].discard(topic_id)
                    self.table.remove(key_of(subscription_id, topic_id), sequence)
            case Unsubscribed(subscription_id=subscription_id):
                for topic_id in sorted(self._of_subscription.pop(subscription_id, ())):
                    self._of_topic[topic_id].discard(subscription_id)
                    self.table.remove(key_of(subscription_id, topic_id), sequence)
            case PutHead(moves=moves):
                for move in moves:
                    known = self.find(key_of(move.subscription_id, move.topic_id))
                    there = self._topics.find(move.topic_id)
                    if known is not None and there is not None:
                        self.table.put(known.moved(move.low, move.done, there.count), header.last_sequence)

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

    def readers(self, topic_id: int) -> frozenset[int]:
        """Subscriptions that get the messages of a topic."""
        return frozenset(self._of_topic.get(topic_id, ()))

    def unread(self, subscription_id: int, topic_id: int) -> int | None:
        """Messages of a topic that are still to be served to a subscription; None: it gets none of that topic."""
        cursor, topic = self.find(key_of(subscription_id, topic_id)), self._topics.find(topic_id)
        return None if cursor is None or topic is None else topic.count - cursor.low - cursor.done_count
