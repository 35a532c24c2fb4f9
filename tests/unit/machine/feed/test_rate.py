"""A named follower with a rate: old records go no faster, and new ones are not held back."""

from albireo.codec.message import FeedAck, FeedHello
from albireo.machine.feed.leader import BEHIND_RECORDS, Leader, LogFacts
from albireo.machine.kernel.named import above
from albireo.model.instant import SECOND, Instant
from albireo.model.position import Position
from tests.parts.feed import HISTORY, LOG


def sent_within(seconds: int, bytes_per_s: int, lag: int) -> int:
    """Bytes given in this time to a named follower that takes all and lacks so many records of 100 bytes."""
    leader, now, size = Leader(named=[above("root", bytes_per_s=bytes_per_s)]), Instant(0), 0
    end = Position(2, 100 + lag)
    facts = LogFacts(LOG, HISTORY, first_sequence=1, committed=end)
    hello = FeedHello(
        follower="root",
        log_id=LOG,
        history=HISTORY.entries,
        position=Position(2, 100),
        credit_bytes=1 << 26,
    )
    assert leader.hello(b"r", hello, facts, now).verdict == "resume"
    for _ in range(100_000):
        for pull in leader.pulls(end, now):
            last = Position(2, min(end.sequence, pull.after + pull.bytes_max // 100))
            size += 100 * (last.sequence - pull.after)
            leader.pulled(pull, last.sequence, last, 100 * (last.sequence - pull.after), is_all=last == end)
            leader.ack(b"r", FeedAck(received=last, durable=last, credit_bytes=1 << 26), now)
        due = leader.rest_ends(end)
        if due is None or due > seconds * SECOND:
            return size
        now = max(now, due)
    raise AssertionError("the leader is asked again and again, and gives nothing")


def test_a_named_follower_is_given_old_records_at_its_rate() -> None:
    lag, mib = 10_000_000, 1 << 20
    assert sent_within(10, 0, lag) == 100 * lag, "all at once if there is no rate"
    for rate in (mib, 8 * mib, mib // 2):
        assert 9.5 * rate <= sent_within(10, rate, lag) <= 10 * rate + (256 << 10)


def test_a_rate_holds_no_new_records_back() -> None:
    assert sent_within(1, 1_000, BEHIND_RECORDS - 1) == 100 * (BEHIND_RECORDS - 1)
