"""The seam to the file system: the calls that the log needs, and no others.

Everything that can be torn, lost or refused goes through `FileSystem`, so that `sim.engine.disk` can tear, lose and
refuse it. All methods may raise OSError. A handle is an int and belongs to the caller until `close`.

Durability contract, as POSIX and ext4 give it:
- what `pwritev` wrote is durable after the next `sync` of a handle of that file returned without error; what
  `pwrite_durably` took is durable when it returns, and nothing else is because of it;
- after an error of either the pages may be gone although a later `sync` succeeds: never retry one
  (PostgreSQL 2018, "PANIC on fsync() failure");
- a name made, changed or removed is durable after `sync_directory` of its directory.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from albireo.log.descriptors import with_reserve

IOV_MAX: Final = 1024
"""Buffers that one pwritev takes on Linux; one more is EINVAL."""
ASIDE: Final = ".aside"
"""Ending of a file that is not in its place yet."""
FETCHED_AT_ONCE: Final = 128 << 10
"""Linux cuts a request to the larger of a device's read-ahead, mostly 128 KiB, and its largest transfer.
ASSUMED: mm/readahead.c."""

NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS})
"""Errors of a sync of a directory that this program can't have made."""

NO_LINK: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of a link that a file system of this kind can't make: FAT, many FUSE and network shares."""

Buffer = bytes | bytearray | memoryview


