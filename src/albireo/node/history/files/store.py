"""The store: the history's folder, and the manifest that is the only truth about it.

A change is always made alike: new files are written aside, synced and renamed, then a new manifest is, then files that
it no longer lists are removed. So a crash leaves the old history or the new one, and unlisted files, which the next
`open` removes. The manifest carries the durable position: records above it come again from the log, those below never.

The previous manifest is kept as `manifest.previous.json`, with all its files: a damaged manifest costs one seal, which
the log gives again. With both lost the folder is moved aside whole, never deleted.

One thread writes at a time (the caller's obligation); `manifest` and `items` may be read by others, both are replaced,
never changed.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from albireo.codec.history import (
    BUCKET_NS,
    MANIFEST_NAME,
    PREVIOUS_NAME,
    Enclosed,
    FileEntry,
    FileKind,
    Hole,
    Manifest,
    Retired,
    day_of,
    encode_manifest,
    file_path,
    items_path,
    partials_path,
)
from albireo.log.files import (
    ASIDE,
    FileSystem,
    OsFileSystem,
    move_aside,
    put_in_place,
    sync_names,
    write_aside,
    write_beside,
)
from albireo.machine.history.aggregate import merge, partials_of
from albireo.machine.history.declared import DeclaredItems, Row
from albireo.model.instant import SECOND
from albireo.model.position import EpochEntry
from albireo.node.history import rows as rows_of
from albireo.node.history.errors import HistoryDamaged, HoleGone, MergeAbandoned
from albireo.node.history.files import chunks as chunks_of
from albireo.node.history.files import parquet
from albireo.node.history.files.branches import BranchCutter, CutFiles, holes_behind
from albireo.node.history.files.entries import entry_of
from albireo.node.history.files.hot import HotContent
from albireo.node.history.files.items import load_items, write_items
from albireo.node.history.files.manifests import MISSING, load

FOLDER: Final = "history"
RETIRED_GRACE_NS: Final = 600 * SECOND
"""Time for which a replaced file stays for readers of an older manifest; a query or a Spark job must not take longer
to open its files."""
REMOVED_MAX: Final = 256
"""Most replaced files that go with one manifest."""


class OpenReport(msgspec.Struct, frozen=True):
    """Findings of `HistoryStore.open`."""

    leftovers: int = 0
    """Files of unfinished work that were removed."""
    problem: str = ""
    """Why the newest manifest could not be used; empty: it could."""
    quarantine: str = ""
    """Folder to which a history without a usable manifest was moved."""


class HistoryStore:
    """The files of one history."""

    def __init__(self, root: Path, manifest: Manifest, previous: Manifest | None, files: FileSystem) -> None:
        self.root = root
        self.manifest = manifest
        self.declared = DeclaredItems({})
        """Items by the items file."""
        self.numbers = count(manifest.generation + 1)
        """Numbers for files and manifests: no two files have one, though writes of several kinds go side by side; the
        manifest that lists a file has a later one."""
        self._previous = previous
        self._files = files
        self._known_folders: set[Path] = set()

    @classmethod
    def open(
        cls,
        data: Path,
        node: str,
        files: FileSystem | None = None,
        folder: str = FOLDER,
        *,
        with_leftovers: bool = False,
    ) -> tuple["HistoryStore", OpenReport]:
        """The history of `node` below a data directory, made if there is none.

        Args:
            with_leftovers: the caller removes the files of unfinished work, before anything is written.

        Raises:
            OSError: of the disk.
        """
        files = files or OsFileSystem()
        root = data / folder
        files.make_directory(root)
        sync_names(files, root)  # By the manifest found here the log lets records go: its name has to be durable.
        newest, problem = load(root / MANIFEST_NAME)
        previous, _ = load(root / PREVIOUS_NAME)
        quarantine = ""
        if newest is None and previous is None and next(root.rglob("*.parquet"), None) is not None:
            quarantine = move_aside(files, root)
        manifest = newest or previous or Manifest(node=node)
        store = cls(root, manifest, previous, files)
        leftovers = 0 if with_leftovers else store.remove_leftovers()
        store.declared = load_items(root, [manifest, *([] if previous is None else [previous])])
        if newest is None and previous is None and not quarantine:
            problem = ""  # A node's first start.
        return store, OpenReport(leftovers, problem, quarantine)

    def establish(self, log_id: str, enclosed: Enclosed, now_ns: int) -> None:
        """Make the folder of a node below, with a manifest that lists nothing: a file without one would be a damage.

        Raises:
            OSError: of the disk.
        """
        self._files.make_directory(self.root)
        sync_names(self._files, self.root)
        self._replace_manifest(msgspec.structs.replace(self.manifest, log_id=log_id, enclosed=enclosed), [], now_ns)

    def seal(
        self,
        content: HotContent,
        log_id: str,
        now_ns: int,
        history: tuple[EpochEntry, ...] = (),
        enclosed: Enclosed | None = None,
    ) -> Manifest:
        """Make everything in `content` durable, and the position with it.

        Args:
            log_id: hexadecimal id of the log that `content` came from.
            history: its epoch history.
            now_ns: boot clock, to let go of files that were replaced long ago.
            enclosed: of the history of a node below, where in the log above `content` came from.

        Raises:
            OSError: of the disk; the history is as it was, try again later.
        """
        declared = self.declared.with_news(content.items)
        left, rests = holes_behind(self.manifest.holes, content.forks)
        holes = [self._placed(hole) for hole in (*rests, *content.holes)]
        entries: list[FileEntry] = []
        cutter = BranchCutter(self.root, self._files, self.make_folder, next(self.numbers))
        try:
            self._begin(now_ns)
            for entry in chain(self._write_content(content, declared), self._write_gaps(holes)):
                entries.append(msgspec.structs.replace(entry, log_id=log_id))  # noqa: PERF401  # Kept when it fails.
            cut = self._cut(cutter, content)
        except OSError:
            self.discard([*entries, *cutter.made])
            raise
        entries += cut.living
        manifest, cut_gaps = self.manifest, self._gap_files(set(self.manifest.holes) - set(left))
        gone = [*(manifest.of_kind(FileKind.ITEMS) if declared is not self.declared else []), *cut.gone, *cut_gaps]
        changed = msgspec.structs.replace(
            manifest,
            log_id=log_id,
            position=content.position,
            history=history,
            complete_to_ns=content.complete_to_ns,
            files=(*(entry for entry in manifest.files if entry not in gone), *entries),
            retired=(*manifest.retired, *(Retired(path=entry.path, since_ns=now_ns) for entry in gone)),
            holes=(*left, *holes),
            cut_off=(*manifest.cut_off, *cut.dead),
            filled=manifest.filled + bool(cut.gone or cut_gaps),
            enclosed=enclosed,
        )
        self._replace_manifest(changed, [*entries, *cut.dead], now_ns)
        self.declared = declared
        return self.manifest

    def _begin(self, now_ns: int) -> None:
        """Have a manifest before the first file: one that no manifest ever listed is a damage to whoever finds it."""
        if not self.manifest.generation:
            self._replace_manifest(self.manifest, [], now_ns)

    def _cut(self, cutter: BranchCutter, content: HotContent) -> CutFiles:
        """Take the rows of branches that the log left out of the files, and write those that were in none yet.

        Gaps of holes are no records of a log.
        """
        if not content.forks:
            return CutFiles()
        of_holes = {hole.gap for hole in self.manifest.holes}
        cut = cutter.cut([one for one in self.manifest.files if one.path not in of_holes], min(content.forks))
        before = len(cutter.made)
        for left in content.left:
            cutter.made.extend(self._write_content(left, self.declared))
        return msgspec.structs.replace(cut, dead=(*cut.dead, *cutter.made[before:]))

    def replace(self, inputs: Sequence[FileEntry], outputs: Sequence[FileEntry], now_ns: int) -> Manifest:
        """List `outputs` (already durable) instead of `inputs`.

        Raises:
            OSError: of the disk; the history is as it was, the outputs are removed.
            MergeAbandoned: an input is not listed any more; as above.
        """
        gone = {entry.path for entry in inputs}
        if not gone <= {entry.path for entry in self.manifest.files}:
            self.discard(outputs)
            raise MergeAbandoned
        retired = (Retired(path=entry.path, since_ns=now_ns) for entry in inputs)
        changed = msgspec.structs.replace(
            self.manifest,
            files=(*(entry for entry in self.manifest.files if entry.path not in gone), *outputs),
            retired=(*self.manifest.retired, *retired),
        )
        self._replace_manifest(changed, outputs, now_ns)
        return self.manifest

    def fill(
        self,
        hole: Hole,
        left: Sequence[Hole],
        made: Sequence[FileEntry],
        now_ns: int,
        past: DeclaredItems | None = None,
    ) -> Manifest:
        """List files of records in `hole`, and the rest of it in its place.

        Args:
            left: the hole with its progress, or parts of it that have no gap file yet; empty: it is filled.
            made: durable files, with records that no other file has.
            past: items as they were declared until the hole's end; None: these are not told.

        Raises:
            OSError: of the disk; the history is as it was, `made` are removed.
            HoleGone: the hole is not listed any more; as above.
        """
        manifest, entries = self.manifest, list(made)
        if hole.gap not in {one.gap for one in manifest.holes}:
            self.discard(entries)
            raise HoleGone
        declared = self.declared if past is None else self.declared.with_past(past, hole.to_ns)
        holes = [one if one.gap else self._placed(one) for one in left]
        gone = {hole.gap} - {one.gap for one in holes}
        try:
            for entry in self._write_gaps([one for one in holes if one.gap != hole.gap]):
                entries.append(msgspec.structs.replace(entry, log_id=manifest.log_id))  # noqa: PERF401  # As in seal.
            if declared is not self.declared:
                gone |= {entry.path for entry in manifest.of_kind(FileKind.ITEMS)}
                entry = self._write_items(declared, next(self.numbers))
                entries.append(msgspec.structs.replace(entry, log_id=manifest.log_id))
        except OSError:
            self.discard(entries)
            raise
        others = [one for one in manifest.holes if one.gap != hole.gap]
        changed = msgspec.structs.replace(
            manifest,
            files=(*(entry for entry in manifest.files if entry.path not in gone), *entries),
            retired=(*manifest.retired, *(Retired(path=path, since_ns=now_ns) for path in gone)),
            holes=(*others, *holes),
            filled=manifest.filled + bool(entries or gone),
        )
        self._replace_manifest(changed, entries, now_ns)
        self.declared = declared
        return self.manifest

    def make_folder(self, path: Path) -> None:
        """The folder of a file about to be written, durable up to the history's own."""
        folder = path.parent
        missing: list[Path] = []
        while folder != self.root.parent and folder not in self._known_folders:
            missing.append(folder)
            folder = folder.parent
        if missing:
            self._files.make_directory(missing[0])
            for made in missing:
                self._files.sync_directory(made.parent)
            self._known_folders.update(missing)

    @property
    def files(self) -> FileSystem:
        return self._files

    def _write_content(self, content: HotContent, declared: DeclaredItems) -> Iterator[FileEntry]:
        generation = next(self.numbers)
        days: dict[str, list[chunks_of.Chunk]] = {}
        for chunk in content.chunks:
            days.setdefault(chunk.day, []).append(chunk)
        for day, chunks in days.items():
            yield from self._write_samples(day, chunks_of.samples_table(chunks), content, generation)
        yield from self._write_rows(FileKind.GAPS, content.gaps, content, generation)
        yield from self._write_rows(FileKind.EVENTS, content.events, content, generation)
        if declared is not self.declared:
            yield self._write_items(declared, generation)

    def _write_samples(self, day: str, table: pa.Table, content: HotContent, generation: int) -> Iterator[FileEntry]:
        """A samples file and the partials beside it."""
        node = self.manifest.node
        path = file_path(FileKind.SAMPLES, node, day, parquet.span(table, "sequence"), generation)
        partials = merge(
            [partials_of(parquet.rows_from(block), BUCKET_NS) for block in parquet.blocks(table)], BUCKET_NS
        ).partials
        samples = self._write(FileKind.SAMPLES, path, table, (node, day), content.complete_to_ns)
        yield samples
        sums = parquet.partials_table(partials)
        span = (samples.first_sequence, samples.last_sequence)
        yield self._write(FileKind.PARTIALS, partials_path(path), sums, (node, day), content.complete_to_ns, span)

    def _write_rows(
        self, kind: FileKind, rows: Sequence[Row], content: HotContent, generation: int
    ) -> Iterator[FileEntry]:
        """Gaps or events, one file per day."""
        days: dict[str, list[Row]] = {}
        for row in rows:
            days.setdefault(content.day_of_row(row), []).append(row)
        for day, some in days.items():
            table = (rows_of.gaps_table if kind is FileKind.GAPS else rows_of.events_table)(some)
            path = file_path(kind, self.manifest.node, day, parquet.span(table, "sequence"), generation)
            sequences = parquet.ints(table, "sequence")
            table = table.take(np.argsort(sequences, kind="stable"))  # A fork stands before what followed it.
            yield self._write(kind, path, table, (self.manifest.node, day), content.complete_to_ns)

    def _placed(self, hole: Hole) -> Hole:
        """The hole with the path of its gap file; no other file has this span, because no record of it was taken."""
        span = (hole.first_sequence, hole.last_sequence)
        path = file_path(FileKind.GAPS, self.manifest.node, day_of(hole.to_ns), span, next(self.numbers))
        return msgspec.structs.replace(hole, gap=path)

    def _gap_files(self, holes: Collection[Hole]) -> list[FileEntry]:
        paths = {hole.gap for hole in holes}
        return [one for one in self.manifest.files if one.path in paths]

    def _write_gaps(self, holes: Sequence[Hole]) -> Iterator[FileEntry]:
        for hole in holes:
            table = rows_of.gaps_table([rows_of.hole_row(hole)])
            yield self._write(FileKind.GAPS, hole.gap, table, (self.manifest.node, day_of(hole.to_ns)), hole.to_ns)

    def _write(
        self,
        kind: FileKind,
        path: str,
        table: pa.Table,
        partition: tuple[str, str],
        sealed_ns: int,
        sequences: tuple[int, int] | None = None,
    ) -> FileEntry:
        target = self.root / path
        self.make_folder(target)
        written = parquet.write(self._files, target, kind, table)
        return entry_of(kind, path, table, partition, written, sealed_ns, sequences)

    def _write_items(self, declared: DeclaredItems, generation: int) -> FileEntry:
        self.make_folder(self.root / items_path(generation))
        return write_items(self.root, self._files, declared, self.manifest.node, generation)

    def _replace_manifest(self, changed: Manifest, made: Sequence[FileEntry], now_ns: int) -> None:
        """Replace the manifest by `changed`, then remove files that it and the previous one no longer need.

        Args:
            made: files that only `changed` lists; removed if it can't be written.
        """
        live = {entry.path for entry in self.manifest.files}
        # The boot clock of before the machine started may be ahead of this one: these count from here on.
        retired = [Retired(path=one.path, since_ns=min(one.since_ns, now_ns)) for one in changed.retired]
        old = [one for one in retired if now_ns - one.since_ns > RETIRED_GRACE_NS and one.path not in live]
        old = old[:REMOVED_MAX]
        newest = msgspec.structs.replace(
            changed,
            generation=next(self.numbers),
            retired=tuple(one for one in retired if one not in old),
        )
        try:
            if self.manifest.log_id:  # One of no log lists nothing: who fell back to it would forget all files.
                write_aside(self._files, self.root / PREVIOUS_NAME, [encode_manifest(self.manifest)])
            aside = write_beside(self._files, self.root / MANIFEST_NAME, [encode_manifest(newest)])
        except OSError:
            self.discard(made)
            raise
        # If this fails either manifest may be the one that a crash leaves: the files of both must stay.
        put_in_place(self._files, self.root / MANIFEST_NAME, aside)
        self._previous, self.manifest = self.manifest, newest
        for one in old:
            self._unlink(self.root / one.path)

    def discard(self, entries: Sequence[FileEntry]) -> None:
        """Remove files that no manifest lists."""
        for entry in entries:
            self._unlink(self.root / entry.path)

    def remove_leftovers(self) -> int:
        """Remove files that no manifest lists; returns how many."""
        kept = [self.manifest] if self._previous is None else [self.manifest, self._previous]
        listed = {entry.path for manifest in kept for entry in (*manifest.files, *manifest.cut_off)}
        listed |= {one.path for one in self.manifest.retired}
        removed = 0
        root = str(self.root)
        for folder, _, names in os.walk(root):  # Much cheaper than paths: a node above has very many files.
            inside = folder[len(root) + 1 :]
            for name in names:
                path = f"{inside}/{name}" if inside else name
                if name.endswith((".parquet", ".tmp", ASIDE)) and path not in listed:
                    removed += self._unlink(self.root / path)
        return removed

    def _unlink(self, path: Path) -> int:
        try:
            self._files.unlink(path)
        except OSError:
            return 0  # The file is still there, or gone already: the next start looks again.
        return 1


def read_manifest(root: Path) -> Manifest:
    """The manifest of a history folder, for a reader; an empty one before the first seal.

    Raises:
        HistoryDamaged: neither it nor the previous one can be used.
    """
    newest, problem = load(root / MANIFEST_NAME)
    if newest is None:
        newest, _ = load(root / PREVIOUS_NAME)
    if newest is None and problem == MISSING:
        if next(root.rglob("*.parquet"), None) is None:
            return Manifest(node="")
        newest, problem = load(root / MANIFEST_NAME)  # The first one came in between: it is there before any file.
    if newest is None:
        raise HistoryDamaged(MANIFEST_NAME, problem)
    return newest
