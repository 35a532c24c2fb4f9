"""Producers: which programs may append under which name, and which batch of each comes next.

A name outlives its programs. Each program that speaks under a name is a *life*; its number is the producer id that
CORE gives it in the log, and never gives again. Batches are numbered 1, 2, 3... within a life. A batch is accepted only
at last + 1: a repeat is answered once its original is committed, a gap is refused with the number wanted. The last
number lives in the records themselves, so it moves with the data and survives every restart.

    hello of the present life, or of its run      it goes on behind its last number
    hello of a run that is new                    the next life; every life before it is over, for good
    hello of an older life, or of one of the      superseded
      last runs before the present one
    hello of a life of a name that is forgotten   forgotten, for good: what it has under way may be recorded
    hello of a life that is not in this log       the next life (a forced promotion lost it)

There are two views: *appended*, on which admission decides, and *committed*, which a restart finds again.

A name that nobody uses can be forgotten, by a record. Its numbers are not given again; a program that comes with one
of them is told so, because nobody knows any more which of its batches are recorded.

Spec: design/log-and-feed.md, Lives; ADR-0143, ADR-0150.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import msgspec

from albireo.codec.record import ProducerForgotten, ProducerOpened
from albireo.codec.slices import unsliced
from albireo.model.position import Position
from albireo.model.principal import ANYBODY

EARLIER_MAX: Final = 8
"""Lives before the present one that are remembered by their runs."""
FORGOTTEN_MAX: Final = 1_024
"""Forgotten lives that are remembered by their runs: their first hello, without a life, may still be on its way."""


class Standing(Enum):
    """Standing of a program that says hello under a name."""

    PRESENT = auto()
    """The name is its own."""
    NEW = auto()
    """It gets the next life."""
    SUPERSEDED = auto()
    """A later program has the name."""
    FORGOTTEN = auto()
    """The name, with this program's life, was forgotten."""


class EarlierLife(msgspec.Struct, frozen=True):
    """A life that is over."""

    producer_id: int
    run: int


class KnownProducer(msgspec.Struct, kw_only=True):
    """State of one name, by the committed records."""

    producer_id: int
    """Number of the present life."""
    name: str
    run: int
    """Run of the program whose life it is."""
    last_sequence: int = 0
    """Last number in the present life."""
    last_node_ns: int = 0
    """Node time of the name's last committed frame, or before the first of its opening: its losses are later."""
    last_epoch: int = 0
    """Epoch of the same frame."""
    last_position: int = 0
    """Sequence of the last record of the present life's last batch."""
    since_ns: int = 0
    """Node time at which the present life took over; 0: it is the first, or it is not known."""
    earlier: tuple[EarlierLife, ...] = ()
    """The lives before, the latest last."""
    principal: str = ""
    """Who opened the present life; empty: not known, or anybody."""
    heard_ms: int = 0
    """Log time of the name's last record: the last batch, or the opening of its present life."""

    @property
    def heard_ns(self) -> int:
        """Node time of the name's last record."""
        return max(self.last_node_ns, self.since_ns)


class _ProducersSection(msgspec.Struct, frozen=True, array_like=True):
    highest: int
    forgotten_to: int
    forgotten: tuple[tuple[str, int], ...]
    known: list[KnownProducer]


