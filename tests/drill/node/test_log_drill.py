"""The log on real disks and in real processes: killed, out of space, without power."""

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from albireo.log import LogConfig
from albireo.log.log import Log
from albireo.model.position import EpochEntry
from tests.long_form import IS_LONG, some
from tests.parts.disk import ext4_image, mounted, needs_ext4, needs_root
from tests.parts.log import IDENTITY, entry_of
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

CONFIG = LogConfig(segment_bytes=256 * 1024, pending_bytes_max=1 << 22, free_bytes_min=0, prepare_retry_ms=20)
EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
ACKS_WANTED: Final = 200

WRITER: Final = """
import sys
from pathlib import Path
from queue import SimpleQueue
from albireo.log.write.appending import Entry
from albireo.log.log import Log
from albireo.log import LogConfig, StoreIdentity
from albireo.codec.frame import body_crc
from albireo.model.position import EpochEntry

config = LogConfig(segment_bytes=256 * 1024, pending_bytes_max=1 << 22, free_bytes_min=0)
log, _ = Log.open(Path(sys.argv[1]), StoreIdentity(cluster="7f0c", node="root"), config)
log.grant(EpochEntry(log.history.epoch + 1, log.end.sequence + 1, 1))
durable = SimpleQueue()
log.start(durable.put, lambda failure: None)
while True:
    for _ in range(4):
        body = b"%d;" % (log.end.sequence + 1) * 40
        log.append([Entry(1, 16, 1, body, body_crc(body))], elapsed_ms=1, node_ns=0)
    position = durable.get()
    log.commit(position)
    print(position.sequence, flush=True)
"""


def _check(directory: Path, acknowledged: int) -> None:
    """Every record acknowledged before the end is there, each as it was written."""
    log, report = Log.open(directory, IDENTITY, CONFIG)
    with closing(log):
        assert report.corrupt == ()
        assert report.end_sequence >= acknowledged
        log.commit(log.durable)
        found = [bytes(frame.body) for frame in log.replay(0, report.end_sequence)]
        assert found == [b"%d;" % sequence * 40 for sequence in range(1, report.end_sequence + 1)]


def _acknowledged(writer: subprocess.Popen[str], count: int) -> int:
    """The last of `count` acknowledgements."""
    assert writer.stdout is not None
    last = ""
    for number in range(count):
        last = writer.stdout.readline()
        assert last, f"it ended with {writer.wait()} after {number} acknowledgements"
    return int(last)


@contextmanager
def _writing(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def test_kill_9_again_and_again(tmp_path: Path) -> None:
    for _ in range(5 if IS_LONG else 2):
        with _writing(tmp_path / "log") as writer:
            acknowledged = _acknowledged(writer, ACKS_WANTED)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        _check(tmp_path / "log", acknowledged)


@needs_root
@needs_ext4
@pytest.mark.parametrize("round_", some(range(3), 3))
def test_power_cut_of_a_real_file_system(tmp_path: Path, round_: int) -> None:
    """ext4 is shut down without flushing its journal: what was not synced is gone, as when the power fails.

    A copy of the disk is what is mounted afterwards. A process that begins in a name space of its own meanwhile, as
    those of `FarDesk` do, has the old mount as well: mounting the same image again would find the file system that is
    shut down, for as long as that process lives.
    """
    image = tmp_path / "image"
    ext4_image(image, 64 << 20)
    disk = tmp_path / "disk"
    with mounted("-o", "loop", str(image), at=disk), _writing(disk / "log") as writer:
        acknowledged = _acknowledged(writer, ACKS_WANTED * (round_ + 1))
        handle = os.open(disk, os.O_RDONLY)
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, ctypes.c_uint32(NO_LOG_FLUSH))
        os.close(handle)
        writer.kill()
        writer.wait()
    after = tmp_path / "image after the cut"
    subprocess.run(["cp", str(image), str(after)], check=True)
    with mounted("-o", "loop", str(after), at=disk):
        _check(disk / "log", acknowledged)


@needs_root
def test_a_real_disk_fills_up_and_is_freed(tmp_path: Path) -> None:
    """Admission stops with a reason, what was taken waits, and goes on by itself once there is room."""
    disk = tmp_path / "disk"
    with mounted("-t", "tmpfs", "-o", "size=2m", "none", at=disk):
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        log, _ = Log.open(disk / "log", IDENTITY, CONFIG)
        log.grant(EpochEntry(1, 1, 1))
        failures: list[object] = []
        log.start(lambda position: None, failures.append)
        while not log.admission():
            log.append([entry_of(b"x" * 4000)], elapsed_ms=0, node_ns=0)
            _wait(log, lambda: log.durable == log.end or bool(log.admission()))
        assert "disk full" in log.admission()
        for _ in range(100):
            log.append([entry_of(b"x" * 4000)], elapsed_ms=0, node_ns=0)
        assert log.durable < log.end
        ballast.unlink()
        _wait(log, lambda: log.durable == log.end and not log.admission())
        log.commit(log.durable)
        assert sum(1 for _ in log.replay(0, log.end.sequence)) == log.end.sequence
        assert not failures
        log.close()


def _wait(log: Log, condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError(f"did not come true in time: {log.admission()!r}, {log.durable} of {log.end}")
