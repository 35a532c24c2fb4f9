"""Serving: who gets which messages, in which order, and what an acknowledgement does."""

from collections.abc import Sequence

import pytest

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedDone, FeedHello
from albireo.codec.puts import CursorMoved, Extra
from albireo.codec.served import REDELIVERED, ServedMessages, decode_served
from albireo.codec.topic_records import TopicDropped, Unsubscribed
from albireo.machine.topics import serving as module
from albireo.machine.topics.consumer import ConsumerPlace
from albireo.machine.topics.serving import Serving
from albireo.machine.topics.serving_effects import ReadStored, RecordMoves, Say
from albireo.machine.topics.tail import MessageTail
from albireo.model.position import BEGINNING, Position
from albireo.model.refusal import RefusalCode
from tests.parts.topics_log import LOG_ID, WHO, TopicsLog, begun, follow

CREDIT = 1 << 20


def place(name: bytes = b"one", channel: int = 1) -> ConsumerPlace:
    return ConsumerPlace("topics", name, channel)


def hello(
    serving: Serving, subscription_id: int, at: ConsumerPlace | None = None, credit: int = CREDIT, who: str = WHO
) -> list[object]:
    at = at or place()
    asked = FeedHello(follower="f", subscription_id=subscription_id, credit_bytes=credit, channel=at.channel)
    return [*serving.hello(at, asked, who, LOG_ID), *served(serving)]


def ack(
    serving: Serving, durable: Position, at: ConsumerPlace | None = None, received: Position | None = None
) -> list[object]:
    at = at or place()
    said = FeedAck(received=received or durable, durable=durable, credit_bytes=CREDIT, channel=at.channel)
    return [*serving.ack(at, said), *served(serving)]


def served(serving: Serving) -> list[object]:
    effects: list[object] = [*serving.serve()]
    while serving.is_due:
        effects += serving.serve()
    return effects


def given(effects: Sequence[object], at: ConsumerPlace | None = None) -> list[ServedMessages]:
    return [
        decode_served(one.raw[0])
        for one in effects
        if isinstance(one, Say) and isinstance(one.message, FeedData) and at in (None, one.to)
    ]


def bodies(effects: Sequence[object], at: ConsumerPlace | None = None) -> list[bytes]:
    found = []
    for served in given(effects, at):
        columns = served.messages
        for begin, length in zip(columns.starts.tolist(), columns.lengths.tolist(), strict=True):
            found.append(bytes(columns.buffer[begin : begin + length]))
    return found


def refusals(effects: Sequence[object]) -> list[tuple[ConsumerPlace, str]]:
    return [
        (one.to, one.message.refusal.code)
        for one in effects
        if isinstance(one, Say) and isinstance(one.message, FeedAnswer) and one.message.refusal is not None
    ]


def test_a_consumer_gets_what_is_put_behind_its_subscription_in_the_order_of_the_log() -> None:
    log = TopicsLog()
    first, other = log.topic("plant.a"), log.topic("plant.b")
    log.put((first, [b"before"]))
    wide, narrow = log.subscribe("wide", "plant.>"), log.subscribe("narrow", "plant.b")
    log.put((first, [b"1", b"2"]), (other, [b"3"]), (first, [b"4"]))
    log.put((other, [b"5"]))
    serving = begun(log)
    assert bodies(hello(serving, wide)) == [b"1", b"2", b"3", b"4", b"5"]
    assert bodies(hello(serving, narrow, place(b"two"))) == [b"3", b"5"]
    log.put((other, [b"6"]))
    effects = follow(serving, log)
    assert bodies(effects, place()) == bodies(effects, place(b"two")) == [b"6"]


