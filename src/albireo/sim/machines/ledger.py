"""What the world knows better than any member: every acknowledged batch, every committed record, every set asked for.

Checked here
    committed prefixes agree; (producer, sequence) rises by one; nothing acknowledged is missing at a new holder or at
    the end; and at the instant of each commit, that the record is on the disk of every member of the confirmed set and
    of every set asked for since (rule 3), whatever the members believe.

Spec: design/pair.md, How it is proven; rule 3.
"""

from itertools import takewhile
from typing import TYPE_CHECKING

from albireo.codec.pair_message import Record
from albireo.model.position import Position
from albireo.sim.machines.parts import NOOP, Entry, MemberNode

if TYPE_CHECKING:
    from albireo.sim.machines.world import World


class Tenure:
    """Sets of one epoch: what its holder asked for, which voters took it."""

    def __init__(self) -> None:
        self.asked: dict[int, tuple[int, ...]] = {}
        self.accepted: dict[int, set[str]] = {}
        self.confirmed = 0
        """Version that a majority of the voters holds, or held."""


class Ledger:
    """Judges one world."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.acknowledged: dict[tuple[int, int], int] = {}
        """When each batch was first acknowledged to its producer."""
        self.committed: list[tuple[int, int, int, int]] = []
        """Epoch, producer, number, and the body of a local stream."""
        self.numbers: dict[int, int] = {}
        self.tenures: dict[int, Tenure] = {}
        self.lost: list[tuple[int, int]] = []
        """Acknowledged, and given up by somebody who forced a member to lead without them."""
        self.overtaken_epoch = 0
        self.overtaken_until = 0

    # --- Sets ----------------------------------------------------------------------------------------------------

    def asks(self, record: Record) -> None:
        """A holder or candidate sends this record to the voters."""
        tenure = self.tenures.setdefault(record.epoch, Tenure())
        tenure.asked.setdefault(record.version, record.members)

    def accepts(self, voter: str, record: Record) -> None:
        """A voter has this record on its disk."""
        tenure = self.tenures.get(record.epoch)
        if tenure is None:
            return  # The first record, which nobody asked for.
        voters = tenure.accepted.setdefault(record.version, set())
        voters.add(voter)
        if len(voters) >= self.world.config.majority:
            tenure.confirmed = max(tenure.confirmed, record.version)

    def _needed(self, node: MemberNode) -> set[int]:
        """Members that must have what this holder commits now."""
        leading = node.machine.holder
        assert leading is not None
        if leading.grant.is_decided:
            return {node.index}
        tenure = self.tenures.get(leading.epoch)
        if tenure is None or not tenure.confirmed:
            self.world.fail(f"{node.name} commits in epoch {leading.epoch}, which no majority of voters granted")
            return set()
        later = (members for version, members in tenure.asked.items() if version >= tenure.confirmed)
        return {member for members in later for member in members}

    # --- Log -----------------------------------------------------------------------------------------------------

    def commits(self, node: MemberNode, position: Position) -> None:
        """Compare with what any member ever committed."""
        for sequence in range(node.folded + 1, position.sequence + 1):
            entry = node.log[sequence - 1]
            fact = fact_of(entry)
            if sequence > len(self.committed):
                self._first_commit(fact)
            elif self.committed[sequence - 1] != fact:
                was = self.committed[sequence - 1]
                self.world.fail(f"{node.name} commits {fact} at {sequence}, committed was {was}")
        if node.machine.holder is not None:
            self._check_disks(node, position)

    def _first_commit(self, fact: tuple[int, int, int, int]) -> None:
        _, producer, number, body = fact
        if body and self.world.clients.local:
            self.world.clients.local.first_committed(body)
        if producer != NOOP:
            if number != self.numbers.get(producer, 0) + (body >= 0):  # An opening has no number of its own.
                self.world.fail(f"producer {producer}: {number} committed after {self.numbers.get(producer, 0)}")
            self.numbers[producer] = number
        self.committed.append(fact)

    def _check_disks(self, node: MemberNode, position: Position) -> None:
        for index in self._needed(node):
            member = self.world.members[index]
            sequence = position.sequence
            if member.synced < sequence or member.log[sequence - 1] != node.log[sequence - 1]:
                if index != node.index and self.world.is_shielded:
                    continue  # Its disk was exchanged under it: recognised later, by its hello.
                self.world.fail(f"{node.name} commits {position}, {member.name} has {member.synced} on its disk")

    # --- Acknowledgements ----------------------------------------------------------------------------------------

    def check_holder(self, node: MemberNode, epoch: int) -> None:
        """Everything acknowledged is in the log of whoever leads.

        Who was overtaken by a forged refusal may still serve under the rest of its lease: its answers can be stale for
        that long, say their epoch, and are no acknowledgements (rule 12).
        """
        if epoch < self.overtaken_epoch and self.world.at < self.overtaken_until:
            return
        here = {(entry.producer, entry.number) for entry in node.log}
        lost = [one for one in self.acknowledged if one not in here]
        if lost:
            self.world.fail(f"{node.name} serves epoch {epoch} without acknowledged {sorted(lost)[:3]}")

    def granted(self, node: MemberNode) -> None:
        """A member leads from now on; the other may be alive and under its lease if a refusal was forged."""
        leading, other = node.machine.holder, self.world.members[1 - node.index]
        if leading is not None and other.is_leading and self.world.has_forged:
            self.overtaken_epoch = leading.epoch
            self.overtaken_until = self.world.at + self.world.config.lease_and_drift

    def forced(self, node: MemberNode) -> None:
        """A person forced this member to lead: its log is the truth from here on, whatever was acknowledged."""
        here = {(entry.producer, entry.number) for entry in node.log}
        self.lost += sorted(one for one in self.acknowledged if one not in here)
        for one in self.lost:
            self.acknowledged.pop(one, None)
        facts = [fact_of(entry) for entry in node.log]
        pairs = zip(self.committed, facts, strict=False)
        self.committed = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        self.numbers = {producer: number for _, producer, number, _ in self.committed if producer != NOOP}

    def check_end(self) -> None:
        for node in self.world.members:
            if node.is_leading and node.machine.holder is not None:
                self.check_holder(node, node.machine.holder.epoch)
        if self.world.clients.local:
            self.world.clients.local.check_end()
        stored = {(producer, number) for _, producer, number, _ in self.committed}
        lost = sorted(set(self.acknowledged) - stored)
        if lost:
            self.world.fail(f"acknowledged and never committed: {lost[:3]}")


def fact_of(entry: Entry) -> tuple[int, int, int, int]:
    """What the record says, whoever holds it."""
    return entry.epoch, entry.producer, entry.number, entry.body