class Producers:
    """The fold, and above it the appended view that admission needs."""

    def __init__(self) -> None:
        self._by_name: dict[str, KnownProducer] = {}
        self._names: dict[int, str] = {}
        """Names of the lives that are remembered, present and earlier ones."""
        self._highest = 0
        """Highest number of a life that was given."""
        self._forgotten_to = 0
        """Highest number of a life that is forgotten."""
        self._forgotten: deque[tuple[str, int]] = deque(maxlen=FORGOTTEN_MAX)
        """Name and run of the lives that were forgotten last."""
        self.log_time_ms = 0
        """Log time of the frame that is being folded."""
        self._appended: dict[int, int] = {}
        self._opening: dict[str, KnownProducer] = {}
        """Names whose present life is appended and not committed."""
        self._forgetting: set[str] = set()
        """Names that are forgotten by an appended record which is not committed."""

    # Committed view.

    def fold_opened(self, record: ProducerOpened, node_ns: int, epoch: int) -> None:
        known = _opened(self._by_name.get(record.name), record, node_ns, epoch)
        known.heard_ms = self.log_time_ms
        self._keep(known)
        opening = self._opening.get(record.name)
        if opening is not None and (opening.producer_id, opening.run) == (record.producer_id, record.run):
            del self._opening[record.name]

    def fold_forgotten(self, record: ProducerForgotten) -> None:
        self._forgetting.discard(record.name)
        known = self._by_name.get(record.name)
        if known is None or known.producer_id != record.producer_id:
            return
        del self._by_name[record.name]
        for life in _lives(known):
            self._names.pop(life.producer_id, None)
            self._appended.pop(life.producer_id, None)
            self._forgotten.append((known.name, life.run))
        self._forgotten_to = max(self._forgotten_to, known.producer_id)

    def _keep(self, known: KnownProducer) -> None:
        before = self._by_name.get(known.name)
        self._by_name[known.name] = known
        remembered = {known.producer_id, *(one.producer_id for one in known.earlier)}
        for one in () if before is None else (before.producer_id, *(one.producer_id for one in before.earlier)):
            if one not in remembered:
                self._names.pop(one, None)
                self._appended.pop(one, None)
        self._names |= dict.fromkeys(remembered, known.name)
        self._highest = max(self._highest, known.producer_id)

    def fold_batch(self, producer_id: int, producer_sequence: int, node_ns: int, last: Position) -> None:
        """A committed batch of this life whose last record is at `last`."""
        known = self.get(producer_id)
        if known is not None:
            known.last_sequence = max(known.last_sequence, producer_sequence)
            known.last_node_ns = node_ns
            known.last_epoch = last.epoch
            known.last_position = last.sequence
            known.heard_ms = self.log_time_ms

    # Appended view.

    def standing(self, name: str, run: int, life: int) -> Standing:
        """Standing of a program that says hello.

        Args:
            life: number of the life that it was given; 0: none yet.
        """
        known = self.present(name)
        was_forgotten = (name, run) in self._forgotten
        if known is None:
            # A life above all forgotten ones was lost in another branch, and so was one that another name has here.
            was_forgotten |= 0 < life <= self._forgotten_to and life not in self._names
            return Standing.FORGOTTEN if was_forgotten else Standing.NEW
        if run == known.run:
            return Standing.PRESENT
        # A higher number, or this one with a run that is not known, was given in a branch of the log that is no more.
        is_over = 0 < life < known.producer_id or was_forgotten or any(run == one.run for one in known.earlier)
        return Standing.SUPERSEDED if is_over else Standing.NEW

    def open(self, name: str, run: int, node_ns: int, epoch: int, principal: str = ANYBODY) -> ProducerOpened:
        """Record that gives `name` its next life, to be appended."""
        highest = max([self._highest, *(one.producer_id for one in self._opening.values())])
        record = ProducerOpened(producer_id=1 + highest, name=name, run=run, principal=principal)
        self._opening[name] = _opened(self.present(name), record, node_ns, epoch)
        return record

    def forget(self, name: str) -> ProducerForgotten | None:
        """Record that forgets `name`, to be appended; None: it is not known, or about to get another life."""
        known = self._by_name.get(name)
        if known is None or name in self._opening or name in self._forgetting:
            return None
        self._forgetting.add(name)
        return ProducerForgotten(producer_id=known.producer_id, name=name)

    def is_being_forgotten(self, name: str) -> bool:
        """True: a record that forgets `name` is appended and not committed."""
        return name in self._forgetting

    def present(self, name: str) -> KnownProducer | None:
        """State of `name` with the life that was appended last; its numbers are those of the committed view."""
        return self._opening.get(name) or self._by_name.get(name)

    def __len__(self) -> int:
        """Number of names, the appended ones too."""
        return len(self._by_name.keys() | self._opening.keys())

    def find(self, name: str) -> KnownProducer | None:
        return self._by_name.get(name)

    def get(self, producer_id: int) -> KnownProducer | None:
        """State of the name whose present life this is; None: it is not known, or over."""
        known = self._by_name.get(self._names.get(producer_id, ""))
        return known if known is not None and known.producer_id == producer_id else None

    def named(self, name: str) -> KnownProducer | None:
        """State of a name; None: it is not known."""
        return self._by_name.get(name)

    def successor(self, producer_id: int) -> KnownProducer | None:
        """State of the name that was this life's and is a later one's now; None: it is not known, or present."""
        known = self._by_name.get(self._names.get(producer_id, ""))
        return known if known is not None and known.producer_id != producer_id else None

    def is_over(self, producer_id: int) -> bool:
        """True: the life's name was given to a later one, which may not be committed yet."""
        known = self.present(self._names.get(producer_id, ""))
        return known is not None and known.producer_id != producer_id

    def name_of(self, producer_id: int) -> str:
        """Name of the life, appended or committed; empty: it is not known."""
        name = self._names.get(producer_id)
        if name is not None:
            return name
        return next((one.name for one in self._opening.values() if one.producer_id == producer_id), "")

    def last_appended(self, producer_id: int) -> int | None:
        """Sequence of the last batch taken, committed or pending; None for an unknown life."""
        known = self.get(producer_id)
        pending = self._appended.get(producer_id)
        if known is None:
            if any(one.producer_id == producer_id for one in self._opening.values()):
                return pending or 0
            return pending
        return max(known.last_sequence, pending or 0)

    def appended(self, producer_id: int, producer_sequence: int) -> None:
        self._appended[producer_id] = producer_sequence

    def forget_pending(self) -> None:
        """Nothing is appended above the committed records: a new tenure begins."""
        self._appended.clear()
        self._opening.clear()
        self._forgetting.clear()

    def __iter__(self) -> Iterator[KnownProducer]:
        return iter(self._by_name.values())

    # Snapshot.

    def snapshot(self) -> bytes:
        section = _ProducersSection(self._highest, self._forgotten_to, tuple(self._forgotten), list(self))
        return msgspec.msgpack.encode(section)

    @classmethod
    def restore(cls, section: bytes) -> "Producers":
        """Inverse of `snapshot`.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        found = unsliced(section, _ProducersSection)
        self._highest, self._forgotten_to = found.highest, found.forgotten_to
        self._forgotten.extend(found.forgotten)
        for one in found.known:
            self._keep(one)
        return self


def _earlier(known: KnownProducer) -> tuple[EarlierLife, ...]:
    """The lives of a name before its next one."""
    return _lives(known)[-EARLIER_MAX:]


def _lives(known: KnownProducer) -> tuple[EarlierLife, ...]:
    """All lives of a name that are remembered, the present one last."""
    return (*known.earlier, EarlierLife(known.producer_id, known.run))


def _opened(before: KnownProducer | None, record: ProducerOpened, node_ns: int, epoch: int) -> KnownProducer:
    """State of a name with its next life."""
    life, run = record.producer_id, record.run
    if before is None:
        return KnownProducer(
            producer_id=life,
            name=record.name,
            run=run,
            last_node_ns=node_ns,
            last_epoch=epoch,
            principal=record.principal,
        )
    return msgspec.structs.replace(
        before,
        producer_id=life,
        run=run,
        last_sequence=0,
        last_position=0,
        since_ns=node_ns,
        earlier=_earlier(before),
        principal=record.principal,
    )
