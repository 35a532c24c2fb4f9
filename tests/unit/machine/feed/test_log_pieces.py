"""A large frame comes over a slow link in pieces: no more is on the way than there is room for, and none is lost."""

import random

import pytest

from albireo.codec import frame as codec
from albireo.codec.frame import Frame
from albireo.codec.message import FeedAck, FeedAnswer, FeedData
from albireo.codec.record import Kind, Stream
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    FollowPhase,
    LinkUp,
    Received,
    TellLeader,
)
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import EpochEntry, EpochHistory
from tests.parts.pulled import pulled
from tests.parts.sample_log import Log

WINDOW = 8 << 10
LOG_ID = bytes(16)


def frames_of_sizes(*sizes: int) -> list[Frame]:
    """Frames with bodies of these sizes."""
    log = Log()
    for number, size in enumerate(sizes):
        log.add(Stream.STATE, Kind.RECORDS, 1, bytes([number]) * size)
    return log.frames


class Feed:
    """A leader, a link of some time, and a follower that puts pieces together as its owner has to."""

    def __init__(self, frames: list[Frame], *, loss: float = 0.0) -> None:
        self.frames = frames
        self.now = Instant(SECOND)
        self.taken = b""
        self.most_under_way = 0
        self._chance, self._loss = random.Random(1), loss
        self._got = b""
        last = frames[-1].header.last
        self._facts = LogFacts(LOG_ID, EpochHistory((EpochEntry(last.epoch, 1, 7),)), 1, last)
        self._leader = Leader(named=())
        config = FollowerConfig(name="parent", window_bytes=WINDOW, in_pieces=True)
        self.follower = Follower(config)
        self._tell(self.follower.step(LinkUp(), self.now))

    def run(self, turns: int = 2_000) -> None:
        for _ in range(turns):
            self.now = Instant(self.now + 20 * MS)
            committed = self._facts.committed
            self._leader.passed(committed.sequence, committed.sequence, 0, self.now)
            for pull in self._leader.pulls(committed, self.now):
                given, message, data = pulled(self.frames, pull, committed.epoch)
                self._leader.served([given])
                followed = self._leader.followers[b"p"]
                self.most_under_way = max(self.most_under_way, followed.credit.under_way_bytes)
                if message is not None and self._chance.random() >= self._loss:
                    self._take(message, data)
            for _, alive in self._leader.alive(committed.epoch, committed, committed, self.now):
                self._tell(self.follower.step(Received(alive), self.now))
            self._tell(self.follower.step(TimePassed(), self.now))

    def _take(self, message: FeedData, data: bytes) -> None:
        effects = self.follower.step(Received(message, len(data)), self.now)
        if any(isinstance(one, Deliver) for one in effects):
            self._got = data if message.piece == 0 else self._got + data
            if not message.goes_on:
                self.taken += self._got
                effects += self.follower.step(Digested(message.last), self.now)
        self._tell(effects)

    def _tell(self, effects: list) -> None:  # type: ignore[type-arg]  # Effects of a follower.
        for one in effects:
            if isinstance(one, TellLeader) and isinstance(one.message, FeedAck):
                self._leader.ack(b"p", one.message, self.now)
            elif isinstance(one, TellLeader):
                answer = self._leader.hello(b"p", one.message, self._facts, self.now)  # type: ignore[arg-type]  # A hello.
                self._tell(self.follower.step(Received(answer), self.now))


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_frames_of_all_sizes_come_once_and_whole(loss: float) -> None:
    frames = frames_of_sizes(100, 30_000, 90, 8_000, 400_000, 50, 3_000)
    feed = Feed(frames, loss=loss)
    feed.run()
    assert feed.taken == b"".join(map(codec.encode, frames))
    assert feed.follower.position == frames[-1].header.last


def test_no_more_is_under_way_than_there_is_room_for() -> None:
    feed = Feed(frames_of_sizes(400_000, 400_000))
    feed.run(20)
    assert 0 < feed.most_under_way <= 2 * WINDOW


def test_who_takes_no_pieces_has_the_frame_whole() -> None:
    frames = frames_of_sizes(100_000)
    leader, facts = Leader(named=()), Feed(frames)._facts
    config = FollowerConfig(name="history", capacity_bytes=WINDOW)
    (hello,) = Follower(config).step(LinkUp(), Instant(1))
    assert isinstance(hello, TellLeader)
    leader.hello(b"h", hello.message, facts, Instant(1))  # type: ignore[arg-type]  # A hello.
    (pull,) = leader.pulls(facts.committed, Instant(SECOND))
    _, message, data = pulled(frames, pull, 1)
    assert message is not None and (message.goes_on, data) == (False, codec.encode(frames[0]))


def test_hello_is_said_again_after_ever_longer_until_it_is_answered_and_then_after_what_that_took() -> None:
    follower, now = Follower(FollowerConfig(name="parent")), Instant(0)
    follower.step(LinkUp(), now)
    waits = []
    for _ in range(5):
        due = follower.deadline()
        assert due is not None
        waits.append((due - now) / MS)
        now = due
        follower.step(TimePassed(), now)
    assert waits == [500, 1000, 2000, 4000, 4000]
    follower = Follower(FollowerConfig(name="parent"))
    follower.step(LinkUp(), Instant(SECOND))
    follower.step(Received(FeedAnswer(verdict="resume", log_id=LOG_ID)), Instant(SECOND + 900 * MS))
    assert follower.phase is FollowPhase.FOLLOWING
    follower.step(LinkUp(), Instant(2 * SECOND))
    assert follower.deadline() == Instant(2 * SECOND + 1800 * MS)
