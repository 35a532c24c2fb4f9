"""Verdicts on a hello, and what a follower makes of each message."""

from collections.abc import Iterator
from itertools import combinations, permutations

import msgspec
import pytest

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, FeedState
from albireo.machine.feed.follower import (
    ASK_AGAIN_NS,
    SILENCE_NS,
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    FollowPhase,
    LinkDown,
    LinkUp,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.feed.leader import (
    BEHIND_RECORDS,
    FAR_RECORDS,
    FOLLOWERS_MAX,
    FRAMES_PER_TURN,
    GONE_NS,
    PULL_FRAMES,
    PULLS_PER_TURN,
    REST_LEAST_NS,
    WAIT_MS_MAX,
    Leader,
    LogFacts,
)
from albireo.machine.feed.pace import LEAST, LOOK_NS, PATIENCE_NS, SAVED_LOOKS
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.position import EpochEntry, Position
from tests.parts.feed import FACTS, HISTORY, LOG
from tests.parts.refusals import no

VERDICTS = [
    ("from the start of a pruned log", FeedHello(follower="f"), "snapshot", Position(1, 9)),
    ("at a kept position", FeedHello(follower="f", log_id=LOG, position=Position(1, 20)), "resume", Position(1, 20)),
    ("at the head", FeedHello(follower="f", log_id=LOG, position=Position(2, 100)), "resume", Position(2, 100)),
    (
        "just before the oldest",
        FeedHello(follower="f", log_id=LOG, position=Position(1, 9)),
        "resume",
        Position(1, 9),
    ),
    ("too old", FeedHello(follower="f", log_id=LOG, position=Position(1, 8)), "snapshot", Position(1, 9)),
    ("of another log", FeedHello(follower="f", log_id=b"X" * 16, position=Position(1, 20)), "refused", Position()),
    ("in an unknown mode", FeedHello(follower="f", mode="all"), "refused", Position()),
    (
        "ahead in the same epoch",
        FeedHello(follower="f", log_id=LOG, history=HISTORY.entries, position=Position(2, 101)),
        "behind",
        Position(2, 100),
    ),
    (
        "with a tail of the epoch before",
        FeedHello(follower="f", log_id=LOG, history=HISTORY.entries[:1], position=Position(1, 60)),
        "fork",
        Position(1, 49),
    ),
    (
        "ahead, in the epoch before",
        FeedHello(follower="f", log_id=LOG, history=HISTORY.entries[:1], position=Position(1, 400)),
        "fork",
        Position(1, 49),
    ),
    (
        "in an epoch of the same number and another branch",
        FeedHello(
            follower="f",
            log_id=LOG,
            history=(HISTORY.entries[0], EpochEntry(2, 50, 99)),
            position=Position(2, 60),
        ),
        "fork",
        Position(1, 49),
    ),
    (
        "in an epoch that it does not name, and that this log never had",
        FeedHello(follower="f", log_id=LOG, history=HISTORY.entries[:1], position=Position(7, 60)),
        "fork",
        Position(),
    ),
    (
        "in an epoch that it does not name, behind its end here",
        FeedHello(follower="f", log_id=LOG, position=Position(1, 60)),
        "fork",
        Position(1, 49),
    ),
    (
        "with a history that goes backwards",
        FeedHello(
            follower="f",
            log_id=LOG,
            history=(EpochEntry(3, 50, 1), EpochEntry(2, 1, 1)),
            position=Position(2, 400),
        ),
        "refused",
        Position(),
    ),
    ("of states, new", FeedHello(follower="f", mode="state"), "resume", Position()),
    (
        "of states, again",
        FeedHello(follower="f", mode="state", log_id=LOG, position=Position(2, 80)),
        "snapshot",
        Position(),
    ),
]


@pytest.mark.parametrize(("hello", "verdict", "position"), [row[1:] for row in VERDICTS], ids=[r[0] for r in VERDICTS])
def test_verdict(hello: FeedHello, verdict: str, position: Position) -> None:
    leader = Leader()
    answer = leader.hello(b"f", hello, FACTS, Instant(0))
    assert (answer.verdict, answer.position) == (verdict, position)
    assert (b"f" in leader.followers) == (verdict not in ("refused", "behind"))


def _own(position: Position) -> FeedHello:
    return FeedHello(follower="history", log_id=LOG, position=position)


FOLLOWS = msgspec.structs.replace(FACTS, committed=Position(1, 40), is_acting=False)
"""Of a member that knows of the new epoch, and has heard only that 40 is committed."""


@pytest.mark.parametrize(
    ("what", "hello", "verdict", "position"),
    [
        ("it has what follows", FeedHello(follower="f", log_id=LOG, position=Position(1, 20)), "resume", (1, 20)),
        ("it will have it", FeedHello(follower="f", log_id=LOG, position=Position(1, 45)), "behind", (1, 40)),
        ("of another branch", FeedHello(follower="f", log_id=LOG, position=Position(1, 60)), "behind", (1, 40)),
        ("too old", FeedHello(follower="f", log_id=LOG, position=Position(1, 8)), "behind", (1, 40)),
        ("its own, of another branch", _own(Position(1, 60)), "fork", (1, 49)),
        ("its own, too old", _own(Position(1, 8)), "snapshot", (1, 9)),
    ],
)
def test_only_who_leads_takes_anything_from_a_follower_but_its_own(
    what: str, hello: FeedHello, verdict: str, position: tuple[int, int]
) -> None:
    answer = Leader().hello(b"f", hello, FOLLOWS, Instant(0))
    assert (answer.verdict, answer.position) == (verdict, Position(*position)), what


def test_followers_are_bounded_and_a_silent_unnamed_one_is_forgotten() -> None:
    leader = Leader()
    for number in range(FOLLOWERS_MAX):
        leader.hello(b"%d" % number, FeedHello(follower=f"f{number}"), FACTS, Instant(0))
    assert leader.hello(b"x", FeedHello(follower="x"), FACTS, Instant(0)).verdict == "refused"
    leader.alive(2, Position(2, 100), Position(2, 100), Instant(GONE_NS + 1))
    assert not leader.followers


def test_a_second_hello_of_the_same_follower_replaces_the_first() -> None:
    leader = Leader()
    leader.hello(b"a", FeedHello(follower="f"), FACTS, Instant(0))
    leader.hello(b"b", FeedHello(follower="f"), FACTS, Instant(0))
    assert list(leader.followers) == [b"b"]


def test_a_named_follower_holds_records_also_while_it_is_away() -> None:
    leader = Leader()
    hello = FeedHello(follower="history", log_id=LOG, position=Position(1, 20))
    leader.hello(b"h", hello, FACTS, Instant(0))
    pull = leader.pulls(FACTS.committed, Instant(0))[0]
    leader.pulled(pull, 60, Position(2, 60), 100)
    leader.ack(b"h", FeedAck(received=Position(2, 60), durable=Position(1, 40), credit_bytes=1), Instant(0))
    leader.lost(b"h")
    assert leader.wanted_from("history") == 40


@pytest.mark.parametrize(
    ("max_wait_ms", "rest_ns"), [(0, REST_LEAST_NS), (-7, REST_LEAST_NS), (100, 100 * MS), (1 << 62, WAIT_MS_MAX * MS)]
)
def test_a_follower_that_got_everything_rests(max_wait_ms: int, rest_ns: int) -> None:
    leader, now = Leader(), Instant(7)
    leader.hello(b"f", FeedHello(follower="f", max_wait_ms=max_wait_ms), FACTS, now)
    pull = leader.pulls(Position(2, 60), now)[0]
    leader.pulled(pull, 60, Position(2, 60), 100)
    assert leader.rest_ends(Position(2, 60)) is None
    assert not leader.pulls(Position(2, 61), Instant(now + rest_ns - 1))
    assert leader.rest_ends(Position(2, 61)) == now + rest_ns
    assert [one.after for one in leader.pulls(Position(2, 61), Instant(now + rest_ns))] == [60]


def test_a_follower_is_level_when_the_leader_has_looked_at_everything() -> None:
    leader, machine = Leader(), Follower(FollowerConfig(name="f", streams=(1,)))

    def heard(message: FeedAnswer | FeedAlive) -> bool:
        machine.step(Received(message), Instant(0))
        return machine.is_level

    def alive() -> FeedAlive:
        ((_, message),) = leader.alive(2, FACTS.committed, FACTS.committed, Instant(0))
        return message

    (said,) = machine.step(LinkUp(), Instant(0))
    assert isinstance(said, TellLeader)
    assert isinstance(said.message, FeedHello)
    assert not heard(leader.hello(b"f", said.message, FACTS, Instant(0)))
    assert not heard(alive())
    (pull,) = leader.pulls(FACTS.committed, Instant(0))
    leader.pulled(pull, FACTS.committed.sequence, None, 0)
    leader.hello(b"other", FeedHello(follower="other", streams=(9,)), FACTS, Instant(0))
    assert heard(next(one for to, one in leader.alive(2, FACTS.committed, FACTS.committed, Instant(0)) if to == b"f"))
    machine.step(LinkUp(), Instant(0))
    assert not machine.is_level


def test_a_follower_that_is_behind_does_not_rest() -> None:
    leader, now = Leader(), Instant(7)
    leader.hello(b"f", FeedHello(follower="f", max_wait_ms=100), FACTS, now)
    pull = leader.pulls(Position(2, 60), now)[0]
    leader.pulled(pull, 40, Position(2, 40), 100, is_all=False)
    assert [one.after for one in leader.pulls(Position(2, 60), now)] == [40]
    leader.pulled(pull, 60, Position(2, 60), 100)
    assert not leader.pulls(Position(2, 60 + BEHIND_RECORDS - 1), now)
    assert leader.ready_count(Position(2, 60 + BEHIND_RECORDS), now) == 1


def test_followers_that_lag_far_have_their_chunks_in_turn_and_few_in_one() -> None:
    """Each chunk may be thousands of small frames, which somebody has to read and check."""
    leader, committed, now = Leader(), Position(2, 1_000_000), Instant(0)
    facts = LogFacts(LOG, HISTORY, first_sequence=1, committed=committed)
    for number in range(FOLLOWERS_MAX):
        hello = FeedHello(follower=f"f{number}", credit_bytes=1 << 24)
        leader.hello(b"%d" % number, hello, facts, now)
    asked: list[bytes] = []
    while len(asked) < FOLLOWERS_MAX:
        pulls = leader.pulls(committed, now)
        assert 0 < len(pulls) * PULL_FRAMES <= FRAMES_PER_TURN
        assert leader.ready_count(committed, now) > 0, "so that the rest have a turn of their own"
        asked += [one.to for one in pulls]
        for one in pulls:
            leader.pulled(one, one.after + 100, Position(2, one.after + 100), 1_000, is_all=False)
    assert len(set(asked)) == FOLLOWERS_MAX, "nobody is passed over"


def test_followers_that_lack_little_are_served_in_one_turn_up_to_a_number_and_then_in_turn() -> None:
    leader, now, end = Leader(), Instant(0), Position(2, 51)
    for number in range(FOLLOWERS_MAX):
        hello = FeedHello(follower=f"f{number}", log_id=LOG, position=Position(2, 50), credit_bytes=1 << 24)
        leader.hello(b"%d" % number, hello, FACTS, now)
    served: list[bytes] = []
    while leader.ready_count(end, now):
        pulls = leader.pulls(end, now)
        assert len(pulls) == PULLS_PER_TURN
        served += [one.to for one in pulls]
        for one in pulls:
            leader.pulled(one, 51, end, 100)
    assert len(served) == len(set(served)) == FOLLOWERS_MAX >= 1_000


def test_who_may_wait_rests_while_the_log_itself_catches_up() -> None:
    """One chunk per rest, however much is new; nobody else is kept waiting, and it neither once the log is there."""
    leader, now, far = Leader(), Instant(7), Position(2, 60 + 10 * BEHIND_RECORDS)
    leader.is_catching_up = True
    for name, max_wait_ms in (("h", 100), ("f", 0)):
        leader.hello(name.encode(), FeedHello(follower=name, max_wait_ms=max_wait_ms), FACTS, now)
    for pull in leader.pulls(far, now):
        leader.pulled(pull, 40, Position(2, 40), 100, is_all=False)
    assert [one.to for one in leader.pulls(far, now)] == [b"f"]
    leader.lost(b"f")
    assert leader.ready_count(far, now) == 0
    assert leader.rest_ends(far) == now + 100 * MS
    assert leader.ready_count(far, Instant(now + 100 * MS)) == 1
    leader.is_catching_up = False
    assert leader.ready_count(far, now) == 1


CHUNK = 2_000
"""Records of what one pull reads."""
LIVE = 4_000
"""Records that a busy live path appends in TURN_NS."""
TURN_NS = 10 * MS
AT_ONCE = SAVED_LOOKS * LOOK_NS // TURN_NS * LIVE
"""Saved up by a follower that stood still."""


class Behind:
    """A leader with one follower far behind, in a loop that is busy all the time, or never."""

    def __init__(self, *, max_wait_ms: int = 100, records: int = 100 * FAR_RECORDS, uncommitted: int = 0) -> None:
        self.leader, self.now, self.end, self.uncommitted = Leader(), Instant(SECOND), 100 + records, uncommitted
        self.busy_ns = 0
        hello = FeedHello(follower="f", max_wait_ms=max_wait_ms, log_id=LOG, position=Position(2, 100))
        self.leader.hello(b"f", hello, FACTS, self.now)

    def turns(self, count: int, appended: int, *, ns: int = TURN_NS, is_busy: bool = True) -> int:
        """Records that the follower is given, at most FAR_RECORDS in a turn: then there is no limit but its room."""
        records = 0
        for _ in range(count):
            self.now, self.end = Instant(self.now + ns), self.end + appended
            self.busy_ns += ns * is_busy
            records += self._turn(Position(2, self.end - self.uncommitted))
        return records

    def _turn(self, committed: Position) -> int:
        self.leader.passed(self.end, committed.sequence, self.busy_ns, self.now)
        records = 0
        while records < FAR_RECORDS and (pulls := self.leader.pulls(committed, self.now)):
            (pull,) = pulls
            scanned = min(committed.sequence, pull.after + CHUNK)
            records += scanned - pull.after
            self.leader.pulled(pull, scanned, Position(2, scanned), 0, is_all=scanned == committed.sequence)
        return records


@pytest.mark.parametrize("was_catching_up", [False, True])
def test_who_may_wait_and_is_far_behind_gets_a_share_while_the_loop_is_busy(was_catching_up: bool) -> None:
    """While the log itself catches up the distance only grows: that says nothing of whether it gains later."""
    behind, count = Behind(), 500
    if was_catching_up:
        behind.leader.is_catching_up = True
        behind.turns(3 * PATIENCE_NS // TURN_NS, LIVE)
        behind.leader.is_catching_up = False
    share = LEAST * LIVE * count
    assert 0.95 * share < behind.turns(count, LIVE) < 1.05 * share + AT_ONCE


def test_a_follower_far_behind_gets_all_there_is_where_that_costs_nobody() -> None:
    """The loop has time, or nothing is appended and all of it committed."""
    assert Behind().turns(30, 1, ns=LOOK_NS, is_busy=False) >= FAR_RECORDS
    idle, in_need = Behind(), Behind(uncommitted=1)
    for one in (idle, in_need):
        one.turns(10, LIVE)
    assert idle.turns(10, 0, ns=LOOK_NS) >= FAR_RECORDS
    assert in_need.turns(10, 0, ns=LOOK_NS) < FAR_RECORDS / 2, "the disk, or the other member, is slow"


@pytest.mark.parametrize(
    ("max_wait_ms", "behind"), [(0, 100 * FAR_RECORDS), (100, FAR_RECORDS - 1)], ids=["must not wait", "is near"]
)
def test_nobody_else_gets_a_share_only(max_wait_ms: int, behind: int) -> None:
    one = Behind(max_wait_ms=max_wait_ms, records=behind)
    assert one.turns(1, 0) >= min(behind, FAR_RECORDS)


def test_what_a_follower_gained_when_it_was_far_behind_before_does_not_count() -> None:
    behind = Behind(records=2 * FAR_RECORDS)
    behind.turns(30, 1, ns=LOOK_NS, is_busy=False)
    assert behind.leader.followers[b"f"].scanned == behind.end
    behind.turns(1, 50 * FAR_RECORDS)
    assert behind.turns(100, LIVE) < 1.05 * LEAST * LIVE * 100 + AT_ONCE


def test_an_acknowledgement_never_counts_for_more_than_was_sent() -> None:
    leader = Leader()
    leader.hello(b"h", FeedHello(follower="history", log_id=LOG, position=Position(1, 20)), FACTS, Instant(0))
    leader.ack(b"h", FeedAck(received=Position(9, 999), durable=Position(9, 999), credit_bytes=1), Instant(0))
    assert leader.wanted_from("history") == 20
    assert not leader.ack(b"?", FeedAck(received=Position(), durable=Position(), credit_bytes=1), Instant(0))


def follower() -> Follower:
    return Follower(FollowerConfig(name="f"), Position(1, 20), LOG)


RESUMED = FeedAnswer(verdict="resume", position=Position(1, 20), log_id=LOG, history=HISTORY.entries)


def data(previous: int, last: int, epoch: int = 2) -> FeedData:
    return FeedData(
        epoch=epoch, first=Position(2, previous + 1), last=Position(2, last), previous=Position(1, previous)
    )


def test_follower_resumes_and_delivers_what_continues() -> None:
    machine = follower()
    assert isinstance(machine.step(LinkUp(), Instant(0))[0], TellLeader)
    assert machine.step(Received(RESUMED), Instant(0)) == []
    assert machine.step(Received(data(20, 30)), Instant(1)) == [Deliver(data(20, 30))]
    assert machine.position == Position(2, 30)
    assert machine.deadline() == 1 + SILENCE_NS


def test_follower_asks_again_at_a_gap_and_ignores_a_repeat() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    noted, say = machine.step(Received(data(25, 30)), Instant(1))
    assert isinstance(noted, Noted)
    assert noted.event == "feed_gap"
    assert isinstance(say, TellLeader)
    machine.step(Received(RESUMED), Instant(2))
    machine.step(Received(data(20, 30)), Instant(2))
    assert machine.step(Received(data(20, 30)), Instant(3)) == []


def piece(previous: int, last: int) -> FeedData:
    return FeedData(epoch=2, first=Position(2, previous + 1), last=Position(2, last), previous=Position(2, previous))


def pieces(*ends: int) -> list[FeedData]:
    """The records from 51 on, cut at these ends."""
    return [piece(previous, last) for previous, last in zip((50, *ends), ends, strict=False)]


CUTTINGS = [pieces(52, 54, 56), pieces(53, 55, 56), pieces(51, 56), pieces(56)]
"""The same records as different hellos, or the two members, got them."""


def interleaved(one: list[FeedData], other: list[FeedData]) -> Iterator[list[FeedData]]:
    """Every order in which two streams of pieces can arrive together."""
    for places in combinations(range(len(one) + len(other)), len(one)):
        first, second = iter(one), iter(other)
        yield [next(first if place in places else second) for place in range(len(one) + len(other))]


@pytest.mark.parametrize("leaves_last", [False, True], ids=["whole", "without the last piece"])
@pytest.mark.parametrize(("one", "other"), list(permutations(CUTTINGS, 2)))
def test_follower_takes_no_record_twice_and_leaves_none_out_of_pieces_that_overlap(
    one: list[FeedData], other: list[FeedData], leaves_last: bool
) -> None:
    """An overlap is asked for anew from where the follower stands: a piece is taken as a whole or not at all."""
    for arriving in interleaved(one[:-1] if leaves_last else one, other):
        machine = Follower(FollowerConfig(name="f"), Position(2, 50), LOG)
        machine.step(LinkUp(), Instant(0))
        delivered: list[int] = []

        def hear(arrived: FeedData, machine: Follower = machine, delivered: list[int] = delivered) -> None:
            if machine.phase is FollowPhase.ASKING:
                machine.step(Received(RESUMED), Instant(1))
            for effect in machine.step(Received(arrived), Instant(1)):
                if isinstance(effect, Deliver) and isinstance(effect.message, FeedData):
                    delivered += range(effect.message.first.sequence, effect.message.last.sequence + 1)
                if isinstance(effect, TellLeader) and isinstance(effect.message, FeedHello):
                    assert effect.message.position == machine.position, "it asks for what follows what it has"

        for arrived in arriving:
            hear(arrived)
            assert delivered == list(range(51, machine.position.sequence + 1))
        hear(piece(machine.position.sequence, 57))
        assert delivered == list(range(51, 58)), "nothing is left out for ever"


def test_follower_asks_again_from_its_position_at_a_piece_that_begins_before_it_and_ends_behind() -> None:
    machine = Follower(FollowerConfig(name="f"), Position(2, 50), LOG)
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    assert machine.step(Received(piece(50, 53)), Instant(1)) == [Deliver(piece(50, 53))]
    noted, say = machine.step(Received(piece(52, 56)), Instant(1))
    assert isinstance(noted, Noted) and isinstance(say, TellLeader)
    assert isinstance(say.message, FeedHello) and say.message.position == Position(2, 53)
    machine.step(Received(RESUMED), Instant(1))
    assert machine.step(Received(piece(53, 56)), Instant(1)) == [Deliver(piece(53, 56))]


def test_follower_tells_of_room_when_a_quarter_of_it_has_become_free() -> None:
    """Nobody waits for it before; and what it has told by another way needs no telling again."""
    machine = Follower(FollowerConfig(name="f", capacity_bytes=1000), Position(1, 20), LOG)
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    previous = Position(1, 20)
    for last in range(21, 31):
        piece = FeedData(epoch=2, first=Position(2, last), last=Position(2, last), previous=previous)
        assert machine.step(Received(piece, 100), Instant(1)) == [Deliver(piece)]
        previous = piece.last
    alive = FeedAlive(epoch=2, is_acting=True, committed=previous, end=previous, sent=previous)
    told: list[int] = []
    for last in range(21, 31):
        heard = machine.step(Received(alive), Instant(1)) if last == 26 else []
        for say in [*heard, *machine.step(Digested(Position(2, last)), Instant(1))]:
            assert isinstance(say, TellLeader) and isinstance(say.message, FeedAck)
            told.append(say.message.credit_bytes)
    assert told == [300, 500, 800]


def test_a_viewer_tells_of_room_for_each_state() -> None:
    machine = Follower(FollowerConfig(name="f", mode="state", capacity_bytes=1000))
    machine.step(LinkUp(), Instant(0))
    answer = FeedAnswer(verdict="snapshot", log_id=LOG, history=HISTORY.entries)
    machine.step(Received(answer), Instant(0))
    state = FeedState(epoch=2, position=Position(2, 60), previous=Position(), is_snapshot=True)
    assert machine.step(Received(state, 10), Instant(1)) == [Deliver(state)]
    (say,) = machine.step(Digested(Position(2, 60)), Instant(1))
    assert isinstance(say, TellLeader) and isinstance(say.message, FeedAck)
    assert say.message.credit_bytes == 1000


@pytest.mark.parametrize("verdict", ["truncate", "fork"])
def test_follower_cuts(verdict: str) -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    answer = FeedAnswer(verdict=verdict, position=Position(1, 9), log_id=LOG, history=HISTORY.entries)
    assert machine.step(Received(answer), Instant(0)) == [CutBack(Position(1, 9), verdict)]
    assert (machine.position, machine.durable) == (Position(1, 9), Position(1, 9))


@pytest.mark.parametrize("verdict", ["truncate", "fork", "snapshot"])
def test_follower_has_all_its_room_after_each_start_over(verdict: str) -> None:
    """What it had not digested is forgotten with the records: no part of the room goes with them."""
    machine = Follower(FollowerConfig(name="f", capacity_bytes=1000), Position(1, 20), LOG)
    machine.step(LinkUp(), Instant(0))
    for _ in range(5):
        machine.step(Received(RESUMED), Instant(0))
        piece = FeedData(epoch=2, first=Position(2, 21), last=Position(2, 60), previous=Position(1, 20))
        assert machine.step(Received(piece, 400), Instant(0)) == [Deliver(piece)]
        (say,) = machine.step(LinkUp(), Instant(0))
        assert isinstance(say, TellLeader) and isinstance(say.message, FeedHello)
        assert say.message.credit_bytes == 600
        answer = FeedAnswer(verdict=verdict, position=Position(1, 20), log_id=LOG, history=HISTORY.entries)
        machine.step(Received(answer), Instant(0))
        (say,) = machine.step(LinkUp(), Instant(0))
        assert isinstance(say, TellLeader) and isinstance(say.message, FeedHello)
        assert say.message.credit_bytes == 1000


def test_follower_starts_over_from_a_snapshot() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    answer = FeedAnswer(verdict="snapshot", position=Position(1, 50), log_id=LOG, history=HISTORY.entries)
    assert machine.step(Received(answer), Instant(0)) == [TakeSnapshot(Position(1, 50))]


@pytest.mark.parametrize("verdict", ["refused", "behind"])
def test_follower_reports_a_refusal_and_asks_again_later(verdict: str) -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    assert machine.step(Received(FeedAnswer(verdict=verdict, refusal=no("behind", "why"))), Instant(0)) == [
        Noted(verdict, "why")
    ]
    assert machine.phase is FollowPhase.ASKING
    assert machine.step(TimePassed(), Instant(ASK_AGAIN_NS - 1)) == []
    assert isinstance(machine.step(TimePassed(), Instant(ASK_AGAIN_NS))[0], TellLeader)


def test_follower_refuses_a_history_that_runs_backwards() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    answer = FeedAnswer(verdict="resume", log_id=LOG, history=HISTORY.entries[::-1])
    (noted,) = machine.step(Received(answer), Instant(0))
    assert isinstance(noted, Noted) and noted.event == "refused"


def test_follower_refuses_an_epoch_below_the_highest_it_followed() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    assert machine.step(Received(data(20, 30, epoch=1)), Instant(1)) == [Noted("stale_epoch", "data of epoch 1")]
    alive = FeedAlive(epoch=1, is_acting=True, committed=Position(1, 5), end=Position(1, 5))
    assert machine.step(Received(alive), Instant(1)) == [Noted("stale_epoch", "alive of epoch 1")]
    assert machine.committed == Position()


@pytest.mark.parametrize("verdict", ["truncate", "fork", "snapshot"])
def test_follower_gives_nothing_up_at_the_word_of_a_lower_epoch_than_it_followed(verdict: str) -> None:
    machine = Follower(FollowerConfig(name="f"), Position(4, 60), LOG)
    machine.step(LinkUp(), Instant(0))
    answer = FeedAnswer(verdict=verdict, position=Position(1, 9), log_id=LOG, history=HISTORY.entries)
    assert machine.step(Received(answer), Instant(0)) == [Noted("stale_epoch", f"{verdict} of epoch 2")]
    assert (machine.position, machine.phase) == (Position(4, 60), FollowPhase.ASKING)
    assert isinstance(machine.step(TimePassed(), Instant(ASK_AGAIN_NS))[0], TellLeader)


def test_follower_asks_where_a_new_epoch_began() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    delivered, say = machine.step(Received(data(20, 30, epoch=5)), Instant(1))
    assert isinstance(delivered, Deliver) and isinstance(say, TellLeader)
    assert isinstance(say.message, FeedHello) and say.message.position == Position(2, 30)


def test_a_viewer_follows_the_log_that_took_the_place_of_another() -> None:
    """A node set up anew in the same directory begins again with epoch 1."""
    follower = Follower(FollowerConfig(name="view", mode="state"))
    follower.step(LinkUp(), Instant(1))
    answer = FeedAnswer(verdict="snapshot", log_id=LOG, history=HISTORY.entries)
    follower.step(Received(answer), Instant(2))
    follower.step(TimePassed(), Instant(3 + SILENCE_NS))
    other = FeedAnswer(verdict="snapshot", log_id=b"X" * 16, history=(EpochEntry(1, 1, 33),))
    follower.step(Received(other), Instant(4 + SILENCE_NS))
    data = FeedState(epoch=1, position=Position(1, 5), previous=Position())
    assert follower.step(Received(data), Instant(5 + SILENCE_NS)) == [Deliver(data)]


def test_follower_says_hello_again_after_silence_and_nothing_while_lost() -> None:
    machine = follower()
    machine.step(LinkUp(), Instant(0))
    machine.step(Received(RESUMED), Instant(0))
    effects = machine.step(TimePassed(), Instant(SILENCE_NS))
    assert effects[0] == Noted("leader_silent")
    assert isinstance(effects[1], TellLeader)
    machine.step(LinkDown(), Instant(SILENCE_NS))
    assert machine.step(Received(RESUMED), Instant(SILENCE_NS)) == []
    assert machine.deadline() is None
