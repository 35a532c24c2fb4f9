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
directory to another survives in both or in neither.
"""

import errno
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from albireo.log.files import IOV_MAX, Buffer, Locked

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
CHANGES: Final = frozenset({"create", "pwritev", "sync", "rename", "unlink", "make_directory", "sync_directory"})
"""Operations that count for `cut_at`: a power cut between two others makes no difference."""

Refusal = Callable[[str, Path], int]
"""Function that says what is refused: (operation, path) -> errno, 0 for none."""


class PowerCut(Exception):
    """Raised by the operation in which the power fails, and by later ones on the same disk."""


class _File:
    """One inode: what the program sees, what is durable, which pages differ."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()


class _Change:
    """One step of a directory's journal."""

    def __init__(self, names: dict[str, _File | None]) -> None:
        self.names = names
        self.partner: tuple[_Directory, _Change] | None = None
        """Directory and change of the other half, if this is half of a rename between two directories."""


class _Directory:
    def __init__(self, names: dict[str, _File] | None = None) -> None:
        self.names: dict[str, _File] = {} if names is None else names
        self.durable = dict(self.names)
        self.changes: list[_Change] = []

    def change(self, names: dict[str, _File | None]) -> _Change:
        _apply(self.names, names)
        self.changes.append(_Change(names))
        return self.changes[-1]

    def sync(self) -> None:
        """Make all changes so far durable, and those of other directories up to a rename that both share."""
        while self.changes:
            change = self.changes.pop(0)
            _apply(self.durable, change.names)
            if change.partner is not None:
                change.partner[0].sync_to(change.partner[1])

    def sync_to(self, last: _Change) -> None:
        while last in self.changes:
            change = self.changes.pop(0)
            _apply(self.durable, change.names)
            if change.partner is not None:
                change.partner[0].sync_to(change.partner[1])


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
        self.refuse: Refusal = _refuse_nothing
        self.operations: list[tuple[str, str]] = []
        """(operation, file name) of every change so far."""
        self._random = random.Random(seed)
        self._directories: dict[Path, _Directory] = {}
        self._handles: dict[int, tuple[Path, _File]] = {}
        self._locks: dict[Path, int] = {}
        self._next_handle = 3
        self._is_off = False
        self._mutex = threading.RLock()

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._mutex:
            self._step("create" if create else "open", path)
            directory = self._directory(path)
            file = directory.names.get(path.name)
            if create:
                file = _File()
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
            file.dirty.update(range(offset // self.page_bytes, (offset + len(data) - 1) // self.page_bytes + 1))
            self._end_step()
            return len(data)

    def sync(self, handle: int) -> None:
        with self._mutex:
            path, file = self._handles[handle]
            try:
                self._step("sync", path)
            except OSError:
                file.dirty.clear()
                raise
            self._end_step()
            if self._random.random() >= self.lost_sync_chance:
                self._write_back(file, sorted(file.dirty))
                file.dirty.clear()

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
            file = self._directory(source).names.get(source.name)
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

    def unlink(self, path: Path) -> None:
        with self._mutex:
            self._step("unlink", path)
            directory = self._directory(path)
            if path.name not in directory.names:
                raise _error(errno.ENOENT, path)
            directory.change({path.name: None})
            self._end_step()

    def make_directory(self, path: Path) -> None:
        with self._mutex:
            for missing in [place for place in (*reversed(path.parents), path) if place not in self._directories]:
                self._step("make_directory", missing)
                self._directories[missing] = _Directory()
                self._end_step()

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
            file = directory.names.get(path.name)
            if file is None:
                file = _File()
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
            files: dict[int, _File] = {}
            surviving_changes = self._surviving_changes(drawn, survival_chance)
            for path, directory in self._directories.items():
                names = dict(directory.durable)
                for change in directory.changes[: surviving_changes[directory]]:
                    _apply(names, change.names)
                for file in names.values():
                    if id(file) not in files:
                        files[id(file)] = self._survived(file, drawn, survival_chance)
                surviving = {name: files[id(file)] for name, file in names.items()}
                after._directories[path] = _Directory(surviving)
            return after

    def image(self, seed: int) -> "SimDisk":
        """Return a disk with what is durable right now; the disk itself goes on."""
        with self._mutex:
            copy = self.power_cut(seed, survival_chance=0.0)
            self._is_off = False
            return copy

    def process_death(self) -> None:
        """Let the process die: its locks and handles go, names and page cache stay."""
        with self._mutex:
            self._handles.clear()
            self._locks.clear()
            self.cut_at = None

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
        return [directory / name for name in sorted(self._directories[directory].names)]

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
        files = {id(file): file for directory in self._directories.values() for file in directory.names.values()}
        return self.capacity_bytes - sum(len(file.data) for file in files.values())

    def _write_back(self, file: _File, pages: Sequence[int]) -> None:
        _copy_pages(file.data, file.durable, pages, self.page_bytes)

    def _surviving_changes(self, drawn: random.Random, chance: float) -> dict[_Directory, int]:
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

    def _survived(self, file: _File, drawn: random.Random, chance: float) -> _File:
        after = _File()
        after.durable = bytearray(file.durable)
        pages = [page for page in sorted(file.dirty) if drawn.random() < chance]
        _copy_pages(file.data, after.durable, pages, self.page_bytes)
        after.data = bytearray(after.durable)
        return after

    def _directory(self, path: Path) -> _Directory:
        found = self._directories.get(path.parent)
        if found is None:
            raise _error(errno.ENOENT, path)
        return found

    def _file(self, path: Path) -> _File:
        return self._directories[path.parent].names[path.name]

    def _new_handle(self, path: Path, file: _File) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = (path, file)
        return self._next_handle


def _apply(names: dict[str, _File], changes: dict[str, _File | None]) -> None:
    for name, file in changes.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def _copy_pages(source: bytearray, target: bytearray, pages: Sequence[int], page_bytes: int) -> None:
    for page in pages:
        start, stop = page * page_bytes, min((page + 1) * page_bytes, len(source))
        if len(target) < stop:
            target.extend(bytes(stop - len(target)))
        target[start:stop] = source[start:stop]


def _refuse_nothing(operation: str, path: Path) -> int:
    return 0


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
