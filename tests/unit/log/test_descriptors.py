"""A process that has no descriptor left goes on writing what must be durable; it is no failed disk."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BEGIN = """
import errno, os, resource, sys, threading
from pathlib import Path
from albireo.log import LogConfig, OsFileSystem, StoreIdentity, write_aside
from albireo.log.descriptors import RESERVED, raise_limit
from albireo.log.log import Log
from albireo.model.position import EpochEntry, Position
from tests.parts.log import entry_of

home = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 256))

def take_all():
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError as error:
        assert error.errno == errno.EMFILE
"""


def play(home: Path, story: str) -> None:
    """Run a story in a process of its own, with few descriptors."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(story), str(home)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_the_limit_is_raised_up_to_the_reserve(tmp_path: Path) -> None:
    play(
        tmp_path,
        """
        for _ in range(2):
            raise_limit()
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256 - RESERVED, 256)
        """,
    )


def test_files_are_opened_from_the_reserve(tmp_path: Path) -> None:
    play(
        tmp_path,
        """
        raise_limit()
        take_all()
        files = OsFileSystem()
        write_aside(files, home / "a", [b"x"])
        assert files.names(home) == ["a"]
        files.close(files.lock(home / "lock"))
        try:
            open(home / "b", "w")
            sys.exit("the reserve is for the file system only")
        except OSError as error:
            assert error.errno == errno.EMFILE
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256 - RESERVED, 256)
        """,
    )


def test_a_machine_without_a_descriptor_is_waited_for_and_no_failed_disk(tmp_path: Path) -> None:
    """The kernel's table of open files is full (ENFILE), at each call that opens one, for eight tries."""
    play(
        tmp_path,
        """
        real, left = {name: getattr(os, name) for name in ("open", "listdir")}, {}

        def when_full(name):
            def call(*args, **kwargs):
                left[name] = left.get(name, 8) - 1
                if left[name] >= 0:
                    raise OSError(errno.ENFILE, "Too many open files in system")
                return real[name](*args, **kwargs)
            return call

        def table_is_full():
            left.clear()
            for name in real:
                setattr(os, name, when_full(name))

        config = LogConfig(segment_bytes=1 << 16, free_bytes_min=0, pending_bytes_max=1 << 24)
        table_is_full()
        log, _ = Log.open(home / "log", StoreIdentity(cluster="c", node="n"), config, OsFileSystem(), os.urandom)
        durable, failures = threading.Semaphore(0), []
        log.start(lambda position: durable.release(), lambda failure: (failures.append(failure), durable.release()))
        for epoch in range(1, 5):
            table_is_full()
            log.grant(EpochEntry(epoch, log.end.sequence + 1, 7))
            table_is_full()
            end = log.append([entry_of(bytes(20_000)) for _ in range(4)], elapsed_ms=1, node_ns=1)[-1].header.last
            while log.durable < end and not failures:
                assert durable.acquire(timeout=60)
        assert failures == []
        log.close(clean=True)
        """,
    )


@pytest.mark.slow
def test_a_log_goes_on_over_segments_and_epochs_without_a_descriptor_left(tmp_path: Path) -> None:
    play(
        tmp_path,
        """
        raise_limit()
        config = LogConfig(segment_bytes=1 << 16, free_bytes_min=0, pending_bytes_max=1 << 24)
        log, _ = Log.open(home / "log", StoreIdentity(cluster="c", node="n"), config, OsFileSystem(), os.urandom)
        log.grant(EpochEntry(1, 1, 7))
        durable, failures = threading.Semaphore(0), []
        log.start(lambda position: durable.release(), lambda failure: (failures.append(failure), durable.release()))
        take_all()
        for epoch in range(2, 12):
            log.grant(EpochEntry(epoch, log.end.sequence + 1, 7))
            end = log.append([entry_of(bytes(20_000)) for _ in range(4)], elapsed_ms=1, node_ns=1)[-1].header.last
            while log.durable < end and not failures:
                assert durable.acquire(timeout=60)
        assert failures == []
        log.commit(log.end)
        log.close(clean=True)
        """,
    )


def test_a_voter_keeps_its_promise_without_a_descriptor_left(tmp_path: Path) -> None:
    play(
        tmp_path,
        """
        from albireo.codec.pair_message import Record
        from albireo.machine.vote import VoterStore
        from albireo.node.vote.store import VoterDisk

        raise_limit()
        disk = VoterDisk(OsFileSystem(), home, "root", "witness:w1", "c/root")
        take_all()
        record = Record(
            cluster="c/root", voters=("witness:w1",), generation=1, epoch=2, version=1, holder=0, run=0,
            members=(0,), lease_ns=1,
        )
        store = VoterStore(cluster="c/root", generation=1, promised=2, record=record)
        disk.save(store)
        assert VoterDisk(OsFileSystem(), home, "root", "witness:w1", "c/root").store == store
        """,
    )
