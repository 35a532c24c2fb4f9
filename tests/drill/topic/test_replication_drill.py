"""Topics that are kept with one member: what a takeover leaves of them, and how that is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.client import Client, NodeRefused, connect
from albireo.machine.producer.sending import Acknowledged
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.snapshot_drill import members
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

HERE, MOMENT, BOTH = "plant.here", "plant.moment", "plant.both"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write('\n[node.replication]\nown_puts = "configuration"\n')
    try:
        made.start(*VOTERS, *MEMBERS)
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
        yield made
    finally:
        made.end()


def is_level(pair: Pair) -> None:
    """On a busy machine a member leaves the set for a moment: then a receipt is of one member."""
    until(lambda: sorted(pair.states().values()) == ["active", "ready"], lambda: f"{pair.states()}")


def has_both(one: Acknowledged) -> bool:
    return (one.durability, len(one.members)) == ("both", 2)


def bodies(client: Client, topic: str, count: int) -> list[tuple[bytes, int]]:
    """The next messages, acknowledged: their bodies, and how many were lost before each."""
    with client.topics.consumer(topic, subscriber="reader") as consumer:
        found = []
        for message in consumer.messages(PATIENCE_S):
            found.append((message.body, message.lost_before))
            if len(found) == count:
                break
        consumer.acknowledge(message)
    return found


def test_an_operator_sees_topics_and_who_reads_them_at_the_passive_member(pair: Pair) -> None:
    (passive,) = set(MEMBERS) - {pair.acting()}
    with connect(members(pair), timeout_s=PATIENCE_S, name="mes") as client:
        client.topics.create(BOTH)
        client.topics.subscribe(BOTH, subscriber="reader")
        for number in range(3):
            client.topics.put(BOTH, b"%d" % number)
    until(lambda: unread_at(pair, passive) == [3], lambda: f"{pair.run('topic', 'show', BOTH, member=passive)}")
    code, answer = pair.run("topic", "list", member=passive)
    assert (code, [(one["name"], one["count"]) for one in answer["topics"]]) == (0, [(BOTH, 3)])
    code, answer = pair.run("topic", "get", BOTH, "--subscriber", "reader", member=passive)
    assert (code, "not_holder" in str(answer)) == (1, True), "messages come from the member that leads only"
    assert unread_at(pair, passive) == [3]


def unread_at(pair: Pair, member: str) -> list[int]:
    """Messages that each reader of BOTH has still to read, as this member sees it."""
    code, answer = pair.run("topic", "show", BOTH, member=member)
    return [one["unread"] for one in answer["readers"]] if code == 0 else []


def test_a_takeover_leaves_what_each_topic_was_declared_to_be(pair: Pair) -> None:
    acting = pair.acting()
    with connect(members(pair), timeout_s=PATIENCE_S, name="mes") as client:
        topics = client.topics
        for name, replication in ((HERE, "configuration"), (MOMENT, "none"), (BOTH, None)):
            topics.create(name, replication=replication)
            topics.subscribe(name, subscriber="reader")
        for number in range(4):
            receipts = [topics.put(name, b"%d" % number) for name in (HERE, MOMENT, BOTH)]
        assert [(one.durability, len(one.members)) for one in receipts[:2]] == [("local", 1), ("local", 1)]
        assert bodies(client, HERE, 2) == [(b"0", 0), (b"1", 0)]
        with pytest.raises(NodeRefused, match="kept with one member only"), client.transaction() as tx:
            tx.put(HERE, b"x")
            tx.put(BOTH, b"y")
        is_level(pair)
        until(lambda: has_both(topics.put(BOTH, b"4")), lambda: "no receipt of both members")
        pair.lose(acting)
        assert bodies(client, BOTH, 4) == [(b"%d" % number, 0) for number in range(4)]
        assert {one.name for one in topics.all()} == {HERE, BOTH}, "the topic ended with its member"
        with pytest.raises(NodeRefused, match="no topic"):
            topics.put(MOMENT, b"x")
        topics.put(HERE, b"4")
        assert bodies(client, HERE, 1) == [(b"4", 2)], "two that only the other member had"
        pair.start(acting)
        is_level(pair)
        assert topics.readers(HERE)[0].unread == 0
