"""References: frames that stand in a pair's log for samples, or messages, that are not replicated.

    body = producer_id:u64 producer_sequence:u64 log_id:16s sequence:u64 kind:u32 body_bytes:u32 body_crc:u32 0:u32 head

    head   of messages: their head as it stands in their body (codec.puts), which the folds of both members take

The frame of a reference has the place, times and number of records of the batch it stands for; the batch itself is a
frame of the private log `log_id`, from `sequence` on, with this kind and this body. The two together give the whole
frame, which would stand in the log if the stream were replicated.

Spec: design/log-and-feed.md, Streams; docs/formats/log.md; ADR-0130.
"""

import struct
from typing import Final

import msgspec

from albireo.codec import puts
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame
from albireo.codec.record import PRODUCER, Kind

_REST: Final = struct.Struct("<16sQIII4s")
_RESERVED: Final = bytes(4)


class Reference(msgspec.Struct, frozen=True):
    """Place of a payload, and its kind, size and CRC."""

    log_id: bytes
    sequence: int
    """Sequence of the first record of the payload's frame in the private log."""
    kind: int
    body_bytes: int
    body_crc: int


def encode(payload: Frame) -> bytes:
    """Body of the reference to `payload`, a frame of a private log."""
    header = payload.header
    producer = bytes(payload.body[: PRODUCER.size])
    rest = (header.log_id, header.first_sequence, header.kind, header.body_bytes, header.body_crc, _RESERVED)
    head = puts.head_bytes_of(payload.body) if header.kind == Kind.PUTS else b""
    return producer + _REST.pack(*rest) + head


def is_reference(frame: Frame) -> bool:
    return frame.header.kind == Kind.REFERENCE


def decode(body: bytes | memoryview) -> Reference:
    """Reference that is encoded in `body`; its producer's numbers are read as those of any body.

    Raises:
        DecodeError: the body is not that of a reference.
    """
    if len(body) < PRODUCER.size + _REST.size:
        raise DecodeError(len(body), f"a reference of {len(body)} bytes")
    log_id, sequence, kind, body_bytes, body_crc, reserved = _REST.unpack_from(body, PRODUCER.size)
    has_head = len(body) > PRODUCER.size + _REST.size
    if not sequence or reserved != _RESERVED or has_head != (kind == Kind.PUTS):
        raise DecodeError(PRODUCER.size, "no place in a log, a head of nothing, or reserved bytes are not zero")
    return Reference(log_id, sequence, kind, body_bytes, body_crc)


def decode_head(body: bytes | memoryview) -> puts.PutHead:
    """Head of the messages for which a reference stands.

    Raises:
        DecodeError: there is none, or it is malformed.
    """
    decode(body)
    view = memoryview(body)
    return puts.decode_head(bytes(view[: PRODUCER.size]) + bytes(view[PRODUCER.size + _REST.size :]))


def whole(frame: Frame, reference: Reference, body: bytes | memoryview) -> Frame:
    """Whole frame for which `frame` stands. Its header has no CRC yet; `frame.encode` gives it one."""
    header = msgspec.structs.replace(
        frame.header, kind=reference.kind, body_bytes=reference.body_bytes, body_crc=reference.body_crc
    )
    return Frame(header, body)
