"""Topic fold: the topics that there are, and how many messages each was put.

    absent --TopicDeclared--> there --PutHead--> there, with more messages --TopicDropped--> gone

Messages to a topic that is gone are counted nowhere: whoever put them did so behind its end, and nobody subscribes.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import PutHead
from albireo.codec.topic_records import TopicDeclared, TopicDropped
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.topic import TOPICS_MAX, Topic, is_wild, matcher, prefix_of

TOPICS: Final = TableShape("topics", Topic, lambda one: one.topic_id, TOPICS_MAX, is_shown_above=False)


class Topics(TableFold[int, Topic]):
    """The fold."""

    shape = TOPICS
    records = (TopicDeclared, TopicDropped, PutHead)

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        """Names in their order, so that those with one beginning stand together."""

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

    def fold(self, record: TopicDeclared | TopicDropped | PutHead, sequence: int, header: FrameHeader) -> None:
        match record:
            case TopicDeclared(name=name, since_ns=since_ns):
                if name not in self._ids:
                    self._ids[name] = sequence
                    insort(self._names, name)
                    self.table.put(Topic(topic_id=sequence, name=name, since_ns=since_ns), sequence)
            case TopicDropped(topic_id=topic_id):
                if (gone := self.table.remove(topic_id, sequence)) is not None:
                    del self._ids[gone.name]
                    del self._names[bisect_left(self._names, gone.name)]
            case PutHead(runs=runs):
                for run in runs:
                    if (known := self.table.get(run.topic_id)) is not None:
                        count, size_bytes = known.count + run.count, known.size_bytes + run.size_bytes
                        grown = msgspec.structs.replace(known, count=count, size_bytes=size_bytes)
                        self.table.put(grown, header.last_sequence)

    def restore(self, section: bytes) -> None:
        super().restore(section)
        self._ids = {one.name: one.topic_id for one in self}
        self._names = sorted(self._ids)
