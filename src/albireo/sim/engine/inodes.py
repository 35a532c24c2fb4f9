"""Inodes of the disk in memory: files and directories as the program sees them, and what of them is durable."""

from collections.abc import Mapping, Sequence


class DiskFile:
    """One file: what the program sees, what is durable, which pages differ."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()


class NameChange:
    """One step of a directory's journal."""

    def __init__(self, names: "Mapping[str, DiskFile | DiskDirectory | None]") -> None:
        self.names = names
        self.partner: tuple[DiskDirectory, NameChange] | None = None
        """Directory and change of the other half, if this is half of a rename between two directories."""


class DiskDirectory:
    """One directory: the files and directories in it that the program sees, those that are durable, and between both
    the changes that are not synced."""

    def __init__(self, names: "dict[str, DiskFile | DiskDirectory] | None" = None) -> None:
        self.names: dict[str, DiskFile | DiskDirectory] = {} if names is None else names
        self.durable = dict(self.names)
        self.changes: list[NameChange] = []

    def file(self, name: str) -> DiskFile | None:
        found = self.names.get(name)
        return found if isinstance(found, DiskFile) else None

    def change(self, names: "Mapping[str, DiskFile | DiskDirectory | None]") -> NameChange:
        apply_names(self.names, names)
        self.changes.append(NameChange(names))
        return self.changes[-1]

    def sync(self) -> None:
        """Make all changes so far durable, and those of other directories up to a rename that both share."""
        while self.changes:
            change = self.changes.pop(0)
            apply_names(self.durable, change.names)
            if change.partner is not None:
                change.partner[0].sync_to(change.partner[1])

    def sync_to(self, last: NameChange) -> None:
        while last in self.changes:
            change = self.changes.pop(0)
            apply_names(self.durable, change.names)
            if change.partner is not None:
                change.partner[0].sync_to(change.partner[1])


def apply_names(
    names: dict[str, DiskFile | DiskDirectory], changes: Mapping[str, DiskFile | DiskDirectory | None]
) -> None:
    for name, entry in changes.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def copy_pages(source: bytearray, target: bytearray, pages: Sequence[int], page_bytes: int) -> None:
    for page in pages:
        start, stop = page * page_bytes, min((page + 1) * page_bytes, len(source))
        if len(target) < stop:
            target.extend(bytes(stop - len(target)))
        target[start:stop] = source[start:stop]
