"""Stored messages: the files of one node, and the manifest that is the only truth about them.

A change is always made alike: files are written aside, synced and renamed, then the manifest is, then files that it no
longer lists are removed. So a crash leaves the old state or the new one, and unlisted files, which the next `open`
removes. Records behind the manifest's position come again from the log, those before it never.

One thread writes at a time (the caller's obligation), another one may read: a manifest is replaced, never changed, and
files are kept open by the one that reads.

Spec: ADR-0247.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from albireo.codec.errors import DecodeError
from albireo.codec.served import MessageColumns
from albireo.codec.topic_files import MessageFile, MessageHole, MessageManifest, decode_manifest, encode_manifest
from albireo.log.files import FileSystem, OsFileSystem, move_aside, read_file, sync_names, write_aside
from albireo.machine.topics.tables import KeptMessages
from albireo.model.position import Position

if TYPE_CHECKING:
    from albireo.node.topics.parquet import OpenFile, RowGroup

FOLDER: Final = "topics"
MANIFEST: Final = "manifest"
MANIFEST_BYTES_MAX: Final = 1 << 30
MERGE_FILES: Final = 16
MERGE_BYTES: Final = 64 << 20
"""Number of neighbours of like size that are merged into one file, or their size in memory, if there are fewer."""
ALIKE: Final = 4
"""Largest ratio of sizes that are alike."""
SMALL_BYTES: Final = 1 << 20
"""All files below this size are alike."""
OPEN_MAX: Final = 256
"""Files whose footers are kept."""
GROUPS_MAX: Final = 48
"""Row groups that are kept after they were read, 1 MiB each."""


class MessagesDamaged(Exception):
    """A file is missing, or its bytes are others than were written."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class StoredPiece(msgspec.Struct, frozen=True, eq=False):
    """Messages that were read."""

    messages: MessageColumns | None
    """None: nothing in the stretch that was looked at is wanted."""
    scanned_to: int
    """Sequence up to which nothing else is wanted."""
    hole: MessageHole | None = None
    """Messages behind that are wanted, and lacking for now."""


