"""Topics of a pair of ours: both members, with CURVE, as they are."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import psutil

from albireo.client import Acknowledged, Client, connect
from albireo.client.putting import TopicPutting
from albireo.runtime.link.lines import LineTo
from bench._pair import MEMBERS, Pair, running_pair
from bench.brokers import BODY, Broker, Takeover, judged

TOPIC: Final = "bench"
READER: Final = "reader"


class Ours(Broker):
    name = "Albireo, pair"
    survives = "the loss of either machine, and of power on both: synced on both disks"

    def __init__(self, pair: Pair, client: Client) -> None:
        self.pair = pair
        self.client = client

    def processes(self) -> Sequence[psutil.Process]:
        return [one for name in self.pair.processes for one in self.pair.family(name)]

    def begin(self, bodies: Sequence[bytes]) -> "Future[Acknowledged]":
        """A put on its way."""
        return self.client.converse(TopicPutting(self.client._core, [(TOPIC, bodies)]).offered())

    def put(self, batch: int, in_flight: int, seconds: float) -> list[float]:
        bodies, ends = [BODY] * batch, time.perf_counter() + seconds
        under_way: deque[tuple[Future[Acknowledged], float]] = deque()
        times: list[float] = []
        while under_way or time.perf_counter() < ends:
            while len(under_way) < in_flight and time.perf_counter() < ends:
                under_way.append((self.begin(bodies), time.perf_counter()))
            future, began = under_way.popleft()
            future.result(30.0)
            times.append(time.perf_counter() - began)
        return times

    def consume(self, count: int) -> None:
        with self.client.topics.consumer(TOPIC, subscriber=READER) as consumer:
            while count > 0:
                found = consumer.take(30.0)
                assert found, f"{count} messages did not come"
                count -= len(found)
                consumer.acknowledge(found[-1], waits=count <= 0)

    def takeover(self, seconds: float) -> Takeover:
        acked: list[int] = []
        times = [time.perf_counter()]
        ends = time.perf_counter() + seconds
        killed: list[str] = []

        def kill() -> None:
            leader = self.pair.wait_until_whole()
            self.pair.kill(leader)
            killed.append(leader)

        killer = threading.Timer(seconds / 2, kill)
        killer.start()
        number = 0
        while time.perf_counter() < ends:
            number += 1
            self.client.topics.put("takeover", b"%d" % number)
            acked.append(number)
            times.append(time.perf_counter())
        killer.join()
        assert killed, "nobody was killed"
        there: list[int] = []
        with self.client.topics.consumer("takeover", subscriber=READER) as consumer:
            while found := consumer.take(3.0):
                there += [int(one.body) for one in found]
                consumer.acknowledge(found[-1])
        return judged(times, acked, there)


@contextlib.contextmanager
def ours(directory: Path) -> Iterator[Ours]:
    """A pair and its client."""
    with running_pair(directory) as pair:
        with connect(pair.data(pair.wait_until_whole())) as admin:
            for name in (TOPIC, "takeover"):
                admin.topics.create(name)
        members = [LineTo(pair.clients[name], pair.place(name)) for name in MEMBERS]
        with connect(members, keys=pair.keys, timeout_s=30.0, name="bench") as client:
            for name in (TOPIC, "takeover"):
                client.topics.subscribe(name, subscriber=READER)
            yield Ours(pair, client)
