"""Topics and subscriptions: what CORE answers, records and folds, and what the passive member folds of the head."""

from typing import Any, Final

import msgspec
import pytest

from albireo.codec.frame import Frame, body_crc
from albireo.codec.message import (
    Answer,
    Append,
    Appended,
    AppendEntry,
    AppendRefused,
    Ask,
    ProducerHello,
    ProducerWelcome,
)
from albireo.codec.puts import CursorMoved, decode_head, encode_puts, record_count_of
from albireo.codec.record import Audited, Kind, Stream
from albireo.codec.topic_records import TopicDeclared
from albireo.machine.answers import topics as answers
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND
from albireo.model.refusal import RefusalCode
from albireo.model.topic import Subscription, Topic, TopicPolicy, WhenFull
from tests.parts.refusals import refused_with
from tests.parts.root import World, hello

EVENTS: Final = "plant.events"
Batch = list[tuple[int, list[bytes]]]


def created(world: World, name: str = EVENTS) -> Topic:
    return msgspec.convert(world.ask("topic_create", name=name).result, Topic)


def subscribed(world: World, subscriber: str, *patterns: str) -> Subscription:
    return msgspec.convert(world.ask("subscribe", subscriber=subscriber, patterns=patterns).result, Subscription)


def put(world: World, welcome: ProducerWelcome, number: int, messages: Batch, *moves: CursorMoved) -> None:
    body = encode_puts(welcome.producer_id, number, messages, moves)
    count = record_count_of(decode_head(body))
    world.letter(b"plc", Append(entries=(AppendEntry(Stream.PUTS, Kind.PUTS, count, body_crc(body)),)), [body])
    world.sync()


def unread(world: World, name: str = EVENTS) -> dict[str, int]:
    """By subscriber."""
    rows: Any = world.ask("topic_readers", name=name).result
    return {one["subscription"]["subscriber"]: one["unread"] for one in msgspec.to_builtins(rows)}


def test_a_topic_is_declared_once_and_told_with_what_was_put_to_it() -> None:
    world = World()
    topic = created(world)
    assert created(world) == topic
    assert len(world.records(TopicDeclared)) == 1
    put(world, hello(world), 1, [(topic.topic_id, [b"door open", b"door shut"])])
    (told,) = world.take(Appended)
    assert isinstance(told, Appended) and told.position == world.end
    (row,) = msgspec.convert(world.ask("topics").result, list[Topic])
    assert (row.name, row.topic_id, row.count, row.size_bytes) == (EVENTS, topic.topic_id, 2, 18)
    assert [one.action for one in world.records(Audited) if isinstance(one, Audited)] == ["topic_created"]


def test_a_subscription_gets_what_is_put_behind_it_also_to_topics_that_come_later() -> None:
    world = World()
    topic, welcome = created(world), hello(world)
    put(world, welcome, 1, [(topic.topic_id, [b"before"])])
    subscribed(world, "billing", EVENTS)
    subscribed(world, "archive", "plant.>")
    other = created(world, "plant.alarms.north")
    put(world, welcome, 2, [(topic.topic_id, [b"1", b"2"]), (other.topic_id, [b"3"]), (topic.topic_id, [b"4"])])
    assert unread(world) == {"billing": 3, "archive": 3}
    assert unread(world, other.name) == {"archive": 1}


def test_a_cursor_moves_with_the_frame_that_says_so_and_never_back() -> None:
    world = World()
    topic, welcome = created(world), hello(world)
    number = subscribed(world, "billing", EVENTS).subscription_id
    put(world, welcome, 1, [(topic.topic_id, [b"x"] * 5)])

    def moved(batch: int, low: int, *done: tuple[int, int]) -> int:
        put(world, welcome, batch, [], CursorMoved(number, topic.topic_id, low, done))
        return unread(world)["billing"]

    assert moved(2, 0, (3, 3)) == 4
    assert moved(3, 2) == 2, "1 to 3 are done"
    assert moved(4, 1) == 2
    assert moved(5, 99) == 0, "nothing above the last message is done"
    put(world, welcome, 6, [(topic.topic_id, [b"y"])])
    assert unread(world)["billing"] == 1
    put(world, welcome, 7, [], CursorMoved(number + 1, topic.topic_id, 9), CursorMoved(number, 1, 9))
    assert unread(world)["billing"] == 1, "what nobody has is passed over"


def test_a_message_to_a_topic_that_is_not_there_is_refused_with_all_that_come_with_it() -> None:
    world = World()
    topic, welcome = created(world), hello(world)
    end = world.end
    put(world, welcome, 1, [(topic.topic_id, [b"x"]), (999, [b"y"])])
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert (refused.refusal.code, refused.producer_sequence) == (RefusalCode.UNKNOWN_TOPIC, 1)
    assert world.end == end
    put(world, welcome, 1, [(topic.topic_id, [b"x"])])
    assert len(world.take(Appended)) == 1, "its number is free"