def test_messages_come_with_their_numbers_positions_keys_and_headers() -> None:
    log = TopicsLog()
    topic = log.topic("plant.a")
    subscription = log.subscribe("s", "plant.a")
    log.put((topic, [b"", b"x" * 10]), extras={1: Extra(key=b"k", headers={"h": "v"})})
    serving = begun(log)
    log.put((topic, [b"late"]), extras={0: Extra(key=b"l")})
    (served,) = given(hello(serving, subscription))
    columns = served.messages
    assert columns.number.tolist() == [1, 2] and columns.sequence.tolist() == [3, 4]
    assert columns.at_ns.tolist() == [1_002, 1_002] and served.topics == {topic: "plant.a"}
    assert dict(columns.extras) == {1: Extra(key=b"k", headers={"h": "v"})}
    assert served.flags.tolist() == [REDELIVERED] * 2, "they were put before this member led"
    (later,) = given(follow(serving, log))
    assert (later.messages.number.tolist(), later.flags.tolist()) == ([3], [0])
    assert dict(later.messages.extras) == {0: Extra(key=b"l")}


def test_a_block_goes_whole_or_in_pieces_that_fit_the_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    log.put((topic, [b"%03d" % number for number in range(10)]))
    hello(serving, subscription, credit=150)
    effects = follow(serving, log)
    assert bodies(effects) == [b"000", b"001", b"002"], "a row takes 48 bytes"
    (first,) = given(effects)
    effects = ack(serving, BEGINNING, received=first.messages.last)
    assert bodies(effects) == [b"%03d" % number for number in range(3, 10)]


def test_an_acknowledgement_is_told_once_its_cursor_is_committed() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1", b"2", b"3"]))
    serving = begun(log)
    hello(serving, subscription)
    effects = ack(serving, Position(1, 4))
    (record,) = [one for one in effects if isinstance(one, RecordMoves)]
    assert record.moves == (CursorMoved(subscription, topic, 2),)
    assert not [one for one in effects if isinstance(one, Say)]
    assert serving.recorded(record.batch) == [Say(place(), FeedDone(durable=Position(1, 4), channel=1))]
    log.put(moves=record.moves)
    follow(serving, log)
    assert serving.tables.cursors.unread(subscription, topic) == 1
    assert bodies(hello(serving, subscription, place(b"two"))) == [b"3"], "acknowledged ones never come again"


def test_an_acknowledgement_within_a_piece_of_two_epochs_moves_its_cursor() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1", b"2", b"3"]))
    log.epoch = 2
    log.put((topic, [b"4"]))
    serving = begun(log)
    assert len(given(hello(serving, subscription))) == 1
    for count in (1, 2):
        (record,) = [one for one in ack(serving, Position(1, 2 + count)) if isinstance(one, RecordMoves)]
        assert record.moves == (CursorMoved(subscription, topic, count),)
        serving.recorded(record.batch)


def test_a_consumer_that_said_hello_twice_may_acknowledge_what_it_was_given_in_between() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1"]))
    serving = begun(log)
    assert bodies(hello(serving, subscription)) == [b"1"]
    assert bodies(hello(serving, subscription, credit=0)) == []
    assert bodies(hello(serving, subscription, credit=0)) == []
    effects = ack(serving, Position(1, 3))
    assert refusals(effects) == [] and bodies(effects) == [b"1"]
    (record,) = [one for one in effects if isinstance(one, RecordMoves)]
    assert record.moves == (CursorMoved(subscription, topic, 1),)


def test_a_hello_of_a_line_that_its_program_has_left_takes_nobodys_place() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    for at, line in ((place(b"new"), 2), (place(b"old"), 1)):
        asked = FeedHello(follower="f", subscription_id=subscription, channel=1, program=7, line=line)
        assert refusals(serving.hello(at, asked, WHO, LOG_ID)) == []
    log.put((topic, [b"1"]))
    assert bodies(follow(serving, log), place(b"new")) == [b"1"]
    other = FeedHello(follower="f", subscription_id=subscription, channel=1, program=8, line=1)
    assert refusals(serving.hello(place(b"other"), other, WHO, LOG_ID)) == [(place(b"new"), RefusalCode.SUPERSEDED)]


