"""Cursor producer: has cursors and leases recorded, while this member leads."""

from collections.abc import Callable

from albireo.machine.producer.config import RUN_MAX, ProducerConfig
from albireo.machine.producer.flight import PutOffer
from albireo.machine.producer.producer import Event, LinkOpened, Offered, Producer
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Link


class CursorProducer:
    """The producer of the actor `topics`; each time that its member begins to lead it is another one."""

    def __init__(self, name: str, actor: ActorContext, core: Link, entropy: Callable[[int], bytes]) -> None:
        """`entropy`: draws so many bytes."""
        self._name = name
        self._entropy = entropy
        self._actor = actor
        self._core = core
        self._producer: Producer | None = None
        self._offered: list[int] = []
        """Numbers of the batches that it was offered and has not committed."""

    def deadline(self) -> Instant | None:
        return None if self._producer is None else self._producer.deadline()

    def end(self) -> None:
        """This member leads no more."""
        self._producer = None
        self._offered.clear()

    def offer(self, offer: PutOffer, batch: int = 0) -> None:
        """Have this recorded; `step` gives back the number once it is committed."""
        if self._producer is None:
            run = 1 + int.from_bytes(self._entropy(4)) % RUN_MAX
            self._producer = Producer(self._name, (), run=run, config=ProducerConfig())
            self.step(LinkOpened())
        self._offered.append(batch)
        self.step(Offered(batches=(offer,)))

    def step(self, event: Event) -> list[int]:
        """Take an event; numbers of the batches that are committed, or refused, by it."""
        producer = self._producer
        if producer is None:
            return []
        for send in producer.step(event, self._actor.now()):
            self._core.send(send.message, send.raw)
        if producer.last_word is not None:
            self._actor.fail(f"cursors are not taken any more: {producer.last_word.refusal}")
            return []
        left = producer.batches.offered - producer.batches.committed
        done = self._offered[: max(0, len(self._offered) - left)]
        del self._offered[: len(done)]
        return done
