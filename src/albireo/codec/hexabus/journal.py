"""Journal of the master: what happened, in the order that counts for all.

    record = msgpack [[epoch, life], entry]
    part   = C1 (no record begins so), its number, number of the last one, 1 byte each; its bytes of a large record

Who writes says in which term it leads: the epoch of the node, and the start of the adapter on the boot clock of its
machine. A term begins with the entry by which a member takes the lead, and ends with the next such entry of the same
epoch or a later one; entries of all other terms are void, however late they get here. No term is of an epoch that the
log had not reached as it took the entry: such a record means nothing, so a forged one keeps nobody from leading.
Operators have no term: they give machines, and order resets.

Numbers on the wire follow from the journal alone, so whoever reads it sends the same bytes.
"""

from ipaddress import IPv6Address
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.values import HexType, HexValue, decode_value, encode_value
from albireo.model.bounded import Count, Name

PIECE_BYTES: Final = 65
"""Bytes of a piece of what a device is to go on with."""
DATAGRAM_BYTES_MAX: Final = 200
"""Bytes of the longest datagram that tells of an event, and some."""
HOUSE_BYTES_MAX: Final = 128 * 1024
PART_BYTES: Final = 192 * 1024
"""Bytes of a record that stand in one entry of the journal."""
PARTS_MAX: Final = 32
DEVICES_MAX: Final = 1_000
"""Devices of a network: the largest snapshot of so many has room in the parts."""
Number16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
HexHost = Annotated[str, Meta(max_length=64)]


