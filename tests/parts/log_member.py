"""Logs of the two members of a pair on simulated disks, beside an oracle that knows every branch ever written."""

import random
from collections.abc import Sequence

import msgspec

from albireo.codec.frame import Frame, FrameHeader, encode, frames
from albireo.log import LogConfig, StoreIdentity, pair_log_id
from albireo.log.log import Log
from albireo.log.segment.recovery import RecoveryReport
from albireo.model.instant import MS, LogTime
from albireo.model.position import EpochEntry
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import DIRECTORY, QUARANTINE, SMALL, entry_of, same

PAIR = pair_log_id("7f0c/root")
IDENTITIES = tuple(StoreIdentity(cluster="7f0c", node=f"root[{name}]", log_id=PAIR) for name in ("primary", "backup"))
ALL = 1 << 30


class State(msgspec.Struct, frozen=True):
    """Log that a member may hold after a crash: the frames of `branch` up to somewhere from `low` to `high`."""

    branch: tuple[Frame, ...]
    low: int
    high: int
    base: int = 0
    """The log begins behind this sequence."""

    def allows(self, found: Sequence[Frame], end: int) -> bool:
        last = found[-1].header.last_sequence if found else self.base
        return self.low <= end <= self.high and end == last and is_prefix(found, self.branch)


class Member:
    """One member's log through crashes. `branch` is what it was given, in order."""

    def __init__(self, index: int, disk: SimDisk, config: LogConfig = SMALL) -> None:
        self.index = index
        self.disk = disk
        self.config = config
        self.branch: list[Frame] = []
        self.base = 0
        self.open_cut: tuple[State, list[Frame]] | None = None
        """Other logs that may be found after a crash in the middle of a cut, and the frames in quarantine then."""
        self.random = random.Random(index)
        self.log: Log
        self.report: RecoveryReport

    def open(self) -> None:
        self.log, self.report = Log.open(
            DIRECTORY, IDENTITIES[self.index], self.config, self.disk, self.random.randbytes
        )

    def lead(self, epoch: int) -> None:
        header = self.log.header
        self.log.promise(epoch, max(epoch, header.accepted_epoch), self.log.history)
        self.log.grant(EpochEntry(epoch, self.log.end.sequence + 1, self.random.getrandbits(64)))

    def append(self, *sizes: int) -> None:
        entries = [entry_of(self.random.randbytes(size), 1 + size % 3, 1 + size % 2) for size in sizes]
        self.branch += self.log.append(entries, elapsed_ms=3, node_ns=7)

    def flush_and_commit(self) -> None:
        self.log.flush()
        self.log.commit(self.log.durable)

    def follow(self, holder: "Member") -> int:
        """Cut back to the common point and adopt the holder's history; returns the common point."""
        mine, theirs = self.log, holder.log
        common = theirs.history.common_point(mine.history, theirs.end.sequence, mine.end.sequence)
        self.cut(common)
        epoch = theirs.history.epoch
        header = mine.header
        mine.promise(max(epoch, header.tried_epoch), max(epoch, header.accepted_epoch), theirs.history)
        return common

    def feed(self, holder: "Member", bytes_max: int = ALL, chunks: int = 1 << 30) -> None:
        """Take what the holder has appended and this one lacks; it is told what is committed there."""
        while chunks and (chunk := holder.log.read_appended(self.log.end.sequence, bytes_max)):
            self.branch += self.log.append_raw(chunk)
            told = holder.log.committed
            if told.sequence <= self.log.end.sequence:
                self.log.commit(told)
            chunks -= 1

    def cut(self, sequence: int) -> None:
        gone = [frame for frame in self.branch if frame.header.last_sequence > sequence]
        kept = [frame for frame in self.branch if frame.header.last_sequence <= sequence]
        low = min(self.log.durable.sequence, sequence)
        self.open_cut = (State(tuple(kept), low, sequence, self.base), gone)
        self.log.cut_to(sequence, why="another branch", node_ns=11)
        self.branch, self.open_cut = kept, None
        assert self.log.end.sequence == sequence
        self.check_quarantine(gone)

    def start_over(self, holder: "Member", last: FrameHeader) -> None:
        """Forget everything and go on behind the holder's frame `last`."""
        old = self.branch
        self.open_cut = (State((), last.last_sequence, last.last_sequence, last.last_sequence), old)
        time = LogTime(last.log_time_ms * MS)
        history = holder.log.history
        self.log.start_over(last.last, last.header_crc, time, history=history, why="another branch", node_ns=11)
        self.branch, self.open_cut, self.base = [], None, last.last_sequence
        self.check_quarantine(old)

    def power_cut(self, seed: int, chance: float) -> None:
        """The machine goes off now, and comes back."""
        states = self.states()
        self.disk = self.disk.power_cut(seed, survival_chance=chance)
        self.open()
        self.check(states)

    def states(self) -> list[tuple[State, list[Frame]]]:
        """Logs that may be found after a crash right now, and the frames in quarantine for each."""
        present: tuple[State, list[Frame]] = (self._present(), [])
        return [present] if self.open_cut is None else [present, self.open_cut]

    def _present(self) -> State:
        return State(tuple(self.branch), self.log.durable.sequence, self.log.end.sequence, self.base)

    def check(self, states: Sequence[tuple[State, list[Frame]]]) -> None:
        """It holds one of the states, all of it readable, and nothing counts as corrupt: the disk was honest."""
        assert self.report.corrupt == ()
        assert self.log.durable == self.log.end
        found, end = self.held(), self.log.end.sequence
        fitting = [gone for state, gone in states if state.allows(found, end)]
        assert fitting, f"holds {len(found)} frames up to {end}, none of {[(s.low, s.high) for s, _ in states]}"
        self.branch, self.open_cut, self.base = found, None, self.log.begin_sequence - 1
        if len(fitting) == 1:
            self.check_quarantine(fitting[0])

    def held(self) -> list[Frame]:
        """Every frame, read from the disk or from memory."""
        found: list[Frame] = []
        after = self.log.begin_sequence - 1
        while chunk := self.log.read_appended(after, 5000):
            found += frames_of(chunk)
            after = found[-1].header.last_sequence
        return found

    def check_quarantine(self, gone: Sequence[Frame]) -> None:
        """Check that frames that were cut are in quarantine, byte for byte, and that a note tells of them."""
        if not gone:
            return
        last = gone[-1].header.last_sequence
        notes = [note for note in self.log.quarantine() if note.why == "another branch" and note.last_sequence == last]
        assert notes, "no note"
        data = [self.disk.bytes_of(QUARANTINE / name) for note in notes for name in note.files]
        for frame in gone:
            assert any(encode(frame).rstrip(b"\0") in one for one in data), f"{frame.header.last} is lost"


def frames_of(chunk: bytes) -> list[Frame]:
    return [Frame(header, body) for header, body in frames(chunk)]


def is_prefix(found: Sequence[Frame], branch: Sequence[Frame]) -> bool:
    return len(found) <= len(branch) and all(map(same, found, branch))
