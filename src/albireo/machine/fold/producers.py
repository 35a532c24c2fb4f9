"""Producers: which programs may append, and which batch of each comes next.

A named producer numbers its batches 1, 2, 3... A batch is accepted only at last + 1: a repeat is answered once its
original is committed, a gap is refused with the number wanted. The last number lives in the records themselves, so it
moves with the data and survives every restart.

There are two views: *appended*, on which admission decides, and *committed*, which a restart finds again.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from albireo.codec.record import ProducerOpened
from albireo.model.position import Position

PRODUCERS_MAX: Final = 4096
"""Most producers of a log; a hello beyond is refused."""


class KnownProducer(msgspec.Struct, kw_only=True):
    """State of one producer, by the committed records."""

    producer_id: int
    name: str
    run: int
    last_sequence: int = 0
    last_node_ns: int = 0
    """Node time of its last committed frame, or before the first of its opening: its losses are later than that."""
    last_epoch: int = 0
    """Epoch of the same frame."""
    last_position: int = 0
    """Sequence of the last record of its last batch."""


class Producers:
    """The fold, and above it the appended view that admission needs."""

    def __init__(self) -> None:
        self._by_id: dict[int, KnownProducer] = {}
        self._by_name: dict[str, KnownProducer] = {}
        self._appended: dict[int, int] = {}
        self._opening: dict[str, ProducerOpened] = {}

    # Committed view.

    def fold_opened(self, record: ProducerOpened, node_ns: int, epoch: int) -> None:
        known = self._by_id.get(record.producer_id)
        if known is None:
            known = KnownProducer(producer_id=record.producer_id, name=record.name, run=record.run)
            known.last_node_ns, known.last_epoch = node_ns, epoch
            self._by_id[record.producer_id] = known
            self._by_name[record.name] = known
        known.run = record.run
        self._opening.pop(record.name, None)

    def fold_batch(self, producer_id: int, producer_sequence: int, node_ns: int, last: Position) -> None:
        """A committed batch of this producer whose last record is at `last`."""
        known = self._by_id.get(producer_id)
        if known is not None:
            known.last_sequence = max(known.last_sequence, producer_sequence)
            known.last_node_ns = node_ns
            known.last_epoch = last.epoch
            known.last_position = last.sequence

    # Appended view.

    def opened(self, name: str, run: int) -> tuple[ProducerOpened, bool]:
        """Record that opens `name`, and whether it must be appended (new name or new run)."""
        pending = self._opening.get(name)
        if pending is not None and pending.run == run:
            return pending, False
        known = self._by_name.get(name)
        if known is not None and known.run == run and pending is None:
            return ProducerOpened(producer_id=known.producer_id, name=name, run=run), False
        if pending is not None:
            producer_id = pending.producer_id
        elif known is not None:
            producer_id = known.producer_id
        else:
            producer_id = 1 + max([*self._by_id, *(one.producer_id for one in self._opening.values())], default=0)
        record = ProducerOpened(producer_id=producer_id, name=name, run=run)
        self._opening[name] = record
        return record, True

    @property
    def is_full(self) -> bool:
        return len(self._by_id) + len(self._opening) >= PRODUCERS_MAX

    def find(self, name: str) -> KnownProducer | None:
        return self._by_name.get(name)

    def get(self, producer_id: int) -> KnownProducer | None:
        return self._by_id.get(producer_id)

    def last_appended(self, producer_id: int) -> int | None:
        """Sequence of the last batch taken, committed or pending; None for an unknown producer."""
        known = self._by_id.get(producer_id)
        pending = self._appended.get(producer_id)
        if known is None:
            if any(one.producer_id == producer_id for one in self._opening.values()):
                return pending or 0
            return None
        return max(known.last_sequence, pending or 0)

    def appended(self, producer_id: int, producer_sequence: int) -> None:
        self._appended[producer_id] = producer_sequence

    def forget_pending(self) -> None:
        """Nothing is appended above the committed records: a new tenure begins."""
        self._appended.clear()
        self._opening.clear()

    def __iter__(self) -> Iterator[KnownProducer]:
        return iter(self._by_id.values())

    # Snapshot.

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(list(self._by_id.values()))

    @classmethod
    def restore(cls, data: bytes) -> "Producers":
        self = cls()
        for one in msgspec.msgpack.decode(data, type=list[KnownProducer]):
            self._by_id[one.producer_id] = one
            self._by_name[one.name] = one
        return self
