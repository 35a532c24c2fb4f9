"""Packets of HX0D.

    datagram = "HX0D" type:u8 flags:u8 number:u16 packet

    ERROR 00             code:u8 cause:u16
    INFO 01, WRITE 04    eid:u32 datatype:u8 value
    QUERY 02, EPQUERY 0A eid:u32
    REPORT 03            eid:u32 datatype:u8 value cause:u16
    EPINFO 09            eid:u32 datatype:u8 name:128
    EPREPORT 0B          eid:u32 datatype:u8 name:128 cause:u16
    ACK 10               cause:u16
    PINFO 11             eid:u32 datatype:u8 value origin:16 [needs:u16 [part:u8]]
    EP_PROP_QUERY 13     eid:u32 property:u32
    EP_PROP_REPORT 14    eid:u32 datatype:u8 next:u32 value cause:u16
    EP_PROP_WRITE 15     eid:u32 datatype:u8 property:u32 value

A cause is the number of the packet that is answered. Encoding is strict; decoding passes over what follows a packet, as
the original does, and over flags that nobody knows.
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.values import (
    SIZES,
    STRING_BYTES,
    HexType,
    HexValue,
    decode_value,
    encode_value,
    text_of,
    type_of,
)

MAGIC: Final = b"HX0D"
OTHERS: Final = (b"HX0B", b"HX0C")
"""Magic words of earlier wires, which devices of this one do not understand."""
PORT: Final = 61616
GROUP: Final = "ff05::205"
"""Address of all devices of a site."""
HOPS: Final = 64
"""Hops that a datagram to the group may make."""
WANT_ACK: Final = 0x01
"""The receiver acknowledges in any case."""
WANT_UL_ACK: Final = 0x02
"""The receiver acknowledges if it has dealt with it."""
RELIABLE: Final = 0x04
"""The number is one of the row of reliable packets."""
CONN_RESET: Final = 0x08
"""The sender begins another row of numbers."""
ORIGIN_BYTES: Final = 16
NUMBER_MAX: Final = 0xFFFF
PARTS_MAX: Final = 16
"""Packets of one event."""
ALL_NEEDED: Final = 0xFFFF
"""All of the 16 packets before it."""


class HexError(IntEnum):
    """Error codes that are sent."""

    UNKNOWN_EID = 0x01
    WRITE_READ_ONLY = 0x02
    DATATYPE = 0x04
    INVALID_VALUE = 0x05


class ErrorPacket(msgspec.Struct, frozen=True, tag=0x00):
    code: int
    cause: int


class InfoPacket(msgspec.Struct, frozen=True, tag=0x01):
    """An endpoint has this value."""

    eid: int
    value: HexValue


class QueryPacket(msgspec.Struct, frozen=True, tag=0x02):
    eid: int


class ReportPacket(msgspec.Struct, frozen=True, tag=0x03):
    """Answer to a query."""

    eid: int
    value: HexValue
    cause: int


class WritePacket(msgspec.Struct, frozen=True, tag=0x04):
    eid: int
    value: HexValue


class EndpointInfoPacket(msgspec.Struct, frozen=True, tag=0x09):
    """Datatype and name of an endpoint."""

    eid: int
    datatype: HexType
    name: str


class EndpointQueryPacket(msgspec.Struct, frozen=True, tag=0x0A):
    eid: int


class EndpointReportPacket(msgspec.Struct, frozen=True, tag=0x0B):
    """Answer to an endpoint query."""

    eid: int
    datatype: HexType
    name: str
    cause: int


class AckPacket(msgspec.Struct, frozen=True, tag=0x10):
    cause: int


class PInfoPacket(msgspec.Struct, frozen=True, tag=0x11):
    """Word of the master that an endpoint has this value, in the order that counts."""

    eid: int
    value: HexValue
    origin: bytes
    """IPv6 address of the device whose endpoint it is, or id of a group of it, 16 bytes."""
    needs: int = ALL_NEEDED
    """Which of the 16 packets before it must have been acted on: bit 0 is the one right before. Left out if all must;
    else two bytes behind the packet, which devices of the original pass over (ADR-0253)."""
    place: int = 0
    """Its place among the packets of the same event, which have numbers behind each other."""
    parts: int = 1
    """How many these are. If several, a third byte is behind the packet: place << 4 | parts - 1 (ADR-0258)."""


class PropertyQueryPacket(msgspec.Struct, frozen=True, tag=0x13):
    eid: int
    property_id: int


class PropertyReportPacket(msgspec.Struct, frozen=True, tag=0x14):
    """Answer to the question for a property of an endpoint."""

    eid: int
    next_id: int
    """The next property that there is; 0: there is none."""
    value: HexValue
    cause: int


class PropertyWritePacket(msgspec.Struct, frozen=True, tag=0x15):
    eid: int
    property_id: int
    value: HexValue


HexPacket = (
    ErrorPacket
    | InfoPacket
    | QueryPacket
    | ReportPacket
    | WritePacket
    | EndpointInfoPacket
    | EndpointQueryPacket
    | EndpointReportPacket
    | AckPacket
    | PInfoPacket
    | PropertyQueryPacket
    | PropertyReportPacket
    | PropertyWritePacket
)


class HexDatagram(msgspec.Struct, frozen=True):
    """A packet with its header."""

    packet: HexPacket
    number: int
    flags: int = 0


_HEAD: Final = struct.Struct(">4sBBH")
_EID: Final = struct.Struct(">I")
_TWO: Final = struct.Struct(">II")
_TYPED: Final = struct.Struct(">IB")
_PROPERTY: Final = struct.Struct(">IBI")
_CAUSE: Final = struct.Struct(">H")
_PART: Final = struct.Struct(">HB")
_ERROR: Final = struct.Struct(">BH")


def encode(datagram: HexDatagram) -> bytes:
    """The bytes of a datagram. Raises ValueError: a field is none that may be sent."""
    packet = datagram.packet
    try:
        head = _HEAD.pack(MAGIC, packet.__struct_config__.tag, datagram.flags, datagram.number)
        return head + _encoded(packet)
    except struct.error as error:
        raise ValueError(f"{packet} has a number that does not fit: {error}") from error


def _encoded(packet: HexPacket) -> bytes:
    match packet:
        case ErrorPacket(code=code, cause=cause):
            return _ERROR.pack(HexError(code), cause)
        case AckPacket(cause=cause):
            return _CAUSE.pack(cause)
        case QueryPacket(eid=eid) | EndpointQueryPacket(eid=eid):
            return _EID.pack(eid)
        case PropertyQueryPacket(eid=eid, property_id=property_id):
            return _TWO.pack(eid, property_id)
        case InfoPacket(eid=eid, value=value) | WritePacket(eid=eid, value=value):
            return _TYPED.pack(eid, value.datatype) + encode_value(value)
        case ReportPacket(eid=eid, value=value, cause=cause):
            return _TYPED.pack(eid, value.datatype) + encode_value(value) + _CAUSE.pack(cause)
        case PInfoPacket(eid=eid, value=value, origin=origin, needs=needs, place=place, parts=parts):
            if len(origin) != ORIGIN_BYTES:
                raise ValueError(f"an origin has {ORIGIN_BYTES} bytes, and not {len(origin)}")
            if not 0 <= place < parts <= PARTS_MAX:
                raise ValueError(f"{place} of {parts} packets is none of the origins of an event")
            told = _TYPED.pack(eid, value.datatype) + encode_value(value) + origin
            if parts > 1:
                return told + _PART.pack(needs, place << 4 | parts - 1)
            return told if needs == ALL_NEEDED else told + _CAUSE.pack(needs)
        case EndpointInfoPacket(eid=eid, datatype=datatype, name=name):
            return _TYPED.pack(eid, datatype) + _named(name)
        case EndpointReportPacket(eid=eid, datatype=datatype, name=name, cause=cause):
            return _TYPED.pack(eid, datatype) + _named(name) + _CAUSE.pack(cause)
        case PropertyWritePacket(eid=eid, property_id=property_id, value=value):
            return _PROPERTY.pack(eid, value.datatype, property_id) + encode_value(value)
        case PropertyReportPacket(eid=eid, next_id=next_id, value=value, cause=cause):
            return _PROPERTY.pack(eid, value.datatype, next_id) + encode_value(value) + _CAUSE.pack(cause)


def _named(name: str) -> bytes:
    return encode_value(HexValue(HexType.STRING, name))


def decode(data: bytes) -> HexDatagram:
    """A datagram. Raises DecodeError: it is none, or one of another wire."""
    if data[: len(MAGIC)] in OTHERS:
        raise DecodeError(0, f"a device of another wire: {data[: len(MAGIC)].decode()}")
    if data[: len(MAGIC)] != MAGIC:
        raise DecodeError(0, "no HX0D")
    _, kind, flags, number = _taken(_HEAD, data, 0)
    return HexDatagram(_decoded(kind, data), number, flags)


def _taken(shape: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    if len(data) < at + shape.size:
        raise DecodeError(len(data), "the end within a packet")
    return shape.unpack_from(data, at)


def _decoded(kind: int, data: bytes) -> HexPacket:
    at = _HEAD.size
    match kind:
        case 0x00:
            return ErrorPacket(*_taken(_ERROR, data, at))
        case 0x02:
            return QueryPacket(*_taken(_EID, data, at))
        case 0x0A:
            return EndpointQueryPacket(*_taken(_EID, data, at))
        case 0x10:
            return AckPacket(*_taken(_CAUSE, data, at))
        case 0x13:
            return PropertyQueryPacket(*_taken(_TWO, data, at))
        case 0x01 | 0x03 | 0x04 | 0x11:
            return _of_value(kind, data)
        case 0x09 | 0x0B:
            return _of_endpoint(kind, data)
        case 0x14 | 0x15:
            return _of_property(kind, data)
    raise DecodeError(len(MAGIC), f"there is no packet {kind:#04x}")


def _of_value(kind: int, data: bytes) -> HexPacket:
    eid, code = _taken(_TYPED, data, _HEAD.size)
    at = _HEAD.size + _TYPED.size
    datatype = type_of(code, at - 1)
    value = decode_value(datatype, data, at)
    at += SIZES[datatype]
    match kind:
        case 0x01:
            return InfoPacket(eid, value)
        case 0x04:
            return WritePacket(eid, value)
        case 0x03:
            return ReportPacket(eid, value, *_taken(_CAUSE, data, at))
    origin = data[at : at + ORIGIN_BYTES]
    if len(origin) < ORIGIN_BYTES:
        raise DecodeError(len(data), "the end within the origin")
    behind = data[at + ORIGIN_BYTES :]
    if len(behind) == _PART.size and behind[2] >> 4 <= behind[2] & 15:
        needs, part = _PART.unpack(behind)
        return PInfoPacket(eid, value, origin, needs, part >> 4, (part & 15) + 1)
    return PInfoPacket(eid, value, origin, *(_CAUSE.unpack(behind) if len(behind) == _CAUSE.size else ()))


def _of_endpoint(kind: int, data: bytes) -> HexPacket:
    eid, code = _taken(_TYPED, data, _HEAD.size)
    at = _HEAD.size + _TYPED.size
    datatype, name, end = type_of(code, at - 1), data[at : at + STRING_BYTES], at + STRING_BYTES
    if len(name) < STRING_BYTES:
        raise DecodeError(len(data), "the end within the name")
    if kind == 0x09:
        return EndpointInfoPacket(eid, datatype, text_of(name))
    return EndpointReportPacket(eid, datatype, text_of(name), *_taken(_CAUSE, data, end))


def _of_property(kind: int, data: bytes) -> HexPacket:
    eid, code, property_id = _taken(_PROPERTY, data, _HEAD.size)
    at = _HEAD.size + _PROPERTY.size
    datatype = type_of(code, _HEAD.size + _EID.size)
    value = decode_value(datatype, data, at)
    if kind == 0x15:
        return PropertyWritePacket(eid, property_id, value)
    return PropertyReportPacket(eid, property_id, value, *_taken(_CAUSE, data, at + SIZES[datatype]))
