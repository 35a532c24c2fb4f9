"""Values of endpoints: twelve datatypes, each of one size.

Encoding is strict, decoding is tolerant: any non-zero byte is a true BOOL, and what no UTF-8 is becomes a sign for it.
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError

HexScalar = bool | int | float | str | bytes


class HexType(IntEnum):
    """Datatypes by their codes."""

    BOOL = 0x00
    UINT8 = 0x01
    UINT16 = 0x02
    UINT32 = 0x03
    UINT64 = 0x04
    SINT8 = 0x05
    SINT16 = 0x06
    SINT32 = 0x07
    SINT64 = 0x08
    FLOAT = 0x09
    STRING = 0x0A
    BYTES65 = 0x0B
    BYTES16 = 0x0C


STRING_BYTES: Final = 128
"""Size of a string, of which the last byte at least is NUL."""
_NUMBERS: Final = {
    HexType.UINT8: struct.Struct(">B"),
    HexType.UINT16: struct.Struct(">H"),
    HexType.UINT32: struct.Struct(">I"),
    HexType.UINT64: struct.Struct(">Q"),
    HexType.SINT8: struct.Struct(">b"),
    HexType.SINT16: struct.Struct(">h"),
    HexType.SINT32: struct.Struct(">i"),
    HexType.SINT64: struct.Struct(">q"),
}
_FLOAT: Final = struct.Struct(">f")
_BYTES: Final = {HexType.BYTES65: 65, HexType.BYTES16: 16}
SIZES: Final = {
    HexType.BOOL: 1,
    HexType.FLOAT: 4,
    HexType.STRING: STRING_BYTES,
    **_BYTES,
    **{one: number.size for one, number in _NUMBERS.items()},
}
"""Bytes that a value takes."""


ZEROS: Final[dict[HexType, HexScalar]] = {
    HexType.BOOL: False,
    HexType.FLOAT: 0.0,
    HexType.STRING: "",
    HexType.BYTES65: bytes(65),
    HexType.BYTES16: bytes(16),
}
"""Value with which an endpoint begins; that of all others is 0."""


class HexValue(msgspec.Struct, frozen=True):
    """A value with its datatype."""

    datatype: HexType
    value: HexScalar


def encode_value(told: HexValue) -> bytes:
    """The bytes of a value. Raises ValueError: it is none of its datatype."""
    value = told.value
    match told.datatype:
        case HexType.BOOL if isinstance(value, bool):
            return bytes([value])
        case HexType.FLOAT if isinstance(value, float):
            try:
                return _FLOAT.pack(value)
            except OverflowError as error:
                raise ValueError(f"{value} is larger than a FLOAT") from error
        case HexType.STRING if isinstance(value, str):
            text = value.encode()
            if len(text) >= STRING_BYTES or 0 in text:
                raise ValueError(f"a STRING has {STRING_BYTES - 1} bytes at most, and no NUL among them")
            return text.ljust(STRING_BYTES, b"\0")
        case HexType.BYTES65 | HexType.BYTES16 if isinstance(value, bytes) and len(value) == _BYTES[told.datatype]:
            return value
        case datatype if datatype in _NUMBERS and isinstance(value, int) and not isinstance(value, bool):
            try:
                return _NUMBERS[datatype].pack(value)
            except struct.error as error:
                raise ValueError(f"{value} does not fit into {datatype.name}") from error
    raise ValueError(f"{value!r} is no {told.datatype.name}")


def type_of(code: int, at: int) -> HexType:
    """The datatype of a code at this byte. Raises DecodeError: there is none."""
    try:
        return HexType(code)
    except ValueError as error:
        raise DecodeError(at, f"there is no datatype {code:#04x}") from error


def decode_value(datatype: HexType, data: bytes, at: int) -> HexValue:
    """The value that begins at this byte. Raises DecodeError: the data are too short."""
    part = data[at : at + SIZES[datatype]]
    if len(part) < SIZES[datatype]:
        raise DecodeError(len(data), f"the end within {datatype.name}")
    match datatype:
        case HexType.BOOL:
            return HexValue(datatype, part[0] != 0)
        case HexType.FLOAT:
            return HexValue(datatype, _FLOAT.unpack(part)[0])
        case HexType.STRING:
            return HexValue(datatype, text_of(part))
        case HexType.BYTES65 | HexType.BYTES16:
            return HexValue(datatype, part)
        case _:
            return HexValue(datatype, _NUMBERS[datatype].unpack(part)[0])


def text_of(part: bytes) -> str:
    """The text of a string field, up to its first NUL."""
    return part[: STRING_BYTES - 1].partition(b"\0")[0].decode(errors="replace")
