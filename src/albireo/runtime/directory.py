"""The data directory: its lock and its sockets.

    <data>/         0700
    <data>/lock     flock; held by boot *and* by every actor process it starts (they inherit the descriptor), so a new
                    node cannot start while one process of the old one still lives. Its text: the process id of boot,
                    and what a run of an actor left to the next one under this boot
    <data>/run/     0700; one unix socket per bound name

A unix socket path has room for 107 bytes. Longer ones are reached through /proc/self/fd/<descriptor of run/>, which
the kernel resolves at bind and connect, so that nothing has to be placed outside the data directory. (Rejected: a
symlink in XDG_RUNTIME_DIR, which has to be guarded, found again and cleaned up.)
"""

import asyncio
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import DataLocked, DirectoryUnsafe

SOCKET_PATH_BYTES_MAX: Final = 107
"""`sun_path` is 108 bytes with its terminating zero: unix(7)."""
_LEFT_AT: Final = 32
"""Offset of what a run left, behind the process id."""
LEFT_BYTES_MAX: Final = 64
LOCK_WAIT_S: Final = 5.0
"""Time that a start waits for the last process of a killed boot to be gone."""
LOCK_RETRY_S: Final = 0.05


def prepare(path: Path) -> Path:
    """Make `path` (and its parents) if it is not there, and see to it that it is ours alone.

    Raises:
        DirectoryUnsafe: it is no directory, or belongs to somebody else.
    """
    path = path.absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise DirectoryUnsafe(path, "is not a directory")
    if found.st_uid != os.geteuid():
        raise DirectoryUnsafe(path, f"belongs to user {found.st_uid}, not to {os.geteuid()}: run as its owner")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


class DataLock:
    """The right to run a node on a data directory. Released when the last process that inherited it ends."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, data: Path) -> "DataLock":
        """Take the lock at once or not at all.

        Raises:
            DataLocked: a node runs there, or a process of one has not ended yet.
        """
        path = prepare(data) / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise DataLocked(data, holder(data)) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".ljust(_LEFT_AT).encode(), 0)
        return cls(descriptor)

    def covers(self, data: Path) -> bool:
        """True if this is the lock of `data`; an actor asks before it takes over a socket name."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), (data / "lock").stat())
        except OSError:
            return False

    def leave(self, data: bytes) -> None:
        """Keep this for whoever inherits the lock later, in the one place there is (CORE's); boot's end ends it."""
        assert len(data) <= LEFT_BYTES_MAX, len(data)
        os.pwrite(self.descriptor, data, _LEFT_AT)
        os.ftruncate(self.descriptor, _LEFT_AT + len(data))

    def left(self) -> bytes:
        """Bytes that were left under this boot; empty: none were."""
        return os.pread(self.descriptor, LEFT_BYTES_MAX, _LEFT_AT)

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def holder(data: Path) -> int:
    """Process id of the boot that holds `data`; 0 if nobody does, or boot is about to write it."""
    try:
        descriptor = os.open(data / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, _LEFT_AT, 0).strip()
        return int(text) if text.isdigit() else 0
    else:
        return 0
    finally:
        os.close(descriptor)


class RunDirectory:
    """Directory of a node's sockets. Keeps a descriptor open while a socket lives that was reached through it."""

    def __init__(self, data: Path, *, create: bool = True) -> None:
        """Open `<data>/run`.

        Raises:
            DirectoryUnsafe: somebody else could reach it.
            FileNotFoundError: it is not there and `create` is False.
        """
        self.path = (data / "run").absolute()
        if create:
            prepare(data)
            prepare(self.path)
        self._descriptor = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(self._descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            self.close()
            raise DirectoryUnsafe(self.path, "others may reach it: it must be yours and of mode 0700")

    def address(self, name: str) -> str:
        """The path of the socket `name`, short enough for the kernel."""
        assert name.replace("-", "").replace("_", "").replace(".", "").isalnum(), name
        path = str(self.path / name)
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            return path
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def answers(self, name: str) -> bool:
        """True if a process listens on `name` right now."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(self.address(name))
            except BlockingIOError:
                return True  # Its backlog is full: busy, but alive.
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            return True

    def remove_stale(self) -> list[str]:
        """Remove every socket file nobody listens on. Only the holder of the lock may call this."""
        stale = [entry for entry in self.path.iterdir() if entry.is_socket() and not self.answers(entry.name)]
        for entry in stale:
            entry.unlink(missing_ok=True)
        return [entry.name for entry in stale]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lives(pid: int) -> bool:
    """True if `pid` is a process that can still run; a killed one that nobody has waited for can't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]  # proc(5): after the name.
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def lock_of(data: Path) -> DataLock:
    """Lock of `data`; waits for the actors of a killed boot, which end within moments."""
    deadline = boot_ns() + int(LOCK_WAIT_S * SECOND)
    while True:
        try:
            return DataLock.acquire(data)
        except DataLocked as locked:
            if boot_ns() >= deadline or lives(locked.pid):
                raise
        await asyncio.sleep(LOCK_RETRY_S)
