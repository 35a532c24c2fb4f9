"""A log on a simulated disk beside an oracle that remembers everything it was given and everything it told."""

import random
from pathlib import Path

from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, body_crc, frames
from albireo.log import Corrupted, LogConfig, StoreIdentity
from albireo.log.log import Log
from albireo.log.segment.recovery import RecoveryReport
from albireo.log.write.appending import Entry
from albireo.model.position import EpochEntry, Position
from albireo.sim.engine.disk import SimDisk

IDENTITY = StoreIdentity(cluster="7f0c", node="root")
DIRECTORY = Path("/data/log")
SEGMENTS = DIRECTORY / "segments"
QUARANTINE = DIRECTORY / "quarantine"
SMALL = LogConfig(
    segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0, index_every_bytes=512, tail_bytes_max=0
)
"""Configuration without a tail, so that every read comes from the disk."""


def entry_of(body: bytes | memoryview, record_count: int = 1, stream: int = 1) -> Entry:
    return Entry(stream, 16, record_count, body, body_crc(body))


def same(frame: Frame, other: Frame) -> bool:
    return frame.header == other.header and bytes(frame.body) == bytes(other.body)


def selected(log: Log, streams: tuple[int, ...], bytes_max: int) -> list[FrameHeader]:
    """Headers of all frames of these streams, as a follower gets them that reads on."""
    found: list[FrameHeader] = []
    looked_to = log.begin_sequence - 1
    while looked_to < log.committed.sequence:
        before = looked_to
        chunk, looked_to = log.select(looked_to, bytes_max, streams)
        assert looked_to > before
        found += [header for header, _ in frames(chunk)]
    return found


class World:
    """One node's log through crashes. `told` is the highest position anybody outside may have heard of."""

    def __init__(self, disk: SimDisk, config: LogConfig = SMALL, identity: StoreIdentity = IDENTITY) -> None:
        self.disk = disk
        self.config = config
        self.identity = identity
        self.written: list[Frame] = []
        self.told = 0
        self.found: dict[str, bytes] = {}
        """Segments as the last open found them."""
        self._random = random.Random(0)
        self.log: Log
        self.report: RecoveryReport

    def open(self) -> None:
        paths = segment_paths(self.disk) if self.disk.has_directory(SEGMENTS) else []
        self.found = {path.stem: self.disk.bytes_of(path) for path in paths}
        self.log, self.report = Log.open(DIRECTORY, self.identity, self.config, self.disk, self._random.randbytes)

    def begin_epoch(self) -> None:
        self.log.grant(EpochEntry(self.log.history.epoch + 1, self.log.end.sequence + 1, self._random.getrandbits(64)))

    def append(self, *sizes: int, stream: int = 1) -> None:
        entries = [entry_of(self._random.randbytes(size), 1 + size % 3, stream) for size in sizes]
        self.written += self.log.append(entries, elapsed_ms=5, node_ns=1_000_000 * len(self.written))

    def flush(self) -> None:
        self.log.flush()

    def commit(self) -> None:
        self.log.commit(self.log.durable)
        self.told = max(self.told, self.log.committed.sequence)

    def replayed(self) -> list[Frame]:
        return list(self.log.replay(self.log.begin_sequence - 1, self.log.committed.sequence))

    def check_nothing_lost(self) -> None:
        """After an honest crash: all that was told is there, what is there was written, the rest is cut."""
        assert self.report.corrupt == ()
        assert self.log.durable == self.log.end
        assert self.log.end.sequence >= self.told
        end = self.log.end.sequence
        self.written = [frame for frame in self.written if frame.header.last_sequence <= end]
        assert end == (self.written[-1].header.last_sequence if self.written else 0)
        self.commit()
        begin = self.log.begin_sequence
        kept = [frame for frame in self.written if frame.header.first_sequence >= begin]
        found = self.replayed()
        assert len(found) == len(kept)
        assert all(map(same, found, kept))
        self.check_tail()

    def check_tail(self) -> None:
        """Behind the last frame there are only zeros, and a torn tail has left its bytes in quarantine."""
        torn = self.report.torn
        if torn is not None:
            assert torn.first_sequence == self.report.end_sequence + 1
            for name in torn.files:
                stem, offset, _ = name.split("-")
                assert self.disk.bytes_of(QUARANTINE / name) == self.found[stem][int(offset) :].rstrip(b"\0")
        for path in segment_paths(self.disk)[-1:]:
            data = self.disk.bytes_of(path)
            whole = 0
            try:
                for header, _ in frames(data):
                    whole += header.frame_bytes
            except DecodeError:
                assert not data[whole:].strip(b"\0")

    def check_never_wrong(self) -> list[tuple[int, int]]:
        """Read what is committed: each frame is as written, or its sequences are reported; returns those ranges."""
        by_sequence = {frame.header.first_sequence: frame for frame in self.written}
        lost: list[tuple[int, int]] = []
        after = self.log.begin_sequence - 1
        while after < self.log.committed.sequence:
            try:
                for frame in self.log.replay(after, self.log.committed.sequence):
                    assert frame.header.first_sequence == after + 1
                    assert same(frame, by_sequence[after + 1])
                    after = frame.header.last_sequence
            except Corrupted as error:
                assert error.first_sequence == after + 1 <= error.last_sequence
                lost.append((error.first_sequence, error.last_sequence))
                after = error.last_sequence
        assert after == self.log.committed.sequence
        return lost

    def forget_cut(self) -> None:
        """The oracle gives up what a reported cut took."""
        torn = self.report.torn
        if torn is not None:
            self.written = [frame for frame in self.written if frame.header.last_sequence < torn.first_sequence]


def position_of(frame: Frame) -> Position:
    return frame.header.last


def segment_paths(disk: SimDisk) -> list[Path]:
    return [path for path in disk.paths(SEGMENTS) if path.suffix == ".segment"]
