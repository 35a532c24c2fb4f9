"""Journal of the master: what happened, in the order that counts for all.

    entry = msgpack, tagged

Positions count from 1. Numbers on the wire follow from the journal alone, so whoever reads it sends the same bytes.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.values import HexType, HexValue, decode_value, encode_value
from albireo.model.bounded import Count, Name

Number16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
HexHost = Annotated[str, Meta(max_length=64)]


class EventTaken(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """A device told of a change. It is acknowledged once this is on record."""

    host: HexHost
    port: Number16
    number: Number16
    first: Annotated[bytes, Meta(max_length=200)] = b""
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


JournalEntry = EventTaken | DeviceJoined | DeviceLeft | ResetOrdered | AllHave
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[JournalEntry]] = msgspec.msgpack.Decoder(JournalEntry)


def encode_entry(entry: JournalEntry) -> bytes:
    return _encoder.encode(entry)


def decode_entry(data: bytes) -> JournalEntry:
    """Inverse of `encode_entry`. Raises DecodeError: it is no entry."""
    try:
        entry = _decoder.decode(data)
        if isinstance(entry, EventTaken):
            decode_value(entry.datatype, entry.value, 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(0, str(error)) from error
    return entry


def event_of(host: str, port: int, number: int, first: bytes, eid: int, value: HexValue) -> EventTaken:
    """The entry of an event."""
    told = encode_value(value)
    return EventTaken(host=host, port=port, number=number, first=first, eid=eid, datatype=value.datatype, value=told)
