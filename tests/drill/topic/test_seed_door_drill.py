"""Section 1.7 of the first publish/subscribe, played on ours: the server that answered is killed, and nothing is lost.

There what was answered within the last five seconds is gone with the server. Here the door of the other member goes on
with all of it. What the protocol must double, since its requests have no identity, is counted apart: a PUT or a GET
whose answer the client missed.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from albireo.client import connect
from tests.parts.port import free_ports
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.seed_client import SeedClient

pytestmark = [pytest.mark.drill, pytest.mark.slow]

NEWS = b"news"
COUNT = 300
TIMEOUT_MS, SETTLE_MS = 700, 50


class SeedPair:
    """A pair with a door beside each member."""

    def __init__(self, home: Path, patience_ms: int) -> None:
        ports = free_ports(2)
        self.doors = [f"tcp://127.0.0.1:{one}" for one in ports]
        self.pair = Pair(
            home,
            adapters="".join(
                f'[[node.face]]\nname = "door-{name}"\nkind = "pubsub"\nmember = "{name}"\nbind = "{door}"\n'
                f"patience_ms = {patience_ms}\n"
                for name, door in zip(MEMBERS, self.doors, strict=True)
            ),
        )


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[SeedPair]:
    made = SeedPair(tmp_path, patience_ms=500)
    try:
        made.pair.start(*VOTERS, *MEMBERS)
        until(lambda: made.pair.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
        yield made
    finally:
        made.pair.end()


def test_what_was_answered_is_there_though_the_server_is_killed(
    seed: SeedPair, record_property: Callable[[str, object], None]
) -> None:
    pair = seed.pair
    acting = pair.acting()
    producer, reader, late = (SeedClient(seed.doors, port, TIMEOUT_MS, SETTLE_MS) for port in (5556, 5557, 5558))
    assert reader.subscribe(NEWS) == b"ACK [SUCCESS]: SUBSCRIBE is DONE"
    assert late.subscribe(NEWS) == b"ACK [SUCCESS]: SUBSCRIBE is DONE"
    half = threading.Event()
    missed: set[int] = set()

    def put() -> None:
        for number in range(COUNT):
            before = producer.resent
            assert producer.put(NEWS, b"%d" % number) == b"ACK [SUCCESS]: PUT is DONE"
            if producer.resent > before:
                missed.add(number)
            if number == COUNT // 2:
                half.set()

    thread = threading.Thread(target=put)
    thread.start()
    got: list[int] = []
    again = 0
    while thread.is_alive() or len(set(got)) < COUNT:
        if half.is_set():
            half.clear()
            pair.lose(acting)
        before = reader.resent
        if (message := reader.get(NEWS)) is None:
            assert thread.is_alive(), f"lost: {set(range(COUNT)) - set(got)}"
            continue
        got.append(int(message))
        again += reader.resent - before
    thread.join()
    assert not half.is_set(), "the member was killed in the middle"
    everything: list[int] = []
    while (message := late.get(NEWS)) is not None:
        everything.append(int(message))
    assert list(dict.fromkeys(everything)) == list(range(COUNT)), "0 lost, and in order, for who reads after it all"
    stored = Counter(everything)
    assert {number for number, count in stored.items() if count > 1} <= missed, (
        "only what was asked for again is double"
    )
    twice = Counter(got) - stored
    assert set(got) == set(range(COUNT)) and twice.total() <= again, f"read twice: {twice}, answers missed: {again}"
    (survivor,) = set(MEMBERS) - {acting}
    with connect(pair.data(survivor)) as client:
        until(
            lambda: all(one.unread == 0 for one in client.topics.readers(NEWS.decode())),
            lambda: "the last answer settles",
        )
    doubled = {"stored_twice": len(everything) - COUNT, "read_twice": twice.total(), "answers_missed": again}
    for name, count in doubled.items():
        record_property(name, count)
    for one in (producer, reader, late):
        one.close()
