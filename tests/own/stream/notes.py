"""A stream of the tests' own: notes on topics, of which CORE reads nothing but the head.

body   = producer_id:u64 producer_sequence:u64 topic:u32 length:u32[n] note[n]      n: records of the frame
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader, body_crc
from albireo.codec.message import AppendEntry
from albireo.codec.record import PRODUCER
from albireo.machine.fold.contents import Body, Contents
from albireo.machine.kernel.named import NamedFollower
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.bounded import Count, Number32

TOPIC: Final = struct.Struct("<I")
COST: Final = 7


class NoteStream(IntEnum):
    """Streams of the tests' own."""

    NOTES = 40


PUTS: Final = 64


class NotesPut(msgspec.Struct, frozen=True):
    """Head of a batch."""

    topic: int
    count: int


class NoteCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of notes on a topic."""

    topic: Number32
    notes: Count


class NoteCounts(TableFold[int, NoteCount]):
    """The fold."""

    shape = TableShape("notes", NoteCount, lambda one: one.topic, 100)
    records = (NotesPut,)

    def fold(self, record: NotesPut, sequence: int, header: FrameHeader) -> None:
        known = self.table.get(record.topic)
        before = 0 if known is None else known.notes
        self.table.put(NoteCount(topic=record.topic, notes=before + record.count), header.last_sequence)


def body_of(producer_id: int, sequence: int, topic: int, *notes: bytes) -> bytes:
    lengths = (TOPIC.pack(len(one)) for one in notes)
    return b"".join((PRODUCER.pack(producer_id, sequence), TOPIC.pack(topic), *lengths, *notes))


def entry_of(body: bytes, count: int) -> AppendEntry:
    return AppendEntry(NoteStream.NOTES, PUTS, count, body_crc(body))


def _head(body: Body, count: int) -> tuple[NotesPut]:
    if len(body) < PRODUCER.size + TOPIC.size:
        raise DecodeError(len(body), "notes without a topic")
    return (NotesPut(TOPIC.unpack_from(body, PRODUCER.size)[0], count),)


def _checked(body: Body, count: int) -> tuple[NotesPut]:
    found = _head(body, count)
    lengths = memoryview(body)[PRODUCER.size + TOPIC.size :]
    if len(lengths) < TOPIC.size * count:
        raise DecodeError(len(body), f"{count} notes with fewer lengths")
    total = sum(length for (length,) in TOPIC.iter_unpack(lengths[: TOPIC.size * count]))
    if len(lengths) != TOPIC.size * count + total:
        raise DecodeError(len(body), f"{count} notes of {total} bytes in all")
    return found


NOTES: Final = Contents(
    stream=NoteStream.NOTES,
    kind=PUTS,
    read=lambda header, body: _head(body, header.record_count),
    cost=lambda header: COST,
    check=_checked,
)
KEPT_BYTES: Final = 3 << 20
KEEPER: Final = NamedFollower(name="keeper", figure="keeper", bytes_max=KEPT_BYTES)
"""The follower for which notes stay."""
