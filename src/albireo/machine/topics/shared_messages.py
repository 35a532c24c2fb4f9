"""Messages of shared subscriptions: which a consumer is owed, found in the tail, and as parts of an answer."""

from collections.abc import Mapping, Sequence

import numpy as np

from albireo.codec.served import REDELIVERED, MessageColumns, encode_served
from albireo.codec.sharing import TAKE_BYTES_MAX, TopicTake
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageBlock, MessageTail
from albireo.model.topic_lease import Range, count_of, joined, spans, within, without

Wanted = Mapping[int, Sequence[Range]]
"""Numbers of messages by topic."""


class SharedMessages:
    """The messages, as the tables and the tail have them."""

    def __init__(self, tables: TopicTables, tail: MessageTail) -> None:
        self.tables = tables
        self.cursors = tables.cursors
        self.tail = tail
        self.stored_counts: dict[int, int] = {}
        """Number of the last message of each topic that is in files."""

    def first_stored(self, wanted: Wanted) -> tuple[int, int] | None:
        """Topic and number of a message that is in files, if one of these is."""
        for topic_id, ranges in wanted.items():
            first = ranges[0][0]
            if first <= self.stored_counts.get(topic_id, 0) and not self._is_in_tail(topic_id, first):
                return topic_id, first
        return None

    def owed(self, asked: TopicTake) -> dict[int, list[Range]]:
        """Messages that are a consumer's by record and that it does not hold."""
        wanted: dict[int, list[Range]] = {}
        for topic_id in self.cursors.topics_of(asked.subscription_id):
            cursor = self.cursors.of(asked.subscription_id, topic_id)
            own = [] if cursor is None else [one for one in cursor.leases if one.consumer == asked.consumer]
            if left := without(spans(own), joined(asked.holds.get(topic_id, ()))):
                wanted[topic_id] = left
        return wanted

    def _is_in_tail(self, topic_id: int, number: int) -> bool:
        return any(topic_id in one.lasts and one.firsts[topic_id] <= number for one in self.tail.behind(0))

    def in_tail(self, wanted: Wanted) -> tuple[list[MessageColumns], bool]:
        """These messages, as far as the tail has them and they fit into one answer; true: nothing was left out."""
        found: list[MessageColumns] = []
        room = TAKE_BYTES_MAX
        for block in self.tail.behind(0):
            topics = [one for one in block.firsts.keys() & wanted.keys() if meets(block, one, wanted[one])]
            if not topics:
                continue
            if room <= 0:
                return found, False
            chosen = self.chosen(block.messages, {one: wanted[one] for one in topics})
            if len(chosen):
                kept = chosen.up_to(room)
                found.append(kept)
                room -= kept.size_bytes
                if len(kept) < len(chosen):
                    return found, False
        return found, True

    def chosen(self, messages: MessageColumns, wanted: Wanted) -> MessageColumns:
        """These of some messages, without those that are kept no more."""
        chosen = np.zeros(len(messages), np.bool_)
        for topic_id, ranges in wanted.items():
            numbers = np.concatenate([np.arange(first, last + 1, dtype=np.uint64) for first, last in ranges])
            is_one = (messages.topic_id == topic_id) & np.isin(messages.number, numbers)
            is_one &= messages.number > self.tables.topics.gone.get(topic_id, 0)
            if self.tables.topics.is_keyed(topic_id):
                is_one &= np.isin(messages.number, self.tables.keys.numbers(topic_id))
            chosen |= is_one
        return messages.take(np.flatnonzero(chosen))

    def encoded(self, subscription_id: int, messages: MessageColumns) -> bytes:
        flags, failed, lost = np.zeros(len(messages), np.uint8), dict[int, int](), dict[int, int]()
        names: dict[int, str] = {}
        for topic_id in np.unique(messages.topic_id).tolist():
            topic, cursor = self.tables.topics.find(topic_id), self.cursors.of(subscription_id, topic_id)
            assert topic is not None
            names[topic_id] = topic.name
            if cursor is None:
                continue
            places = np.flatnonzero(messages.topic_id == topic_id)
            if topic.gone > cursor.low:
                missed = without([(cursor.low + 1, topic.gone)], cursor.done)
                lost[int(places[0])] = count_of(missed)
            for index, number in zip(places.tolist(), messages.number[places].tolist(), strict=True):
                for lease in within(cursor.leases, [(number, number)]):
                    flags[index] = REDELIVERED if lease.given > 1 else 0
                    if lease.failed:
                        failed[index] = lease.failed
        return encode_served(messages, flags, names, {index: one for index, one in lost.items() if one}, failed)


def meets(block: MessageBlock, topic_id: int, ranges: Sequence[Range]) -> bool:
    first, last = block.firsts[topic_id], block.lasts[topic_id]
    return any(one[0] <= last and one[1] >= first for one in ranges)


def numbers_of(found: Sequence[MessageColumns], topic_id: int) -> list[Range]:
    """Numbers of messages of a topic."""
    each = (one.number[one.topic_id == topic_id].tolist() for one in found)
    return joined((number, number) for numbers in each for number in numbers)
