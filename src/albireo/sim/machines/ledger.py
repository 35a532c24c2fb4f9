"""Ledger of what the world knows better than any member: every acknowledged batch, every committed record.

Checked here
    committed prefixes agree; bodies of a local stream rise, so none is doubled or out of order; nothing acknowledged is
    missing at a new holder or at the end; and at the instant of each commit, that the record is on the disk of every
    member of the confirmed set and of every set asked for since (rule 3), whatever the members believe; and that a
    member that is added to the set has all that is committed.

Spec: design/pair.md, How it is proven; rule 3.
"""

from itertools import takewhile

from albireo.codec.pair_message import Record
from albireo.model.position import Position
from albireo.sim.engine.ledger import Tenures
from albireo.sim.machines.parts import NOOP, LoggedBatch
from albireo.sim.machines.stage import MemberNode, PairStage


class PairLedger(Tenures):
    """Judge of what is committed and acknowledged in one world."""

    def __init__(self, stage: PairStage) -> None:
        super().__init__(stage.config.majority, stage.fail)
        self.stage = stage
        self.acknowledged: dict[tuple[int, int], int] = {}
        """Instant at which a producer first heard that its batch is committed, by producer and number."""
        self.committed: list[tuple[int, int, int, int]] = []
        """Committed records in their order: epoch, producer, number, and the body of a local stream."""
        self.bodies: list[int] = []
        """Bodies of a local stream in the committed log, openings among them."""
        self.lost: list[tuple[int, int]] = []
        """Acknowledged batches that were given up by somebody who forced a member to lead without them."""
        self.overtaken_epoch = 0
        self.overtaken_until = 0

    def asks(self, proposed: Record) -> None:
        """Note that this record is sent; a member that it adds to the set must have all that is committed by then."""
        asked = self._tenures[proposed.epoch].asked
        is_new = proposed.version not in asked
        super().asks(proposed)
        if is_new and asked.get(proposed.version - 1) == (proposed.holder,) and len(proposed.members) > 1:
            self._check_added(self.stage.members[proposed.holder])

    def _check_added(self, node: MemberNode) -> None:
        added, end = self.stage.other(node), node.folded
        if added.synced < end or (end and added.log[end - 1] != node.log[end - 1]):
            self._fail(f"{node.name} adds {added.name}, which has {added.synced} of {end} committed on its disk")

    def _needed(self, node: MemberNode) -> set[int]:
        """Return the members that must have what this holder commits now."""
        holder = node.machine.holder
        assert holder is not None
        if holder.grant.is_decided:
            return {node.index}
        return self._acts(node.index, node.machine.own.run, holder.epoch, "commits").required

    def commits(self, node: MemberNode, position: Position) -> None:
        """Compare what a member commits with what any member ever committed, and look on the disks."""
        for sequence in range(node.folded + 1, position.sequence + 1):
            entry = node.log[sequence - 1]
            fact = fact_of(entry)
            if sequence > len(self.committed):
                self._first_commit(fact)
            elif self.committed[sequence - 1] != fact:
                was = self.committed[sequence - 1]
                self._fail(f"{node.name} commits {fact} at {sequence}, committed was {was}")
        if node.machine.holder is not None:
            self._check_disks(node, position)

    def _first_commit(self, fact: tuple[int, int, int, int]) -> None:
        _, producer, number, body = fact
        if body:
            before = next((one for one in reversed(self.bodies) if one > 0), 0)
            if 0 < body <= before:
                self._fail(f"local producer: body {body} committed after {before}")
            self.bodies.append(body)
        if producer != NOOP:
            self._counts(producer, number, by=body >= 0)  # An opening has no number of its own.
        self.committed.append(fact)

    def _check_disks(self, node: MemberNode, position: Position) -> None:
        for index in self._needed(node):
            member = self.stage.members[index]
            sequence = position.sequence
            if member.synced < sequence or member.log[sequence - 1] != node.log[sequence - 1]:
                if index != node.index and self.stage.is_shielded:
                    continue  # The member's disk was exchanged: recognised later, by its hello.
                self._fail(f"{node.name} commits {position}, {member.name} has {member.synced} on its disk")

    def check_holder(self, node: MemberNode, epoch: int) -> None:
        """Check that everything acknowledged is in the log of a member that leads.

        A member that a forged refusal had overtaken may still serve under the rest of its lease: its answers can be
        stale for that long, say their epoch, and are no acknowledgements (rule 12).
        """
        if epoch < self.overtaken_epoch and self.stage.agenda.at < self.overtaken_until:
            return
        here = {(entry.producer, entry.number) for entry in node.log}
        lost = [one for one in self.acknowledged if one not in here]
        if lost:
            self._fail(f"{node.name} serves epoch {epoch} without acknowledged {sorted(lost)[:3]}")

    def granted(self, node: MemberNode) -> None:
        """Note that a member leads from now on; the other member may keep its lease if a refusal was forged."""
        holder, other = node.machine.holder, self.stage.other(node)
        if holder is not None and other.is_holder and self.stage.has_forged:
            self.overtaken_epoch = holder.epoch
            self.overtaken_until = self.stage.agenda.at + self.stage.config.lease_and_drift

    def forced(self, node: MemberNode) -> None:
        """Take the log of a member that a person forced to lead for the truth, whatever was acknowledged."""
        here = {(entry.producer, entry.number) for entry in node.log}
        self.lost += sorted(one for one in self.acknowledged if one not in here)
        for one in self.lost:
            self.acknowledged.pop(one, None)
        facts = [fact_of(entry) for entry in node.log]
        pairs = zip(self.committed, facts, strict=False)
        self.committed = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        self._numbers = {producer: number for _, producer, number, _ in self.committed if producer != NOOP}
        self.bodies = [body for _, _, _, body in self.committed if body]

    def check_end(self) -> None:
        for node in self.stage.members:
            if node.is_holder and node.machine.holder is not None:
                self.check_holder(node, node.machine.holder.epoch)
        stored = {(producer, number) for _, producer, number, _ in self.committed}
        lost = sorted(set(self.acknowledged) - stored)
        if lost:
            self._fail(f"acknowledged and never committed: {lost[:3]}")


def fact_of(entry: LoggedBatch) -> tuple[int, int, int, int]:
    """Return what a record says, whoever holds it."""
    return entry.epoch, entry.producer, entry.number, entry.body
