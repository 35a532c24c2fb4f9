"""What the world of whole nodes knows better than any of them: every committed frame, every acknowledged batch.

Checked here
    whatever a member holds as committed is what any member ever held so; a follower never before the holder;
    (producer, number) rises by one, and so do the values in it; nothing acknowledged is missing where it is served;
    at the instant of each commit, that the frame is on the disk of every member of the set (rule 3);
    one run of one member commits and acknowledges in an epoch;
    folds are those of the committed frames, replayed one after another; of samples that are not replicated, those that
    are the same on both members (what else is checked of these: private.py).

Spec: design/pair.md, How it is proven; rule 3.
"""

from collections.abc import Callable, Sequence

import msgspec

from albireo.codec import record, samples
from albireo.codec.frame import Frame
from albireo.codec.message import Appended
from albireo.codec.pair_message import Record
from albireo.codec.record import Kind, Stream
from albireo.machine.fold.folds import Folds
from albireo.model.position import Position
from albireo.sim.nodes.private import Payloads

COMMON = ("cases", "commands", "producers")
"""Sections of a snapshot that say the same on both members, whoever has the samples."""


class Fact(msgspec.Struct, frozen=True):
    """A committed frame."""

    first: int
    epoch: int
    crc: int
    """Of its header, which covers its body, and the frame before it, and so all of them."""


class Tenure(msgspec.Struct):
    """One epoch: what its holder asked the voters for, what they have, who acted in it."""

    asked: dict[int, tuple[int, ...]] = {}
    accepted: dict[int, set[str]] = {}
    confirmed: int = 0
    """Version that a majority of the voters has, or had."""
    holder: tuple[int, int] | None = None
    """Index and run."""


class Disk(msgspec.Struct):
    """What one member's log holds, as its disk was told."""

    crcs: dict[int, int] = {}
    """By last sequence of a frame, as it was appended."""
    synced: int = 0
    """Everything up to here is durable."""


