"""Program of the drill: producers and consumers in one process, which is killed and begun again at any moment.

    python -m albireo.drill.chaos.program DIRECTORY KEYS INDEX LIFE ENDPOINT PLACE ENDPOINT PLACE

Each producer and each consumer is a client with a name of its own, in a thread. Producers end when the file `enough` is
there; everything ends with whoever started it.
"""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from albireo.client import Client, ClientError, TopicMessage, connect
from albireo.client.topic_consumer import TopicConsumer
from albireo.drill.chaos.history import Acked, Got, HistoryWriter, Settled, now_ns
from albireo.drill.chaos.judge import MADE
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

EVENTS: Final = ("chaos.events.a", "chaos.events.b")
SOURCE: Final = "chaos.source"
TARGET: Final = "chaos.target"
JOBS: Final = "chaos.jobs"
TOPICS: Final = (*EVENTS, SOURCE, TARGET, JOBS)
PRODUCERS: Final = 5
"""Producers of each program."""
READERS: Final = 3
"""Exclusive subscribers of each program, the last one by a pattern. Each program but the first has a worker, too, and
the first one a mover."""
SHARES: Final = (3, 3, 2, 1)
"""Parts of the messages that are put to each of these; a worker does 20 to 60 jobs a second, one after the other."""
CREW: Final = "crew"
MOVER: Final = "mover"
ENOUGH: Final = "enough"
PAUSE_S: Final = 0.1
"""Time between two puts of a producer."""
MOVED_MAX: Final = 20
"""Most messages of a transaction."""
AGAIN_S: Final = 0.2
TAKE_S: Final = 1.0


def reader_of(index: int, number: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Name of a subscriber, its patterns, and the topics that they mean."""
    if number == READERS - 1:
        return f"reader-{index}.{number}", ("chaos.events.>",), EVENTS
    topic = EVENTS[number % len(EVENTS)]
    return f"reader-{index}.{number}", (topic,), (topic,)


class Program:
    """One life of a program."""

    def __init__(self, directory: Path, keys: Path, index: int, life: int, places: Sequence[str]) -> None:
        self._directory = directory
        self._keys = Keys.load(keys)
        self._members = [LineTo(*places[:2]), LineTo(*places[2:])]
        self._index = index
        self._life = life
        self._history = HistoryWriter(directory / f"history-{index}.{life}")
        self._log = threading.Lock()

    def run(self) -> None:
        parts: list[Callable[[], None]] = [partial(self._produce, number) for number in range(PRODUCERS)]
        parts += [partial(self._read, number) for number in range(READERS)]
        parts.append(self._work if self._index else self._move)
        for part in parts:
            threading.Thread(target=part, daemon=True).start()
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(AGAIN_S)
        os._exit(0)

    def _client(self, name: str) -> Client:
        return connect(self._members, keys=self._keys, name=name, waits=False)

    def _again(self, name: str, attempt: Callable[[Client], None]) -> None:
        """Go on with a new client after each error, until an attempt returns."""
        while True:
            try:
                with self._client(name) as client:
                    attempt(client)
                    return
            except ClientError as error:
                with self._log:
                    sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
                time.sleep(AGAIN_S)

    def _produce(self, number: int) -> None:
        name = f"producer-{self._index}.{number}"
        drawn = random.Random(f"{name} {self._life}")
        owner, last = f"{name}.{self._life}", 0

        def put(client: Client) -> None:
            nonlocal last
            while not (self._directory / ENOUGH).exists():
                (topic,) = drawn.choices([*EVENTS, SOURCE, JOBS], SHARES)
                first, last = last + 1, last + drawn.choice([1, 1, 1, 2, 10])
                client.topics.put_many(topic, [f"{owner}/{one}".encode() for one in range(first, last + 1)])
                self._history.write(Acked(now_ns(), owner, first, last, topic))
                time.sleep(PAUSE_S)

        self._again(name, put)

    def _read(self, number: int) -> None:
        subscriber, patterns, _ = reader_of(self._index, number)
        attempts = 0

        def read(client: Client) -> None:
            nonlocal attempts
            attempts += 1
            with client.topics.consumer(patterns, subscriber=subscriber) as consumer:
                while True:
                    messages = self._got(consumer, subscriber, f"{subscriber}/{self._life}.{attempts}")
                    if messages:
                        consumer.acknowledge(messages[-1])
                        self._done(subscriber, messages)

        self._again(subscriber, read)

    def _work(self) -> None:
        attempts = 0

        def work(client: Client) -> None:
            nonlocal attempts
            attempts += 1
            with client.topics.consumer(JOBS, subscriber=CREW, at_once=8) as consumer:
                while True:
                    for one in self._got(consumer, CREW, f"crew-{self._index}/{self._life}.{attempts}"):
                        consumer.acknowledge(one)
                        self._done(CREW, [one])

        self._again(f"crew-{self._index}", work)

    def _move(self) -> None:
        """Make a message of each one, in transactions."""
        attempts = 0

        def move(client: Client) -> None:
            nonlocal attempts
            attempts += 1
            with client.topics.consumer(SOURCE, subscriber=MOVER) as consumer:
                while True:
                    messages = self._got(consumer, MOVER, f"mover-{self._index}/{self._life}.{attempts}")
                    for begin in range(0, len(messages), MOVED_MAX):
                        some = messages[begin : begin + MOVED_MAX]
                        with client.transaction() as tx:
                            for one in some:
                                tx.put(TARGET, f"{MADE}/{one.topic}/{one.number}".encode())
                                tx.acknowledge(one)
                        self._done(MOVER, some)

        self._again(f"mover-{self._index}", move)

    def _got(self, consumer: TopicConsumer, subscriber: str, reader: str) -> list[TopicMessage]:
        messages = consumer.take(TAKE_S)
        for one in messages:
            self._history.write(Got(now_ns(), subscriber, reader, one.topic, one.number, one.body.decode()))
        return messages

    def _done(self, subscriber: str, messages: Sequence[TopicMessage]) -> None:
        self._history.write(Settled(now_ns(), subscriber, tuple((one.topic, one.number) for one in messages)))


def main(arguments: Sequence[str]) -> None:
    directory, keys, index, life, *places = arguments
    Program(Path(directory), Path(keys), int(index), int(life), places).run()


if __name__ == "__main__":
    main(sys.argv[1:])
