"""Answers: what came of one exchange with a device, and what is none.

Pure. Spec: MODBUS Application Protocol V1.1b3, 7; MODBUS Messaging on TCP/IP V1.0b, 3.1.3 (MBAP header).
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

LATE: Final = "its answers come later than timeout_ms, or with the numbers of earlier requests"
SHOWN_BYTES: Final = 24
"""Bytes that are shown of what is no Modbus."""
_HEAD: Final = struct.Struct(">HHHB")
"""Number of the request, 0 for Modbus, bytes that follow, unit."""
_BEFORE_LENGTH: Final = 6
"""Bytes that the length does not count."""


class ExceptionCode(IntEnum):
    """V1.1b3, 7."""

    ILLEGAL_FUNCTION = 1
    ILLEGAL_ADDRESS = 2
    ILLEGAL_VALUE = 3
    DEVICE_FAILURE = 4
    ACKNOWLEDGE = 5
    DEVICE_BUSY = 6
    MEMORY_PARITY_ERROR = 8
    GATEWAY_PATH_UNAVAILABLE = 10
    GATEWAY_TARGET_SILENT = 11


BUSY: Final = (ExceptionCode.ACKNOWLEDGE, ExceptionCode.DEVICE_BUSY)
"""Exceptions after which the same request may be answered a moment later."""


class DataReply(msgspec.Struct, frozen=True):
    """The device answered with data."""

    data: bytes
    """Registers big-endian, or bits, eight to a byte, the first in the least significant bit; empty for a write."""


class ExceptionReply(msgspec.Struct, frozen=True):
    """The device answered with an exception."""

    code: int

    @property
    def text(self) -> str:
        known = {one.value: one.name.lower().replace("_", " ") for one in ExceptionCode}
        return f"exception {self.code} ({known.get(self.code, 'not in the standard')})"


class Silence(msgspec.Struct, frozen=True):
    """No answer in time; whether the request arrived is unknown. The connection still stands."""

    heard: str = ""
    """Description of what came and was not taken for an answer; empty: nothing came."""


class Nonsense(msgspec.Struct, frozen=True):
    """An answer that does not fit the request."""

    reason: str


class NotSent(msgspec.Struct, frozen=True):
    """The bytes never left: the guard said no, or there is no connection."""

    reason: str


Answer = DataReply | ExceptionReply | Silence | Nonsense
WriteAnswer = Answer | NotSent


def untaken(data: bytes, unit: int, number: int) -> str:
    """Why the bytes that came are no answer to request `number` to `unit`; empty: they are one, or may become one."""
    reason, at = "", 0
    while len(data) - at > _HEAD.size:
        named, protocol, length, speaker = _HEAD.unpack_from(data, at)
        if protocol:
            return f"not Modbus: it says {data[at : at + SHOWN_BYTES]!r}"
        if at + _BEFORE_LENGTH + length > len(data):
            return f"part of an answer: {len(data) - at - _BEFORE_LENGTH} bytes, and its header says {length}"
        if named not in (0, number):
            reason = LATE if named < number else "it answers with other transaction numbers than the requests have"
        elif unit and speaker != unit:
            reason = f"it answers as unit {speaker}, and unit {unit} was asked"
        else:
            return ""
        at += _BEFORE_LENGTH + length
    return reason or f"not Modbus: it says {data!r}"
