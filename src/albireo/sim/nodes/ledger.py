"""Ledger of what the world knows better than any of its nodes: every committed frame, every acknowledged batch.

Checked here
    whatever a member holds as committed is what any member ever held so; a follower never before the holder;
    (producer, number) rises by one, and so do the values in it; nothing acknowledged is missing where it is served;
    at the instant of each commit, that the frame is on the disk of every member of the set (rule 3);
    at the commit of a reference, that its payload is on the disk of the member that took it, unless that disk was
    exchanged since: nobody is told of a batch whose values a crash could still take away;
    stores that say they were stopped together end alike;
    folds are those of the committed frames, replayed one after another; of samples that are not replicated, those that
    are the same on both members (what else is checked of these: private.py).

Spec: design/pair.md, How it is proven; rule 3.
"""

from collections.abc import Callable, Sequence

import msgspec

from albireo.codec import record, reference, samples
from albireo.codec.frame import Frame, encode_header, header_crc_of
from albireo.codec.message import Appended
from albireo.codec.record import Kind, Stream
from albireo.machine.fold.folds import Folds
from albireo.model.position import Position
from albireo.sim.engine.ledger import Tenures
from albireo.sim.nodes.log import StagedLog

COMMON = ("cases", "commands", "producers", "lives", "heard", "gone")
"""Sections of a snapshot that say the same on both members, whoever has the samples."""


class Fact(msgspec.Struct, frozen=True):
    """Header fields by which one committed frame is known."""

    first: int
    epoch: int
    crc: int
    """CRC of the header, which covers the body and the frame before, and so all frames up to here."""


class MemberDisk(msgspec.Struct):
    """Content of one member's log, as its disk was told."""

    crcs: dict[int, int] = {}
    """Header CRC of each frame as it was appended, by the frame's last sequence."""
    synced: int = 0
    """Sequence up to which everything is durable."""