def test_a_topic_that_is_made_again_is_another_one() -> None:
    """Who subscribed by its name alone does so no more; a pattern goes on with the new one, from its first message."""
    world = World()
    topic, welcome = created(world), hello(world)
    other = created(world, "plant.doors")
    subscribed(world, "billing", EVENTS)
    subscribed(world, "archive", "plant.*")
    subscribed(world, "both", EVENTS, other.name)
    put(world, welcome, 1, [(topic.topic_id, [b"x"])])
    assert msgspec.convert(world.ask("topic_delete", name=EVENTS).result, Topic).count == 1
    assert "no topic" in refused_with(world.ask("topic_readers", name=EVENTS))
    assert unread(world, other.name) == {"archive": 0, "both": 0}
    again = created(world)
    assert again.topic_id != topic.topic_id and again.count == 0
    put(world, welcome, 2, [(topic.topic_id, [b"late"])])
    assert len(world.take(AppendRefused)) == 1
    put(world, welcome, 2, [(again.topic_id, [b"new"])])
    assert unread(world) == {"archive": 1, "both": 1}


def test_changes_of_one_topic_wait_for_each_other() -> None:
    world = World()
    for number in (1, 2):
        world.letter(b"cli", Ask(request_id=number, what="topic_create", arguments={"name": EVENTS}))
    (refused,) = world.take(Answer)
    assert isinstance(refused, Answer) and refused.request_id == 2
    assert "is being changed" in refused_with(refused)
    world.sync()
    (made,) = world.take(Answer)
    assert isinstance(made, Answer) and made.refusal is None
    assert len(world.records(TopicDeclared)) == 1


def test_a_topic_and_a_subscriber_of_one_name_are_two_things() -> None:
    world = World()
    created(world, "billing")
    created(world, "other")
    world.letter(b"cli", Ask(1, "subscribe", {"subscriber": "billing", "patterns": ["other"]}))
    world.letter(b"cli", Ask(2, "topic_delete", {"name": "billing"}))
    world.sync()
    assert [one.refusal for one in world.take(Answer) if isinstance(one, Answer)] == [None, None]


@pytest.mark.parametrize("first", ["subscribe", "other"])
def test_a_topic_is_not_deleted_while_who_reads_it_is_not_decided(first: str) -> None:
    world = World()
    created(world)
    created(world, "other")
    asked: dict[str, object] = {"subscriber": "billing", "patterns": [EVENTS, "other"]}
    if first == "subscribe":
        world.letter(b"cli", Ask(1, "subscribe", asked))
    else:
        subscribed(world, "billing", EVENTS, "other")
        world.letter(b"cli", Ask(1, "topic_delete", {"name": "other"}))
    world.letter(b"cli", Ask(2, "topic_delete", {"name": EVENTS}))
    (refused,) = world.take(Answer)
    assert isinstance(refused, Answer) and refused.request_id == 2
    assert "is being changed" in refused_with(refused)
    world.sync()
    world.take(Answer)
    for name in (EVENTS, "other")[: 2 if first == "subscribe" else 1]:
        world.ask("topic_delete", name=name)
    assert world.root.folds.of(Subscriptions).owner("billing") is None


def test_a_subscription_ends_when_its_subscriber_says_so() -> None:
    world = World()
    created(world)
    one = subscribed(world, "billing", EVENTS)
    assert subscribed(world, "billing", EVENTS) == one
    world.ask("unsubscribe", subscriber="billing", patterns=[EVENTS])
    assert unread(world) == {}
    assert "no subscription" in refused_with(world.ask("unsubscribe", subscriber="billing", patterns=[EVENTS]))
    assert "no topic 'nothing'" in refused_with(world.ask("subscribe", subscriber="billing", patterns=["nothing"]))
    assert subscribed(world, "billing", EVENTS).subscription_id > one.subscription_id


def test_the_name_of_a_subscriber_belongs_to_its_principal() -> None:
    world = World()
    created(world)
    grants = {"anna@desk": AccessRole.OPERATE, "mes-1": AccessRole.OPERATE, "boss": AccessRole.ADMIN}
    world.step(KeysListed({name: RoleGrant(role) for name, role in grants.items()}))

    def said(principal: str, what: str) -> str:
        asked: dict[str, object] = {"subscriber": "billing", "patterns": [EVENTS]}
        world.letter(b"x", Ask(request_id=1, what=what, arguments=asked), principal=principal)
        world.sync()
        (answer,) = world.take(Answer)
        assert isinstance(answer, Answer)
        return "" if answer.refusal is None else answer.refusal.code

    assert said("anna@desk", "subscribe") == ""
    assert said("mes-1", "subscribe") == said("mes-1", "unsubscribe") == RefusalCode.ACCESS
    assert said("boss", "unsubscribe") == ""
    assert said("mes-1", "subscribe") == "", "nobody has the name any more"


