"""Topics on a pair of real processes: what was put is there once, though the member that leads is killed with -9."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.client import Client, connect
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.snapshot_drill import members
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

EVENTS = "plant.events"
THREADS, EACH = 4, 25


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        made.start(*VOTERS, *MEMBERS)
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
        yield made
    finally:
        made.end()


def unread(client: Client) -> dict[str, int]:
    return {one.subscription.subscriber: one.unread for one in client.topics.readers(EVENTS)}


def test_each_message_is_put_once_though_the_leading_member_is_killed(pair: Pair) -> None:
    acting = pair.acting()
    with connect(members(pair), timeout_s=PATIENCE_S, name="mes") as client:
        client.topics.create(EVENTS)
        client.topics.subscribe("plant.>", subscriber="billing")
        half = threading.Barrier(THREADS + 1)
        done: list[int] = []

        def put() -> None:
            for number in range(EACH):
                if number == EACH // 2:
                    half.wait(PATIENCE_S)
                client.topics.put(EVENTS, b"door open")
                done.append(number)

        threads = [threading.Thread(target=put) for _ in range(THREADS)]
        for one in threads:
            one.start()
        half.wait(PATIENCE_S)
        pair.lose(acting)
        for one in threads:
            one.join(PATIENCE_S)
        assert len(done) == THREADS * EACH
        (topic,) = client.topics.all()
        assert topic.count == THREADS * EACH, "nothing is lost, and nothing is there twice"
        assert unread(client) == {"billing": THREADS * EACH}
        pair.start(acting)
        until(lambda: sorted(pair.states().values()) == ["active", "ready"], lambda: f"{pair.states()}")
        client.topics.put(EVENTS, b"door shut")
        assert unread(client) == {"billing": THREADS * EACH + 1}
