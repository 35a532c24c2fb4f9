"""Origins: what this log holds of the logs of nodes below.

One entry for each log whose records lie here in envelopes: where its copy ends, and the declarations by which its
items are named. The values themselves are neither decoded nor kept: current ones are told by the state feed
(mirror.py), past ones by the history.

Spec: design/tree.md, Origins; ADR-0185.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from albireo.codec import record as codec
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.record import (
    EpochGranted,
    ItemDeclared,
    ItemForgotten,
    Kind,
    OriginDeclared,
    OriginForked,
    OriginGap,
    Stream,
)
from albireo.codec.slices import list_slices, read_slices, sliced, unsliced
from albireo.codec.tree.envelope import open_envelope
from albireo.model.item import KnownItem
from albireo.model.position import BEGINNING, EpochEntry, Position

ORIGINS_MAX: Final = 4_096
"""Most origins of one log: every node of the largest tree, with a few stores each."""
TELLING: Final = frozenset({Stream.STATE, Stream.CONTROL})
"""Streams whose records tell of items and of further origins."""

Told = ItemDeclared | ItemForgotten | OriginDeclared | OriginGap


class Enveloped(msgspec.Struct, frozen=True, eq=False):
    """Content of an envelope, as far as the fold needs it."""

    index: int
    last: FrameHeader
    """Header of the last frame inside."""
    records: int
    """Number of records inside."""
    told: tuple[Told, ...]
    epochs: tuple[EpochEntry, ...] = ()
    """Epochs of the origin that begin inside."""
    unreadable: int = 0
    """Number of frames inside of a kind that this version does not know."""


class OriginCopy(msgspec.Struct, kw_only=True):
    """One log of a node below, as far as its copy here goes."""

    index: int
    node: str
    log_id: bytes
    last: Position = BEGINNING
    """Last record of the copy."""
    last_crc: int = 0
    """CRC of the header of the last frame of the copy; 0: there is none."""
    epochs: tuple[EpochEntry, ...] = ()
    """Epochs that begin within the copy: by them the origin tells whether the copy is of a branch that it left."""
    complete_to_ns: int = 0
    """The watermark: wall time at which the origin appended the last frame of the copy, by its own clock; by that of
    this node at which the frame was taken, if that is earlier."""
    heard_at: int = 0
    """Sequence in this log of what was taken of it last."""
    set_back_ns: int = 0
    """Wall time at which it was known that the node came back with less than is known of it here, from a backup or
    with another store, this one; 0: it never did."""
    records: int = 0
    unreadable: int = 0
    missing: int = 0
    """Number of records that the origin let go of before they were copied."""
    missing_to: int = 0
    """Last sequence of which it is on record that it is missing."""
    may_lack: bool = False
    """Records may be missing before the next frame: whoever forwards this origin lacks some of them."""
    items: dict[int, KnownItem] = {}
    """Declared items by id."""
    origins: dict[int, tuple[str, bytes]] = {}
    """Node and log id of the origins that lie in this origin's log, by their index there."""


