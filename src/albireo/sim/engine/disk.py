"""A disk in memory that does to the log what disks, kernels and power supplies do.

It keeps apart what the program sees (the page cache and the names in use) and what would be there after a power cut
(what was synced). `power_cut` makes a new disk of the latter plus a random choice of pages that had not been synced:
pages survive one by one, in any order, as they do in a disk's own cache.

What it can do, each from a seeded generator or at a chosen operation:

    power cut       in the middle of any change (`cut_at`), or between two operations (`power_cut`)
    process death   `process_death`: names and page cache stay, locks and handles go
    torn write      pages, or sectors of 512 bytes, survive independently
    short write     pwritev takes fewer bytes than given (`short_write_chance`)
    lost sync       sync returns and nothing is durable (`lost_sync_chance`)
    EIO, ENOSPC     `refuse` says which operation on which file fails with which errno; a failed sync marks its pages
                    clean, as Linux does: they read back fine, the next sync succeeds, and they are not on the disk
    disk full       `capacity_bytes`
    rot             `flip`, `zero`, `truncate`

Names that were not synced survive as a prefix of their directory's changes, as a journal gives it; a rename from one
directory to another survives in both or in neither. A directory is a name in its parent like a file: one whose name is
lost takes everything below it along, also what was synced.
"""

import errno
import os
import random
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from albireo.log.files import IOV_MAX, Buffer, Locked
from albireo.sim.engine.inodes import DiskDirectory, DiskFile, NameChange, apply_names, copy_pages

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
ROOT: Final = Path("/")
CHANGES: Final = frozenset(
    {"create", "pwritev", "sync", "rename", "link", "unlink", "make_directory", "sync_directory"}
)
"""Operations that count for `cut_at`: a power cut between two others makes no difference."""

DiskRefusal = Callable[[str, Path], int]
"""Function that says what is refused: (operation, path) -> errno, 0 for none."""


class PowerCut(Exception):
    """Raised by the operation in which the power fails, and by later ones on the same disk."""