class Payloads:
    """Payloads that any member stored privately."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._stored: dict[tuple[bytes, int], Frame] = {}
        """Stored payloads by log and first sequence."""
        self._synced: dict[bytes, int] = {}
        """Last sequence that each private log has on its disk."""
        self._wholes: dict[int, int] = {}
        """Header CRC of each whole frame, by its last sequence in the pair's log."""
        self.count = 0
        """Number of references committed."""

    def stored(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._stored[frame.header.log_id, frame.header.first_sequence] = frame

    def synced(self, log: StagedLog) -> None:
        """Note how far a private log is on its disk, also as a recovery found it."""
        if log.durable.sequence < self._synced.get(log.log_id, 0):
            self._fail(f"a private log ends at {log.durable}, {self._synced[log.log_id]} was durable")
        self._synced[log.log_id] = log.durable.sequence

    def gone(self, log_id: bytes) -> None:
        """Note that a log's disk was exchanged: what stood in the log does so no more."""
        self._synced.pop(log_id, None)

    def committed(self, frame: Frame) -> Frame:
        """Check a committed reference and return its whole frame; return any other frame as it stands."""
        if not reference.is_reference(frame):
            return frame
        self.count += 1
        meant = reference.decode(frame.body)
        payload = self._stored.get((meant.log_id, meant.sequence))
        if payload is None or payload.header.body_crc != meant.body_crc:
            self._fail(f"{frame.header.last} refers to {meant.sequence}, which was never stored")
            return frame
        producer, _ = record.decode_producer(frame.body)
        on_disk = self._synced.get(meant.log_id)
        if producer and on_disk is not None and on_disk < payload.header.last_sequence:
            self._fail(f"{frame.header.last} is committed, its payload {payload.header.last} is not on the disk")
        whole = reference.whole(frame, meant, payload.body)
        self._wholes[frame.header.last_sequence] = header_crc_of(encode_header(whole.header))
        return whole

    def stands_in(self, log: StagedLog, frame: Frame) -> bool:
        """True: this reference's payload is on the disk of this log, where it has to stay as long as the reference."""
        meant = reference.decode(frame.body)
        payload = self._stored.get((meant.log_id, meant.sequence))
        is_same = payload is not None and payload.header.body_crc == meant.body_crc
        return is_same and meant.log_id == log.log_id and meant.sequence <= log.durable.sequence

    def knows(self, frame: Frame) -> bool:
        """True: this is the whole frame that a committed reference stands for."""
        return self._wholes.get(frame.header.last_sequence) == frame.header.header_crc


class NodeLedger(Tenures):
    """Judge of what is committed, acknowledged and folded in one world."""

    def __init__(self, majority: int, fail: Callable[[str], None]) -> None:
        super().__init__(majority, fail)
        self.facts: dict[int, Fact] = {}
        """Committed frames by last sequence."""
        self.end = Position()
        self.folds = Folds()
        """Folds of all committed frames."""
        self.acknowledged: dict[int, int] = {}
        """Highest number that each producer was told is committed, by life."""
        self.disks = (MemberDisk(), MemberDisk())
        self.payloads = Payloads(fail)
        """Payloads of samples that are not replicated."""
        self.values: dict[int, int] = {}
        """Count of the last value committed, by number of the producer in this world."""
        self._stops: dict[str, set[Position]] = {}

    def commits(self, index: int, run: int, epoch: int, frames: Sequence[Frame]) -> None:
        """Judge frames that a holder holds as committed."""
        tenure = self._acts(index, run, epoch, "commits")
        for frame in frames:
            if frame.header.last_sequence > self.end.sequence:
                self._first_commit(frame)
            else:
                self._compare(index, frame)
        for member in tenure.required:
            self._check_disk(index, member, frames[-1])

    def follows(self, index: int, frames: Sequence[Frame]) -> None:
        """Judge frames that a member holds as committed while it does not lead."""
        for frame in frames:
            self._compare(index, frame)

    def knows(self, frame: Frame) -> bool:
        """True: the frame is committed as it stands here."""
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
            self._counts(producer, number)
            if self.folds.producers.get(producer) is None:
                self._fail(f"{header.last} is of life {producer}, which is over")
        if producer and header.stream == Stream.SAMPLES and frame.header.kind == Kind.INT64:
            self._check_values(frame)

    def _check_values(self, frame: Frame) -> None:
        """Check that each producer of this world counts on; the last digit of a value is the producer's own number."""
        batch = samples.decode_body(frame.body, frame.header.kind, frame.header.record_count)
        for value in batch.values():
            count, producer = divmod(int(value), 10)
            if count != self.values.get(producer, 0) + 1:
                self._fail(f"value {count} of producer {producer} behind {self.values.get(producer, 0)}")
            self.values[producer] = count

    def answers(self, index: int, run: int, epoch: int, receipt: Appended) -> None:
        """Judge a receipt: a member tells a producer that its batch is committed, or early that it is on the disk."""
        self._acts(index, run, epoch, "acknowledges")
        sequence = receipt.position.sequence
        fact, disk = self.facts.get(sequence), self.disks[index]
        if receipt.uncommitted:
            if disk.synced < sequence or sequence not in disk.crcs:
                self._fail(f"{index} has {disk.synced} on its disk and says that {sequence} is there")
        elif fact is None or fact.epoch != receipt.position.epoch:
            self._fail(f"{index} acknowledges {receipt.position}, known is {fact}")

    def heard(self, receipt: Appended) -> None:
        """Note up to which number a producer was told that its batches are committed."""
        life, number = receipt.producer_id, receipt.producer_sequence - receipt.uncommitted
        self.acknowledged[life] = max(number, self.acknowledged.get(life, 0))
        if self._numbers.get(life, 0) < number:
            self._fail(f"life {life} was told {number}, the log has {self._numbers.get(life, 0)}")

    def check_server(self, index: int, folds: Folds) -> None:
        """Check that a member that serves has everything that was acknowledged."""
        for life, number in self.acknowledged.items():
            last = folds.producers.last_appended(life)
            if folds.producers.successor(life) is None and (last is None or last < number):
                self._fail(f"{index} serves, life {life} was told {number}, here is {last}")

    def has_name(self, name: str, run: int) -> bool:
        """True: of the programs that gave this name, it is this run's by the committed records."""
        known = self.folds.producers.find(name)
        return known is None or known.run == run

    def check_folds(self, index: int, folds: Folds, position: Position) -> None:
        """Check that folds at the end of what is committed are those of all that is."""
        if position != self.end:
            return
        mine, known = folds.snapshot(), self.folds.snapshot()
        compared = COMMON if self.payloads.count else known
        different = [name for name in compared if mine.get(name) != known.get(name)]
        if different or folds.log_time_ms != self.folds.log_time_ms:
            self._fail(f"{index}: folds at {position} are not those of the log: {different}")

    def stopped(self, shutdown_id: str, end: Position) -> None:
        """Note where a clean store ends after an orderly stop; stores that share a shutdown id end alike."""
        ends = self._stops.setdefault(shutdown_id, set())
        ends.add(end)
        if len(ends) > 1:
            self._fail(f"stopped together as {shutdown_id}, but at {sorted(ends)}")