class Locked(Exception):
    """Somebody else holds the lock; `holder` is what that process wrote into the file."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"held by {holder}")
        self.holder = holder


class FileSystem(Protocol):
    """See the module: the two implementations are `OsFileSystem` and `sim.engine.disk.SimDisk`."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; `create` makes an empty file or empties an existing one."""
        ...

    def close(self, handle: int) -> None: ...

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def pwritev(self, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write at most IOV_MAX buffers; returns the bytes taken, which may be fewer than given."""
        ...

    def sync(self, handle: int) -> None:
        """Make data, and the length if it changed, durable (fdatasync)."""
        ...

    def pwrite_durably(self, handle: int, buffer: Buffer, offset: int) -> int:
        """Write a buffer and make what was taken durable, in one call; returns the bytes taken, perhaps fewer."""
        ...

    def size(self, handle: int) -> int: ...

    def expect(self, handle: int, size: int, offset: int) -> None:
        """Fetch this part meanwhile, because it will be read soon. Nobody waits for it, and nothing is promised."""
        ...

    def forget(self, handle: int, size: int, offset: int) -> None:
        """Give back the memory of this part as far as it is durable, because nobody will read it soon."""
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name on the same file system.

        Raises:
            FileExistsError: that name is taken; nothing has changed.
        """
        ...

    def unlink(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """Parents included, mode 0700; an existing one is fine."""
        ...

    def names(self, directory: Path) -> list[str]: ...

    def sync_directory(self, directory: Path) -> None: ...

    def free_bytes(self, directory: Path) -> int:
        """Bytes that an ordinary user may still write there."""
        ...

    def lock(self, path: Path) -> int:
        """Take the exclusive lock of a file; closing the handle releases it.

        Raises:
            Locked: somebody else has it.
        """
        ...


class OsFileSystem:
    """The real file system. A process without a free descriptor is no failed disk: there is a reserve."""

    def open(self, path: Path, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        return with_reserve(os.open, path, flags, 0o600)

    def close(self, handle: int) -> None:
        os.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        # One pread stops at 2 GiB and may be interrupted; the loop costs nothing when it is not.
        data = os.pread(handle, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        taken = len(data)
        while taken < size and (data := os.pread(handle, size - taken, offset + taken)):
            parts.append(data)
            taken += len(data)
        return b"".join(parts)

    def pwritev(self, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
        return os.pwritev(handle, buffers, offset)

    def sync(self, handle: int) -> None:
        os.fdatasync(handle)

    def pwrite_durably(self, handle: int, buffer: Buffer, offset: int) -> int:
        return os.pwritev(handle, [buffer], offset, os.RWF_DSYNC)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def expect(self, handle: int, size: int, offset: int) -> None:
        for begin in range(offset, offset + size, FETCHED_AT_ONCE):
            os.posix_fadvise(handle, begin, FETCHED_AT_ONCE, os.POSIX_FADV_WILLNEED)

    def forget(self, handle: int, size: int, offset: int) -> None:
        os.posix_fadvise(handle, offset, size, os.POSIX_FADV_DONTNEED)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def names(self, directory: Path) -> list[str]:
        return sorted(with_reserve(os.listdir, directory))

    def sync_directory(self, directory: Path) -> None:
        handle = with_reserve(os.open, directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def free_bytes(self, directory: Path) -> int:
        numbers = os.statvfs(directory)
        return numbers.f_bavail * numbers.f_frsize

    def lock(self, path: Path) -> int:
        handle = with_reserve(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace") or "unknown"
            os.close(handle)
            raise Locked(holder) from None
        except OSError:
            os.close(handle)
            raise
        return handle


@contextlib.contextmanager
def opened(files: FileSystem, path: Path) -> Iterator[int]:
    """Handle of a file, closed behind the block."""
    handle = files.open(path)
    try:
        yield handle
    finally:
        files.close(handle)


def write_all(files: FileSystem, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
    """Write every buffer, IOV_MAX at a time, going on after short writes.

    Returns:
        The offset behind the last byte.

    Raises:
        OSError: as the file system says; how much was written is then unknown.
    """
    for start in range(0, len(buffers), IOV_MAX):
        chunk = buffers[start : start + IOV_MAX]
        total = sum(map(len, chunk))
        taken = files.pwritev(handle, chunk, offset)
        offset += taken
        if taken < total:
            offset = _write_rest(files, handle, chunk, taken, total, offset)
    return offset


def _write_rest(files: FileSystem, handle: int, chunk: Sequence[Buffer], taken: int, total: int, offset: int) -> int:
    rest = memoryview(b"".join(chunk))
    while taken < total:
        more = files.pwritev(handle, [rest[taken:]], offset)
        if more <= 0:
            raise OSError(0, "the file system takes no more bytes and says no error")
        taken += more
        offset += more
    return offset


def write_aside(files: FileSystem, path: Path, buffers: Sequence[Buffer]) -> None:
    """Put a whole file in place: written beside, synced, renamed over, directory synced.

    After a crash either the old file or the new one is there, never a part of one.
    """
    put_in_place(files, path, write_beside(files, path, buffers))


def write_beside(files: FileSystem, path: Path, buffers: Sequence[Buffer]) -> Path:
    """Write and sync a whole file beside the place where `put_in_place` lets it appear; returns where it is.

    Raises:
        OSError: as the file system says; nothing is left behind.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        handle = files.open(aside, create=True)
        try:
            write_all(files, handle, buffers, 0)
            files.sync(handle)
        finally:
            files.close(handle)
    except OSError:
        with contextlib.suppress(OSError):
            files.unlink(aside)
        raise
    return aside


def put_in_place(files: FileSystem, path: Path, aside: Path) -> None:
    """Let a file that was written beside `path` appear there, durably.

    Raises:
        OSError: as the file system says; a crash may then leave the old file or the new one.
    """
    try:
        files.rename(aside, path)
    except OSError:
        with contextlib.suppress(OSError):
            files.unlink(aside)
        raise
    files.sync_directory(path.parent)


def move_aside(files: FileSystem, root: Path) -> str:
    """Rename the folder to the first free `<folder>.damaged-<n>` and make a new one; returns the name."""
    number = 1
    while root.with_name(f"{root.name}.damaged-{number}").exists():
        number += 1
    target = root.with_name(f"{root.name}.damaged-{number}")
    files.rename(root, target)
    files.make_directory(root)
    files.sync_directory(root.parent)
    return target.name


def sync_names(files: FileSystem, directory: Path) -> None:
    """Make durable the names in `directory`, its own, and those of all directories above it.

    For whoever begins to count on what a run before left there: that run may have been killed between a name and its
    sync. A directory above that this user may not open, or of a kind that is never synced, was not made here.
    """
    files.sync_directory(directory)
    for above in directory.parents:
        try:
            files.sync_directory(above)
        except OSError as error:
            if error.errno not in NOT_OURS:
                raise


def read_file(files: FileSystem, path: Path, size_max: int) -> bytes | None:
    """The bytes of a file, None when there is none or it is longer than `size_max`."""
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return None
    try:
        size = files.size(handle)
        return None if size > size_max else files.pread(handle, size, 0)
    finally:
        files.close(handle)
