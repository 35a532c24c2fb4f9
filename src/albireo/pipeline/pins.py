"""Pins: the files of the history that a run reads, under names of its own, so that nobody can take them away.

A node that is at work merges its files, and removes what it has merged ten minutes later. A run may take longer, and it
may be paused for hours between two of its jobs. A pin is a second name of the same file (a hard link) in the run's own
folder, made in milliseconds; files of a history are never changed, only replaced. Where the output is on another file
system, or the files belong to another user, a pin is a copy.

A file that is gone before it is pinned was merged between the reading of the manifest and that moment: the manifest
that is there now lists what has its rows. So the manifest is read again, as long as it is a newer one.

Pins go at the end of the run, and those of a run that was killed at the begin of the next.

Spec: ADR-0173.
"""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from albireo.codec.history import FileEntry
from albireo.log.files import NO_LINK
from albireo.pipeline.errors import OutputUnusable, SourceDamaged, SourceMissing
from albireo.pipeline.source import HistoryFolder, open_history, read_manifest

FOLDER: Final = "pinned"
OPENINGS_MAX: Final = 10
"""Manifests read before a run gives up: a node writes one each minute, so ten in a row mean something else."""
_NO_LINK: Final = NO_LINK | {errno.EXDEV, errno.EACCES}
"""Errors of a link after which a copy may do: other file system, other owner, no links there, too many of them."""

Value = TypeVar("Value")


def pin(history: HistoryFolder, entries: Sequence[FileEntry], folder: Path) -> HistoryFolder:
    """The history with these files pinned below `folder`; `path` of the answer tells where they are read.

    Args:
        folder: what is pinned in it already stays.
    Raises:
        SourceMissing: a file is not there (any more).
        SourceDamaged: a file can't be read, or is not as long as the manifest says.
        OutputUnusable: there is no room for copies.
    """
    for entry in entries:
        target = folder / entry.path
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        _pinned(history.directory / entry.path, target)
        size_bytes = target.stat().st_size
        if size_bytes != entry.size_bytes:
            raise SourceDamaged(
                history.directory / entry.path,
                f"has {size_bytes} bytes, the manifest says {entry.size_bytes}",
                "restore it from a backup",
            )
    return msgspec.structs.replace(history, pins=folder)


def begun(directory: Path, work: Callable[[HistoryFolder], Value]) -> Value:
    """Answer of `work` on the history; it is asked anew if a file went meanwhile and a newer manifest is there.

    Raises:
        SourceError: as `open_history` and `work` do.
    """
    for opening in range(1, OPENINGS_MAX + 1):
        manifest = read_manifest(directory)
        try:
            return work(open_history(directory, manifest))
        except SourceMissing:
            if opening == OPENINGS_MAX or read_manifest(directory).generation == manifest.generation:
                raise
    raise AssertionError("the last opening returns or raises")


def unpin(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _pinned(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError as error:
        raise _gone(source) from error
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise OutputUnusable(f"{target} can't be made ({error.strerror})", "check the disk") from error
        _copied(source, target)


def _copied(source: Path, target: Path) -> None:
    """A copy; complete under its name or not there."""
    aside = target.with_name(f"{target.name}.tmp")
    try:
        shutil.copyfile(source, aside)
        aside.rename(target)
    except FileNotFoundError as error:
        raise _gone(source) from error
    except OSError as error:
        raise OutputUnusable(
            f"{source} can't be copied to {target} ({error.strerror})",
            "make room, or name an output on the history's own file system with --out: there no copy is needed",
        ) from error


def _gone(path: Path) -> SourceMissing:
    return SourceMissing(path, "listed in the manifest but not there", "restore it from a backup")
