"""A log in memory with the alarm folds over it: what CORE does, without sockets and disk.

Frames keep the bytes that the log would, so a replay decodes what was written.
"""

from collections.abc import Sequence
from typing import cast

import msgspec
import numpy as np

from albireo.codec import record, samples
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import CaseChanged, ItemDeclared, ItemForgotten, Record
from albireo.machine.fold import AlarmConfig, Cases, Conditions, Dim
from albireo.model.case import Case
from albireo.model.instant import MS, LogTime, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.refusal import Refusal
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ItemId, Value, ValueType

WALL_0 = 1_700_000_000_000_000_000
"""Node wall time at log time 0."""


class Frame(msgspec.Struct, frozen=True):
    log_time: int
    first_sequence: int
    record_count: int
    kind: int
    body: bytes

    @property
    def wall_ns(self) -> WallTime:
        return WallTime(WALL_0 + self.log_time)


class AlarmFolds:
    """The three folds, fed as `machine.fold` says."""

    def __init__(self, config: AlarmConfig | None = None) -> None:
        self.config = config or AlarmConfig()
        self.dim = Dim()
        self.conditions = Conditions(self.dim, self.config)
        self.cases = Cases(self.conditions, self.config)

    def fold(self, frame: Frame) -> None:
        log_time = LogTime(frame.log_time)
        self.conditions.time_passed(log_time, frame.wall_ns)
        if frame.kind != record.Kind.RECORDS:
            batch = samples.decode_body(frame.body, frame.kind, frame.record_count)
            fresh = self.dim.fold_samples(batch, frame.first_sequence + frame.record_count - 1, log_time)
            self.conditions.fold_samples(fresh, log_time)
            return
        records = record.decode_records(frame.body, frame.record_count)
        declared = [one for one in records if isinstance(one, ItemDeclared)]
        for offset, one in enumerate(records):
            if isinstance(one, ItemDeclared):
                self.dim.fold_item(one, frame.first_sequence + offset)
            elif isinstance(one, ItemForgotten):
                gone = self.dim.forget(one.item_ids, frame.first_sequence + offset)
                self.cases.forget(self.conditions.forget(gone), frame.first_sequence + offset)
            elif isinstance(one, CaseChanged):
                self.cases.fold(one, frame.first_sequence + offset)
        if declared:
            self.conditions.fold_items(declared, log_time)
            self.cases.redefined(one.item_id for one in declared)

    def deadline(self) -> int | None:
        due = [one for one in (self.conditions.deadline(), self.cases.deadline()) if one is not None]
        return min(due, default=None)

    def snapshot(self) -> tuple[bytes, bytes, bytes]:
        return self.dim.snapshot(), self.conditions.snapshot(), self.cases.snapshot()

    @classmethod
    def restore(cls, taken: tuple[bytes, bytes, bytes], config: AlarmConfig | None = None) -> "AlarmFolds":
        self = cls(config)
        self.dim = Dim.restore(taken[0])
        self.conditions = Conditions.restore(taken[1], self.dim, self.config)
        self.cases = Cases.restore(taken[2], self.conditions, self.config)
        return self


