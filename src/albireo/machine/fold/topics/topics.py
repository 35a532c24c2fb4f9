"""Topic fold: the topics that there are, and how many messages each was put.

    absent --TopicDeclared--> there --PutHead--> there, with more messages --TopicDropped--> gone

Messages to a topic that is gone are counted nowhere: whoever put them did so behind its end, and nobody subscribes.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import PutHead
from albireo.codec.topic_records import TopicDeclared, TopicDropped
from albireo.machine.table.fold import TableFold, Tables
from albireo.machine.table.shape import TableShape
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic import TOPICS_MAX, Topic, is_meant, is_wild

MISSING_TOLD: Final = 10
TOPICS: Final = TableShape("topics", Topic, lambda one: one.topic_id, TOPICS_MAX, is_shown_above=False)


class Topics(TableFold[int, Topic]):
    """The fold."""

    shape = TOPICS
    records = (TopicDeclared, TopicDropped, PutHead)

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[str, int] = {}

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.find(self._ids.get(name, 0))

    def meant(self, patterns: Sequence[str]) -> list[Topic]:
        """Topics that one of these patterns means, by rising id."""
        found = {topic.topic_id: topic for one in patterns if (topic := self.named(one)) is not None}
        if wild := [one for one in patterns if is_wild(one)]:
            found |= {one.topic_id: one for one in self if any(is_meant(pattern, one.name) for pattern in wild)}
        return [found[topic_id] for topic_id in sorted(found)]

    def fold(self, record: TopicDeclared | TopicDropped | PutHead, sequence: int, header: FrameHeader) -> None:
        match record:
            case TopicDeclared(name=name, since_ns=since_ns):
                if name not in self._ids:
                    self._ids[name] = sequence
                    self.table.put(Topic(topic_id=sequence, name=name, since_ns=since_ns), sequence)
            case TopicDropped(topic_id=topic_id):
                if (gone := self.table.remove(topic_id, sequence)) is not None:
                    del self._ids[gone.name]
            case PutHead(runs=runs):
                for run in runs:
                    if (known := self.table.get(run.topic_id)) is not None:
                        count, size_bytes = known.count + run.count, known.size_bytes + run.size_bytes
                        grown = msgspec.structs.replace(known, count=count, size_bytes=size_bytes)
                        self.table.put(grown, header.last_sequence)

    def restore(self, section: bytes) -> None:
        super().restore(section)
        self._ids = {one.name: one.topic_id for one in self}


def judge_puts(tables: Tables, content: Any) -> Refusal | None:
    """Refuse messages to topics that there are not."""
    (head,) = content
    topics = tables.of(Topics)
    missing = sorted({run.topic_id for run in head.runs if run.topic_id not in topics})
    if not missing:
        return None
    cause = f"there is no topic with the id {', '.join(map(str, missing[:MISSING_TOLD]))}, or it is gone"
    return Refusal(RefusalCode.UNKNOWN_TOPIC, cause, "look at `albireo topic list`, and open it anew by its name")
