"""The feed over a link that loses, repeats and cuts: the follower still delivers every record once, in order."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    LinkUp,
    MadeDurable,
    Received,
    TellLeader,
)
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.position import EpochEntry, EpochHistory, Position
from tests.long_form import examples

HISTORY = EpochHistory((EpochEntry(1, 1, 7),))
FRAME_BYTES = 100


class Conversation:
    """One leader, one follower, and a link between them that does as the seed says.

    The log is the numbers 1, 2, 3...; stream of number n is 1 + n % 2.
    """

    def __init__(self, seed: int, loss: float, streams: tuple[int, ...], capacity: int) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.streams = streams
        self.leader = Leader()
        config = FollowerConfig(name="history", streams=streams, capacity_bytes=capacity)
        self.follower = Follower(config)
        self.committed = 0
        self.growth_max = 20
        self.delivered: list[int] = []
        self.payload: list[int] = []
        self.to_leader: list[FeedHello | FeedAck] = []
        self.to_follower: list[tuple[FeedAnswer | FeedData | FeedAlive, list[int]]] = []
        self.now = Instant(1)
        self.most_under_way = 0

    def facts(self) -> LogFacts:
        return LogFacts(b"L" * 16, HISTORY, 1, Position(1, self.committed))

    def wanted(self, number: int) -> bool:
        return not self.streams or 1 + number % 2 in self.streams

    def say(self, effects: list[object]) -> None:
        for effect in effects:
            if isinstance(effect, TellLeader):
                self.to_leader.append(effect.message)
            elif isinstance(effect, Deliver):
                self.delivered += self.payload

    def turn(self) -> None:
        """Time passes, each side works off what reached it."""
        self.now = Instant(self.now + 200 * MS)
        self.committed += self.random.randint(0, self.growth_max)
        for message in self._arriving(self.to_leader):
            if isinstance(message, FeedHello):
                self.to_follower.append((self.leader.hello(b"f", message, self.facts(), self.now), []))
            else:
                self.leader.ack(b"f", message, self.now)
        head = Position(1, self.committed)
        is_quiet = self.leader.is_quiet(head, self.now)
        self.leader.passed(self.committed, head.sequence, 0, self.now)
        pulls = self.leader.pulls(head, self.now)
        assert is_quiet != bool(pulls), "it is quiet when it gives nothing, and only then"
        for pull in pulls:
            upper = min(self.committed, pull.after + max(1, pull.bytes_max // FRAME_BYTES))
            numbers = [n for n in range(pull.after + 1, upper + 1) if self.wanted(n)]
            last = Position(1, numbers[-1]) if numbers else None
            size = FRAME_BYTES * len(numbers)
            self.leader.pulled(pull, upper, last, size, is_all=upper == self.committed)
            if last is not None:
                data = FeedData(epoch=1, first=Position(1, numbers[0]), last=last, previous=pull.previous)
                self.to_follower.append((data, numbers))
        self.to_follower += [(alive, []) for _, alive in self.leader.alive(1, head, head, self.now)]
        for message, numbers in self._arriving(self.to_follower):
            self.payload = numbers
            self.say(list(self.follower.step(Received(message, FRAME_BYTES * len(numbers)), self.now)))
        if self.random.random() < 0.5:
            self.say(list(self.follower.step(Digested(self.follower.position), self.now)))
            self.say(list(self.follower.step(MadeDurable(self.follower.position), self.now)))
        self.say(list(self.follower.step(TimePassed(), self.now)))

    def _arriving(self, queue: list) -> list:  # type: ignore[type-arg]  # Either direction.
        arrived = []
        for one in queue:
            if self.random.random() >= self.loss:
                arrived += [one] * (2 if self.random.random() < self.loss / 2 else 1)
        queue.clear()
        return arrived


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0, 0.6),
    streams=st.sampled_from([(), (1,), (2,)]),
    capacity=st.sampled_from([FRAME_BYTES, 10 * FRAME_BYTES, 1 << 20]),
)
def test_every_record_once_in_order(seed: int, loss: float, streams: tuple[int, ...], capacity: int) -> None:
    talk = Conversation(seed, loss, streams, capacity)
    talk.say(list(talk.follower.step(LinkUp(), talk.now)))
    for _ in range(100):
        talk.turn()
        assert talk.delivered == [n for n in range(1, talk.follower.position.sequence + 1) if talk.wanted(n)]
        assert talk.leader.wanted_from("history") <= talk.committed

    talk.loss = 0.0
    talk.growth_max = 0
    for _ in range(100 + 8 * talk.committed):  # With room for one record, each takes a few turns.
        talk.turn()
    assert talk.delivered == [n for n in range(1, talk.committed + 1) if talk.wanted(n)]


def test_a_silent_follower_gets_no_more_than_its_credit() -> None:
    talk = Conversation(seed=1, loss=0.0, streams=(), capacity=5 * FRAME_BYTES)
    talk.committed = 1000
    hello = FeedHello(follower="slow", credit_bytes=5 * FRAME_BYTES)
    talk.leader.hello(b"f", hello, talk.facts(), talk.now)
    sent = 0
    for _ in range(10):
        for pull in talk.leader.pulls(Position(1, 1000), talk.now):
            count = pull.bytes_max // FRAME_BYTES
            sent += count
            last = Position(1, pull.after + count)
            talk.leader.pulled(pull, last.sequence, last, FRAME_BYTES * count, is_all=False)
    assert sent == 5
