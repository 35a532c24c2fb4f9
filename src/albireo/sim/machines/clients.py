"""Producers of the simulated pair, and what admits their batches.

A producer numbers its batches, has a few under way, and offers what was not acknowledged to the other member. Admission
takes the next number only; a duplicate is acknowledged once its original is committed. A local stream: pair_local.py.

Spec: design/log-and-feed.md, Ingest and receipts.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from albireo.machine.pair.events import ACTING
from albireo.model.instant import MS
from albireo.sim.machines.local import LOCAL, LocalStream
from albireo.sim.machines.parts import NOOP, PRESS_AFTER_MS, PRESS_EVERY_MS, WINDOW, Entry, MemberNode, Producer

if TYPE_CHECKING:
    from albireo.sim.machines.world import World

RECENT: Final = 400
"""Records looked through for the original of a duplicate: more than any window."""


class Clients:
    """Two producers of one world, the second one perhaps of a local stream."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.local = LocalStream(world) if world.swarm.local else None
        self.producers = [Producer(0), self.local.producer if self.local else Producer(LOCAL)]
        self.is_quiet = False
        """Nothing new is offered."""
        for producer in self.producers[: 1 if self.local else 2]:
            self._produce(producer)
            self._press(producer)

    def has_acked(self, numbers: list[int]) -> bool:
        return all(producer.acked >= number for producer, number in zip(self.producers, numbers, strict=True))

    def _produce(self, producer: Producer) -> None:
        if producer.offered - producer.acked < WINDOW and not self.is_quiet:
            producer.offered += 1
            self._put(producer, producer.offered)
        wait_ms = self.world.swarm.batch_every_ms * (0.5 + self.world.chance.random())
        self.world.after_ms(wait_ms, partial(self._produce, producer))

    def _press(self, producer: Producer) -> None:
        """What was not acknowledged for a while is offered again, to the other member."""
        if producer.acked < producer.offered and self.world.at - producer.sent_at > PRESS_AFTER_MS * MS:
            producer.target = 1 - producer.target
            producer.sent_at = self.world.at
            self._put(producer, producer.acked + 1)
        self.world.after_ms(PRESS_EVERY_MS, partial(self._press, producer))

    def _put(self, producer: Producer, first: int) -> None:
        """What waits from `first` on, in order, as one message."""
        world = self.world
        producer.sent_at = world.at if producer.offered == producer.acked + 1 else producer.sent_at
        node = world.members[producer.target]
        numbers = range(first, producer.offered + 1)

        def arrive() -> None:
            for number in numbers:
                self._offered(node, producer, number)

        world.send("client", node.name, 0, lambda: world.awake(node, node.life, arrive))

    def _offered(self, node: MemberNode, producer: Producer, number: int) -> None:
        """Admission of one batch."""
        leading = node.machine.holder
        if not node.is_up or not node.is_open or leading is None or node.machine.state not in ACTING:
            return
        last, variant = node.appended.get(producer.number, 0), self.world.variant
        if number == last + 1 or (variant.accepts_gap and number > last):
            node.appended[producer.number] = number
            committed = node.folded
            self.world.shell.append(node, Entry(leading.epoch, producer.number, number, committed))
            self.world.shell.tell_changed(node)
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
            self.world.ledger.acknowledged.setdefault((producer, number), self.world.at)
            owner = self.producers[producer]
            if number > owner.acked:
                owner.acked, owner.sent_at = number, self.world.at

        self.world.send(node.name, "client", 0, heard)
