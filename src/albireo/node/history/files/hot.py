"""The hot tail: rows that came from the log and are in no file yet, as columns in memory.

It grows by whole frames, in log order, and shrinks by whole seals: `content` is every row up to now, and `drop` forgets
exactly these once they are durable. Nothing is copied per sample: a chunk's columns are views of the bytes
that came over the link. Frames at or below the last position are ignored, so a repeat can't double a row.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.history import NO_ITEM, SAMPLES, Hole, cut_hole, day_of, is_node
from albireo.codec.record import (
    Audited,
    CaseChanged,
    EpochGranted,
    GapFound,
    ItemDeclared,
    ItemForgotten,
    Kind,
    NodeStopped,
    Record,
    Stream,
    decode_records,
)
from albireo.machine.history.declared import WHOLE_NODE, DeclaredItems, Row, end_row, item_row
from albireo.model.item import KnownItem
from albireo.model.position import Position
from albireo.node.history.files.chunks import Chunk, behind
from albireo.node.history.rows import act_row, case_row, event, gap_row, hole_row

ID_BYTES: Final = 8
"""Memory of one item that a gap names: the gaps of a source share them."""
ROW_BYTES: Final = 256
"""Rough memory of one gap or event, which counts against the bound."""


class HotContent(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The hot tail at one position: one seal writes it, and a query sees it beside the files."""

    position: Position
    complete_to_ns: int
    chunks: Sequence[Chunk] = ()
    gaps: Sequence[Row] = ()
    events: Sequence[Row] = ()
    items: Sequence[Row] = ()
    """Items declared, changed or forgotten since the last seal, in order (declared.item_row, end_row)."""
    forks: Sequence[int] = ()
    """Sequences behind which the log went another way since the last seal: what files have above is of the branch that
    was left."""
    holes: Sequence[Hole] = ()
    """Holes found since the last seal; their gap rows are not among `gaps`."""
    left: Sequence["HotContent"] = ()
    """Rows that no file has yet of the branches that the log left."""

    @property
    def all_gaps(self) -> list[Row]:
        return [*self.gaps, *map(hole_row, self.holes)]

    def day_of_row(self, row: Row) -> str:
        node_ns = row["node_ns"]
        assert isinstance(node_ns, int)
        return day_of(node_ns)


