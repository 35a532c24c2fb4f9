"""Shared serving: whatever consumers say, nobody gets what is another one's, and nothing ends the machine."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.message import Ask
from albireo.codec.puts import LeaseMoved
from albireo.codec.sharing import SETTLE, TAKE
from albireo.codec.topic_records import Subscribed
from albireo.machine.topics.shared_effects import AnswerTo, RecordShared
from albireo.machine.topics.shared_serving import SharedServing
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageTail, read_chunk
from albireo.model.instant import SECOND, Instant
from albireo.model.position import BEGINNING
from albireo.model.refusal import RefusalCode
from albireo.model.topic_lease import DEAD_LETTERS, Sharing
from tests.long_form import examples
from tests.parts.topics_log import WHO, TopicsLog

NUMBERS = st.one_of(st.integers(0, 12), st.sampled_from([2**31, 2**62, 2**63 - 1]))
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)
BY_TOPIC = st.dictionaries(st.one_of(st.just(1), NUMBERS), RANGES, max_size=3)
FIELDS = {
    "subscription_id": st.one_of(st.just(2), NUMBERS),
    "consumer": st.one_of(st.integers(1, 3), st.sampled_from([0, -1, DEAD_LETTERS, 2**63])),
}
TAKES = st.fixed_dictionaries(
    {**FIELDS, "count": st.integers(0, 1_000)}, optional={"holds": BY_TOPIC, "not_before": NUMBERS, "more": st.none()}
)
SETTLES = st.fixed_dictionaries(
    FIELDS,
    optional={
        "done": BY_TOPIC,
        "lows": st.dictionaries(NUMBERS, NUMBERS, max_size=2),
        "given_back": BY_TOPIC,
        "extended": BY_TOPIC,
        "is_leaving": st.booleans(),
    },
)
WORDS = st.one_of(
    st.tuples(st.just(TAKE), TAKES),
    st.tuples(st.just(SETTLE), SETTLES),
    st.tuples(st.sampled_from([TAKE, SETTLE, "x"]), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)),
)


class Crew:
    """The machine behind a log with ten jobs, of which what it wants recorded is."""

    def __init__(self) -> None:
        self.log = TopicsLog()
        self.topic = self.log.topic("jobs")
        sharing = Sharing(lease_s=1)
        self.subscription = self.log.state(
            Subscribed(subscriber="crew", principal=WHO, patterns=("jobs",), since_ns=0, sharing=sharing)
        )
        self.log.put((self.topic, [b"%d" % one for one in range(10)]))
        self.tables, self.tail = TopicTables(), MessageTail(BEGINNING)
        self.serving = SharedServing(self.tables, self.tail)
        self.serving.is_leading = True
        self.number = 0
        self.now = Instant(0)
        self.recorded: list[RecordShared] = []
        self.answers: dict[int, AnswerTo] = {}
        self.follow()

    def follow(self) -> None:
        while (block := read_chunk(self.log.take(), self.tables)) is not None:
            self.tail.add(block)
            self.perform(self.serving.took(block))
        self.perform(self.serving.serve(self.now))

    def perform(self, effects: Any) -> None:
        for one in effects:
            if isinstance(one, AnswerTo):
                self.answers[one.to.request_id] = one
            elif isinstance(one, RecordShared):
                self.recorded.append(one)
                self.log.put(moves=one.moves, leases=one.leases)

    def says(self, what: str, who: str = WHO, **arguments: Any) -> AnswerTo | None:
        """The answer, if there is one at once."""
        self.number += 1
        ask = Ask(request_id=self.number, what=what, arguments=arguments)
        self.perform(self.serving.asked("topics", b"a", ask, who, Instant(SECOND)))
        for _ in range(4):
            self.follow()
        return self.answers.get(self.number)

    def own(self, consumer: int) -> set[int]:
        cursor = self.tables.cursors.of(self.subscription, self.topic)
        assert cursor is not None
        leases = [one for one in cursor.leases if one.consumer == consumer]
        return {number for one in leases for number in range(one.first, one.last + 1)}


@given(st.lists(WORDS, min_size=1, max_size=12))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_is_said_is_answered_or_waits_and_no_message_is_two_consumers(words: list[tuple[str, Any]]) -> None:
    crew = Crew()
    for what, arguments in words:
        crew.says(what, **arguments)
        owned = [crew.own(one) for one in range(1, 4)]
        assert sum(map(len, owned)) == len(set().union(*owned))
    waiting = crew.serving.stands_by()
    assert len(crew.answers) + len({one.to for one in waiting if isinstance(one, AnswerTo)}) == crew.number


def test_takes_are_served_in_their_order_and_none_gets_what_another_one_has() -> None:
    crew = Crew()
    first = crew.says(TAKE, subscription_id=crew.subscription, consumer=1, count=6)
    second = crew.says(TAKE, subscription_id=crew.subscription, consumer=2, count=6)
    assert first is not None and second is not None
    assert (crew.own(1), crew.own(2)) == (set(range(1, 7)), set(range(7, 11)))
    assert crew.says(TAKE, subscription_id=crew.subscription, consumer=3, count=1) is None, "it waits"
    told = crew.says(SETTLE, subscription_id=crew.subscription, consumer=1, done={crew.topic: [(1, 8)]})
    assert told is not None and told.answer.result == {"over": {crew.topic: ((7, 8),)}}
    crew.says(SETTLE, subscription_id=crew.subscription, consumer=2, is_leaving=True)
    assert crew.own(3) == {7}


@pytest.mark.parametrize(
    ("who", "subscription", "code"),
    [("else", 2, RefusalCode.NOT_OWNER), (WHO, 9, RefusalCode.UNKNOWN_NAME)],
)
def test_who_may_not_read_is_told_why(who: str, subscription: int, code: RefusalCode) -> None:
    answer = Crew().says(TAKE, who, subscription_id=subscription, consumer=1, count=1)
    assert answer is not None and answer.answer.refusal is not None and answer.answer.refusal.code == code


def test_a_consumer_may_come_before_the_record_of_its_subscription() -> None:
    crew = Crew()
    fields: dict[str, Any] = {"subscriber": "late", "principal": WHO, "patterns": ("jobs",), "since_ns": 0}
    late = crew.log.state(Subscribed(**fields, is_from_first=True, sharing=Sharing(lease_s=1)))
    asked: dict[str, object] = {"subscription_id": late, "consumer": 1, "count": 1, "not_before": late}
    ask = Ask(request_id=9, what=TAKE, arguments=asked)
    crew.perform(crew.serving.asked("topics", b"a", ask, WHO, Instant(SECOND)))
    for _ in range(4):
        crew.follow()
    assert crew.answers[9].answer.refusal is None and crew.answers[9].raw


def test_messages_that_were_a_consumers_already_are_leased_anew_before_they_are_given() -> None:
    """A consumer counts the time of a lease from its question on, so none may have begun before that."""
    crew = Crew()
    crew.says(TAKE, subscription_id=crew.subscription, consumer=3, count=2)
    crew.recorded.clear()
    crew.now = Instant(3 * SECOND)
    again = crew.says(TAKE, subscription_id=crew.subscription, consumer=3, count=2)
    assert again is not None and len(again.raw) == 1 and again.answer.result == {"held_ms": 2_000}
    assert [one.leases for one in crew.recorded] == [(LeaseMoved(crew.subscription, crew.topic, ((1, 2),), 3),)]
    assert crew.own(3) == {1, 2}