class Origins:
    """The fold."""

    def __init__(self) -> None:
        self._by_index: dict[int, OriginCopy] = {}
        self._by_log: dict[bytes, OriginCopy] = {}
        self.shown: Callable[[str, int], KnownItem | None] = lambda node, item_id: None
        """Gives a declaration that is kept for something else, by node and item: an equal one is not kept twice."""

    def __len__(self) -> int:
        return len(self._by_index)

    def __iter__(self) -> Iterator[OriginCopy]:
        return iter(self._by_index.values())

    def at(self, index: int) -> OriginCopy | None:
        return self._by_index.get(index)

    def of_log(self, log_id: bytes) -> OriginCopy | None:
        """The origin with this log id."""
        return self._by_log.get(log_id)

    def of_node(self, node: str) -> OriginCopy | None:
        """The origin of a node that was heard last: that of its present store."""
        return max(self.stores_of(node), key=lambda one: one.heard_at, default=None)

    def stores_of(self, node: str) -> list[OriginCopy]:
        """The origins of a node, those of its earlier stores first."""
        return [one for one in self if one.node == node]

    def set_back(self, since_ns: int) -> tuple[str, ...]:
        """Nodes that came back with less than is known of them, since a wall time."""
        return tuple(sorted({one.node for one in self if one.set_back_ns > since_ns}))

    @property
    def declared(self) -> list[OriginDeclared]:
        """Declarations of all of them, as they stand in the log."""
        return [OriginDeclared(index=one.index, node=one.node, origin_log=one.log_id) for one in self]

    @property
    def next_index(self) -> int:
        return 1 + max(self._by_index, default=0)

    def fold_record(self, record: OriginDeclared | OriginForked | OriginGap, sequence: int, node_ns: int) -> None:
        """Fold a record of the own log. `node_ns`: wall time at which it was appended."""
        if isinstance(record, OriginGap):
            self._fold_gap(record)
            return
        if isinstance(record, OriginForked):
            origin = self._by_index.get(record.index)
            if origin is not None:
                origin.last, origin.last_crc = Position(record.epoch, record.sequence), 0
                origin.epochs = epochs_to(origin.epochs, record.sequence)
                origin.missing_to = min(origin.missing_to, record.sequence)
                origin.set_back_ns = node_ns
            return
        if record.index in self._by_index or record.origin_log in self._by_log or len(self) >= ORIGINS_MAX:
            return
        origin = OriginCopy(index=record.index, node=record.node, log_id=record.origin_log, heard_at=sequence)
        origin.set_back_ns = node_ns if self.stores_of(record.node) else 0
        self._by_index[record.index] = self._by_log[record.origin_log] = origin

    def _fold_gap(self, gap: OriginGap) -> None:
        origin = self._by_index.get(gap.index)
        if origin is None or gap.first <= max(origin.last.sequence, origin.missing_to):
            return
        origin.missing += gap.sequence - gap.first
        origin.missing_to = gap.sequence - 1
        for _, log_id in origin.origins.values():
            self._suspect(log_id)

    def _suspect(self, log_id: bytes) -> None:
        origin = self._by_log.get(log_id)
        if origin is not None:
            origin.may_lack = True

    def fold(self, enveloped: Enveloped, sequence: int, node_ns: int) -> None:
        """Fold an envelope of the own log. `node_ns`: wall time at which it was appended."""
        origin = self._by_index.get(enveloped.index)
        if origin is None or enveloped.last.last <= origin.last:
            return
        origin.last, origin.last_crc = enveloped.last.last, enveloped.last.header_crc
        origin.epochs += enveloped.epochs
        origin.complete_to_ns, origin.heard_at = min(enveloped.last.node_ns, node_ns), sequence
        origin.records += enveloped.records
        origin.unreadable += enveloped.unreadable
        origin.may_lack = False
        for one in enveloped.told:
            match one:
                case ItemDeclared(item_id=item_id) if one.node == origin.node:
                    known = KnownItem(item_id=item_id, node=origin.node, item=one.item, is_retired=one.is_retired)
                    shown = self.shown(origin.node, item_id)
                    origin.items[item_id] = shown if shown is not None and shown == known else known
                case ItemDeclared():
                    origin.unreadable += 1  # No node declares items of another.
                case ItemForgotten(item_ids=item_ids):
                    for forgotten in item_ids:
                        origin.items.pop(forgotten, None)
                case OriginDeclared(index=index, node=node, origin_log=log_id):
                    origin.origins[index] = (node, log_id)
                case OriginGap(index=index):
                    self._suspect(origin.origins.get(index, ("", b""))[1])

    def snapshot_slices(self) -> Iterator[bytes]:
        """The fold as it stands now, encoded slice by slice as the iterator is drawn on: items may be very many."""
        heads = [msgspec.structs.replace(one, items={}, origins=dict(one.origins)) for one in self]
        return _slices(heads, [list(one.items.values()) for one in self])

    def snapshot(self) -> bytes:
        """All slices; equal folds give equal bytes."""
        return b"".join(self.snapshot_slices())

    @classmethod
    def restore(cls, section: bytes) -> "Origins":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        slices = read_slices(section)
        found = unsliced(next(slices, b""), list[OriginCopy])
        counts = unsliced(next(slices, b""), list[int])
        for one, count in zip(found, counts, strict=False):
            while len(one.items) < count:
                items = unsliced(next(slices, b""), list[KnownItem])
                if not items:
                    raise DecodeError(0, f"snapshot: origins: {one.node} lacks items")
                one.items |= {known.item_id: known for known in items}
        if len(counts) != len(found):
            raise DecodeError(0, f"snapshot: origins: items of {len(counts)} logs, not {len(found)}")
        self._by_index = {one.index: one for one in found}
        self._by_log = {one.log_id: one for one in found}
        return self


def _slices(heads: Sequence[OriginCopy], items: Sequence[Sequence[KnownItem]]) -> Iterator[bytes]:
    """Every origin but for its items, the number of items of each, then the items in the same order."""
    yield sliced(heads)
    yield sliced([len(some) for some in items])
    for some in items:
        yield from list_slices(some)


def epochs_to(epochs: Iterable[EpochEntry], sequence: int) -> tuple[EpochEntry, ...]:
    """The epochs that begin at this sequence or before."""
    return tuple(one for one in epochs if one.first_sequence <= sequence)


def told_in(header: FrameHeader, body: bytes | memoryview) -> tuple[list[Told], list[EpochEntry]]:
    """Items and origins, and begun epochs, of which a frame of an origin's log tells.

    Raises:
        DecodeError: its records are of a kind that this version does not know.
    """
    if header.kind != Kind.RECORDS or header.stream not in TELLING:
        return [], []
    told: list[Told] = []
    epochs: list[EpochEntry] = []
    for offset, one in enumerate(codec.decode_records(body, header.record_count)):
        if isinstance(one, Told):
            told.append(one)
        elif isinstance(one, EpochGranted):
            epochs.append(EpochEntry(one.epoch, header.first_sequence + offset, one.branch_id))
    return told, epochs


def read_envelope(header: FrameHeader, body: bytes | memoryview) -> Enveloped:
    """The content of an envelope of the own log, whose CRC is checked.

    Raises:
        DecodeError: not an envelope, an empty one, or damage.
    """
    last: FrameHeader | None = None
    records = unreadable = 0
    told: list[Told] = []
    epochs: list[EpochEntry] = []
    for last, content in open_envelope(header, body):
        records += last.record_count
        try:
            found, begun = told_in(last, content)
        except DecodeError:
            unreadable += 1
            continue
        told += found
        epochs += begun
    if last is None or header.origin is None:
        raise DecodeError(0, "an empty envelope")
    return Enveloped(header.origin.node, last, records, tuple(told), tuple(epochs), unreadable)