class HotRows(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Rows that are in no file yet."""

    samples: pa.Table = msgspec.field(default_factory=SAMPLES.empty_table)
    """Samples, sorted as in files."""
    gaps: Sequence[Row] = ()
    items: Sequence[Row] = ()
    events: Sequence[Row] = ()
    known_to_ns: int = 0
    """Node time up to which the rows are complete."""

    def above(self, position: Position) -> "HotRows":
        """The rows that the files of a manifest at `position` lack: a log that lost its end gives its sequences again,
        in a later epoch."""
        newer = (pc.field("epoch") > position.epoch) | (
            (pc.field("epoch") == position.epoch) & (pc.field("sequence") > position.sequence)
        )

        def is_newer(row: Row) -> bool:
            return (row["epoch"], row["sequence"]) > (position.epoch, position.sequence)

        return msgspec.structs.replace(
            self,
            samples=self.samples.filter(newer),
            gaps=[row for row in self.gaps if is_newer(row)],
            events=[row for row in self.events if is_newer(row)],
        )


class HotTail:
    """The tail as it grows; `content` gives a fixed view."""

    def __init__(
        self, position: Position, complete_to_ns: int, declared: DeclaredItems | None = None, node: str = ""
    ) -> None:
        """
        Args:
            declared: items as of `position`.
            node: node to which every item has to belong, as in the log of another node; empty: any.
        """
        self.names_gaps = True
        """False: declarations may be missing. A gap names no items then, and is about those that ITEMS gives its
        source."""
        self._node = node
        self.position = position
        """Last record taken."""
        self.complete_to_ns = complete_to_ns
        self.rows = 0
        self.size_bytes = 0
        self.unreadable = 0
        """Number of frames whose body does not fit the header, and of records that no file can hold; each is an event
        of the journal."""
        self._chunks: list[Chunk] = []
        self._gaps: list[Row] = []
        self._events: list[Row] = []
        self._items: list[Row] = []
        self._declared = declared or DeclaredItems({})
        self._unfolded: list[Row] = []
        """News of items that `_declared` lacks."""
        self._adapter_items: dict[str, tuple[int, ...]] = {}
        """Items of the adapters that lost samples lately, as they are declared now."""
        self._holes: list[Hole] = []
        self._forks: list[int] = []
        self._left: list[HotContent] = []
        self._cut: list[tuple[Chunk, Chunk]] = []
        """Chunks that were cut by a fork, with what they were: a seal may be writing them."""
        self._cut_holes: list[tuple[Hole, Hole]] = []
        """The same of holes."""
        self._lost_to = 0
        """Last of the records that the log had let go of: declarations among them count from there on."""
        self._gap_elsewhere: Row | None = None
        """Last of the gaps, while it can still grow: nobody has seen it, and no sample and no gap came since."""

    def take(self, header: FrameHeader, body: bytes | memoryview) -> bool:
        """Add a frame that follows the last one; False: it is a repeat."""
        if header.first_sequence <= self.position.sequence:
            return False
        if header.kind == Kind.ENVELOPE:  # Its rows belong to another history.
            self.position, self.complete_to_ns = header.last, header.node_ns
            return True
        try:
            if header.kind == Kind.REFERENCE:
                self._taken_elsewhere(header)
            elif header.stream == Stream.SAMPLES and header.kind != Kind.RECORDS:
                batch = samples.decode_body(body, header.kind, header.record_count)
                self._chunks.append(Chunk(batch, header.epoch, header.first_sequence, day_of(header.node_ns)))
                self.rows += len(batch)
                self._gap_elsewhere = None
            else:
                self._take_records(header, decode_records(body, header.record_count))
        except DecodeError as error:
            self.not_readable(header, str(error))
        self.size_bytes += header.frame_bytes
        self.position = header.last
        self.complete_to_ns = header.node_ns
        return True

    def not_readable(self, header: FrameHeader, reason: str, index: int = 0) -> None:
        """Record that a record of a frame, or all of it, is left out."""
        self.unreadable += 1
        self._events.append(event(header, index, kind="control", action="unreadable", detail=reason))

    def _taken_elsewhere(self, header: FrameHeader) -> None:
        """Record a gap for samples that another member took and that are not replicated; those in a row share one."""
        before = self._gap_elsewhere
        if before is None:
            from_ns = min(self.complete_to_ns or header.node_ns, header.node_ns)
            gap = GapFound(source="core", reason="not_replicated", from_ns=from_ns, to_ns=header.node_ns, lost=0)
            before = gap_row(header, 0, gap)
            self._gaps.append(before)
            self.rows += 1
            self.size_bytes += ROW_BYTES
        lost, to_ns = before["lost"], before["to_ns"]
        assert isinstance(lost, int) and isinstance(to_ns, int)
        grown: Row = {**before, "to_ns": max(to_ns, header.node_ns), "lost": lost + header.record_count}
        self._gaps[-1] = self._gap_elsewhere = grown

    def _take_records(self, header: FrameHeader, records: list[Record]) -> None:
        for index, record in enumerate(records):
            match record:
                case GapFound():
                    self._gap_elsewhere = None
                    gap = self._named(record)
                    self._gaps.append(gap_row(header, index, gap))
                    self.size_bytes += ID_BYTES * len(gap.item_ids)
                case CaseChanged():
                    self._events.append(case_row(header, index, record))
                case Audited() | EpochGranted() | NodeStopped():
                    self._events.append(act_row(header, index, record))
                case ItemDeclared(node=node) if self._node not in ("", node):
                    self.not_readable(header, f"an item of {node}, in the log of {self._node}", index)
                case ItemDeclared(node=node) if not is_node(node):
                    self.not_readable(header, "node is no name that a folder can have", index)
                case ItemDeclared(item_id=item_id, node=node, item=item):
                    known = KnownItem(item_id=item_id, node=node, item=item)
                    self._item_news([item_row(known, header.node_ns, header.first_sequence + index)])
                case ItemForgotten(item_ids=item_ids):
                    self._item_news([end_row(one, header.node_ns) for one in item_ids])
                case _:
                    continue  # Marks, producers, commands concern the log only.
            self.rows += 1
            self.size_bytes += ROW_BYTES

    def _named(self, gap: GapFound) -> GapFound:
        """The gap with the items that are its source's by now, or with the mark of none: what is declared later, or
        known in another history, changes nothing of it."""
        if gap.item_ids or gap.source in WHOLE_NODE or not self.names_gaps:
            return gap
        self._fold_items()
        if gap.source not in self._adapter_items:
            self._adapter_items[gap.source] = self._declared.of_adapter(gap.source)
        return msgspec.structs.replace(gap, item_ids=self._adapter_items[gap.source] or (NO_ITEM,))

    def _item_news(self, rows: Sequence[Row]) -> None:
        self._items += rows
        self._unfolded += rows

    def _fold_items(self) -> None:
        """Bring the declared items up to the position."""
        if self._unfolded:
            self._declared = self._declared.with_news(self._unfolded)
            self._unfolded.clear()
            self._adapter_items.clear()

    def declare(self, items: Sequence[KnownItem]) -> None:
        """Add items as CORE knows them; the log has pruned their declarations."""
        self._fold_items()
        since = dict.fromkeys(self._declared.versions, self.complete_to_ns)
        self._item_news(
            [item_row(one, since.get(one.item_id), self._lost_to if one.item_id in since else 0) for one in items]
        )
        self.rows += len(items)
        self.size_bytes += ROW_BYTES * len(items)

    def lost(self, last_sequence: int, header: FrameHeader, first_sequence: int | None = None) -> None:
        """Record a hole: the log pruned every record up to `last_sequence` that was not taken; `header` comes next.

        Args:
            first_sequence: of the hole; None: it begins behind the last record taken.
        """
        self._lost_to = last_sequence
        hole = Hole(
            first_sequence=self.position.sequence + 1 if first_sequence is None else first_sequence,
            last_sequence=last_sequence,
            from_ns=min(self.complete_to_ns, header.node_ns),
            to_ns=header.node_ns,
            behind=Position(header.epoch, header.first_sequence),
        )
        self.lack(hole)

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Holes that no manifest lists yet."""
        return tuple(self._holes)

    def lack(self, hole: Hole) -> None:
        """Record a hole."""
        self._holes.append(hole)
        self.rows += 1
        self.size_bytes += ROW_BYTES

    def fork(self, position: Position) -> None:
        """Record that the log went another way after `position`, and take later records from there."""
        detail = f"records after {position} up to {self.position} are here, and no longer in the log"
        told = dict.fromkeys(("user", "principal", "speaker", "subject"), "")
        row: Row = {"at_ns": self.complete_to_ns, "kind": "control", "action": "log_forked", **told}
        place: Row = {"detail": detail, "node_ns": self.complete_to_ns, "epoch": self.position.epoch}
        fork = position.sequence
        self._left.append(
            HotContent(
                position=self.position,
                complete_to_ns=self.complete_to_ns,
                chunks=[behind(fork, one) for one in self._chunks if one.last_sequence > fork],
                gaps=[one for one in self._gaps if _is_above(one, fork)],
                events=[one for one in self._events if _is_above(one, fork)],
            )
        )
        self._chunks = [
            self._until(position.sequence, one) for one in self._chunks if one.first_sequence <= position.sequence
        ]
        self._holes = [
            self._hole_until(position.sequence, one) for one in self._holes if one.first_sequence <= position.sequence
        ]
        self._gaps = [one for one in self._gaps if not _is_above(one, position.sequence)]
        self._events = [one for one in self._events if not _is_above(one, position.sequence)]
        self._events.append(row | place | {"sequence": self.position.sequence})
        self._forks.append(position.sequence)
        self._gap_elsewhere = None
        self.rows += 1
        self.position = position

    def _until(self, sequence: int, chunk: Chunk) -> Chunk:
        """The chunk without the rows behind a sequence."""
        kept = sequence - chunk.first_sequence + 1
        if kept >= len(chunk.batch):
            return chunk
        part = msgspec.structs.replace(chunk, batch=chunk.batch.take(np.arange(kept)))
        self._cut.append((part, chunk))
        return part

    def _hole_until(self, sequence: int, hole: Hole) -> Hole:
        if hole.last_sequence <= sequence:
            return hole
        part = cut_hole(hole, sequence)
        self._cut_holes.append((part, hole))
        return part

    def content(self) -> HotContent:
        """Every row taken so far; later rows do not change it."""
        self._gap_elsewhere = None
        return HotContent(
            position=self.position,
            complete_to_ns=self.complete_to_ns,
            chunks=tuple(self._chunks),
            gaps=tuple(self._gaps),
            events=tuple(self._events),
            items=tuple(self._items),
            forks=tuple(self._forks),
            holes=tuple(self._holes),
            left=tuple(self._left),
        )

    def drop(self, sealed: HotContent) -> None:
        """Forget the rows of `sealed`, an earlier `content`."""
        self._gap_elsewhere = None
        self._fold_items()
        # By identity: a fork may have taken some out of the middle since.
        whole = [*sealed.chunks, *(part for part, chunk in self._cut if any(chunk is one for one in sealed.chunks))]
        self._chunks = _without(self._chunks, whole)
        self._cut.clear()
        self._gaps = _without(self._gaps, sealed.gaps)
        self._events = _without(self._events, sealed.events)
        del self._items[: len(sealed.items)]
        del self._forks[: len(sealed.forks)], self._left[: len(sealed.left)]
        written = [*sealed.holes, *(part for part, hole in self._cut_holes if any(hole is one for one in sealed.holes))]
        self._holes = _without(self._holes, written)
        self._cut_holes.clear()
        named = sum(len(ids) for row in self._gaps if isinstance(ids := row["item_ids"], list))
        records = len(self._gaps) + len(self._events) + len(self._items) + len(self._holes)
        self.rows = sum(len(chunk.batch) for chunk in self._chunks) + records
        self.size_bytes = sum(40 * len(chunk.batch) for chunk in self._chunks) + ROW_BYTES * records
        self.size_bytes += ID_BYTES * named


def _is_above(row: Row, sequence: int) -> bool:
    own = row["sequence"]
    return isinstance(own, int) and own > sequence and row.get("action") != "log_forked"


def _without(rows: Sequence[Any], sealed: Sequence[Any]) -> list[Any]:
    gone = {id(one) for one in sealed}
    return [one for one in rows if id(one) not in gone]
