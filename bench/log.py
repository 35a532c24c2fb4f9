"""The log against a raw loop: what do order, framing, CRC and recovery cost over bare durable writes?

Floor: one thread, pwritev + fdatasync of the same number of bytes on a zero-filled file in the same directory. Blocks
of both take turns, so that other load on the machine hits both alike.
"""

import os
import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from albireo.codec.frame import body_crc, frame_bytes
from albireo.log import Corrupted, LogConfig, StoreIdentity
from albireo.log.log import Log
from albireo.log.segment.recovery import RecoveryReport
from albireo.log.write.appending import Entry
from albireo.model.position import EpochEntry, Position
from bench import Case, Progress, Result, case, median, result

MESSAGE: Final = random.Random(1).randbytes(100)
BATCH: Final = random.Random(2).randbytes(100 * 100)
ROUNDS: Final = 60
"""Many short turns: on a shared disk the seconds differ more than the two do."""
SEGMENT_BYTES: Final = 256 * 1024 * 1024
"""Long enough that no measured block crosses into a new segment: the raw loop never does."""
IDENTITY: Final = StoreIdentity("bench", "root")
GIGABYTE: Final = 1_000_000_000
DAMAGE_TRIALS: Final = 16


class RawLoop:
    """The floor."""

    def __init__(self, path: Path, size: int) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        zeros = bytes(1 << 20)
        for offset in range(0, size, len(zeros)):
            os.pwrite(self._handle, zeros, offset)
            os.fdatasync(self._handle)
        os.fsync(self._handle)
        self._size = size
        self._offset = 0

    def commit(self, buffers: list[bytes]) -> None:
        length = sum(map(len, buffers))
        if self._offset + length > self._size:
            self._offset = 0
        os.pwritev(self._handle, buffers, self._offset)
        os.fdatasync(self._handle)
        self._offset += length

    def close(self) -> None:
        os.close(self._handle)


class BenchLog:
    """A log with a queue where durable positions arrive, as CORE's loop gets them."""

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        config = LogConfig(segment_bytes=segment_bytes, pending_bytes_max=1 << 28)
        self.log, _ = Log.open(directory, IDENTITY, config)
        self.log.grant(EpochEntry(self.log.history.epoch + 1, self.log.end.sequence + 1, 1))
        self.durable: SimpleQueue[Position] = SimpleQueue()
        self.log.keep_house()
        self.log.start(self.durable.put, _stop)
        self.commit([entry(MESSAGE)])

    def commit(self, entries: list[Entry]) -> None:
        """Append and wait until it is durable."""
        last = self.log.append(entries, elapsed_ms=0, node_ns=0)[-1].header.last
        while self.durable.get() < last:
            pass

    def pipelined(self, group: list[Entry], count: int) -> None:
        """`count` groups, one queued while one is synced."""
        ends: deque[Position] = deque()
        for _ in range(count):
            ends.append(self.log.append(group, elapsed_ms=0, node_ns=0)[-1].header.last)
            self._wait(ends, 1)
        self._wait(ends, 0)

    def _wait(self, ends: deque[Position], at_most: int) -> None:
        while len(ends) > at_most:
            durable = self.durable.get()
            while ends and ends[0] <= durable:
                ends.popleft()


def entry(body: bytes, record_count: int = 1) -> Entry:
    return Entry(1, 16, record_count, body, body_crc(body))


def run(progress: Progress) -> Result:
    Path("var").mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-log-", dir="var"))
    try:
        cases = [
            *_commits(directory / "commit", progress),
            *_open(directory / "open", progress),
            *_damage(directory / "damage", progress),
        ]
    finally:
        shutil.rmtree(directory)
    return result("log", cases)


def _commits(directory: Path, progress: Progress) -> list[Case]:
    directory.mkdir(parents=True)
    progress("zero-filling two files of 256 MiB")
    raw = RawLoop(directory / "raw", SEGMENT_BYTES)
    ours = BenchLog(directory / "log")
    progress("single commits, interleaved with the raw loop")
    one = [entry(MESSAGE)]
    padded = [bytes(frame_bytes(len(MESSAGE)))]
    floor_us, ours_us = [], []
    for _ in range(ROUNDS):
        floor_us.append(_p50_us(lambda: raw.commit(padded), 25))
        ours_us.append(_p50_us(lambda: ours.commit(one), 25))
    progress("8 x 100 messages per commit, interleaved with the raw loop")
    eight = [entry(BATCH)] * 8
    same = [bytes(frame_bytes(len(BATCH)))] * 8
    floor_rate, ours_rate, step_rate = [], [], []
    for _ in range(ROUNDS):
        floor_rate.append(_rate(lambda: raw.commit(same), 10))
        ours_rate.append(_rate(lambda: ours.pipelined(eight, 10), 1, 10))
        step_rate.append(_rate(lambda: ours.commit(eight), 10))
    ours.log.close()
    raw.close()
    shutil.rmtree(directory)
    return [
        case("single durable commit of 100 B, p50", "us", median(ours_us), median(floor_us), "<= 1.3"),
        case("8 x 100 messages per commit", "messages/s", median(ours_rate), median(floor_rate), ">= 0.8"),
        case("the same, each commit waited for", "messages/s", median(step_rate), median(floor_rate)),
    ]


