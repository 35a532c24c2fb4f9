"""Consumers on a pair of real processes: each message once, in order, though the serving member is killed with -9."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.client import Client, Sharing, connect
from tests.long_form import some
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.snapshot_drill import members
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

EVENTS = "plant.events"
COUNT = 200


@pytest.fixture(params=some(["no keys", "keys"], 2))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, has_keys=request.param == "keys", programs=("mes",) if request.param == "keys" else ())
    try:
        made.start(*VOTERS, *MEMBERS)
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
        yield made
    finally:
        made.end()


def connected(pair: Pair) -> Client:
    keys = pair.home / "keys" / "mes"
    return connect(members(pair), keys=keys if keys.is_dir() else None, timeout_s=PATIENCE_S, name="mes")


def test_each_message_is_read_once_and_in_order_though_the_serving_member_is_killed(pair: Pair) -> None:
    acting = pair.acting()
    with connect(pair.data(acting)) as admin:
        admin.topics.create(EVENTS)
    with connected(pair) as client:
        client.topics.subscribe(EVENTS, subscriber="billing")
        half = threading.Event()

        def put() -> None:
            for number in range(COUNT):
                client.topics.put(EVENTS, b"%d" % number)
                if number == COUNT // 2:
                    half.set()

        producer = threading.Thread(target=put)
        producer.start()
        got: list[int] = []
        for message in client.topics.messages(EVENTS, subscriber="billing", timeout_s=PATIENCE_S):
            got.append(int(message.body))
            assert message.number == len(got)
            if half.is_set():
                half.clear()
                pair.lose(acting)
            if len(got) == COUNT:
                break
        producer.join(PATIENCE_S)
        assert got == list(range(COUNT))
        with client.topics.consumer(EVENTS, subscriber="billing") as consumer:
            (last,) = consumer.take(PATIENCE_S)
            assert int(last.body) == COUNT - 1, "the last one was given, and is not acknowledged"
            consumer.acknowledge(last)
        assert [one.unread for one in client.topics.readers(EVENTS)] == [0]


def test_each_job_is_done_by_one_worker_though_members_and_workers_are_killed(pair: Pair) -> None:
    acting = pair.acting()
    with connect(pair.data(acting)) as admin:
        admin.topics.create(EVENTS)
    with connected(pair) as client:
        client.topics.subscribe(EVENTS, subscriber="crew", shared=Sharing(lease_s=3))
        client.topics.put_many(EVENTS, [b"%d" % number for number in range(COUNT)])
        done: list[int] = []
        lock = threading.Lock()

        def work(how_many: int) -> None:
            """Do so many jobs, then leave as a program does that is killed: with messages that are not acknowledged."""
            with connected(pair) as own:
                consumer = own.topics.consumer(EVENTS, subscriber="crew", at_once=8)
                for message in consumer.take(PATIENCE_S)[:how_many]:
                    consumer.acknowledge(message)
                    with lock:
                        done.append(message.number)

        first = [threading.Thread(target=work, args=(3,)) for _ in range(3)]
        for one in first:
            one.start()
        until(lambda: len(done) > 2, lambda: f"{len(done)} are done")
        pair.lose(acting)
        for one in first:
            one.join(PATIENCE_S)
        with client.topics.consumer(EVENTS, subscriber="crew", at_once=100) as consumer:
            while len(done) < COUNT:
                found = consumer.take(PATIENCE_S)
                assert found, f"{len(done)} are done"
                for message in found:
                    consumer.acknowledge(message)
                    done.append(message.number)
        assert sorted(done) == list(range(1, COUNT + 1)), "each once"
        assert [(one.unread, one.leased) for one in client.topics.readers(EVENTS)] == [(0, 0)]
