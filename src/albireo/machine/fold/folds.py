"""Folds: the state that follows from the committed log, kept in memory and rebuilt by replay.

One frame goes to every fold that its records concern, in log order; the same frames give the same folds, whether they
come from the live log, a replay or a leader. Folds decide on log time, which the frames carry.

Spec: design/log-and-feed.md, The loop of CORE, Snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from albireo.codec import record as codec
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader
from albireo.codec.message_records import MessageFact
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import (
    AccessGranted,
    AccessRevoked,
    Audited,
    CaseChanged,
    CommandAccepted,
    CommandFinished,
    CommandRequested,
    EpochGranted,
    FeatureRaised,
    ForceEnded,
    GapFound,
    ItemDeclared,
    ItemForced,
    ItemForgotten,
    Kind,
    LowWater,
    Marked,
    NodeStopped,
    OriginDeclared,
    OriginForked,
    OriginGap,
    ProducerForgotten,
    ProducerOpened,
    Record,
    Stream,
)
from albireo.codec.slices import unsliced
from albireo.machine.fold import declared, stretch
from albireo.machine.fold.alarms.cases import Cases
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.elsewhere import Elsewhere
from albireo.machine.fold.commands.commands import Commands
from albireo.machine.fold.contents import Content
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.letters.letters import INBOX, OUTBOX, MessageFold
from albireo.machine.fold.origins import Enveloped, Origins
from albireo.machine.fold.people.access import AccessFold
from albireo.machine.fold.people.audit import AuditChain
from albireo.machine.fold.producers import Producers
from albireo.machine.fold.state_piece import START, WHOLE, Changed, StateAsked, StatePiece, cut
from albireo.machine.table.fold import F, TableFold
from albireo.machine.table.told import AnyTable
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import MS, LogTime, WallTime, soonest
from albireo.model.item import KnownItem, Reading
from albireo.model.position import Position
from albireo.model.refusal import Refusal
from albireo.model.samples import SampleBatch
from albireo.model.settings import AlarmConfig

_SECTIONS: Final = (
    *("dim", "conditions", "cases", "elsewhere", "commands", "producers", "audit", "access", "origins"),
    *(OUTBOX, INBOX, "feature"),
)
"""Sections of a snapshot, one for each fold; the last is the feature level. Tables have sections besides."""


class Folds:
    """All folds of a node, fed with one committed frame after another."""

    def __init__(self, alarms: AlarmConfig | None = None) -> None:
        self.dim = Dim()
        self.conditions = Conditions(self.dim, alarms)
        self.cases = Cases(self.conditions, alarms)
        self.elsewhere = Elsewhere(self.dim, self.conditions, self.cases)
        self.commands = Commands()
        self.producers = Producers()
        self.audit = AuditChain()
        self.access = AccessFold()
        self.origins = Origins()
        self.messages = MessageFold()
        self._tables: dict[type[TableFold[Any, Any]], TableFold[Any, Any]] = {one: one() for one in declared.FOLDS}
        self._told = [one.table for one in self._tables.values() if one.shape.is_told]
        self._takers: dict[type[msgspec.Struct], list[TableFold[Any, Any]]] = {}
        """Folds of tables that a record changes, by its type."""
        for one in self._tables.values():
            for kind in one.records:
                self._takers.setdefault(kind, []).append(one)
        for one in self._tables.values():
            one.among(self)
        self.log_time_ms = 0
        self.feature_level = FIRST_LEVEL
        """Feature level of the log: it has no record kind above it (model/feature.py)."""
        self.unreadable = 0
        """Frames of a kind that this version does not know: the log keeps them, no fold takes them."""

    def replay(self, frame: Frame) -> None:
        """Fold a frame read back from the log; a reference only tells that a producer's batch was taken."""
        header = frame.header
        is_elsewhere = header.kind == Kind.REFERENCE and header.stream == Stream.SAMPLES
        try:
            producer_id, producer_sequence = codec.decode_producer(frame.body)
            content = () if is_elsewhere else declared.read(header, frame.body)
        except DecodeError:
            self.unreadable += 1
            self.log_time_ms = header.log_time_ms
            return
        self.fold(header, content)
        if is_elsewhere:
            self.elsewhere.took(header.last_sequence, header.node_ns)
        if producer_id:
            self.producers.fold_batch(producer_id, producer_sequence, header.node_ns, header.last)

    def replay_all(self, frames: Iterable[Frame]) -> None:
        """Fold frames as `replay` would one after another; small ones together (`stretch`).

        What the iterable gave is folded even if it raises.
        """
        small: list[Frame] = []
        try:
            for frame in frames:
                if stretch.is_small(frame.header):
                    small.append(frame)
                    if len(small) < stretch.FRAMES_MAX:
                        continue
                    frame = small.pop()
                ready, small = small, []
                self._replay_stretch(ready)
                self.replay(frame)
        finally:
            self._replay_stretch(small)

    def _replay_stretch(self, small: Sequence[Frame]) -> None:
        """Fold small frames. Where few can be folded together, more are folded one by one before the next try."""
        done, size, alone = 0, len(small), 1
        while done < len(small):
            tried, count = small[done : done + size], 0
            if not self.elsewhere and len(tried) >= stretch.FRAMES_LEAST:
                count = stretch.fold_front(tried, self.dim, self.conditions, self.producers)
            if count:
                self.log_time_ms = tried[count - 1].header.log_time_ms
            done += count
            size = max(2 * count, stretch.FRAMES_LEAST)
            alone = 1 if 2 * count >= stretch.FRAMES_LEAST else 2 * alone
            if count < len(tried):
                for frame in small[done : done + alone]:
                    self.replay(frame)
                done += alone

    def fold(self, header: FrameHeader, content: Content) -> None:
        """Fold one committed frame."""
        self.log_time_ms = self.producers.log_time_ms = header.log_time_ms
        log_time = LogTime(header.log_time_ms * MS)
        self.conditions.time_passed(log_time, WallTime(header.node_ns))
        if isinstance(content, SampleBatch):
            if self.elsewhere:
                self.elsewhere.returns(log_time)
            if stretch.fold_single(content, header, self.dim, self.conditions):
                return
            fresh = self.dim.fold_samples(content, header.last_sequence, log_time)
            self.conditions.fold_samples(fresh, log_time)
            return
        if isinstance(content, Enveloped):
            self.origins.fold(content, header.last_sequence, header.node_ns)
            return
        for offset, record in enumerate(content):
            self._fold_record(record, header.first_sequence + offset, header, log_time)
        items = [record for record in content if isinstance(record, ItemDeclared)]
        if items:
            self.conditions.fold_items(items, log_time)
            self.cases.redefined(one.item_id for one in items)

    def _fold_record(self, record: Record, sequence: int, header: FrameHeader, log_time: LogTime) -> None:
        match record:
            case ItemDeclared():
                self.dim.fold_item(record, sequence)
            case ItemForced() | ForceEnded():
                self._move_series(record, sequence)
            case ItemForgotten(item_ids=item_ids):
                self.cases.forget(self.conditions.forget(self.dim.forget(item_ids, sequence)), sequence)
            case CaseChanged():
                self.cases.fold(record, sequence)
            case CommandRequested():
                self.commands.fold_requested(record, sequence, log_time)
            case CommandAccepted():
                self.commands.fold_accepted(record, sequence, header.epoch, header.node_ns)
            case CommandFinished():
                self.commands.fold_finished(record, sequence)
            case ProducerOpened():
                self.producers.fold_opened(record, header.node_ns, header.epoch)
            case ProducerForgotten():
                self.producers.fold_forgotten(record)
            case FeatureRaised(level=level):
                self.feature_level = max(self.feature_level, level)
            case Audited():
                self.audit.fold(record, Position(header.epoch, sequence), header.log_id)
            case AccessGranted() | AccessRevoked():
                self.access.fold(record)
            case OriginDeclared() | OriginForked() | OriginGap():
                self.origins.fold_record(record, sequence, header.node_ns)
            case MessageFact():
                self.messages.fold(record, log_time)
            case GapFound() | EpochGranted() | NodeStopped() | Marked() | LowWater():
                pass  # Facts for followers; no fold of CORE needs them.
            case _:
                assert type(record) in self._takers, f"no fold takes {record}"
        for table in self._takers.get(type(record), ()):
            table.fold(record, sequence, header)

    def _move_series(self, record: ItemForced | ForceEnded, sequence: int) -> None:
        """Let the measured series go on from the item as a force begins, and the item from it as the force ends."""
        force, is_forced = self.of(Forces).find(record.item_id), isinstance(record, ItemForced)
        measured_id = record.measured_id if isinstance(record, ItemForced) else force and force.measured_id
        index, other = self.dim.index_of(record.item_id), self.dim.index_of(measured_id or 0)
        if index is not None and other is not None and (force is None or not is_forced):
            source, target = (index, other) if is_forced else (other, index)
            self.dim.go_on_from(source, target, sequence)
        if index is not None:
            self.conditions.force(index, is_forced=is_forced)

    def of(self, which: type[F]) -> F:
        """The fold of a table."""
        found = self._tables[which]
        assert isinstance(found, which)
        return found

    def forget_pending(self) -> None:
        """Nothing is appended above the committed records: a new tenure begins."""
        self.producers.forget_pending()
        self.cases.drop_pending()
        for one in self._tables.values():
            one.forget_pending()

    def deadline(self) -> LogTime | None:
        """Log time at which a fold changes although no record comes."""
        tables = (one.deadline() for one in self._tables.values())
        return soonest(self.conditions.deadline(), self.cases.deadline(), self.commands.deadline(), *tables)

    def propose(self, wall: WallTime) -> list[CaseChanged]:
        """Case transitions that the committed state asks for and no record tells yet; one slice of them."""
        if self.elsewhere:
            return []
        return self.cases.propose(LogTime(self.log_time_ms * MS), wall)

    def act(self, asked: ActionAsked, wall: WallTime) -> list[CaseChanged] | Refusal:
        """An operator's action at a case, as records to append, or why it is refused."""
        return self.cases.act(asked, LogTime(self.log_time_ms * MS), wall)

    def readings(self, items: Sequence[KnownItem]) -> list[Reading]:
        """Current values of `items`; an item whose declaration is not yet committed is left out."""
        index = [self.dim.index_of(one.item_id) for one in items]
        return [self.dim.reading_at(one) for one in index if one is not None]

    def state_piece(self, asked: StateAsked) -> StatePiece | None:
        """The next piece of a delta, for the state feed; see `StateSource`.

        A viewer that may show what is forgotten, an item or a row, gets the whole state: that comes seldom.
        """
        tables: list[AnyTable] = [self.cases.table, self.commands.table, *self._told]
        since = asked.since
        if WHOLE < since < max(self.dim.forgotten_at, *(one.forgotten_at for one in tables)):
            if asked.after != START:
                return None
            since = WHOLE
        return cut(asked, Changed(since, self.dim, tables))

    def snapshot_slices(self) -> Iterator[tuple[str, bytes]]:
        """The folds as they are now, in slices (section, bytes).

        They are copied at once and encoded as they are drawn, so that CORE can do other work between two slices.
        """
        sliced = (
            ("dim", self.dim.snapshot_slices()),
            ("conditions", self.conditions.snapshot_slices()),
            ("cases", self.cases.snapshot_slices()),
            ("origins", self.origins.snapshot_slices()),
            (OUTBOX, self.messages.outbox.snapshot_slices()),
            (INBOX, self.messages.inbox.snapshot_slices()),
            *((one.shape.name, one.table.snapshot_slices()) for one in self._tables.values()),
        )
        whole = (
            ("elsewhere", self.elsewhere.snapshot()),
            ("commands", self.commands.snapshot()),
            ("producers", self.producers.snapshot()),
            ("audit", self.audit.snapshot()),
            ("access", self.access.snapshot()),
            ("feature", msgspec.msgpack.encode(self.feature_level)),
        )
        return chain(((name, one) for name, slices in sliced for one in slices), whole)

    def snapshot(self) -> dict[str, bytes]:
        """The folds as bytes, one section each; equal folds give equal bytes."""
        return joined(self.snapshot_slices())

    @classmethod
    def restore(cls, sections: Mapping[str, bytes], log_time_ms: int, alarms: AlarmConfig | None = None) -> "Folds":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: a section is missing or malformed.
        """
        missing = [name for name in _SECTIONS if name not in sections]
        if missing:
            raise DecodeError(0, f"snapshot without {', '.join(missing)}")
        self = cls()
        self.dim = Dim.restore(sections["dim"])
        self.conditions = Conditions.restore(sections["conditions"], self.dim, alarms)
        self.cases = Cases.restore(sections["cases"], self.conditions, alarms)
        self.elsewhere = Elsewhere(self.dim, self.conditions, self.cases)
        self.elsewhere.restore(sections["elsewhere"])
        self.commands = Commands.restore(sections["commands"])
        self.producers = Producers.restore(sections["producers"])
        self.audit = AuditChain.restore(sections["audit"])
        self.access = AccessFold.restore(sections["access"])
        self.origins = Origins.restore(sections["origins"])
        self.messages = MessageFold.restore(sections[OUTBOX], sections[INBOX])
        for one in self._tables.values():
            if one.shape.name in sections:  # A version that did not have the table yet may have taken the snapshot.
                one.restore(sections[one.shape.name])
        self.feature_level = unsliced(sections["feature"], int)
        self.log_time_ms = log_time_ms
        return self


def joined(slices: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """The sections that slices make."""
    parts: dict[str, list[bytes]] = {}
    for name, one in slices:
        parts.setdefault(name, []).append(one)
    return {name: b"".join(found) for name, found in parts.items()}


def level_of(frames: Iterable[Frame]) -> int:
    """The highest feature level that these frames raise a log to."""
    return max((_raised_by(frame) for frame in frames if frame.header.stream == Stream.CONTROL), default=FIRST_LEVEL)


def _raised_by(frame: Frame) -> int:
    try:
        records = codec.decode_records(frame.body, frame.header.record_count)
    except DecodeError:
        return FIRST_LEVEL
    return max((one.level for one in records if isinstance(one, FeatureRaised)), default=FIRST_LEVEL)