class EventTaken(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """A device told of a change. It is acknowledged once this is on record."""

    host: HexHost
    port: Number16
    """0: the master tells of time."""
    number: Number16
    """Number with which the device told of it; of time: that of the first item since the machines began it is about."""
    first: Annotated[bytes, Meta(max_length=DATAGRAM_BYTES_MAX)] = b""
    """The datagram, if it began a row of numbers."""
    eid: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
    datatype: HexType
    value: Annotated[bytes, Meta(max_length=128)]

    @property
    def told(self) -> HexValue:
        return decode_value(self.datatype, self.value, 0)


class DeviceJoined(msgspec.Struct, frozen=True, tag="joined"):
    """Events behind this one are sent to a device until it has them. It began anew if it was there."""

    host: HexHost
    number: Number16 = 0
    """Number of the word that it begins anew; 0: somebody else said that it is there."""
    since: Count = 0
    """First item since the machines began of which it has the program; it does not join with others. 0: not asked."""


class DeviceLeft(msgspec.Struct, frozen=True, tag="left"):
    """Nobody waits for a device any more."""

    host: HexHost
    reason: Name


class ResetOrdered(msgspec.Struct, frozen=True, tag="reset"):
    """All state machines begin anew; what was not sent to everybody before is not sent."""

    reason: Name = ""


class AllHave(msgspec.Struct, frozen=True, tag="all_have"):
    """Every device that is there has everything up to an item of the order."""

    item: Count


class LeadTaken(msgspec.Struct, frozen=True, tag="lead"):
    """A member leads from here on: whatever others still write is void."""


class HouseTaken(msgspec.Struct, frozen=True, tag="house"):
    """Devices have other programs from here on; all of them begin anew. They go on if only groups of senders change."""

    house: Annotated[bytes, Meta(max_length=HOUSE_BYTES_MAX)]
    """`house.py`, encoded; empty: no machines."""


class RowKept(msgspec.Struct, frozen=True, array_like=True):
    """A sender's row of numbers."""

    host: HexHost
    port: Number16
    last: Number16
    firsts: tuple[Annotated[bytes, Meta(max_length=DATAGRAM_BYTES_MAX)], ...]
    is_closed: bool
    recent: tuple[Number16, ...]


class DeviceKept(msgspec.Struct, frozen=True, array_like=True):
    """A member."""

    host: HexHost
    behind: Count
    joined: Number16
    pieces: tuple[Annotated[bytes, Meta(max_length=PIECE_BYTES)], ...]


class HouseSnapshot(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """All that follows from the entries before this one; who has read them sees whether it does."""

    last: Count
    all_have: Count
    since: Count
    items: tuple[Annotated[bytes, Meta(max_length=250)], ...]
    """Datagrams of the items behind `all_have`."""
    recent: tuple[tuple[Count, ...] | None, ...]
    """Classes of machines that the newest items touch."""
    members: tuple[DeviceKept, ...]
    rows: tuple[RowKept, ...]
    house: Annotated[bytes, Meta(max_length=HOUSE_BYTES_MAX)] = b""
    memory: Annotated[bytes, Meta(max_length=4096)] = b""
    ages_ns: tuple[Count, ...] = ()
    """Time since each machine entered its state."""
    values: tuple[tuple[Count, HexType, Annotated[bytes, Meta(max_length=128)]], ...] = ()
    """Values that machines wrote last, by the number of the output."""
    clocks: tuple[tuple[Number16, ...], ...] = ()
    """Days on which was told of each time of day."""


JournalEntry = EventTaken | DeviceJoined | DeviceLeft | ResetOrdered | AllHave | LeadTaken | HouseTaken | HouseSnapshot


class Term(msgspec.Struct, frozen=True, array_like=True):
    """Time in which one adapter leads."""

    epoch: Count
    life: Count


BY_HAND: Final = Term(0, 0)
"""Term of what an operator puts into the journal: other machines, or a reset."""


class JournalRecord(msgspec.Struct, frozen=True, array_like=True):
    """An entry, and in which term it was written."""

    term: Term
    entry: JournalEntry


_PART: Final = b"\xc1"
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[JournalRecord]] = msgspec.msgpack.Decoder(JournalRecord)


def encode_record(record: JournalRecord) -> bytes:
    return _encoder.encode(record)


def decode_record(data: bytes, epoch: int) -> JournalRecord:
    """Inverse of `encode_record`.

    Args:
        epoch: that of the log at the place of the record.
    Raises:
        DecodeError: it is none, or can't have been put in its term.
    """
    try:
        record = _decoder.decode(data)
        entry = record.entry
        host = IPv6Address(entry.host) if isinstance(entry, EventTaken | DeviceJoined | DeviceLeft) else None
        if isinstance(entry, EventTaken):
            encode_value(decode_value(entry.datatype, entry.value, 0))
        elif isinstance(entry, HouseSnapshot):
            for _, datatype, value in entry.values:
                decode_value(datatype, value, 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DecodeError(0, str(error)) from error
    if record.term.epoch > epoch:
        raise DecodeError(0, f"a term of epoch {record.term.epoch}, in epoch {epoch} of the log")
    if host is not None and host.is_multicast:  # Ids of groups are among these: an event of one would be half an event.
        raise DecodeError(0, f"{host} is no address of a device")
    return record


def entries_of(record: JournalRecord) -> list[bytes]:
    """Entries of the journal in which a record stands, one after the other: one, unless it is a large snapshot."""
    data = encode_record(record)
    parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
    return [_PART + bytes([at, len(parts) - 1]) + part for at, part in enumerate(parts)] if len(parts) > 1 else parts


class RecordReader:
    """Records of the journal, of its entries one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._began = self.first = 0
        """Number of the entry with which the last record begins."""

    def read(self, number: int, epoch: int, data: bytes) -> JournalRecord | None:
        """The record that ends with an entry; None: its other parts follow. Raises DecodeError, as `decode_record`."""
        if not data.startswith(_PART):
            self.first = number
            return decode_record(data, epoch)
        at, last = data[1:3] if len(data) > 2 else (0, 0)
        if at == 0:
            self._parts, self._began = [], number
        if at != len(self._parts) or not at <= last < PARTS_MAX:
            raise DecodeError(0, f"part {at} of {last}, which does not follow")
        self._parts.append(data[3:])
        if at < last:
            return None
        whole, self._parts, self.first = b"".join(self._parts), [], self._began
        return decode_record(whole, epoch)


def event_of(host: str, port: int, number: int, first: bytes, eid: int, value: HexValue) -> EventTaken:
    """The entry of an event."""
    told = encode_value(value)
    return EventTaken(host=host, port=port, number=number, first=first, eid=eid, datatype=value.datatype, value=told)
