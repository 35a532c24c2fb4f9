"""Recovery: with what a device goes on that was away, as the master writes it to endpoint 253, piece by piece.

    piece    1 byte   number << 4 | number of the last piece
            64 bytes  its part, the last one filled with zeros
    parts    2 bytes  length of the memory, then the memory of the state machines
             2 bytes  number of values, then each: endpoint, 4 bytes; datatype, 1 byte; value

All pieces of one recovery have the number of the last event that they include in their header. Behind one number stands
the same for one device, whoever says it and to which word: other machines take numbers of their own.
"""

import struct
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.journal import PIECE_BYTES
from albireo.codec.hexabus.values import SIZES, HexValue, decode_value, encode_value, type_of

PIECES_MAX: Final = 16
_PART: Final = PIECE_BYTES - 1
_COUNT: Final = struct.Struct(">H")
_VALUE: Final = struct.Struct(">IB")


class RecoveryTold(msgspec.Struct, frozen=True):
    """State of a device at a place of the order."""

    memory: bytes
    """Memory of the state machines; empty: there are none."""
    values: tuple[tuple[int, HexValue], ...] = ()
    """Values of endpoints, as the machines wrote them last."""


def encode_recovery(told: RecoveryTold) -> tuple[bytes, ...]:
    """The pieces. Raises ValueError: they are too many."""
    data = _COUNT.pack(len(told.memory)) + told.memory + _COUNT.pack(len(told.values))
    data += b"".join(_VALUE.pack(eid, value.datatype) + encode_value(value) for eid, value in told.values)
    parts = [data[at : at + _PART].ljust(_PART, b"\0") for at in range(0, len(data), _PART)]
    if len(parts) > PIECES_MAX:
        raise ValueError(f"{len(parts)} pieces, of which there are {PIECES_MAX} at most")
    return tuple(bytes([number << 4 | len(parts) - 1]) + part for number, part in enumerate(parts))


class RecoveryPieces:
    """Pieces as they come, in any order and any number of times."""

    def __init__(self) -> None:
        self._at = -1
        self._parts: dict[int, bytes] = {}
        self._last = 0

    def take(self, number: int, piece: bytes) -> None:
        """A piece of what includes the event `number`; those of another one are forgotten."""
        if number != self._at or piece[0] & 15 != self._last:
            self._at, self._last = number, piece[0] & 15
            self._parts.clear()
        self._parts[piece[0] >> 4] = piece[1:]

    def complete(self, number: int) -> RecoveryTold | None:
        """All that includes the event `number`; None: pieces are missing, or mean nothing."""
        if number != self._at or any(one not in self._parts for one in range(self._last + 1)):
            return None
        try:
            return _decoded(b"".join(self._parts[one] for one in range(self._last + 1)))
        except (DecodeError, struct.error):
            return None


def _decoded(data: bytes) -> RecoveryTold:
    """Raises DecodeError, struct.error: they mean nothing."""
    (length,) = _COUNT.unpack_from(data)
    at = _COUNT.size + length
    memory, values = data[_COUNT.size : at], []
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    for _ in range(count):
        eid, code = _VALUE.unpack_from(data, at)
        at += _VALUE.size
        datatype = type_of(code, at)
        values.append((eid, decode_value(datatype, data, at)))
        at += SIZES[datatype]
    return RecoveryTold(memory, tuple(values))