class Ledger:
    """Judges one world."""

    def __init__(self, majority: int, fail: Callable[[str], None]) -> None:
        self.facts: dict[int, Fact] = {}
        """By last sequence."""
        self.end = Position()
        self.folds = Folds()
        """Of all of them."""
        self.acknowledged: dict[str, int] = {}
        """By producer: the highest number that it was told of."""
        self.disks = (Disk(), Disk())
        self.tenures: dict[int, Tenure] = {}
        self.payloads = Payloads(fail)
        """Of samples that are not replicated."""
        self.values: dict[int, int] = {}
        """By producer of this world: the last value committed."""
        self._majority = majority
        self._fail = fail
        self._numbers: dict[int, int] = {}

    # --- Sets --------------------------------------------------------------------------------------------------------

    def asks(self, proposed: Record) -> None:
        """A holder or candidate sends this record to the voters."""
        self._tenure(proposed.epoch).asked.setdefault(proposed.version, proposed.members)

    def accepts(self, voter: str, accepted: Record) -> None:
        """A voter has this record on its disk."""
        tenure = self._tenure(accepted.epoch)
        voters = tenure.accepted.setdefault(accepted.version, set())
        voters.add(voter)
        if len(voters) >= self._majority:
            tenure.confirmed = max(tenure.confirmed, accepted.version)

    def _tenure(self, epoch: int) -> Tenure:
        return self.tenures.setdefault(epoch, Tenure())

    def _acts(self, index: int, run: int, epoch: int, what: str) -> Tenure:
        tenure = self._tenure(epoch)
        if not tenure.confirmed:
            self._fail(f"{index} {what} in epoch {epoch}, which no majority of voters granted")
        if tenure.holder not in (None, (index, run)):
            self._fail(f"{index} (run {run}) {what} in epoch {epoch}, which is that of {tenure.holder}")
        tenure.holder = (index, run)
        return tenure

    # --- Log ---------------------------------------------------------------------------------------------------------

    def commits(self, index: int, run: int, epoch: int, frames: Sequence[Frame]) -> None:
        """A holder holds these as committed."""
        tenure = self._acts(index, run, epoch, "commits")
        for frame in frames:
            if frame.header.last_sequence > self.end.sequence:
                self._first_commit(frame)
            else:
                self._compare(index, frame)
        later = (members for version, members in tenure.asked.items() if version >= tenure.confirmed)
        for member in {member for members in later for member in members}:
            self._check_disk(index, member, frames[-1])

    def follows(self, index: int, frames: Sequence[Frame]) -> None:
        """A member that does not lead holds these as committed."""
        for frame in frames:
            self._compare(index, frame)

    def knows(self, frame: Frame) -> bool:
        """It is committed, as it stands here."""
        fact = self.facts.get(frame.header.last_sequence)
        return (fact is not None and fact.crc == frame.header.header_crc) or self.payloads.knows(frame)

    def _compare(self, index: int, frame: Frame) -> None:
        if not self.knows(frame):
            known = self.facts.get(frame.header.last_sequence)
            self._fail(f"{index} holds {frame.header.last} as committed, known is {known}, end {self.end}")

    def _check_disk(self, index: int, member: int, frame: Frame) -> None:
        header, disk = frame.header, self.disks[member]
        if disk.synced < header.last_sequence or disk.crcs.get(header.last_sequence) != header.header_crc:
            self._fail(f"{index} commits {header.last}, {member} has {disk.synced} on its disk")

    def _first_commit(self, frame: Frame) -> None:
        header = frame.header
        if header.first_sequence != self.end.sequence + 1:
            self._fail(f"{header.first_sequence} committed behind {self.end}")
        self.facts[header.last_sequence] = Fact(header.first_sequence, header.epoch, header.header_crc)
        self.end = header.last
        self.folds.replay(frame)
        frame = self.payloads.committed(frame)
        producer, number = record.decode_producer(frame.body)
        if producer:
            if number != self._numbers.get(producer, 0) + 1:
                self._fail(f"producer {producer}: {number} committed behind {self._numbers.get(producer, 0)}")
            self._numbers[producer] = number
        if producer and header.stream == Stream.SAMPLES and frame.header.kind == Kind.INT64:
            self._check_values(frame)

    def _check_values(self, frame: Frame) -> None:
        """Each producer of this world counts; its own number stands in the thousands."""
        batch = samples.decode_body(frame.body, frame.header.kind, frame.header.record_count)
        for value in batch.values():
            count, producer = divmod(int(value), 10)
            if count != self.values.get(producer, 0) + 1:
                self._fail(f"value {count} of producer {producer} behind {self.values.get(producer, 0)}")
            self.values[producer] = count

    # --- Answers -----------------------------------------------------------------------------------------------------

    def answers(self, index: int, run: int, epoch: int, receipt: Appended) -> None:
        """A member tells a producer that its batch is committed."""
        self._acts(index, run, epoch, "acknowledges")
        sequence = receipt.position.sequence
        fact, disk = self.facts.get(sequence), self.disks[index]
        if receipt.uncommitted:
            if disk.synced < sequence or sequence not in disk.crcs:
                self._fail(f"{index} has {disk.synced} on its disk and says that {sequence} is there")
        elif fact is None or fact.epoch != receipt.position.epoch:
            self._fail(f"{index} acknowledges {receipt.position}, known is {fact}")

    def heard(self, producer: str, receipt: Appended) -> None:
        """A producer was told so."""
        number = receipt.producer_sequence - receipt.uncommitted
        self.acknowledged[producer] = max(number, self.acknowledged.get(producer, 0))

    def check_server(self, index: int, folds: Folds) -> None:
        """Whoever serves has everything that was acknowledged."""
        for name, number in self.acknowledged.items():
            known = folds.producers.find(name)
            if known is None or known.last_sequence < number:
                self._fail(f"{index} serves, {name} was told {number}, here is {known and known.last_sequence}")

    def check_folds(self, index: int, folds: Folds, position: Position) -> None:
        """Folds that stand at the end of what is committed are those of all that is."""
        if position != self.end:
            return
        mine, known = folds.snapshot(), self.folds.snapshot()
        compared = COMMON if self.payloads.count else known
        different = [name for name in compared if mine.get(name) != known[name]]
        if different or folds.log_time_ms != self.folds.log_time_ms:
            self._fail(f"{index}: folds at {position} are not those of the log: {different}")