def test_what_many_acknowledge_while_batches_are_under_way_becomes_one() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscriptions = [log.subscribe(f"s{number}", "t") for number in range(5)]
    log.put((topic, [b"1"]))
    serving = begun(log)
    batches = []
    for number, subscription in enumerate(subscriptions):
        hello(serving, subscription, place(channel=number))
        batches += [one for one in ack(serving, Position(1, 7), place(channel=number)) if isinstance(one, RecordMoves)]
    assert [len(one.moves) for one in batches] == [1], "one is under way, the others wait"
    told = [*serving.recorded(batches[0].batch), *serving.serve()]
    (joined,) = [one for one in told if isinstance(one, RecordMoves)]
    assert len(joined.moves) == 4
    assert len(serving.recorded(joined.batch)) == 4


def test_a_later_consumer_takes_the_place_of_an_earlier_one() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    hello(serving, subscription)
    assert refusals(hello(serving, subscription, place(b"two"))) == [(place(), RefusalCode.SUPERSEDED)]
    log.put((topic, [b"1"]))
    effects = follow(serving, log)
    assert bodies(effects, place(b"two")) == [b"1"] and not bodies(effects, place())
    assert len(serving) == 1


def test_what_was_given_and_not_acknowledged_comes_again_marked() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    hello(serving, subscription)
    log.put((topic, [b"1"]))
    follow(serving, log)
    serving.lost("topics", b"one")
    log.put((topic, [b"2"]))
    follow(serving, log)
    effects = hello(serving, subscription, place(b"two"))
    assert bodies(effects) == [b"1", b"2"]
    assert [one.flags.tolist() for one in given(effects)] == [[REDELIVERED], [0]]


def test_what_was_acknowledged_on_another_link_is_told_once_it_was_given_here() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1", b"2"]))
    serving = begun(log)
    known = Position(1, 4)
    asked = FeedHello(follower="f", subscription_id=subscription, credit_bytes=CREDIT, channel=1, position=known)
    serving.hello(place(), asked, WHO, LOG_ID)
    serving.ack(place(), FeedAck(received=known, durable=known, credit_bytes=CREDIT))
    assert not serving._unsaid, "nothing was given here yet"
    effects = serving.serve()
    assert bodies(effects) == [b"1", b"2"]
    (record,) = [one for one in effects if isinstance(one, RecordMoves)]
    assert record.moves == (CursorMoved(subscription, topic, 2),)
    assert serving.recorded(record.batch) == [Say(place(), FeedDone(durable=known, channel=1))]


def test_nobody_is_served_who_may_not_or_by_a_member_that_does_not_lead() -> None:
    log = TopicsLog()
    log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    assert refusals(hello(serving, 99)) == [(place(), RefusalCode.UNKNOWN_NAME)]
    assert refusals(hello(serving, subscription, who="other")) == [(place(), RefusalCode.NOT_OWNER)]
    hello(serving, subscription)
    assert refusals(serving.stands_by()) == [(place(), RefusalCode.NOT_HOLDER)]
    assert refusals(hello(serving, subscription)) == [(place(), RefusalCode.NOT_HOLDER)]
    assert len(serving) == 0


def test_an_acknowledgement_of_what_was_never_given_ends_the_consumer() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1"]))
    serving = begun(log)
    hello(serving, subscription)
    assert refusals(ack(serving, Position(1, 9))) == [(place(), RefusalCode.MALFORMED)]
    assert serving.ack(place(), FeedAck(received=BEGINNING, durable=BEGINNING, credit_bytes=1)) == []


