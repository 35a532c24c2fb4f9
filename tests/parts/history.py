"""What tests of the history share: a log in memory, and a file system that dies at a chosen step."""

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from albireo.codec import frame, record, samples
from albireo.codec.frame import Frame, FrameHeader, Origin
from albireo.codec.history import SCHEMAS, FileKind, Manifest
from albireo.codec.record import Kind, OriginDeclared, Record, Stream
from albireo.codec.tree.envelope import encode_envelope
from albireo.log.files import Buffer, OsFileSystem
from albireo.model.instant import SECOND
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import Value, ValueType
from albireo.node.history.files import parquet
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.store import HistoryStore, read_manifest

LOG_ID = bytes(range(16))
DAY_ZERO = 1_700_006_400 * SECOND
"""2023-11-15T00:00:00Z."""

Sample = tuple[int, int, Value, int]
"""(item id, source ns, value, quality)."""


def iso(at_ns: int) -> str:
    """A time as a range on the command line has it. One that counts back from now would end before rows that are made
    while the tests are collected, as soon as these run for longer than that."""
    return datetime.fromtimestamp(at_ns // SECOND, UTC).isoformat()


def batch_of(rows: Sequence[Sample], value_type: ValueType, node_ns: int) -> SampleBatch:
    values = [row[2] for row in rows]
    value: Column
    match value_type:
        case ValueType.FLOAT64:
            value = np.array(values, np.float64)
        case ValueType.INT64:
            value = np.array(values, np.int64)
        case ValueType.BOOL:
            value = np.array(values, np.uint8)
        case ValueType.STRING:
            value = Strings.of([str(one) for one in values])
    return SampleBatch(
        value_type=value_type,
        item_id=np.array([row[0] for row in rows], np.uint32),
        source_ns=np.array([row[1] for row in rows], np.int64),
        node_ns=np.full(len(rows), node_ns, np.int64),
        value=value,
        quality=np.array([row[3] for row in rows], np.uint32),
    )


class MemoryLog:
    """Frames as CORE's log would hold them."""

    def __init__(self, log_id: bytes = LOG_ID) -> None:
        self.log_id = log_id
        self.frames: list[Frame] = []
        self.end = 0
        self.epoch = 1
        self.rows: list[tuple[int, int, int, Value, int]] = []
        """(sequence, item id, source ns, value, quality) of every sample."""

    def _append(
        self, stream: int, kind: int, count: int, body: bytes, node_ns: int, origin: Origin | None = None
    ) -> Frame:
        header = FrameHeader(
            log_id=self.log_id,
            epoch=self.epoch,
            first_sequence=self.end + 1,
            record_count=count,
            stream=stream,
            kind=kind,
            body_bytes=len(body),
            body_crc=frame.body_crc(body),
            node_ns=node_ns,
            origin=origin,
        )
        self.end += count
        self.frames.append(Frame(header, body))
        return self.frames[-1]

    def samples(self, rows: Sequence[Sample], node_ns: int, value_type: ValueType = ValueType.FLOAT64) -> Frame:
        batch = batch_of(rows, value_type, node_ns)
        for index, row in enumerate(rows, self.end + 1):
            self.rows.append((index, *row))
        return self._append(
            Stream.SAMPLES, value_type, len(rows), record.PRODUCER.pack(1, 1) + samples.encode(batch), node_ns
        )

    def records(self, stream: Stream, records: list[Record], node_ns: int) -> Frame:
        return self._append(stream, Kind.RECORDS, len(records), record.encode_records(1, 1, records), node_ns)

    def declares(self, index: int, node: str, below: "MemoryLog", node_ns: int = DAY_ZERO) -> Frame:
        """The log of a node below lies here from now on."""
        record = OriginDeclared(index=index, node=node, origin_log=below.log_id)
        return self.records(Stream.CONTROL, [record], node_ns)

    def envelope(self, index: int, below: Sequence[Frame], node_ns: int | None = None) -> Frame:
        """Frames of a node below, in an envelope. `node_ns`: by default that of the last one: both clocks are right."""
        node_ns = below[-1].header.node_ns if node_ns is None else node_ns
        first = below[0].header
        body = encode_envelope(b"".join(frame.encode(one) for one in below))
        origin = Origin(index, first.epoch, first.first_sequence)
        return self._append(Stream.BELOW, Kind.ENVELOPE, 1, body, node_ns, origin)

    def cut(self, sequence: int) -> None:
        """Lose the records behind a sequence; a new epoch begins."""
        self.frames = [one for one in self.frames if one.header.last_sequence <= sequence]
        self.end = self.frames[-1].header.last_sequence if self.frames else 0
        self.rows = [one for one in self.rows if one[0] <= self.end]
        self.epoch += 1

    def encoded(self, one: Frame) -> bytes:
        return frame.encode(one)


def fill(hot: HotTail, log: MemoryLog, upto: int | None = None) -> None:
    """Hand every frame above the hot tail's position to it."""
    for one in log.frames:
        if upto is None or one.header.last_sequence <= upto:
            hot.take(one.header, one.body)


def hot_of(store: HistoryStore) -> HotTail:
    return HotTail(store.manifest.position, store.manifest.complete_to_ns, store.declared)


def stored(root: Path, kind: FileKind = FileKind.SAMPLES) -> list[pa.Table]:
    manifest = read_manifest(root)
    names = SCHEMAS[kind].names
    return [parquet.read(root, [entry], names) for entry in manifest.of_kind(kind)]


def stored_rows(root: Path) -> list[tuple[int, int, int, Value, int]]:
    """Every stored sample as `MemoryLog.rows` has it, by sequence."""
    rows = []
    for table in stored(root):
        for row in table.to_pylist():
            values = [row[name] for name in ("value_f64", "value_i64", "value_str") if row[name] is not None]
            assert len(values) == 1
            rows.append((row["sequence"], row["item_id"], row["source_ns"], values[0], row["quality"]))
    return sorted(rows)


def listed_files_are_there(root: Path, manifest: Manifest) -> None:
    for entry in manifest.files:
        assert (root / entry.path).stat().st_size == entry.size_bytes, entry.path


class Died(BaseException):
    """The process is gone; nothing catches it."""


class DyingFiles(OsFileSystem):
    """A file system under a process that is killed at one step, or whose disk is full from one step to another.

    With `is_power_cut` what was not synced is lost too: file contents, and names whose directory was not synced.
    """

    def __init__(self, dies_at: int | None = None, full: range = range(0), *, is_power_cut: bool = False) -> None:
        self.steps = 0
        self._dies_at = dies_at
        self._full = full
        self._is_power_cut = is_power_cut
        self._paths: dict[int, Path] = {}
        self._dirty: set[Path] = set()
        self._new_names: dict[Path, list[tuple[Path | None, Path, bytes | None]]] = {}

    def _step(self, *, needs_room: bool = False) -> None:
        self.steps += 1
        if self.steps == self._dies_at:
            if self._is_power_cut:
                self.lose()
            raise Died
        if needs_room and self.steps in self._full:
            raise OSError(28, "No space left on device")

    def next_life(self) -> "DyingFiles":
        """The file system under the process that follows one that was killed: what was not synced is not yet."""
        after = DyingFiles()
        after._dirty, after._new_names = set(self._dirty), dict(self._new_names)
        return after

    def lose(self, place: Callable[[Path], Path] = lambda path: path) -> None:
        """Cut the power: what was not synced is gone. `place`: where a path is meanwhile."""
        for names in self._new_names.values():
            for source, target, replaced in reversed(names):
                if source is not None and place(target).exists():
                    place(target).rename(place(source))
                if replaced is not None:
                    place(target).write_bytes(replaced)
        for path in map(place, self._dirty):
            if path.exists():
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    def open(self, path: Path, *, create: bool = False) -> int:
        self._step(needs_room=True)
        handle = super().open(path, create=create)
        self._paths[handle] = path
        self._dirty.add(path)
        return handle

    def pwritev(self, handle: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._step(needs_room=True)
        return super().pwritev(handle, buffers, offset)

    def sync(self, handle: int) -> None:
        self._step()  # What a crash takes is decided in `lose`; really syncing would only make the test slow.
        self._dirty.discard(self._paths[handle])

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        replaced = target.read_bytes() if target.exists() else None
        super().rename(source, target)
        (self._dirty.add if source in self._dirty else self._dirty.discard)(target)
        self._new_names.setdefault(target.parent, []).append((source, target, replaced))

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)

    def sync_directory(self, directory: Path) -> None:
        self._step()
        self._new_names.pop(directory, None)


class ForkingFiles(DyingFiles):
    """A file system under a process that lives on, and at each step leaves behind what there would be had it died."""

    def __init__(self, data: Path, at_step: Callable[[], None]) -> None:
        super().__init__()
        self._data = data
        self._at_step = at_step

    def _step(self, *, needs_room: bool = False) -> None:
        super()._step(needs_room=needs_room)
        self._at_step()

    def leave(self, data: Path, *, is_power_cut: bool) -> None:
        """Everything below the directory of the process, as a crash right now would leave it."""
        shutil.copytree(self._data, data)
        if is_power_cut:
            self.lose(lambda path: data / path.relative_to(self._data))


def crash_at_each_step(
    home: Path,
    stride: int,
    life: Callable[[Path, DyingFiles], None],
    looks: Callable[[Path], object],
    checks: Callable[[Path], object],
    *,
    is_power_cut: bool,
) -> None:
    """One life in `home / "whole"`; what a crash leaves at each step, or at some, is the start of another one.

    Args:
        stride: steps from one crash to the next.
        life: one life of a history over a file system.
        looks: judges what a crash left.
        checks: judges what a whole life left.
    """
    tried = 0

    def at_step() -> None:
        nonlocal tried
        if files.steps % stride == is_power_cut % stride:
            data = home / f"{files.steps}"
            files.leave(data, is_power_cut=is_power_cut)
            looks(data)
            life(data, DyingFiles())
            checks(data)
            shutil.rmtree(data)
            tried += 1

    files = ForkingFiles(home / "whole", at_step)
    life(home / "whole", files)
    checks(home / "whole")
    assert files.steps > 100
    assert tried >= files.steps // stride
