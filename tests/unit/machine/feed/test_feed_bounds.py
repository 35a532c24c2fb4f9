"""Followers that ask for too much: credit, pieces and names within their bounds, and nobody else the worse for it."""

import msgspec
import pytest

from albireo.codec.message import FeedAck, FeedAnswer, FeedHello, FeedState
from albireo.machine.feed.credit import CREDIT_BYTES_MAX, UNDER_WAY_MAX
from albireo.machine.feed.leader import (
    FOLLOWERS_MAX,
    FOLLOWERS_OF_ONE_MAX,
    GONE_NS,
    PULL_BYTES,
    Leader,
)
from albireo.machine.feed.state import TICK_NS, StateFeed
from albireo.machine.kernel.turn import Turn
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import SECOND, Instant
from albireo.model.position import BEGINNING, Position
from tests.parts.drafted import view_of
from tests.parts.feed import FACTS, HISTORY, LOG
from tests.parts.feed_bounds import Table

FROM = Position(1, 20)
EXTREMES = (-(2**63), -1, CREDIT_BYTES_MAX + 1, 2**64 - 1)
HISTORY_HELLO = FeedHello(follower="history", log_id=LOG, position=FROM)


def hello(name: str, credit_bytes: int = 1 << 20) -> FeedHello:
    return FeedHello(follower=name, log_id=LOG, position=FROM, credit_bytes=credit_bytes)


def ack(credit_bytes: int, received: Position = FROM) -> FeedAck:
    return FeedAck(received=received, durable=received, credit_bytes=credit_bytes)


@pytest.mark.parametrize("credit_bytes", EXTREMES)
def test_credit_is_cut_to_its_bounds_and_counted(credit_bytes: int) -> None:
    leader = Leader()
    leader.hello(b"f", hello("f", credit_bytes), FACTS, Instant(0))
    leader.ack(b"f", ack(credit_bytes), Instant(0))
    assert leader.credit_cut == 2
    assert leader.followers[b"f"].credit.given in (0, CREDIT_BYTES_MAX)


@pytest.mark.parametrize("credit_bytes", EXTREMES)
def test_a_follower_with_extreme_credit_does_not_starve_another(credit_bytes: int) -> None:
    leader, now, sent = Leader(), Instant(0), 0
    leader.hello(b"greedy", hello("greedy", credit_bytes), FACTS, now)
    leader.hello(b"modest", hello("modest"), FACTS, now)
    for number in range(21, 61):
        now = Instant(now + SECOND)
        leader.ack(b"greedy", ack(credit_bytes), now)
        for pull in leader.pulls(FACTS.committed, now):
            assert 0 < pull.bytes_max <= PULL_BYTES
            leader.pulled(pull, number, Position(2, number), PULL_BYTES)
            if pull.to == b"modest":
                sent += 1
                leader.ack(b"modest", ack(1 << 20, Position(2, number)), now)
    assert sent == 40
    assert leader.followers[b"greedy"].credit.under_way_bytes <= CREDIT_BYTES_MAX


def test_credit_that_shrinks_below_what_is_under_way_stops_that_follower_until_it_is_given_more() -> None:
    leader = Leader()
    leader.hello(b"f", hello("f"), FACTS, Instant(0))
    (pull,) = leader.pulls(FACTS.committed, Instant(0))
    leader.pulled(pull, 30, Position(1, 30), 1000)
    leader.ack(b"f", ack(10), Instant(0))
    assert leader.pulls(FACTS.committed, Instant(SECOND)) == []
    leader.ack(b"f", ack(1001), Instant(0))
    (pull,) = leader.pulls(FACTS.committed, Instant(SECOND))
    assert pull.bytes_max == 1


def test_pieces_under_way_are_bounded_however_small_they_are() -> None:
    leader = Leader()
    leader.hello(b"f", hello("f", CREDIT_BYTES_MAX), FACTS, Instant(0))
    followed = leader.followers[b"f"]
    for number in range(2 * UNDER_WAY_MAX):
        for pull in leader.pulls(Position(2, 1 << 20), Instant(SECOND * number)):
            leader.pulled(pull, 100 + number, Position(2, 100 + number), 1)
    assert len(followed.credit.under_way) == UNDER_WAY_MAX