def test_consumers_are_told_when_their_subscription_or_its_last_topic_is_gone() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    named, wild = log.subscribe("named", "t"), log.subscribe("wild", "*")
    serving = begun(log)
    hello(serving, named)
    hello(serving, wild, place(b"two"))
    log.state(TopicDropped(topic_id=topic), Unsubscribed(subscription_id=named))
    log.put((topic, [b"late"]))
    effects = follow(serving, log)
    assert refusals(effects) == [(place(), RefusalCode.UNKNOWN_NAME)] and not bodies(effects)
    again = log.topic("t")
    log.put((again, [b"1"]))
    assert bodies(follow(serving, log)) == [b"1"], "a pattern means the topic that was made again"


def test_a_consumer_that_does_not_acknowledge_is_given_no_more_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNACKNOWLEDGED_MAX", 5)
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    hello(serving, subscription)
    effects = []
    for _ in range(4):
        log.put((topic, [b"1", b"2", b"3"]))
        effects += follow(serving, log)
    assert len(bodies(effects)) == 6
    (last,) = [one.message.last for one in effects[-1:] if isinstance(one, Say) and isinstance(one.message, FeedData)]
    assert len(bodies(ack(serving, last))) == 6


def test_older_messages_are_read_from_files_where_there_are_any() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"1", b"2"]))
    serving = begun(log)
    (block,) = serving.tail.behind(0)
    stored = block.messages
    serving.tail.let_go(block.last)
    serving.stored_counts = {topic: 2}
    log.put((topic, [b"3"]))
    follow(serving, log)
    effects = hello(serving, subscription)
    (read,) = [one for one in effects if isinstance(one, ReadStored)]
    assert (dict(read.wanted), read.after, read.up_to) == ({topic: 0}, 0, block.last.sequence)
    assert bodies(serving.serve()) == [], "one reading at a time"
    effects = [*serving.stored(place(), stored, block.last.sequence), *serving.serve()]
    assert bodies(effects) == [b"1", b"2", b"3"]
    alive = [one.message for one in effects if isinstance(one, Say) and isinstance(one.message, FeedAlive)]
    assert not alive or alive[0].scanned >= block.last.sequence
    assert isinstance(serving.tail, MessageTail)


def test_what_was_given_stays_marked_though_less_of_it_was_given_since() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    serving = begun(log)
    log.put((topic, [b"1", b"2", b"3"]))
    follow(serving, log)
    hello(serving, subscription)
    assert bodies(hello(serving, subscription, place(b"two"), credit=60)) == [b"1"]
    (served,) = given(hello(serving, subscription, place(b"three")))
    assert served.flags.tolist() == [REDELIVERED] * 3


def test_a_consumer_may_come_before_the_record_of_its_subscription() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    serving = begun(log)
    subscription = log.subscribe("s", "t")
    asked = FeedHello(
        follower="f", subscription_id=subscription, credit_bytes=CREDIT, channel=1, not_before=Position(1, log.end)
    )
    assert serving.hello(place(), asked, WHO, LOG_ID) == []
    log.put((topic, [b"1"]))
    effects = follow(serving, log)
    assert refusals(effects) == [] and bodies(effects) == [b"1"]


def test_what_files_lack_for_now_is_waited_for_and_what_is_nowhere_is_told() -> None:
    log = TopicsLog()
    topic = log.topic("t")
    subscription = log.subscribe("s", "t")
    log.put((topic, [b"%d" % number for number in range(6)]))
    serving = begun(log)
    serving.tail.let_go(serving.tail.end)
    serving.files_changed({topic: 6})
    effects = hello(serving, subscription)
    (read,) = [one for one in effects if isinstance(one, ReadStored)]
    assert serving.stored(place(), None, read.after, is_lacking=True) == [] and not serving.is_due
    log.put((topic, [b"6"]))
    assert bodies(follow(serving, log)) == [], "nothing is skipped"
    serving.files_changed({topic: 6})
    (again,) = [one for one in served(serving) if isinstance(one, ReadStored)]
    assert again == read or again.wanted == read.wanted
    effects = [*serving.stored(place(), None, again.up_to), *served(serving)]
    (found,) = given(effects)
    assert bodies(effects) == [b"6"] and found.lost == {0: 6}
