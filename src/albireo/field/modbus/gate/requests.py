"""Requests of a client to a gate, as bytes: the serving side of Modbus TCP, as far as a gate has one.

    frame   = transaction:u16 0:u16 length:u16 unit:u8 pdu:bytes[length-1]      length 2..254, all big-endian
    read    = 1 | 2 | 3 | 4  first:u16 count:u16                                bits 1..2000, registers 1..125
    write   = 16  first:u16 count:u16 size:u8 words:bytes[size]                 registers 1..123, size 2 * count

Everything else is refused: by an exception if the frame is whole, by the end of the connection if it is none. Decoding
is total: any bytes give one of the answers below. pymodbus has a server too; it answers one request of those that come
in one packet, keeps what is no frame for ever, and carries out functions that a gate must not.

Spec: MODBUS Application Protocol V1.1b3, 4, 6 and 7; MODBUS Messaging on TCP/IP V1.0b, 3.1; ADR-0126.
"""

import struct
from typing import Final

import msgspec

from albireo.field.modbus.answers import ExceptionCode
from albireo.field.modbus.items import REGISTERS_MAX, TableKind

HEADER_BYTES: Final = 7
LENGTH_MAX: Final = 254
"""Unit and the largest PDU of 253 bytes (V1.1b3, 4.1)."""
BITS_MAX: Final = 2_000
WRITTEN_MAX: Final = 123
WRITE_REGISTERS: Final = 16
_KINDS: Final = {1: TableKind.COIL, 2: TableKind.DISCRETE, 3: TableKind.HOLDING, 4: TableKind.INPUT}
_FUNCTIONS: Final = {kind: function for function, kind in _KINDS.items()}
_WRITES: Final = frozenset({5, 6, 15, 21, 22, 23})
_HEADER: Final = struct.Struct(">HHHB")
_SPAN: Final = struct.Struct(">BHH")
_ADDRESSES: Final = 65_536


class Header(msgspec.Struct, frozen=True):
    """Header of a frame."""

    transaction: int
    unit: int
    pdu_bytes: int


class ReadRequest(msgspec.Struct, frozen=True):
    kind: TableKind
    first: int
    count: int


class WriteRequest(msgspec.Struct, frozen=True):
    """Holding registers."""

    first: int
    words: tuple[int, ...]


class NotServed(msgspec.Struct, frozen=True):
    """Answered by an exception."""

    function: int
    code: ExceptionCode
    is_write: bool = False
    """Whether the request would have changed something."""


Request = ReadRequest | WriteRequest | NotServed


def decode_header(data: bytes) -> Header | None:
    """The seven bytes before a PDU; None: this is no Modbus TCP, and where the next frame begins nobody knows."""
    transaction, protocol, length, unit = _HEADER.unpack(data)
    if protocol != 0 or not 2 <= length <= LENGTH_MAX:
        return None
    return Header(transaction, unit, length - 1)


def decode_request(pdu: bytes) -> Request:
    """The request in `pdu`, which has at least one byte."""
    function = pdu[0]
    if function in _KINDS:
        return _read_asked(function, pdu)
    if function == WRITE_REGISTERS:
        return _write_asked(pdu)
    return NotServed(function & 0x7F, ExceptionCode.ILLEGAL_FUNCTION, is_write=function in _WRITES)


def _read_asked(function: int, pdu: bytes) -> Request:
    if len(pdu) != _SPAN.size:
        return NotServed(function, ExceptionCode.ILLEGAL_VALUE)
    _, first, count = _SPAN.unpack(pdu)
    kind = _KINDS[function]
    if not 1 <= count <= (BITS_MAX if kind.is_bits else REGISTERS_MAX):
        return NotServed(function, ExceptionCode.ILLEGAL_VALUE)
    if first + count > _ADDRESSES:
        return NotServed(function, ExceptionCode.ILLEGAL_ADDRESS)
    return ReadRequest(kind, first, count)


def _write_asked(pdu: bytes) -> Request:
    if len(pdu) <= _SPAN.size:
        return NotServed(WRITE_REGISTERS, ExceptionCode.ILLEGAL_VALUE, is_write=True)
    _, first, count = _SPAN.unpack_from(pdu)
    size = pdu[_SPAN.size]
    if not 1 <= count <= WRITTEN_MAX or size != 2 * count or len(pdu) != _SPAN.size + 1 + size:
        return NotServed(WRITE_REGISTERS, ExceptionCode.ILLEGAL_VALUE, is_write=True)
    if first + count > _ADDRESSES:
        return NotServed(WRITE_REGISTERS, ExceptionCode.ILLEGAL_ADDRESS, is_write=True)
    return WriteRequest(first, struct.unpack_from(f">{count}H", pdu, _SPAN.size + 1))


def encode_data(asked: ReadRequest, data: bytes) -> bytes:
    """The PDU that answers a read: `data` as the device gave it."""
    return bytes((_FUNCTIONS[asked.kind], len(data))) + data


def encode_words(asked: ReadRequest, words: tuple[int, ...]) -> bytes:
    """The answer to a read, from registers of our own."""
    return encode_data(asked, struct.pack(f">{len(words)}H", *words))


def encode_written(asked: WriteRequest) -> bytes:
    return _SPAN.pack(WRITE_REGISTERS, asked.first, len(asked.words))


def encode_exception(function: int, code: int) -> bytes:
    return bytes((function | 0x80, code))


def function_of(asked: ReadRequest) -> int:
    return _FUNCTIONS[asked.kind]


def framed(header: Header, pdu: bytes) -> bytes:
    """The answer to the request with this header."""
    return _HEADER.pack(header.transaction, 0, len(pdu) + 1, header.unit) + pdu