def test_nobody_moves_the_cursor_of_another_principal_save_the_node_itself() -> None:
    world = World()
    topic = created(world)
    world.step(KeysListed({one: RoleGrant(AccessRole.OPERATE) for one in ("anna@desk", "mes-1")}))
    asked: dict[str, object] = {"subscriber": "billing", "patterns": [EVENTS]}
    world.letter(b"x", Ask(request_id=1, what="subscribe", arguments=asked), principal="anna@desk")
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    number = msgspec.convert(answer.result, Subscription).subscription_id
    put(world, hello(world), 1, [(topic.topic_id, [b"x"] * 4)])

    def moved(principal: str, low: int) -> str:
        """Code of the refusal of a producer of this principal."""
        sender = principal.encode()
        world.letter(sender, ProducerHello(producer=f"reader_{low}", items=(), run=1), principal=principal)
        world.sync()
        (welcome,) = world.take(ProducerWelcome)
        assert isinstance(welcome, ProducerWelcome)
        body = encode_puts(welcome.producer_id, 1, [], [CursorMoved(number, topic.topic_id, low)])
        entry = AppendEntry(Stream.PUTS, Kind.PUTS, 1, body_crc(body))
        world.letter(sender, Append(entries=(entry,)), [body], principal=principal)
        world.sync()
        return "".join(one.refusal.code for one in world.take(AppendRefused) if isinstance(one, AppendRefused))

    assert moved("mes-1", 4) == RefusalCode.NOT_OWNER and unread(world)["billing"] == 4
    assert moved("anna@desk", 1) == "" and unread(world)["billing"] == 3
    assert moved("local:0", 2) == "" and unread(world)["billing"] == 2


def test_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TOPICS_MAX", 2)
    monkeypatch.setattr(answers, "SUBSCRIPTIONS_MAX", 1)
    world = World()
    created(world)
    created(world, "a")
    assert "there are 2 topics" in refused_with(world.ask("topic_create", name="b"))
    subscribed(world, "billing", ">")
    assert "there are 1 subscriptions" in refused_with(world.ask("subscribe", subscriber="x", patterns=[">"]))


def test_topics_times_subscriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CURSORS_MAX", 3)
    world = World()
    created(world)
    created(world, "a")
    subscribed(world, "billing", ">")
    assert "narrower" in refused_with(world.ask("subscribe", subscriber="x", patterns=[">"]))
    subscribed(world, "x", "a")
    assert "narrower" in refused_with(world.ask("topic_create", name="b"))


def test_the_passive_member_and_a_restart_have_the_same_from_the_heads_alone() -> None:
    world = World()
    topic, welcome = created(world), hello(world)
    number = subscribed(world, "billing", "plant.>").subscription_id
    subscribed(world, "archive", EVENTS)
    put(world, welcome, 1, [(topic.topic_id, [b"message"] * 9)], CursorMoved(number, topic.topic_id, 2, ((4, 5),)))
    created(world, "plant.doors")
    folds = Folds()
    for frame in world.frames:
        body = frame.body
        if frame.header.stream == Stream.PUTS:
            body = body[: bytes(body).index(b"message") - 4 * 9]
        folds.replay(Frame(frame.header, body))
    assert folds.unreadable == 0, "what lies behind the head is not looked at"
    assert folds.snapshot() == world.root.folds.snapshot()
    again = Folds.restore(folds.snapshot(), 0)
    assert again.snapshot() == folds.snapshot()
    assert again.of(Topics).named(EVENTS) == folds.of(Topics).named(EVENTS)
    assert again.of(Cursors).unread(number, topic.topic_id) == 5
    assert again.of(Cursors).readers(topic.topic_id) == folds.of(Cursors).readers(topic.topic_id)
    assert again.of(Subscriptions).owner("archive") == folds.of(Subscriptions).owner("archive") == "local:0"
    assert [one.subscriber for one in again.of(Subscriptions).to("plant.doors")] == ["billing"]


def test_a_blocked_producer_hears_which_subscription_holds_it_up_and_for_how_long() -> None:
    world = World()
    policy = TopicPolicy(max_messages=1, when_full=WhenFull.BLOCK)
    topic = msgspec.convert(world.ask("topic_create", name=EVENTS, policy=policy).result, Topic)
    slow, welcome = subscribed(world, "slow", EVENTS), hello(world)
    put(world, welcome, 1, [(topic.topic_id, [b"1"])])
    for seconds in (0, 7):
        world.pass_time(seconds * SECOND)
        put(world, welcome, 2, [(topic.topic_id, [b"2"])])
        (refused,) = world.take(AppendRefused)
        assert isinstance(refused, AppendRefused) and refused.refusal.code == RefusalCode.HELD_UP
        assert refused.refusal.cause.endswith(f"1 messages are not acknowledged by 'slow', for {seconds} s")
    put(world, welcome, 2, [], CursorMoved(slow.subscription_id, topic.topic_id, 1))
    put(world, welcome, 3, [(topic.topic_id, [b"2"])])
    world.pass_time(3 * SECOND)
    put(world, welcome, 4, [(topic.topic_id, [b"3"])])
    refused = world.take(AppendRefused)[-1]
    assert isinstance(refused, AppendRefused) and refused.refusal.cause.endswith("for 0 s"), "it begins anew"
