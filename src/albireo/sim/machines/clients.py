"""Producers of the simulated pair, and what admits their batches.

A producer numbers its batches, has a few under way, and offers what was not acknowledged to the other member. Admission
takes the next number only; a duplicate is acknowledged once its original is committed. A local stream: pair_local.py.

Spec: design/log-and-feed.md, Ingest and receipts.
"""

from functools import partial
from typing import Final

from albireo.machine.pair.events import ACTING
from albireo.model.instant import MS
from albireo.sim.machines.ledger import Ledger
from albireo.sim.machines.local import LOCAL, LocalStream
from albireo.sim.machines.parts import NOOP, PRESS_AFTER_MS, PRESS_EVERY_MS, WINDOW, Entry, Producer
from albireo.sim.machines.stage import MemberNode, PairStage

RECENT: Final = 400
"""Records looked through for the original of a duplicate: more than any window."""


class Clients:
    """Two producers of one world, the second one perhaps of a local stream."""

    def __init__(self, stage: PairStage, ledger: Ledger) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.ledger = ledger
        self.local = LocalStream(stage, ledger) if stage.swarm.local else None
        self.producers = [Producer(0), self.local.producer if self.local else Producer(LOCAL)]

    def begin(self) -> None:
        if self.local:
            self.local.begin()
        for producer in self.producers[: 1 if self.local else 2]:
            self._produce(producer)
            self._press(producer)

    def has_acked(self, numbers: list[int]) -> bool:
        return all(producer.acked >= number for producer, number in zip(self.producers, numbers, strict=True))

    def _produce(self, producer: Producer) -> None:
        if producer.offered - producer.acked < WINDOW:
            producer.offered += 1
            self._put(producer, producer.offered)
        wait_ms = self.stage.swarm.batch_every_ms * (0.5 + self.stage.chance.random())
        self.agenda.after_ms(wait_ms, partial(self._produce, producer))

    def _press(self, producer: Producer) -> None:
        """What was not acknowledged for a while is offered again, to the other member."""
        if producer.acked < producer.offered and self.agenda.at - producer.sent_at > PRESS_AFTER_MS * MS:
            producer.target = 1 - producer.target
            producer.sent_at = self.agenda.at
            self._put(producer, producer.acked + 1)
        self.agenda.after_ms(PRESS_EVERY_MS, partial(self._press, producer))

    def _put(self, producer: Producer, first: int) -> None:
        """What waits from `first` on, in order, as one message."""
        producer.sent_at = self.agenda.at if producer.offered == producer.acked + 1 else producer.sent_at
        node = self.stage.members[producer.target]
        numbers = range(first, producer.offered + 1)

        def arrive() -> None:
            for number in numbers:
                self._offered(node, producer, number)

        self.stage.network.send("client", node.name, 0, lambda: node.awake(arrive))

    def _offered(self, node: MemberNode, producer: Producer, number: int) -> None:
        """Admission of one batch."""
        leading = node.machine.leading
        if not node.is_up or not node.is_open or leading is None or node.machine.state not in ACTING:
            return
        last, variant = node.appended.get(producer.number, 0), self.stage.variant
        if number == last + 1 or (variant.accepts_gap and number > last):
            node.appended[producer.number] = number
            committed = node.machine.own.committed.sequence
            node.append(Entry(leading.epoch, producer.number, number, committed))
            node.tell_appended()
        elif number <= last:
            recent = node.log[max(0, node.folded - RECENT) : node.folded]
            done = any(entry.producer == producer.number and entry.number == number for entry in recent)
            if done or variant.acks_pending_duplicate:
                self._acknowledge(node, producer.number, number)

    def forced(self, node: MemberNode) -> None:
        """Producers begin anew after what the forced log holds; nothing else would let them go on."""
        for producer in self.producers:
            last = node.appended.get(producer.number, 0)
            if self.local and producer is self.local.producer:
                self.local.forced()
            elif last < producer.acked:
                producer.offered = producer.acked = last

    def committed(self, node: MemberNode, entry: Entry) -> None:
        """A record was committed by the member that leads: its producer is told."""
        if self.local and entry.producer == LOCAL:
            self.local.committed(node, entry)
        elif entry.producer != NOOP:
            self._acknowledge(node, entry.producer, entry.number)

    def _acknowledge(self, node: MemberNode, producer: int, number: int) -> None:
        def heard() -> None:
            self.ledger.acknowledged.setdefault((producer, number), self.agenda.at)
            owner = self.producers[producer]
            if number > owner.acked:
                owner.acked, owner.sent_at = number, self.agenda.at

        self.stage.network.send(node.name, "client", 0, heard)
