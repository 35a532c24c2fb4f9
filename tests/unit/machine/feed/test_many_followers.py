"""A thousand followers of one node: each is served, and no turn serves them all."""

from collections import Counter
from itertools import pairwise

import pytest

from albireo.codec.message import FeedAck, FeedAlive, FeedHello, FeedState
from albireo.machine.feed.beat import ALIVE_NS, ALIVE_PER_TURN, Beat
from albireo.machine.feed.follower import SILENCE_NS
from albireo.machine.feed.leader import FOLLOWERS_MAX, Leader
from albireo.machine.feed.state import MESSAGE_BYTES, TICK_NS, StateFeed
from albireo.machine.fold.state_piece import PIECE_BYTES
from albireo.machine.kernel.turn import Turn
from albireo.model.instant import SECOND, Instant
from albireo.model.position import BEGINNING, Position
from tests.parts.drafted import view_of
from tests.parts.feed import FACTS, HISTORY
from tests.parts.feed_bounds import Table

COUNT = 1_000


@pytest.mark.parametrize("count", [1, ALIVE_PER_TURN, ALIVE_PER_TURN + 1, COUNT])
def test_each_follower_hears_a_life_sign_in_time_and_few_in_one_turn(count: int) -> None:
    followers = [b"%d" % number for number in range(count)]
    beat: Beat[bytes] = Beat()
    heard = dict.fromkeys(followers, 0)
    while beat.at < 10 * SECOND:
        now, told = beat.at, beat.due(beat.at, followers)
        assert 0 < len(told) <= ALIVE_PER_TURN
        for to in told:
            assert now - heard[to] <= ALIVE_NS < SILENCE_NS
            heard[to] = now
    assert min(heard.values()) > 9 * SECOND


def test_few_followers_are_told_together_as_seldom_as_can_be() -> None:
    beat: Beat[bytes] = Beat()
    turns = 0
    while beat.at < 10 * SECOND:
        beat.due(beat.at, [b"a", b"b"])
        turns += 1
    assert turns == 20


def test_a_new_follower_hears_at_once_among_how_many_it_may_be() -> None:
    leader, now = Leader(), Instant(SECOND)
    for number in range(COUNT):
        leader.hello(b"%d" % number, FeedHello(follower=f"f{number}"), FACTS, now)
        told = [to for to, _ in leader.alive(2, FACTS.committed, FACTS.committed, now)]
        assert b"%d" % number in told
        assert len(told) <= ALIVE_PER_TURN + 1


def test_a_thousand_viewers_are_given_each_change_over_several_turns() -> None:
    feed, now, room = StateFeed(Table()), Instant(0), 2 * PIECE_BYTES
    for number in range(COUNT):
        hello = FeedHello(follower=f"f{number}", mode="state", credit_bytes=1 << 20, in_pieces=True)
        assert feed.hello(b"%d" % number, hello, FACTS, now).verdict == "snapshot"
    seen: Counter[bytes] = Counter()
    began = []
    for change in range(1, 6):
        at = Position(2, change)
        is_first = True
        while (due := feed.deadline(at)) is not None and any(seen[b"%d" % one] < change for one in range(COUNT)):
            now = max(now, due)
            turn = Turn(view_of([], HISTORY, BEGINNING), 1)
            feed.time_passed(2, at, at, now, turn, is_acting=True, room_bytes=room)
            states = [one.to for one in turn.sends if isinstance(one.message, FeedState)]
            signs = [one.to for one in turn.sends if isinstance(one.message, FeedAlive)]
            assert len(states) <= room // MESSAGE_BYTES + 1
            assert len(signs) <= ALIVE_PER_TURN
            if states and is_first:
                began.append(now)
                is_first = False
            seen.update(states)
            for to in states:
                feed.ack(to, FeedAck(received=at, durable=at, credit_bytes=1 << 20), now)
    assert set(seen.values()) == {5}
    assert len(seen) == COUNT <= FOLLOWERS_MAX
    assert all(later - sooner >= TICK_NS for sooner, later in pairwise(began)), "many are told less often"