def test_followers_are_forgotten_save_the_one_that_retention_waits_for() -> None:
    leader = Leader()
    leader.hello(b"h", HISTORY_HELLO, FACTS, Instant(0))
    leader.ack(b"h", ack(1), Instant(0))
    for number in range(10_000):
        name = f"n{number}"
        leader.hello(name.encode(), hello(name), FACTS, Instant(number * SECOND))
        leader.ack(name.encode(), ack(1), Instant(number * SECOND))
        leader.alive(2, FACTS.committed, FACTS.committed, Instant(number * SECOND))
    assert len(leader.followers) <= FOLLOWERS_MAX + 1
    assert leader.wanted_from("history") > 0
    assert b"h" in leader.followers, "it is not forgotten while it is busy"


def test_the_history_is_served_however_many_others_came_first() -> None:
    leader = Leader()
    for number in range(FOLLOWERS_MAX):
        leader.hello(b"%d" % number, hello(f"f{number}"), FACTS, Instant(0))
    assert leader.hello(b"x", hello("x"), FACTS, Instant(0)).verdict == "refused"
    assert leader.hello(b"h", HISTORY_HELLO, FACTS, Instant(0)).verdict == "resume"
    leader.alive(2, FACTS.committed, FACTS.committed, Instant(GONE_NS + 1))
    assert list(leader.followers) == [b"h"]


@pytest.mark.parametrize("mode", ["log", "state"])
def test_one_key_does_not_take_the_place_of_all_others(mode: str) -> None:
    feed = Leader() if mode == "log" else StateFeed(Table())

    def asks(number: int, principal: str) -> FeedAnswer:
        wanted = msgspec.structs.replace(hello(f"f{number}"), mode=mode)
        return feed.hello(f"{principal}{number}".encode(), wanted, FACTS, Instant(0), principal)

    greedy = [asks(number, "greedy") for number in range(FOLLOWERS_MAX)]
    assert [one.verdict != "refused" for one in greedy].count(True) == FOLLOWERS_OF_ONE_MAX
    assert f"{FOLLOWERS_OF_ONE_MAX} followers of greedy" in str(greedy[-1].refusal)
    assert asks(0, "greedy").verdict != "refused", "a name that it has already takes its own place"
    assert asks(0, "modest").verdict != "refused"
    assert asks(0, "local:0").verdict != "refused"


@pytest.mark.parametrize("mode", ["log", "state"])
@pytest.mark.parametrize("name", ["", "x" * (NAME_CHARS_MAX + 1)])
def test_a_name_that_is_none_is_refused_with_the_limit(name: str, mode: str) -> None:
    feed = Leader() if mode == "log" else StateFeed(Table())
    answer = feed.hello(b"f", FeedHello(follower=name, mode=mode), FACTS, Instant(0))
    assert answer.verdict == "refused"
    assert str(NAME_CHARS_MAX) in str(answer.refusal)


@pytest.mark.parametrize("credit_bytes", EXTREMES)
def test_a_viewer_with_extreme_credit_is_bounded_and_does_not_starve_another(credit_bytes: int) -> None:
    feed, seen = StateFeed(Table()), 0
    for to, credit in ((b"greedy", credit_bytes), (b"modest", 1 << 20)):
        feed.hello(to, FeedHello(follower=to.decode(), mode="state", credit_bytes=credit), FACTS, Instant(0))
    for number in range(1, 100):
        now, position = Instant(number * TICK_NS), Position(2, number)
        turn = Turn(view_of([], HISTORY, BEGINNING), 1)
        feed.time_passed(2, position, position, now, turn, is_acting=True)
        seen += sum(one.to == b"modest" and isinstance(one.message, FeedState) for one in turn.sends)
        feed.ack(b"modest", ack(1 << 20, position), now)
        feed.ack(b"greedy", ack(credit_bytes, BEGINNING), now)
    assert seen == 99
    assert feed.credit_cut == 100
    assert feed._viewers[b"greedy"].credit.under_way_bytes <= CREDIT_BYTES_MAX
