"""Topic fold: the topics that there are, and how many messages each was put.

    absent --TopicDeclared--> there --PutHead--> there, with more messages --TopicDropped--> gone

Messages to a topic that is gone are counted nowhere: whoever put them did so behind its end, and nobody subscribes.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from msgspec.structs import replace

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import PutHead
from albireo.codec.record import Marked
from albireo.codec.topic_records import TopicChanged, TopicDeclared, TopicDropped, TopicPurged
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.instant import MS, LogTime
from albireo.model.topic import TOPICS_MAX, Topic, is_wild, matcher, prefix_of

TOPICS: Final = TableShape("topics", Topic, lambda one: one.topic_id, TOPICS_MAX, is_shown_above=False)


class Topics(TableFold[int, Topic]):
    """The fold."""

    shape = TOPICS
    records = (TopicDeclared, TopicDropped, TopicChanged, TopicPurged, PutHead, Marked)

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        """Names in their order, so that those with one beginning stand together."""
        self.gone: dict[int, int] = {}
        """Number up to which messages are gone, of the topics of which any are by a policy, or purged."""
        self.now_ms = 0
        """Log time of the last record that was folded."""
        self.full_since_ms: dict[int, int] = {}
        """Log times since which producers are blocked at topics that are full, as who admits their batches notes it."""
        self._due: list[tuple[int, int]] = []
        """Log times, in ms, at which topics are looked at for messages that are too old, as a heap."""

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.find(self._ids.get(name, 0))

    def meant(self, patterns: Sequence[str]) -> list[Topic]:
        """Topics that one of these patterns means, by rising id."""
        names = {one for one in patterns if one in self._ids}
        for pattern in filter(is_wild, patterns):
            prefix, matches = prefix_of(pattern), matcher([pattern]).fullmatch
            first = bisect_left(self._names, prefix)
            last = bisect_left(self._names, f"{prefix[:-1]}/", first) if prefix else None  # "/" comes behind ".".
            names.update(filter(matches, self._names[first:last]))
        found = (self.named(one) for one in names)
        return sorted((one for one in found if one is not None), key=lambda one: one.topic_id)

    def is_keyed(self, topic_id: int) -> bool:
        """True: of the messages of one key the last one is kept."""
        topic = self.table.get(topic_id)
        return topic is not None and topic.policy.last_value

    def fold(
        self,
        record: TopicDeclared | TopicDropped | TopicChanged | TopicPurged | PutHead | Marked,
        sequence: int,
        header: FrameHeader,
    ) -> None:
        now_ms = header.log_time_ms
        self.let_go(now_ms, header.last_sequence)
        match record:
            case TopicDeclared(name=name):
                if name not in self._ids:
                    self._ids[name] = sequence
                    insort(self._names, name)
                    fields = {one: getattr(record, one) for one in record.__struct_fields__}
                    self.table.put(Topic(topic_id=sequence, **fields), sequence)
            case TopicChanged(topic_id=topic_id, policy=policy, gone=gone):
                if (known := self.table.get(topic_id)) is not None:
                    changed = replace(known, policy=policy, gone=max(known.gone, gone), marks=())
                    self._put(changed.grown(0, 0, now_ms), sequence)
            case TopicPurged(topic_id=topic_id):
                if (known := self.table.get(topic_id)) is not None:
                    self._put(replace(known, gone=known.count, gone_bytes=known.size_bytes, marks=()), sequence)
            case TopicDropped(topic_id=topic_id):
                if (dropped := self.table.remove(topic_id, sequence)) is not None:
                    del self._ids[dropped.name]
                    del self._names[bisect_left(self._names, dropped.name)]
                    self.gone.pop(topic_id, None)
                    self.full_since_ms.pop(topic_id, None)
            case PutHead(runs=runs):
                for run in runs:
                    if (known := self.table.get(run.topic_id)) is not None:
                        self._put(known.grown(run.count, run.size_bytes, now_ms), header.last_sequence, known)

    def _put(self, topic: Topic, sequence: int, before: Topic | None = None) -> None:
        self.table.put(topic, sequence)
        self._note(topic, before)

    def _note(self, topic: Topic, before: Topic | None = None) -> None:
        if topic.gone:
            self.gone[topic.topic_id] = topic.gone
        due_ms = topic.due_ms()
        if due_ms is not None and (before is None or before.due_ms() != due_ms):
            heappush(self._due, (due_ms, topic.topic_id))

    def let_go(self, now_ms: int, sequence: int) -> None:
        """Let messages go that are too old."""
        self.now_ms = now_ms
        while self._due and self._due[0][0] <= now_ms:
            _, topic_id = heappop(self._due)
            if (known := self.table.get(topic_id)) is not None:
                self._put(known.trimmed(now_ms), sequence)

    def deadline(self) -> LogTime | None:
        return LogTime(self._due[0][0] * MS) if self._due else None

    def restore(self, section: bytes) -> None:
        super().restore(section)
        self._ids = {one.name: one.topic_id for one in self}
        self._names = sorted(self._ids)
        for one in self:
            self._note(one)
