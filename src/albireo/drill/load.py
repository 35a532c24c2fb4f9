"""Load: two producers that never stop, and a consumer; each in a thread of its own.

A message is one batch of one sample whose value tells who made it and which it is. Nothing is measured here but times:
when a message was offered, when it was known to be committed.
"""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.client import Acknowledged, Delivered, NotDelivered, QueueFull, Rewound, SampleProducer, connect
from albireo.codec import samples
from albireo.codec.frame import Frame
from albireo.codec.record import Kind, Stream
from albireo.codec.tree.envelope import open_envelope
from albireo.machine.producer.sending import PairSender
from albireo.model.item import DataItem
from albireo.model.position import BEGINNING, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

PRODUCERS: Final = ("meter-1", "meter-2")
RATE: Final = 100
"""Messages per second of each; 200 together."""
OWNER_SHIFT: Final = 40
"""The value of a message is (index of its producer) << 40 | its number."""
TURN_S: Final = 0.005
CATCH_UP_S: Final = 30.0


class Acks(msgspec.Struct):
    """Acknowledgements that one producer heard; its thread writes them, the drill reads them."""

    offered: int = 0
    acked: int = 0
    refused: int = 0
    position: Position = Position()
    """Position of the last acknowledgement."""
    times: list[tuple[float, int]] = []
    """(monotonic seconds, highest message acknowledged), one per acknowledgement."""


class Worker(threading.Thread, ABC):
    """A thread of the load; ends when it is told to, or says why it ended."""

    def __init__(self, name: str, members: Sequence[LineTo], keys: Keys | None) -> None:
        super().__init__(name=name, daemon=True)
        self.failure = ""
        self._members = members
        self._keys = keys
        self._is_stopping = threading.Event()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  # A thread's end must be told, whatever ended it.
            self.failure = f"{self.name}: {error!r}"

    @abstractmethod
    def _work(self) -> None:
        """Do the worker's part until `_is_stopping`."""

    def stop(self) -> None:
        self._is_stopping.set()
        if self.is_alive():
            self.join()


class ProducerWorker(Worker):
    """Producer in a thread of its own."""

    def __init__(self, index: int, members: Sequence[LineTo], keys: Keys | None) -> None:
        super().__init__(PRODUCERS[index], members, keys)
        self.acks = Acks()
        self.rate = RATE
        self._index = index
        self._is_offering = threading.Event()
        self._began = 0.0
        self._machine: PairSender | None = None

    def brief(self) -> str:
        """State of the worker, for whoever looks into a round that hangs."""
        machine, acks = self._machine, self.acks
        if machine is None:
            return f"{self.name}: not begun"
        return (
            f"{self.name}: offered {acks.offered}, acknowledged {acks.acked}; talks to {machine.chosen}, "
            f"lines up {sorted(machine.lines)}, epoch {machine.epoch}, {machine.greetings} greetings, "
            f"{machine.late_welcomes} late ones, {'streams' if machine.is_streaming else 'waits for a welcome'}"
        )

    def _work(self) -> None:
        item = DataItem(name=f"number_{self._index + 1}", value_type=ValueType.INT64)
        with connect(self._members, keys=self._keys, waits=False) as client:
            producer = client.producer(self.name, [item])
            self._machine = producer.machine
            while not self._is_stopping.is_set():
                self._turn(producer)
            with contextlib.suppress(NotDelivered):  # The round knows what was acknowledged.
                producer.close(0)

    def offer(self, *, is_on: bool) -> None:
        """Go on with the load, or let what is on its way come through."""
        if is_on:
            self._began = time.monotonic() - self.acks.offered / self.rate
            self._is_offering.set()
        else:
            self._is_offering.clear()

    def _turn(self, producer: SampleProducer) -> None:
        acks = self.acks
        due = int((time.monotonic() - self._began) * self.rate) if self._is_offering.is_set() else acks.offered
        batches = [self._message(number) for number in range(acks.offered + 1, due + 1)]
        try:
            producer.offer(batches)
            acks.offered = max(acks.offered, due)
        except QueueFull:
            self._began = time.monotonic() - acks.offered / self.rate
        for receipt in producer.wait(TURN_S):
            if isinstance(receipt, Acknowledged):
                acks.acked, acks.position = receipt.batch, receipt.position
                acks.times.append((time.monotonic(), receipt.batch))
            else:
                acks.refused += 1

    def _message(self, number: int) -> SampleBatch:
        return one_value((self._index + 1) << OWNER_SHIFT | number)