class TopicStore:
    """The files."""

    def __init__(self, root: Path, manifest: MessageManifest, files: FileSystem) -> None:
        self.root = root
        self.manifest = manifest
        self.new_hole: MessageHole | None = None
        """Hole at the end of the files, which the next `seal` lists."""
        self._files = files
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int, bool], Any] = OrderedDict()

    @classmethod
    def open(cls, data: Path, node: str, files: FileSystem | None = None) -> tuple["TopicStore", str]:
        """The messages of a node below its data directory, and why its manifest could not be used; empty: it could.

        A folder without a usable manifest is moved aside, and a new one begun: what the log still has comes again.

        Raises:
            OSError: of the disk.
        """
        files = files or OsFileSystem()
        root = data / FOLDER
        files.make_directory(root)
        sync_names(files, root)
        problem = ""
        manifest = MessageManifest(node=node)
        try:
            found = read_file(files, root / MANIFEST, MANIFEST_BYTES_MAX)
            if found is not None:
                manifest = decode_manifest(found)
        except DecodeError as error:
            problem = error.reason
            move_aside(files, root)
        store = cls(root, manifest, files)
        listed = {MANIFEST, *(one.name for one in manifest.files)}
        for name in files.names(root):
            if name not in listed:
                files.unlink(root / name)
        return store, problem

    # Writing.

    def seal(
        self,
        content: Sequence[MessageColumns],
        position: Position,
        tables: Mapping[str, bytes],
        topics: Mapping[int, str],
        log_id: bytes,
        history: Sequence[Any],
        kept: KeptMessages,
    ) -> None:
        """Make messages durable, and the position with them; forget files of which nobody wants anything.

        Args:
            content: all messages between the manifest's position, or the new hole, and `position`.
            tables: snapshots of the tables as of `position`.
            topics: names by id.
            kept: which messages are.
        Raises:
            OSError: of the disk; everything is as it was.
        """
        manifest = self.manifest
        begin = manifest.position.sequence if self.new_hole is None else self.new_hole.last_sequence
        made = self._made(content, topics, kept, begin + 1, position.sequence)
        floors = kept.floors
        files = [
            one for one in manifest.files if any(floors.get(each, last) < last for each, last in one.lasts.items())
        ]
        changed = msgspec.structs.replace(
            manifest,
            log_id=log_id,
            history=tuple(history),
            position=position,
            files=(*files, *made),
            holes=self.holes,
            tables=dict(tables),
        )
        self._replace(changed)
        self.new_hole = None

    def next_merge(self) -> tuple[MessageFile, ...]:
        """Neighbours to be merged; empty: none."""
        run: list[MessageFile] = []
        holes = [one.first_sequence for one in self.manifest.holes]
        for one in self.manifest.files:
            if run and any(run[-1].last_sequence < hole < one.first_sequence for hole in holes):
                run = []
            if run and not _are_alike(run[0].plain_bytes, one.plain_bytes):
                run = []
            if one.plain_bytes > MERGE_BYTES // 2:
                run = []
            else:
                run.append(one)
            if len(run) == MERGE_FILES or sum(each.plain_bytes for each in run) >= MERGE_BYTES:
                return tuple(run)
        return ()

    def rewrite(self, inputs: Sequence[MessageFile], kept: KeptMessages, last_sequence: int = 2**63 - 1) -> None:
        """Put one file in the place of neighbours, without what nobody wants any more, or what lies behind a record.

        Raises:
            OSError: of the disk; everything is as it was. MessagesDamaged: an input can't be read.
        """
        from albireo.node.topics import parquet

        rows = (table for one in inputs for table in self._all_rows(one))
        table = parquet.sorted_table([parquet.without(one, kept, last_sequence) for one in rows])
        last = min(inputs[-1].last_sequence, last_sequence)
        made = [self._write(table, inputs[0].first_sequence, last)] if len(table) else []
        names = {one.name for one in inputs}
        files: list[MessageFile] = []
        for one in self.manifest.files:
            if one.name == inputs[0].name:
                files += made
            if one.name not in names:
                files.append(one)
        self._replace(msgspec.structs.replace(self.manifest, files=tuple(files)))

    @property
    def holes(self) -> tuple[MessageHole, ...]:
        """Stretches that are lacking, in the order of the log."""
        return self.manifest.holes + (() if self.new_hole is None else (self.new_hole,))

    def lacks_to(self, position: Position, lasts: dict[int, int]) -> None:
        """The messages up to here come from no log any more; the next `seal` lists them as a hole.

        Args:
            lasts: number of the last one of each topic.
        """
        self.new_hole = MessageHole(self.manifest.position.sequence + 1, position.sequence, lasts)

    def fill(
        self,
        messages: Sequence[MessageColumns],
        topics: Mapping[int, str],
        kept: KeptMessages,
        hole: MessageHole,
        up_to: int,
    ) -> None:
        """Put messages, or nothing, in the place of the begin of a hole that is listed, up to a record.

        Args:
            messages: all that there are.
        Raises:
            OSError: of the disk; everything is as it was.
        """
        if hole not in self.manifest.holes:
            return  # The log went another way meanwhile.
        made = self._made(messages, topics, kept, hole.first_sequence, up_to)
        left = MessageHole(up_to + 1, hole.last_sequence, hole.lasts)
        holes = [one for one in self.manifest.holes if one != hole]
        if left.first_sequence <= left.last_sequence:
            holes.append(left)
        files = sorted((*self.manifest.files, *made), key=lambda one: one.first_sequence)
        holes.sort(key=lambda one: one.first_sequence)
        self._replace(msgspec.structs.replace(self.manifest, files=tuple(files), holes=tuple(holes)))

    def give_up(self, name: str, *, is_alone: bool) -> None:
        """Move a damaged file aside, and have a hole in its place, unless nobody else can have its messages.

        Raises:
            OSError: of the disk.
        """
        found = next((one for one in self.manifest.files if one.name == name), None)
        if found is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._files.rename(self.root / name, self.root.with_name(f"{FOLDER}.damaged-{name}"))
        hole = MessageHole(found.first_sequence, found.last_sequence, found.lasts)
        holes = sorted((*self.manifest.holes, *(() if is_alone else (hole,))), key=lambda one: one.first_sequence)
        files = tuple(one for one in self.manifest.files if one is not found)
        self._replace(msgspec.structs.replace(self.manifest, files=files, holes=tuple(holes)))

    def cut(self, position: Position, history: Sequence[Any]) -> None:
        """Forget messages behind a record, because the log went another way there; the tables are of no use then.

        Raises: as `rewrite`.
        """
        for one in [each for each in self.manifest.files if each.last_sequence > position.sequence]:
            self.rewrite([one], KeptMessages(dict.fromkeys(one.lasts, 0)), position.sequence)
        self.new_hole = None
        holes = [
            msgspec.structs.replace(one, last_sequence=min(one.last_sequence, position.sequence))
            for one in self.manifest.holes
            if one.first_sequence <= position.sequence
        ]
        cut = msgspec.structs.replace(
            self.manifest, position=position, history=tuple(history), holes=tuple(holes), tables={}
        )
        self._replace(cut)

    def _made(
        self,
        content: Sequence[MessageColumns],
        topics: Mapping[int, str],
        kept: KeptMessages,
        first: int,
        last: int,
    ) -> list[MessageFile]:
        """A new file of the messages between two records that are kept, or none."""
        columns = [one for one in content if len(one)]
        if not columns:
            return []
        from albireo.node.topics import parquet  # A node without topics does without it.

        rows = (parquet.table_of(one, topics) for one in columns)
        table = parquet.sorted_table([parquet.without(one, kept, last) for one in rows])
        return [self._write(table, first, last)] if len(table) else []

    def _write(self, table: Any, first: int, last: int) -> MessageFile:
        import pyarrow as pa

        from albireo.node.topics import parquet

        data = parquet.encoded(table)
        name = f"{first}-{last}-{self.manifest.generation + 1}.parquet"
        write_aside(self._files, self.root / name, [data])
        crc = parquet.footer_crc(pa.BufferReader(data))
        sizes = len(table), len(data), table.nbytes
        return MessageFile(name, first, last, *sizes, crc, parquet.lasts_of_table(table))

    def _replace(self, changed: MessageManifest) -> None:
        newest = msgspec.structs.replace(changed, generation=self.manifest.generation + 1)
        write_aside(self._files, self.root / MANIFEST, [encode_manifest(newest)])
        before, self.manifest = self.manifest, newest
        listed = {one.name for one in newest.files}
        for one in before.files:
            if one.name not in listed:
                self._open.pop(one.name, None)  # Its room on the disk is free once nobody has it open.
                with contextlib.suppress(FileNotFoundError):  # A damaged one was moved aside.
                    self._files.unlink(self.root / one.name)

    # Reading.

    def stored_counts(self) -> dict[int, int]:
        """Number of the last message of each topic in files, or lacking there."""
        found: dict[int, int] = {}
        stretches: list[MessageFile | MessageHole] = [*self.manifest.files, *self.holes]
        for one in stretches:
            found |= {topic_id: max(last, found.get(topic_id, 0)) for topic_id, last in one.lasts.items()}
        return found

    def read(self, wanted: Mapping[int, int], after: int, up_to: int, bytes_max: int) -> StoredPiece:
        """Messages of topics behind these numbers and this record, in the order of the log; some of them at least.

        Raises:
            MessagesDamaged: a file can't be read.
        """
        while True:
            try:
                return self._read(wanted, after, up_to, bytes_max)
            except FileNotFoundError:
                pass  # A merge took it away meanwhile.

    def _read(self, wanted: Mapping[int, int], after: int, up_to: int, bytes_max: int) -> StoredPiece:
        from albireo.node.topics import parquet

        stretches: list[MessageFile | MessageHole] = [*self.manifest.files, *self.holes]
        for one in sorted(stretches, key=lambda each: each.first_sequence):
            if one.last_sequence <= after or one.first_sequence > up_to:
                continue
            if not any(last > wanted.get(topic_id, last) for topic_id, last in one.lasts.items()):
                continue
            if isinstance(one, MessageHole):
                return StoredPiece(None, max(after, one.first_sequence - 1), one)
            groups = parquet.groups_with(self._file(one), wanted, after)
            while groups and parquet.is_alone(groups):
                if (piece := self._of_one_topic(one, groups[0], wanted, after, up_to, bytes_max)) is not None:
                    return piece
                after = groups.pop(0).sequences[1]
            tables: list[Any] = []
            for place, group in enumerate(groups):
                tables.append(self._group(one, group))
                bound = groups[place + 1].sequences[0] - 1 if place + 1 < len(groups) else one.last_sequence
                found = parquet.chosen(parquet.joined(tables), wanted, after, min(bound, up_to))
                if len(found) and (found.nbytes >= bytes_max or place + 1 == len(groups)):
                    messages = parquet.columns_of(found)
                    kept = messages.up_to(bytes_max)
                    return StoredPiece(kept, bound if len(kept) == len(messages) else int(kept.sequence[-1]))
        return StoredPiece(None, up_to)

    def _of_one_topic(
        self, one: MessageFile, group: "RowGroup", wanted: Mapping[int, int], after: int, up_to: int, bytes_max: int
    ) -> StoredPiece | None:
        """Messages of a row group of one topic, whose order is that of the log; None: none is wanted."""
        found: MessageColumns = self._group(one, group, as_columns=True)
        low = wanted[group.topics[0]]
        begin = max(
            int(np.searchsorted(found.number, low, "right")), int(np.searchsorted(found.sequence, after, "right"))
        )
        end = int(np.searchsorted(found.sequence, up_to, "right"))
        if begin >= end:
            return None
        kept = found.between(begin, end).up_to(bytes_max)
        is_all = len(kept) == end - begin
        return StoredPiece(kept, min(group.sequences[1], up_to) if is_all else int(kept.sequence[-1]))

    def _group(self, one: MessageFile, group: "RowGroup", *, as_columns: bool = False) -> Any:
        key = (one.name, group.index, as_columns)
        if key not in self._groups:
            table = _rows(one, self._file(one), group)
            if as_columns:
                from albireo.node.topics import parquet

                self._groups[key] = parquet.columns_of(table)
            else:
                self._groups[key] = table
            if len(self._groups) > GROUPS_MAX:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _file(self, one: MessageFile) -> "OpenFile":
        """The file with its footer, as it is kept open.

        Raises: as `_opened`.
        """
        found = self._open.get(one.name)
        if found is None:
            found = self._open[one.name] = self._opened(one)
            if len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
            if one not in self.manifest.files:
                self._open.pop(one.name, None)
        return found

    def _opened(self, one: MessageFile) -> "OpenFile":
        """The file with its footer; pages are checked as they are read.

        Raises:
            FileNotFoundError: it is not listed any more. MessagesDamaged: it is.
        """
        from albireo.node.topics import parquet

        try:
            return parquet.OpenFile(self._source(self.root / one.name), one.size_bytes, one.crc)
        except FileNotFoundError:
            if one in self.manifest.files:
                raise MessagesDamaged(one.name, "it is missing") from None
            raise
        except DecodeError as error:
            raise MessagesDamaged(one.name, error.reason) from error

    def _source(self, path: Path) -> Any:
        """A file, mapped to memory."""
        import pyarrow as pa

        return pa.memory_map(str(path))

    def _all_rows(self, one: MessageFile) -> Iterator[Any]:
        """Tables of all its row groups. Raises: as `_opened`."""
        file = self._opened(one)
        for group in file.groups:
            yield _rows(one, file, group)


def _rows(one: MessageFile, file: "OpenFile", group: "RowGroup") -> Any:
    """Raises MessagesDamaged: its bytes are others than were written."""
    try:
        return file.read(group)
    except DecodeError as error:
        raise MessagesDamaged(one.name, error.reason) from error


def _are_alike(one_bytes: int, other_bytes: int) -> bool:
    return max(one_bytes, other_bytes) <= ALIKE * max(SMALL_BYTES, min(one_bytes, other_bytes))