class SimDisk:
    """Disk in memory, a `log.FileSystem`. Thread-safe, so that the log's own threads can run on it."""

    def __init__(
        self, seed: int = 0, *, page_bytes: int = PAGE_BYTES, capacity_bytes: int = 1 << 40, cut_at: int | None = None
    ) -> None:
        self.page_bytes = page_bytes
        self.capacity_bytes = capacity_bytes
        self.cut_at = cut_at
        self.short_write_chance = 0.0
        self.lost_sync_chance = 0.0
        self.refuse: DiskRefusal = _refuse_nothing
        self.operations: list[tuple[str, str]] = []
        """(operation, file name) of every change so far."""
        self._random = random.Random(seed)
        self._directories: dict[Path, DiskDirectory] = {ROOT: DiskDirectory()}
        self._handles: dict[int, tuple[Path, DiskFile]] = {}
        self._locks: dict[Path, int] = {}
        self._next_handle = 3
        self._is_off = False
        self._mutex = threading.RLock()

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._mutex:
            self._step("create" if create else "open", path)
            directory = self._directory(path)
            file = directory.file(path.name)
            if create:
                file = DiskFile()
                directory.change({path.name: file})
            elif file is None:
                raise _error(errno.ENOENT, path)
            self._end_step()
            return self._new_handle(path, file)

    def close(self, handle: int) -> None:
        with self._mutex:
            path, _ = self._handles.pop(handle)
            if self._locks.get(path) == handle:
                del self._locks[path]

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        with self._mutex:
            path, file = self._handles[handle]
            self._step("pread", path)
            return bytes(file.data[offset : offset + size])

    def pwritev(self, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
        with self._mutex:
            path, file = self._handles[handle]
            if len(buffers) > IOV_MAX:
                raise _error(errno.EINVAL, path)
            self._step("pwritev", path)
            data = b"".join(buffers)
            if len(data) > 1 and self._random.random() < self.short_write_chance:
                data = data[: self._random.randrange(1, len(data))]
            growth = max(0, offset + len(data) - len(file.data))
            if growth > max(0, self._free()):  # Files that a power cut brought back may have made it more than full.
                raise _error(errno.ENOSPC, path)
            file.data.extend(bytes(growth))
            file.data[offset : offset + len(data)] = data
            file.dirty.update(self._pages(offset, len(data)))
            self._end_step()
            return len(data)

    def sync(self, handle: int) -> None:
        with self._mutex:
            self._sync(handle, self._handles[handle][1].dirty)

    def pwrite_durably(self, handle: int, buffer: Buffer, offset: int) -> int:
        """As a write and a sync of these pages alone: the power may fail between both."""
        with self._mutex:
            taken = self.pwritev(handle, [buffer], offset)
            self._sync(handle, self._pages(offset, taken))
            return taken

    def _sync(self, handle: int, pages: Collection[int]) -> None:
        path, file = self._handles[handle]
        pages = sorted(pages)
        try:
            self._step("sync", path)
        except OSError:
            file.dirty.difference_update(pages)
            raise
        self._end_step()
        if self._random.random() >= self.lost_sync_chance:
            self._write_back(file, pages)
            file.dirty.difference_update(pages)

    def _pages(self, offset: int, size: int) -> range:
        return range(offset // self.page_bytes, (offset + size - 1) // self.page_bytes + 1)

    def expect(self, handle: int, size: int, offset: int) -> None:
        """Do nothing: a simulated disk has no memory beside itself."""

    def forget(self, handle: int, size: int, offset: int) -> None:
        """Do nothing: a simulated disk has no memory beside itself."""

    def size(self, handle: int) -> int:
        with self._mutex:
            return len(self._handles[handle][1].data)

    def rename(self, source: Path, target: Path) -> None:
        with self._mutex:
            self._step("rename", target)
            file = self._directory(source).file(source.name)
            if file is None:
                raise _error(errno.ENOENT, source)
            if source.parent == target.parent:
                self._directory(source).change({source.name: None, target.name: file})
            else:
                added = self._directory(target).change({target.name: file})
                removed = self._directory(source).change({source.name: None})
                added.partner = (self._directory(source), removed)
                removed.partner = (self._directory(target), added)
            self._end_step()

    def link(self, source: Path, target: Path) -> None:
        with self._mutex:
            self._step("link", target)
            file = self._directory(source).file(source.name)
            if file is None:
                raise _error(errno.ENOENT, source)
            directory = self._directory(target)
            if target.name in directory.names:
                raise _error(errno.EEXIST, target)
            directory.change({target.name: file})
            self._end_step()

    def unlink(self, path: Path) -> None:
        with self._mutex:
            self._step("unlink", path)
            directory = self._directory(path)
            if directory.file(path.name) is None:
                raise _error(errno.ENOENT, path)
            directory.change({path.name: None})
            self._end_step()

    def make_directory(self, path: Path) -> None:
        with self._mutex:
            for missing in self._missing(path):
                self._step("make_directory", missing)
                self._make(missing)
                self._end_step()

    def install(self, directory: Path) -> None:
        """Put a directory there as whoever set the machine up did: it is durable, and no operation of the program."""
        with self._mutex:
            for missing in self._missing(directory):
                self._directories[missing.parent].sync_to(self._make(missing))

    def _missing(self, path: Path) -> list[Path]:
        return [place for place in (*reversed(path.parents), path) if place not in self._directories]

    def _make(self, path: Path) -> NameChange:
        made = self._directories[path] = DiskDirectory()
        return self._directories[path.parent].change({path.name: made})

    def names(self, directory: Path) -> list[str]:
        with self._mutex:
            self._step("names", directory)
            return sorted(self._directory(directory / "x").names)

    def sync_directory(self, directory: Path) -> None:
        with self._mutex:
            self._step("sync_directory", directory)
            self._end_step()
            self._directory(directory / "x").sync()

    def free_bytes(self, directory: Path) -> int:
        with self._mutex:
            self._step("free_bytes", directory)
            return self._free()

    def lock(self, path: Path) -> int:
        with self._mutex:
            self._step("lock", path)
            if path in self._locks:
                raise Locked("another")
            directory = self._directory(path)
            file = directory.file(path.name)
            if file is None:
                file = DiskFile()
                directory.change({path.name: file})
            handle = self._locks[path] = self._new_handle(path, file)
            return handle

    def power_cut(self, seed: int, *, survival_chance: float = 0.5) -> "SimDisk":
        """Return the disk as the machine finds it when power is back; the disk that was cut is off from now on.

        Args:
            survival_chance: chance of each page to survive that was written and not synced, 0..1.
        """
        with self._mutex:
            self._is_off = True
            drawn = random.Random(seed)
            after = SimDisk(seed, page_bytes=self.page_bytes, capacity_bytes=self.capacity_bytes)
            files: dict[DiskFile, DiskFile] = {}
            surviving_changes = self._surviving_changes(drawn, survival_chance)

            def survive(path: Path) -> DiskDirectory:
                directory = self._directories[path]
                names = dict(directory.durable)
                for change in directory.changes[: surviving_changes[directory]]:
                    apply_names(names, change.names)
                surviving: dict[str, DiskFile | DiskDirectory] = {}
                for name, entry in names.items():
                    if isinstance(entry, DiskDirectory):
                        surviving[name] = survive(path / name)
                        continue
                    if entry not in files:
                        files[entry] = self._survived(entry, drawn, survival_chance)
                    surviving[name] = files[entry]
                after._directories[path] = DiskDirectory(surviving)
                return after._directories[path]

            survive(ROOT)
            return after

    def image(self, seed: int) -> "SimDisk":
        """Return a disk with what is durable right now; the disk itself goes on."""
        with self._mutex:
            copy = self.power_cut(seed, survival_chance=0.0)
            self._is_off = False
            return copy

    def process_death(self) -> None:
        """Let the process die, perhaps in the change at `cut_at`: locks and handles go, names and page cache stay."""
        with self._mutex:
            self._handles.clear()
            self._locks.clear()
            self.cut_at = None
            self._is_off = False

    def flip(self, path: Path, offset: int, bit: int) -> None:
        """Turn one bit, on the disk and in the cache."""
        file = self._file(path)
        for data in (file.data, file.durable):
            if offset < len(data):
                data[offset] ^= 1 << bit

    def zero(self, path: Path, offset: int, size: int) -> None:
        """Put zeros where data was, on the disk and in the cache."""
        file = self._file(path)
        for data in (file.data, file.durable):
            stop = min(offset + size, len(data))
            data[offset:stop] = bytes(max(0, stop - offset))

    def truncate(self, path: Path, size: int) -> None:
        file = self._file(path)
        del file.data[size:]
        del file.durable[size:]
        file.dirty = {page for page in file.dirty if page * self.page_bytes < size}

    def bytes_of(self, path: Path) -> bytes:
        """Return a file's bytes as the program sees them."""
        return bytes(self._file(path).data)

    def has_directory(self, directory: Path) -> bool:
        return directory in self._directories

    def paths(self, directory: Path) -> list[Path]:
        """Return the paths of a directory's files, ordered by name."""
        found = self._directories[directory]
        return [directory / name for name in sorted(found.names) if found.file(name) is not None]

    def _step(self, operation: str, path: Path) -> None:
        if self._is_off:
            raise PowerCut
        code = self.refuse(operation, path)
        if code:
            raise _error(code, path)
        if operation in CHANGES:
            self.operations.append((operation, path.name))

    def _end_step(self) -> None:
        """Cut the power if `cut_at` is reached: what was written or named is in the cache, nobody hears of it."""
        if self.cut_at is not None and len(self.operations) >= self.cut_at:
            self._is_off = True
            raise PowerCut

    def _free(self) -> int:
        entries = {entry for directory in self._directories.values() for entry in directory.names.values()}
        return self.capacity_bytes - sum(len(entry.data) for entry in entries if isinstance(entry, DiskFile))

    def _write_back(self, file: DiskFile, pages: Sequence[int]) -> None:
        copy_pages(file.data, file.durable, pages, self.page_bytes)

    def _surviving_changes(self, drawn: random.Random, chance: float) -> dict[DiskDirectory, int]:
        """Draw how many changes of each directory survive: a prefix, and both halves of a rename or none."""
        counts = {
            directory: round(drawn.random() * len(directory.changes)) if chance else 0
            for directory in self._directories.values()
        }
        todo = list(counts)
        while todo:
            directory = todo.pop()
            for change in directory.changes[: counts[directory]]:
                if change.partner is None:
                    continue
                other, half = change.partner
                if half in other.changes[counts[other] :]:
                    counts[other] = other.changes.index(half) + 1
                    todo.append(other)
        return counts

    def _survived(self, file: DiskFile, drawn: random.Random, chance: float) -> DiskFile:
        after = DiskFile()
        after.durable = bytearray(file.durable)
        pages = [page for page in sorted(file.dirty) if drawn.random() < chance]
        copy_pages(file.data, after.durable, pages, self.page_bytes)
        after.data = bytearray(after.durable)
        return after

    def _directory(self, path: Path) -> DiskDirectory:
        found = self._directories.get(path.parent)
        if found is None:
            raise _error(errno.ENOENT, path)
        return found

    def _file(self, path: Path) -> DiskFile:
        found = self._directories[path.parent].file(path.name)
        assert found is not None, f"no file {path}"
        return found

    def _new_handle(self, path: Path, file: DiskFile) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = (path, file)
        return self._next_handle


def _refuse_nothing(operation: str, path: Path) -> int:
    return 0


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