class AlarmNode:
    """A node that commits at once. Times are ms of log time; `step` is what passes before each frame."""

    def __init__(self, config: AlarmConfig | None = None) -> None:
        self.folds = AlarmFolds(config)
        self.frames: list[Frame] = []
        self.now_ms = 0
        self.sequence = 0
        self.transitions: list[tuple[int, CaseChanged]] = []
        """(log time in ms, what was noted), in the order of the log."""
        self.marks = 0
        """Frames that only carried time."""
        self.ids: dict[str, int] = {}
        """Item id by name."""
        self._highest = 0

    def declare(
        self,
        name: str,
        alarm: AlarmSettings | None = None,
        value_type: ValueType = ValueType.FLOAT64,
        adapter: str = "",
        counter_range: float | None = None,
    ) -> int:
        item_id = self.ids.setdefault(name, self._highest + 1)
        self._highest = max(self._highest, item_id)
        item = DataItem(name=name, value_type=value_type, adapter=adapter, counter_range=counter_range, alarm=alarm)
        self.append_records([ItemDeclared(item_id=ItemId(item_id), node="root", item=item)])
        return item_id

    def rename(self, name: str, new_name: str) -> None:
        """Declare an item under another name, with the same id."""
        item_id = self.ids[new_name] = self.ids.pop(name)
        known = self.folds.dim.by_id(item_id)
        assert known is not None
        item = msgspec.structs.replace(known.item, name=new_name)
        self.append_records([ItemDeclared(item_id=known.item_id, node="root", item=item)])

    def retire(self, name: str) -> None:
        """Declare, as CORE does, that nobody declares an item any more."""
        known = self.folds.dim.by_id(self.ids[name])
        assert known is not None
        item = msgspec.structs.replace(known.item, alarm=None)
        self.append_records([ItemDeclared(item_id=known.item_id, node="root", item=item, is_retired=True)])

    def forget(self, *names: str) -> None:
        """Forget items, whatever they have; a later declaration is another item's."""
        self.append_records([ItemForgotten(item_ids=tuple(self.ids.pop(name) for name in names))])

    def sample(self, name: str, value: Value, quality: int = 0, source_ns: int | None = None) -> None:
        item_id = self.ids[name]
        index = self.folds.dim.index_of(item_id)
        assert index is not None
        value_type = self.folds.dim.item_at(index).item.value_type
        self.append_batch(batch_of(value_type, [(item_id, value, quality, source_ns)], self.wall_ns))

    def append_batch(self, batch: SampleBatch) -> None:
        self._append(Frame(*self._place(len(batch)), int(batch.value_type), samples.encode_body(1, 1, batch)))
        self.commit_proposals()

    def append_records(self, records: Sequence[Record]) -> None:
        self._append(
            Frame(*self._place(len(records)), int(record.Kind.RECORDS), record.encode_records(0, 0, list(records)))
        )
        self.commit_proposals()

    def commit_proposals(self, limit: int = 500) -> None:
        """Append what the folds ask for until they ask for nothing more."""
        while True:
            found = self.folds.cases.propose(self.log_time, self.wall_ns, limit)
            if not found:
                return
            self.note(found)

    def note(self, found: Sequence[CaseChanged]) -> None:
        self.transitions += [(self.now_ms, one) for one in found]
        self._append(
            Frame(*self._place(len(found)), int(record.Kind.RECORDS), record.encode_records(0, 0, list(found)))
        )

    def act(self, asked: ActionAsked) -> Refusal | Case:
        """The case as it stands after an operator's action, or the refusal."""
        found = self.folds.cases.act(asked, self.log_time, self.wall_ns)
        if isinstance(found, Refusal):
            return found
        self.note(found)
        self.commit_proposals()
        assert found, "an action is a record or a refusal"
        return found[-1].case

    @property
    def log_time(self) -> LogTime:
        return LogTime(self.now_ms * MS)

    @property
    def wall_ns(self) -> WallTime:
        return WallTime(WALL_0 + self.log_time)

    def pass_time(self, ms: int) -> None:
        """Let log time go on; a mark frame at each deadline that comes, as CORE does, and none else."""
        end = self.now_ms + ms
        while True:
            deadline = self.folds.deadline()
            if deadline is None or deadline > end * MS:
                break
            self.now_ms = max(self.now_ms, -(-deadline // MS))
            self.marks += 1
            self.append_records([record.Marked()])
        self.now_ms = end

    def open_cases(self) -> list[Case]:
        return list(self.folds.cases)

    def replayed(self, split: int = 0) -> AlarmFolds:
        """The folds of the same frames: `split` of them, a snapshot and its restore, then the rest."""
        folds = AlarmFolds(self.folds.config)
        for frame in self.frames[:split]:
            folds.fold(frame)
        folds = AlarmFolds.restore(folds.snapshot(), self.folds.config)
        for frame in self.frames[split:]:
            folds.fold(frame)
        return folds

    def _place(self, record_count: int) -> tuple[int, int, int]:
        return int(self.log_time), self.sequence + 1, record_count

    def _append(self, frame: Frame) -> None:
        self.sequence += frame.record_count
        self.frames.append(frame)
        self.folds.fold(frame)


def batch_of(
    value_type: ValueType, rows: Sequence[tuple[int, Value, int, int | None]], node_ns: int = WALL_0
) -> SampleBatch:
    """A batch of (item id, value, quality, source time or None for `node_ns`)."""
    values = [row[1] for row in rows]
    dtypes = {ValueType.FLOAT64: np.float64, ValueType.INT64: np.int64, ValueType.BOOL: np.uint8}
    return SampleBatch(
        value_type=value_type,
        item_id=np.array([row[0] for row in rows], np.uint32),
        source_ns=np.array([node_ns if row[3] is None else row[3] for row in rows], np.int64),
        node_ns=np.full(len(rows), node_ns, np.int64),
        value=(
            Strings.of(cast("list[str]", values))
            if value_type is ValueType.STRING
            else np.array(values, dtypes[value_type])
        ),
        quality=np.array([row[2] for row in rows], np.uint32),
    )