def one_value(value: int) -> SampleBatch:
    """A good value of the first item of a producer."""
    at = np.array([wall_ns()], np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=at,
        node_ns=at,
        value=np.array([value], np.int64),
        quality=np.zeros(1, np.uint32),
    )


class ConsumedMessages:
    """Messages in log order, by producer."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {name: [] for name in PRODUCERS}
        self.others: dict[int, list[int]] = {}
        """Messages of whoever else counts, by owner."""
        self.position = BEGINNING
        self.rewinds: list[str] = []

    def take(self, one: Delivered | Rewound) -> None:
        if isinstance(one, Rewound):
            self.rewinds.append(f"{one.verdict} to {one.position}")
            return
        for frame in one.frames:
            self._take(frame)
        self.position = one.position

    def _take(self, frame: Frame) -> None:
        header = frame.header
        if header.kind == Kind.ENVELOPE:
            for inner in open_envelope(header, frame.body, verify=True):
                self._take(Frame(*inner))
            return
        if header.stream != Stream.SAMPLES or header.kind != Kind.INT64:
            return
        batch = samples.decode_body(frame.body, header.kind, header.record_count)
        for value in batch.values():
            owner, number = divmod(int(value), 1 << OWNER_SHIFT)
            if 1 <= owner <= len(PRODUCERS):
                self.numbers[PRODUCERS[owner - 1]].append(number)
            elif owner > len(PRODUCERS):
                self.others.setdefault(owner, []).append(number)


class ConsumerWorker(Worker):
    """Consumer in a thread of its own."""

    def __init__(self, members: Sequence[LineTo], keys: Keys | None) -> None:
        super().__init__("consumer", members, keys)
        self.record = ConsumedMessages()

    def _work(self) -> None:
        with (
            connect(self._members, keys=self._keys, waits=False) as client,
            client.consumer("drill") as consumer,
        ):
            while not self._is_stopping.is_set():
                for one in consumer.take(0.1):
                    self.record.take(one)


def read_log(member: LineTo, keys: Keys | None, name: str, up_to: Position) -> ConsumedMessages:
    """Every committed record of one member from the beginning on.

    Raises:
        TimeoutError: it does not come to `up_to` in time.
    """
    record = ConsumedMessages()
    ends = time.monotonic() + CATCH_UP_S
    with connect([member], keys=keys, waits=False) as client, client.consumer(name) as consumer:
        while record.position < up_to:
            if time.monotonic() > ends:
                raise TimeoutError(f"{name}: has {record.position} of {up_to} after {CATCH_UP_S:.0f} s")
            for one in consumer.take(0.5):
                record.take(one)
    return record


class LiveLoad:
    """Both producers and the consumer."""

    def __init__(self, members: Sequence[LineTo], keys: Keys | None) -> None:
        self.sources = [ProducerWorker(index, members, keys) for index in range(len(PRODUCERS))]
        self.sink = ConsumerWorker(members, keys)
        self._workers: list[Worker] = [*self.sources, self.sink]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def offer(self, *, is_on: bool) -> None:
        for source in self.sources:
            source.offer(is_on=is_on)

    def acked(self) -> list[int]:
        """Messages acknowledged so far, by producer."""
        return [source.acks.acked for source in self.sources]

    def offered(self) -> list[int]:
        """Messages offered so far, by producer."""
        return [source.acks.offered for source in self.sources]

    def is_past(self, numbers: Sequence[int]) -> bool:
        """Each producer has an acknowledgement for more than this."""
        return all(have > one for have, one in zip(self.acked(), numbers, strict=True))

    def times(self) -> list[list[float]]:
        """Instants of acknowledgements by producer, in monotonic seconds."""
        return [[at for at, _ in source.acks.times] for source in self.sources]

    @property
    def failures(self) -> list[str]:
        """Threads that ended by an error."""
        return [one.failure for one in self._workers if one.failure]

    @property
    def is_drained(self) -> bool:
        """Everything offered is acknowledged."""
        return all(one.acks.acked + one.acks.refused >= one.acks.offered for one in self.sources)

    @property
    def position(self) -> Position:
        """Position of the last acknowledgement to any producer."""
        return max(one.acks.position for one in self.sources)

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
