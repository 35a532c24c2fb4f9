"""Producers of the simulated pair, and what admits their batches.

A producer numbers its batches, has a few under way, and offers what was not acknowledged to the other member. Admission
takes the next number only; a duplicate is acknowledged once its original is committed. A local stream: local.py.

Spec: design/log-and-feed.md, Ingest and receipts.
"""

from functools import partial
from typing import Final

from albireo.machine.pair.events import ACTING
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.local import LOCAL, LocalStream
from albireo.sim.machines.parts import NOOP, LoggedBatch
from albireo.sim.machines.stage import MemberNode, PairStage, StageProducer

RECENT: Final = 400
"""Records looked through for the original of a duplicate: more than any window."""


class Clients:
    """Two producers of one world, the second one perhaps of a local stream."""

    def __init__(self, stage: PairStage, ledger: PairLedger) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.ledger = ledger
        self.local = LocalStream(stage, ledger) if stage.swarm.local else None
        others = [StageProducer(stage, number, stage.chance) for number in range(1 if self.local else 2)]
        for producer in others:
            producer.admit = partial(self._arrived, producer)
        self.producers = [*others, *([self.local.producer] if self.local else [])]

    def begin(self) -> None:
        if self.local:
            self.local.begin()
        for producer in self.producers[: 1 if self.local else 2]:
            producer.begin()

    def has_acked(self, numbers: list[int]) -> bool:
        return all(producer.acked >= number for producer, number in zip(self.producers, numbers, strict=True))

    def _arrived(self, producer: StageProducer, node: MemberNode, run: int, numbers: range, is_again: bool) -> None:
        for number in numbers:
            self._offered(node, producer, number)

    def _offered(self, node: MemberNode, producer: StageProducer, number: int) -> None:
        """Admit one batch, or acknowledge a duplicate."""
        holder = node.machine.holder
        if not node.is_up or not node.is_open or holder is None or node.machine.state not in ACTING:
            return
        last, variant = node.appended.get(producer.number, 0), self.stage.variant
        if number == last + 1 or (variant.accepts_gap and number > last):
            node.appended[producer.number] = number
            committed = node.folded
            node.append(LoggedBatch(holder.epoch, producer.number, number, committed))
            node.tell_changed()
        elif number <= last:
            recent = node.log[max(0, node.folded - RECENT) : node.folded]
            done = any(entry.producer == producer.number and entry.number == number for entry in recent)
            if done or variant.acks_pending_duplicate:
                self._acknowledge(node, producer.number, number)

    def forced(self, node: MemberNode) -> None:
        """Let producers begin anew after what the forced log holds; nothing else would let them go on."""
        for producer in self.producers:
            last = node.appended.get(producer.number, 0)
            if self.local and producer is self.local.producer:
                self.local.forced()
            elif last < producer.acked:
                producer.offered = producer.acked = last

    def committed(self, node: MemberNode, entry: LoggedBatch) -> None:
        """Tell the producer of a record that the member that leads has committed it."""
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
