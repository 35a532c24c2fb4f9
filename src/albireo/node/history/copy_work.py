"""Work of a copy on both sides, each piece done in a thread and all or nothing. The machine says which comes next.

    there    group_sent (machine.history.giving), read_piece
    here     store_piece ... take, store_piece ... take, keep      then the next group
             end                                                   when there is none

The one file under way lies aside as `incoming.tmp`; the files made of it are listed by no manifest before `keep` lists
them. So a crash leaves files that the next `HistoryStore.open` removes, and a group that is done or not.

Spec: ADR-0124, ADR-0218.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from albireo.codec.history import FileEntry, FileKind
from albireo.codec.history_copy import PieceAsked, PieceSent
from albireo.codec.tree.stored import PIECE_BYTES
from albireo.log.files import write_all
from albireo.machine.history.copy_events import EndHole, KeepGroup, StorePiece, TakeFile
from albireo.machine.history.declared import DeclaredItems
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.files.taking import take, take_items

ASIDE: Final = "incoming.tmp"


def read_piece(store: HistoryStore, ask: PieceAsked) -> tuple[PieceSent, bytes]:
    """Some bytes of a file that the manifest lists, or listed until lately; no other path is looked at."""
    manifest, piece, reason = store.manifest, b"", ""
    listed = {entry.path for entry in manifest.files} | {one.path for one in manifest.retired}
    if ask.path not in listed or ask.offset < 0 or not 0 < ask.size_bytes <= PIECE_BYTES:
        reason = "gone"
    else:
        try:
            piece = _read(store.root / ask.path, ask.offset, ask.size_bytes)
        except FileNotFoundError:
            reason = "unreadable" if any(entry.path == ask.path for entry in manifest.files) else "gone"
        except (OSError, OverflowError):
            reason = "unreadable"
    return PieceSent(number=ask.number, path=ask.path, offset=ask.offset, reason=reason), piece


def _read(path: Path, offset: int, size_bytes: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), size_bytes, offset)


class CopyWork:
    """Work of one copy on the receiving side. One call at a time; `keep` and `end` belong in the manifest's thread."""

    def __init__(self, store: HistoryStore, abandon: threading.Event) -> None:
        self._store = store
        self._abandon = abandon
        self._aside = store.root / ASIDE
        self._handle: int | None = None
        self._made: list[FileEntry] = []
        """Files made, durable, and listed by no manifest yet."""
        self._items: DeclaredItems | None = None
        """Items taken, and listed by no manifest yet."""

    def store_piece(self, effect: StorePiece) -> None:
        """Write a piece of the file aside.

        Raises:
            OSError: of the disk.
        """
        files = self._store.files
        if effect.offset == 0:
            self._close()
            self._handle = files.open(self._aside, create=True)
        assert self._handle is not None, "a file begins at 0"
        write_all(files, self._handle, [effect.piece], effect.offset)

    def take(self, effect: TakeFile) -> None:
        """Make files of our own of the file aside.

        Raises:
            FileRefused: it differs from the other manifest, or is no file of a history.
            MergeAbandoned: this actor stops.
            OSError: of the disk.
        """
        self._close()
        if effect.entry.kind is FileKind.ITEMS:
            self._items = take_items(self._aside, effect.entry)
            return
        self._made += take(self._store, self._aside, effect.entry, effect.hole, self._abandon)

    def keep(self, effect: KeepGroup, now_ns: int) -> None:
        """List the files made.

        Raises:
            OSError: of the disk; nothing was listed, and the store has removed the files made.
            HoleGone: as above; the log went another way meanwhile.
        """
        made, self._made = self._made, []
        items, self._items = self._items, None
        self._store.fill(effect.hole, [effect.after], made, now_ns, items)
        self._remove_aside()

    def end(self, effect: EndHole, now_ns: int) -> None:
        """List the rest of the hole in its place.

        Raises:
            OSError: of the disk; the hole is still there.
            HoleGone: the log went another way meanwhile.
        """
        self._store.fill(effect.hole, effect.left, (), now_ns)

    def forget(self) -> None:
        """Remove the files made of this group."""
        made, self._made = self._made, []
        self._items = None
        self._store.discard(made)
        self._remove_aside()

    def _remove_aside(self) -> None:
        self._close()
        with contextlib.suppress(OSError):  # The next start removes it.
            self._store.files.unlink(self._aside)

    def _close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._store.files.close(handle)
