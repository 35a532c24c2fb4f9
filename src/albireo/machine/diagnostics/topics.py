"""Figures of topics: how far the slowest subscription holds one up, and how many dead letters wait.

There may be ten thousand topics, each with as many subscriptions. So a measurement looks at some of those that count, a
figure is that of the last whole round, and a round begins every ten measurements at most.
"""

from typing import Final

from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import Tables
from albireo.model.topic import Cursor, Topic

LOOKED_MAX: Final = 500
"""Topics and subscriptions at which one measurement looks."""
CURSORS_MAX: Final = 2_000
"""Cursors after which it looks no further."""
PAUSE: Final = 10
"""Measurements from the begin of a round to that of the next one."""


class TopicFigures:
    """The rounds."""

    def __init__(self) -> None:
        self._topics: list[int] = []
        """Topics with limits at which this round has still to look."""
        self._shared: list[int] = []
        """Subscriptions with dead letters at which it has."""
        self._round = (0.0, 0.0)
        self._last = (0.0, 0.0)
        self._pause = 0

    def looked(self, tables: Tables) -> tuple[float, float]:
        """Percent to which a topic with limits is full of what a subscription lacks, the fullest; and dead letters."""
        topics, subscriptions, cursors = tables.of(Topics), tables.of(Subscriptions), tables.of(Cursors)
        self._pause -= 1
        if not (self._topics or self._shared):
            self._last = self._round
            if self._pause > 0:
                return self._last
            self._pause, self._round = PAUSE, (0.0, 0.0)
            self._topics = [one.topic_id for one in topics if one.policy.max_messages or one.policy.max_bytes]
            self._shared = list(subscriptions.with_dead_letters)
        seen = 0
        for _ in range(LOOKED_MAX):
            fill, dead = self._round
            if self._topics:
                topic = topics.find(self._topics.pop())
                seen += 0 if topic is None else len(cursors.readers(topic.topic_id))
                self._round = fill if topic is None else max(fill, _fill_of(topic, cursors.slowest(topic))), dead
            elif self._shared:
                number = self._shared.pop()
                seen += len(cursors.topics_of(number))
                self._round = fill, dead + _dead_of(tables, number)
            if seen > CURSORS_MAX:
                break
        return self._last


def _fill_of(topic: Topic, slowest: Cursor | None) -> float:
    if slowest is None:
        return 0.0
    policy, read = topic.policy, max(slowest.low, topic.gone)
    parts = [(topic.count - read) / policy.max_messages] if policy.max_messages else []
    parts += [topic.held_bytes(read) / policy.max_bytes] if policy.max_bytes else []
    return 100.0 * max(parts, default=0.0)


def _dead_of(tables: Tables, subscription_id: int) -> int:
    """Dead letters of a subscription that nobody has taken."""
    known, cursors = tables.of(Subscriptions).find(subscription_id), tables.of(Cursors)
    if known is None or known.sharing is None:
        return 0
    found = (cursors.of(subscription_id, one) for one in cursors.topics_of(subscription_id))
    leases = (lease for cursor in found if cursor is not None for lease in cursor.leases)
    return sum(one.count for one in leases if one.failed >= known.sharing.deliveries_max)
