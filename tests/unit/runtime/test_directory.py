"""The data directory: one holder, nobody else's eyes, sockets at any depth."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from albireo.runtime.directory import (
    LEFT_BYTES_MAX,
    SOCKET_PATH_BYTES_MAX,
    DataLock,
    RunDirectory,
    holder,
    prepare,
)
from albireo.runtime.errors import DataLocked, DirectoryUnsafe


def test_directories_are_made_for_their_owner_alone_and_tightened_if_they_were_not(tmp_path: Path) -> None:
    data = tmp_path / "var" / "root"
    assert prepare(data).stat().st_mode & 0o777 == 0o700
    data.chmod(0o755)
    assert prepare(data).stat().st_mode & 0o777 == 0o700


def test_a_client_refuses_a_run_directory_that_others_may_enter(tmp_path: Path) -> None:
    RunDirectory(tmp_path).close()
    (tmp_path / "run").chmod(0o750)
    with pytest.raises(DirectoryUnsafe, match="0700"):
        RunDirectory(tmp_path, create=False)


def test_a_symlink_in_place_of_the_run_directory_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    prepare(tmp_path / "data")
    (tmp_path / "data" / "run").symlink_to(elsewhere)
    with pytest.raises((DirectoryUnsafe, OSError)):
        RunDirectory(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(DirectoryUnsafe, match="belongs to user 12345"):
        prepare(tmp_path)


@pytest.mark.parametrize("length", [50, 99, 100, 107, 108, 200])
def test_an_address_fits_the_kernel_at_any_length(tmp_path: Path, length: int) -> None:
    run = RunDirectory(tmp_path / ("d" * max(1, length - len(str(tmp_path)) - len("//run/core"))))
    address = run.address("core")
    assert len(address) <= SOCKET_PATH_BYTES_MAX
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(address)
        bound.listen()
        assert (run.path / "core").is_socket()
        assert run.answers("core")
    assert not run.answers("core")
    assert run.remove_stale() == ["core"]
    assert not (run.path / "core").exists()
    run.close()


def test_only_sockets_that_nobody_listens_on_are_stale(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    (run.path / "note").write_text("kept")
    with socket.socket(socket.AF_UNIX) as alive, socket.socket(socket.AF_UNIX) as dead:
        alive.bind(run.address("alive"))
        alive.listen()
        dead.bind(run.address("dead"))
        assert run.remove_stale() == ["dead"]
    run.close()


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    assert holder(tmp_path) == 0
    lock = DataLock.acquire(tmp_path)
    assert lock.covers(tmp_path)
    assert not lock.covers(tmp_path / "other")
    assert holder(tmp_path) == os.getpid()
    with pytest.raises(DataLocked, match=f"process {os.getpid()}") as refused:
        DataLock.acquire(tmp_path)
    assert refused.value.pid == os.getpid()
    lock.release()
    assert holder(tmp_path) == 0
    DataLock.acquire(tmp_path).release()


def test_a_process_that_inherited_the_lock_still_holds_it(tmp_path: Path) -> None:
    """Actors that a killed boot leaves behind must be gone before another node may start."""
    lock = DataLock.acquire(tmp_path)
    heir = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,)
    )
    lock.release()
    with pytest.raises(DataLocked):
        DataLock.acquire(tmp_path)
    heir.communicate()
    DataLock.acquire(tmp_path).release()


def test_what_is_left_stays_for_whoever_inherits_the_lock_and_no_longer(tmp_path: Path) -> None:
    lock = DataLock.acquire(tmp_path)
    assert lock.left() == b""
    for data in (b"x" * LEFT_BYTES_MAX, b"", b"\x00 5\n"):
        lock.leave(data)
        heir = DataLock(os.dup(lock.descriptor))
        assert heir.left() == data
        assert holder(tmp_path) == os.getpid()
        heir.release()
    lock.release()
    anew = DataLock.acquire(tmp_path)
    assert anew.left() == b"", "another boot held the directory"
    anew.release()
