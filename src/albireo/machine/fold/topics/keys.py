"""Key fold: the last message of each key, of the topics that keep no other one; so what a key-value store holds.

The version of a key is the sequence of its last message. A key that is not there, was deleted, or whose message is gone
by the topic's policy has version 0.

    absent --put--> there --put--> there, later version --delete--> deleted, until all have read that --> absent
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import KeyPut, PutHead
from albireo.codec.topic_records import TopicDropped
from albireo.machine.fold.topics.subscriptions import Cursors
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import TableFold, Tables
from albireo.machine.table.shape import TableShape
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic import KEYS_MAX, StoredKey

TOPIC_KEYS: Final = TableShape(
    "topic_keys", StoredKey, lambda one: name_of(one.topic_id, one.key), KEYS_MAX, is_shown_above=False
)


def name_of(topic_id: int, key: bytes) -> str:
    """Key of a row."""
    return f"{topic_id}:{key.hex()}"


class TopicKeys(TableFold[str, StoredKey]):
    """The fold; it stands behind those of topics and cursors."""

    shape = TOPIC_KEYS
    records = (TopicDropped, PutHead)

    def __init__(self) -> None:
        super().__init__()
        self._by_number: dict[int, dict[int, bytes]] = {}
        """Keys by the number of their last message, rising, by topic."""
        self._deleted: dict[int, dict[int, bytes]] = {}
        """The same of those that were deleted."""
        self._sorted: dict[int, NDArray[np.uint64]] = {}
        """Numbers of a topic, until they change."""
        self._pending: dict[str, int] = {}
        """Appended messages of a key that are not folded."""

    def among(self, tables: Tables) -> None:
        self._topics, self._cursors = tables.of(Topics), tables.of(Cursors)

    # Committed view.

    def fold(self, record: TopicDropped | PutHead, sequence: int, header: FrameHeader) -> None:
        if isinstance(record, TopicDropped):
            for key in list(self._by_number.get(record.topic_id, {}).values()):
                self._remove(record.topic_id, key, sequence)
            return
        for one, topic_id, number in numbered(record, self._topics):
            name = name_of(topic_id, one.key)
            self._not_pending(name)
            if topic_id in self._topics:
                self._take_out(topic_id, self.find(name))
                row = StoredKey(topic_id, one.key, number, header.first_sequence + one.index, one.is_deleted)
                self.table.put(row, header.last_sequence)
                self._note(row)
        for topic_id in {run.topic_id for run in record.runs} & self._by_number.keys():
            self._forget(topic_id, header.last_sequence)

    def _forget(self, topic_id: int, sequence: int) -> None:
        """Forget keys whose message is gone, and deleted ones which all have read."""
        topic = self._topics.find(topic_id)
        assert topic is not None
        slowest = self._cursors.slowest(topic)
        read = topic.count if slowest is None else slowest.low
        for numbers, up_to in ((self._by_number, topic.gone), (self._deleted, read)):
            while (found := numbers.get(topic_id)) and (first := next(iter(found))) <= up_to:
                self._remove(topic_id, found[first], sequence)

    def _remove(self, topic_id: int, key: bytes, sequence: int) -> None:
        self._take_out(topic_id, self.table.remove(name_of(topic_id, key), sequence))

    def _take_out(self, topic_id: int, row: StoredKey | None) -> None:
        if row is not None:
            self._sorted.pop(topic_id, None)
            for numbers in (self._by_number, self._deleted):
                if (found := numbers.get(topic_id)) is not None:
                    found.pop(row.number, None)
                    if not found:
                        del numbers[topic_id]

    def _note(self, row: StoredKey) -> None:
        self._sorted.pop(row.topic_id, None)
        self._by_number.setdefault(row.topic_id, {})[row.number] = row.key
        if row.is_deleted:
            self._deleted.setdefault(row.topic_id, {})[row.number] = row.key

    def restore(self, section: bytes) -> None:
        super().restore(section)
        for one in sorted(self, key=lambda each: each.number):
            self._note(one)

    def numbers(self, topic_id: int) -> NDArray[np.uint64]:
        """Numbers of the messages of a topic that are the last of their key, rising."""
        if topic_id not in self._sorted:
            self._sorted[topic_id] = np.fromiter(self._by_number.get(topic_id, ()), np.uint64)
        return self._sorted[topic_id]

    def entry(self, topic_id: int, key: bytes) -> StoredKey | None:
        """The key; None: it is not there, deleted, or gone."""
        row = self.find(name_of(topic_id, key))
        is_there = row is not None and not row.is_deleted and row.number > self._topics.gone.get(topic_id, 0)
        return row if is_there else None

    def entries(self, topic_id: int) -> Iterator[StoredKey]:
        """The keys of a topic that are there, by the time of their last message."""
        for key in self._by_number.get(topic_id, {}).values():
            if (row := self.entry(topic_id, key)) is not None:
                yield row

    # Appended view.

    def objection(self, topic_id: int, one: KeyPut) -> Refusal | None:
        """Why a message can't be taken that is to follow a version of its key."""
        if one.since is None:
            return None
        row = self.entry(topic_id, one.key)
        version = 0 if row is None else row.version
        if name_of(topic_id, one.key) in self._pending or version != one.since:
            cause = f"the key {one.key.decode(errors='backslashreplace')!r} has another version than {one.since}"
            return Refusal(RefusalCode.CHANGED, cause, "get it anew, then put")
        return None

    def appended(self, topic_ids: Sequence[int], keys: Sequence[KeyPut]) -> None:
        """Take note of messages that are appended and not folded."""
        for topic_id, one in zip(topic_ids, keys, strict=True):
            name = name_of(topic_id, one.key)
            self._pending[name] = self._pending.get(name, 0) + 1

    def _not_pending(self, name: str) -> None:
        if (count := self._pending.pop(name, 0)) > 1:
            self._pending[name] = count - 1

    def forget_pending(self) -> None:
        self._pending.clear()


def numbered(head: PutHead, topics: Topics) -> Iterator[tuple[KeyPut, int, int]]:
    """The keys of a batch that the topics have folded, each with topic and number of its message."""
    left: dict[int, int] = {}
    for run in head.runs:
        left[run.topic_id] = left.get(run.topic_id, 0) + run.count
    places: list[tuple[int, int, int]] = []
    """Index of the first message of each run, its topic, and what to add to an index for the number."""
    index = 0
    for run in head.runs:
        topic = topics.find(run.topic_id)
        first = 1 + (0 if topic is None else topic.count) - left[run.topic_id]
        left[run.topic_id] -= run.count
        places.append((index, run.topic_id, first - index))
        index += run.count
    for one in head.keys:
        _, topic_id, offset = places[bisect_right(places, one.index, key=lambda each: each[0]) - 1]
        yield one, topic_id, one.index + offset
