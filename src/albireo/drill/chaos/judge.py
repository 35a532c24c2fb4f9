"""Judge: compares what programs wrote down with what stands in the topics at the end. It knows nothing of the node.

Bodies tell who put them: PRODUCER/NUMBER; of a message that a transaction made of another one: made/TOPIC/NUMBER.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from albireo.drill.chaos.history import Acked, Event, Got, Settled

MADE: Final = "made"
TOLD: Final = 20
"""Most details that are told."""
Topics = Mapping[str, Sequence[str]]
"""Bodies of each topic in their order, which is that of their numbers from 1."""


class ChaosAccount(msgspec.Struct, kw_only=True):
    """Account of the whole drill."""

    acked: int = 0
    given: int = 0
    lost: int = 0
    """Messages that were acknowledged and are not there, or that a subscriber never got."""
    doubled: int = 0
    """Messages that are there twice, or were given after their acknowledgement had returned."""
    reordered: int = 0
    wrong: int = 0
    """Messages that were given with another body than stands there."""
    halves: int = 0
    """Transactions of which a part is there."""
    details: list[str] = []

    @property
    def held(self) -> bool:
        return bool(self.acked and self.given) and not self.faults

    @property
    def faults(self) -> int:
        return self.lost + self.doubled + self.reordered + self.wrong + self.halves

    def tell(self, what: str, one: str, count: int = 1) -> None:
        """Count a fault."""
        setattr(self, what, getattr(self, what) + count)
        if len(self.details) < TOLD:
            self.details.append(f"{what}: {one}")


def judge(
    topics: Topics, subscribed: Mapping[str, Sequence[str]], shared: Iterable[str], moved: str, events: Iterable[Event]
) -> ChaosAccount:
    """Judge a history.

    Args:
        topics: what stands there at the end.
        subscribed: topics of each subscriber; each has to have got all of their messages.
        shared: subscribers whose consumers share the messages.
        moved: subscriber of whose messages others are made.
    """
    account = ChaosAccount()
    ordered = sorted(events, key=lambda one: one.at_ns)
    _judge_puts(account, topics, [one for one in ordered if isinstance(one, Acked)])
    got = [one for one in ordered if isinstance(one, Got)]
    done: dict[tuple[str, str, int], int] = {}
    for event in ordered:
        if isinstance(event, Settled):
            for topic, number in event.messages:
                done.setdefault((event.subscriber, topic, number), event.at_ns)
    account.given = len(got)
    _judge_given(account, topics, got, done, set(shared))
    seen = {(one.subscriber, one.topic, one.number) for one in got}
    for subscriber, names in subscribed.items():
        for topic in names:
            numbers = range(1, len(topics[topic]) + 1)
            missing = [number for number in numbers if (subscriber, topic, number) not in seen]
            if missing:
                account.tell("lost", f"{subscriber} never got {topic} {missing[:5]}", len(missing))
    _judge_made(account, topics, subscribed[moved])
    return account


def _judge_puts(account: ChaosAccount, topics: Topics, acked: Sequence[Acked]) -> None:
    counts = {topic: Counter(bodies) for topic, bodies in topics.items()}
    for one in acked:
        account.acked += one.last - one.first + 1
        bodies = (f"{one.producer}/{number}" for number in range(one.first, one.last + 1))
        for body in bodies:
            if not counts[one.topic][body]:
                account.tell("lost", f"{body} was acknowledged, and is not in {one.topic}")
    for topic, found in topics.items():
        for body, count in counts[topic].items():
            if count > 1:
                account.tell("doubled", f"{body} stands {count} times in {topic}")
        last: dict[str, int] = defaultdict(int)
        for body in found:
            producer, _, number = body.rpartition("/")
            if not body.startswith(MADE) and int(number) < last[producer]:
                account.tell("reordered", f"{body} stands behind {producer}/{last[producer]} in {topic}")
            last[producer] = max(last[producer], int(number))


def _judge_given(
    account: ChaosAccount,
    topics: Topics,
    got: Sequence[Got],
    done: Mapping[tuple[str, str, int], int],
    shared: set[str],
) -> None:
    last: dict[tuple[str, str], int] = defaultdict(int)
    for one in got:
        bodies = topics[one.topic]
        if not 0 < one.number <= len(bodies) or bodies[one.number - 1] != one.body:
            account.tell("wrong", f"{one.reader} got {one.topic} {one.number} as {one.body}")
        if done.get((one.subscriber, one.topic, one.number), one.at_ns) < one.at_ns:
            account.tell(
                "doubled", f"{one.reader} got {one.topic} {one.number}, which {one.subscriber} had acknowledged"
            )
        before = last[one.reader, one.topic]
        if one.number <= before and one.subscriber not in shared:
            account.tell("reordered", f"{one.reader} got {one.topic} {one.number} behind {before}")
        last[one.reader, one.topic] = one.number


def _judge_made(account: ChaosAccount, topics: Topics, sources: Sequence[str]) -> None:
    """Each message of the sources has become one, and only one."""
    made = Counter(body for bodies in topics.values() for body in bodies if body.startswith(f"{MADE}/"))
    for topic in sources:
        for number in range(1, len(topics[topic]) + 1):
            count = made[f"{MADE}/{topic}/{number}"]
            if count != 1:
                account.tell("halves", f"of {topic} {number}, which is acknowledged, {count} messages were made")
