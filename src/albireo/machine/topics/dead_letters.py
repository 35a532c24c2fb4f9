"""Dead letters: messages that no consumer of a shared subscription could deal with, on their way to another topic.

The node has leased them itself. Where that topic takes none, their lease runs out, and they are leased once more.
"""

from typing import Final

import msgspec

from albireo.codec.puts import CursorMoved, Extra
from albireo.codec.served import MessageColumns
from albireo.codec.sharing import TopicTake
from albireo.machine.topics.shared_effects import PutDead
from albireo.machine.topics.tables import TopicTables
from albireo.model.topic_lease import DEAD_LETTERS, Range, within

HEADERS_KEPT: Final = 59
"""Headers of a message that it keeps beside those which tell of its death."""


class DeadLetters:
    """The messages on their way."""

    def __init__(self, tables: TopicTables) -> None:
        self._tables = tables
        self._sent: set[tuple[int, int, int, int]] = set()
        """Subscription, topic, number, and end of the lease."""

    def clear(self) -> None:
        self._sent.clear()

    def asked(self, subscription_id: int) -> TopicTake | None:
        """Question for the messages that the node has leased and that are not on their way; None: there are none."""
        holds: dict[int, list[Range]] = {}
        is_one = False
        for topic_id in self._tables.cursors.topics_of(subscription_id):
            cursor = self._tables.cursors.of(subscription_id, topic_id)
            for lease in () if cursor is None else cursor.leases:
                if lease.consumer == DEAD_LETTERS:
                    numbers = range(lease.first, lease.last + 1)
                    ways = {one: (subscription_id, topic_id, one, lease.until_ms) in self._sent for one in numbers}
                    is_one |= not all(ways.values())
                    holds.setdefault(topic_id, []).extend((one, one) for one, is_sent in ways.items() if is_sent)
        if not is_one:
            return None
        held = {topic_id: tuple(ranges) for topic_id, ranges in holds.items()}
        return TopicTake(subscription_id=subscription_id, consumer=DEAD_LETTERS, count=1, holds=held)

    def letters(self, subscription_id: int, messages: MessageColumns) -> list[PutDead]:
        """Have messages put to the topic of dead letters."""
        known = self._tables.subscriptions.find(subscription_id)
        target = (
            None if known is None or known.sharing is None else self._tables.topics.named(known.sharing.dead_letters)
        )
        effects: list[PutDead] = []
        view = memoryview(messages.buffer)
        for index in range(len(messages) if target is not None else 0):
            topic_id, number = int(messages.topic_id[index]), int(messages.number[index])
            topic, cursor = self._tables.topics.find(topic_id), self._tables.cursors.of(subscription_id, topic_id)
            leases = [] if cursor is None else within(cursor.leases, [(number, number)])
            if topic is None or known is None or target is None or target.policy.last_value or not leases:
                continue
            self._sent.add((subscription_id, topic_id, number, leases[0].until_ms))
            begin = int(messages.starts[index])
            extra = messages.extras.get(index, Extra())
            told = {
                "dead.topic": topic.name,
                "dead.number": str(number),
                "dead.position": f"{messages.epoch[index]}.{messages.sequence[index]}",
                "dead.subscriber": known.subscriber,
                "dead.deliveries": str(leases[0].failed),
            }
            effects.append(
                PutDead(
                    target.topic_id,
                    target.stays_here,
                    bytes(view[begin : begin + int(messages.lengths[index])]),
                    msgspec.structs.replace(extra, headers=dict(list(extra.headers.items())[:HEADERS_KEPT]) | told),
                    CursorMoved(subscription_id, topic_id, 0, ((number, number),)),
                )
            )
        return effects