def _open(directory: Path, progress: Progress) -> list[Case]:
    directory.mkdir(parents=True)
    progress("writing a log of 2 GB")
    ours = BenchLog(directory, LogConfig().segment_bytes)
    group = [entry(BATCH, 100)] * 64
    begun = time.perf_counter()
    while ours.log.stats().size_bytes < 2 * GIGABYTE:
        ours.pipelined(group, 8)
        ours.log.commit(ours.log.durable)
    rate = ours.log.stats().size_bytes / (time.perf_counter() - begun) / 1e6
    ours.log.close()
    progress("opening it")
    clean, killed = [], []
    for _ in range(3):
        clean.append(_opened_s(directory, clean=False))
        killed.append(_opened_s(directory, clean=True))
    shutil.rmtree(directory)
    return [
        case("open of 2 GB, warm, after a clean close", "s", median(clean), None, "<= 1"),
        case("open of 2 GB, warm, after a kill", "s", median(killed), None, "<= 1"),
        case("sustained, zero-filling and rolling included", "MB/s", rate),
    ]


def _opened_s(directory: Path, *, clean: bool) -> float:
    begun = time.perf_counter()
    log, report = Log.open(directory, IDENTITY)
    taken = time.perf_counter() - begun
    assert not report.corrupt
    log.close(clean=clean)
    return taken


def _damage(directory: Path, progress: Progress) -> list[Case]:
    """200 durable batches, closed cleanly, one damage per trial. Found: it is reported, and all else reads right."""
    directory.mkdir(parents=True)
    progress("damaging a log")
    drawn = random.Random(3)
    bodies = [drawn.randbytes(drawn.randrange(1, 4000)) for _ in range(200)]
    config = LogConfig(segment_bytes=256 * 1024, pending_bytes_max=1 << 26)
    log, _ = Log.open(directory / "whole", IDENTITY, config)
    log.grant(EpochEntry(1, 1, 1))
    for body in bodies:
        log.append([entry(body)], elapsed_ms=0, node_ns=0)
        log.flush()
        log.commit(log.durable)
        log.keep_house()
    log.close()
    cases = []
    for name, harm in (("truncations", _truncate), ("bit flips", _flip), ("holes", _hole)):
        found = 0
        for trial in range(DAMAGE_TRIALS):
            shutil.copytree(directory / "whole", directory / "trial")
            segments = sorted((directory / "trial" / "segments").glob("*.segment"))
            harm(drawn.choice(segments), random.Random(trial))
            found += _found(directory / "trial", config, bodies)
            shutil.rmtree(directory / "trial")
        cases.append(case(f"{name} found", "of 16", found, DAMAGE_TRIALS, "= 1"))
    return cases


def _found(directory: Path, config: LogConfig, bodies: list[bytes]) -> bool:
    """Whether the damage is reported, by the open or by the scrub that follows; wrong data is a failure."""
    log, report = Log.open(directory, IDENTITY, config)
    rounds = log.scrub_step(1 << 20).rounds
    while log.scrub_step(1 << 20).rounds == rounds:
        pass
    after = 0
    while after < log.committed.sequence:
        try:
            for frame in log.replay(after, log.committed.sequence):
                if bytes(frame.body) != bodies[frame.header.first_sequence - 1]:
                    return False
                after = frame.header.last_sequence
        except Corrupted as error:
            after = error.last_sequence
    found = bool(log.corrupt) and _reports(report)
    log.close()
    return found


def _reports(report: RecoveryReport) -> bool:
    return report.torn is None and report.committed_sequence == 200


def _truncate(path: Path, drawn: random.Random) -> None:
    os.truncate(path, drawn.randrange(_data_bytes(path)))


def _flip(path: Path, drawn: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[drawn.randrange(_data_bytes(path))] ^= 1 << drawn.randrange(8)
    path.write_bytes(data)


def _hole(path: Path, drawn: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = drawn.randrange(_data_bytes(path))
    stop = min(start + drawn.randrange(1, 4097), _data_bytes(path))
    data[start:stop] = bytes(stop - start)
    path.write_bytes(data)


def _data_bytes(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def _p50_us(action: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(count):
        begun = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - begun)
    return median(times) / 1000


def _rate(action: Callable[[], object], count: int, groups: int = 1) -> float:
    """Messages per second of `count` actions with `groups` groups of 800 messages each."""
    begun = time.perf_counter()
    for _ in range(count):
        action()
    return 800 * count * groups / (time.perf_counter() - begun)


def _stop(failure: object) -> None:
    raise SystemExit(str(failure))
