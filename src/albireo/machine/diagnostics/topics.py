"""Figures of topics: how far the slowest subscription holds one up, and how many dead letters wait.

There may be ten thousand topics, so a measurement looks at some of them, and a figure is that of the last whole round.
"""

from typing import Final

from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import Tables
from albireo.model.topic import Topic

LOOKED_MAX: Final = 500
"""Topics, each with all its subscriptions, at which one measurement looks."""
CURSORS_MAX: Final = 5_000
"""Subscriptions of topics after which it looks at no further topic."""


class TopicFigures:
    """The rounds."""

    def __init__(self) -> None:
        self._left: list[int] = []
        """Topics at which this round has still to look."""
        self._round = (0.0, 0.0)
        self._last = (0.0, 0.0)

    def looked(self, tables: Tables) -> tuple[float, float]:
        """Percent to which a topic with limits is full of messages that a subscription lacks, the fullest; and number
        of dead letters that wait."""
        topics, cursors = tables.of(Topics), tables.of(Cursors)
        if not self._left:
            self._last, self._round = self._round, (0.0, 0.0)
            self._left = [one.topic_id for one in topics]
        seen = 0
        for _ in range(min(LOOKED_MAX, len(self._left))):
            topic = topics.find(self._left.pop())
            if topic is not None:
                seen += len(cursors.readers(topic.topic_id))
                fill, dead = self._round
                self._round = max(fill, _fill_of(cursors, topic)), dead + _dead_of(tables, topic)
            if seen > CURSORS_MAX:
                break
        return self._last


def _fill_of(cursors: Cursors, topic: Topic) -> float:
    policy, slowest = topic.policy, cursors.slowest(topic)
    if slowest is None or not (policy.max_messages or policy.max_bytes):
        return 0.0
    read = max(slowest.low, topic.gone)
    parts = [0.0]
    if policy.max_messages:
        parts.append((topic.count - read) / policy.max_messages)
    if policy.max_bytes:
        parts.append(topic.held_bytes(read) / policy.max_bytes)
    return 100.0 * max(parts)


def _dead_of(tables: Tables, topic: Topic) -> int:
    """Dead letters of a topic that nobody has taken."""
    subscriptions, cursors = tables.of(Subscriptions), tables.of(Cursors)
    count = 0
    for subscription_id in cursors.readers(topic.topic_id):
        known, cursor = subscriptions.find(subscription_id), cursors.of(subscription_id, topic.topic_id)
        if cursor is not None and known is not None and known.sharing is not None and known.sharing.deliveries_max:
            failed_max = known.sharing.deliveries_max
            count += sum(one.count for one in cursor.leases if one.failed >= failed_max and one.last > topic.gone)
    return count
