"""Frames: how a log keeps a batch, on disk and on the way to every follower.

A frame is a fixed little-endian header, the body, and zeros up to the next multiple of 8 bytes.

    offset  type  field                 set by      meaning
         0  u32   magic                 owner       "ALB1"
         4  u16   version               owner       format of the store
         6  u16   header_bytes          owner       128
         8  u32   header_crc            owner       CRC-32C of bytes 12..127
        12  u32   body_bytes            owner       length of the body without its padding
        16  u32   body_crc              producer    CRC-32C of the body
        20  u32   previous_header_crc   owner       header_crc of the frame before; 0: there is none, or it is lost
        24  16s   log_id                owner       identity of the log, equal on both members of a pair
        40  u64   epoch                 owner
        48  u64   first_sequence        owner       sequence of the first record
        56  u32   record_count          owner       the frame holds first_sequence .. first_sequence + record_count - 1
        60  u16   stream                owner
        62  u16   kind                  owner
        64  u16   flags                 owner       0; compression later
        66  u16   0
        68  u32   elapsed_ms            owner       boot-clock milliseconds since the frame before
        72  i64   node_ns               owner       wall time of the append
        80  u64   committed_sequence    owner       commit position known at the append
        88  u32   origin_node           origin      0: the node's own record
        92  u32   0
        96  u64   origin_epoch          origin
       104  u64   origin_sequence       origin      first sequence in the origin's log
       112  u64   log_time_ms           owner       log time after this frame: the sum of all elapsed_ms up to here
       120  8s    0

The split is that of Kafka's RecordBatch v2: the producer's CRC covers the body, the owner's the header, so assigning
epoch and sequence never touches the body's CRC and a forwarded batch keeps its body, its CRC and its origin.
Spec: docs/formats/log.md; CRC-32C as in RFC 3720, appendix B.4.
"""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.model.feature import STORE_FORMAT
from albireo.model.position import Position

MAGIC: Final = int.from_bytes(b"ALB1", "little")
MAGIC_BYTES: Final = b"ALB1"
VERSION: Final = STORE_FORMAT
HEADER_BYTES: Final = 128
ALIGNMENT: Final = 8
SEQUENCE_MAX: Final = 2**63 - 1
"""Highest sequence and epoch: both must fit the signed columns of the history."""
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest body a frame may have; a reader allocates no more on a length it has read."""
RECORDS_MAX: Final = 1_000_000
"""Most records of one batch, samples too; a producer cuts larger ones."""
FRAME_BYTES_MAX: Final = HEADER_BYTES + BODY_BYTES_MAX
"""Length of the largest frame (BODY_BYTES_MAX is a multiple of the alignment)."""

_LEAD: Final = struct.Struct("<IHHI")
_REST: Final = struct.Struct("<III16sQQIHHHHIqQIIQQQ8s")
_ALL: Final = struct.Struct("<IHHIIII16sQQIHHHHIqQIIQQQ8s")
_BODY_BYTES: Final = struct.Struct("<I")
_RESERVED: Final = bytes(8)
_PADDING: Final = tuple(bytes(-length % ALIGNMENT) for length in range(ALIGNMENT))


class Origin(msgspec.Struct, frozen=True):
    """Place at which a forwarded record was first written."""

    node: int
    """Number of the node in its cluster; 0 is no node."""
    epoch: int
    sequence: int
    """Sequence of the batch's first record in the origin's log."""


class FrameHeader(msgspec.Struct, frozen=True):
    """Header of a frame. Its fields are those of the table above."""

    log_id: bytes
    epoch: int
    first_sequence: int
    record_count: int
    stream: int
    kind: int
    body_bytes: int
    body_crc: int
    previous_header_crc: int = 0
    flags: int = 0
    elapsed_ms: int = 0
    log_time_ms: int = 0
    node_ns: int = 0
    committed_sequence: int = 0
    origin: Origin | None = None
    header_crc: int = 0
    """Set by `encode_header` and `decode_header`; not an input of the encoding."""

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + self.record_count - 1

    @property
    def last(self) -> Position:
        return Position(self.epoch, self.last_sequence)

    @property
    def frame_bytes(self) -> int:
        """Length of header, body and padding."""
        return HEADER_BYTES + self.body_bytes + (-self.body_bytes % ALIGNMENT)  # As `frame_bytes`, without its call.


class Frame(msgspec.Struct, frozen=True):
    """A batch with the place it has in the log."""

    header: FrameHeader
    body: bytes | memoryview


class NeedMore(msgspec.Struct, frozen=True):
    """The buffer ends before the header does."""

    missing_bytes: int


def frame_bytes(body_bytes: int) -> int:
    """Length of a frame whose body has `body_bytes`."""
    return HEADER_BYTES + body_bytes + (-body_bytes % ALIGNMENT)


def padding(body_bytes: int) -> bytes:
    """Zeros behind a body of `body_bytes`."""
    return _PADDING[body_bytes % ALIGNMENT]


def body_crc(body: bytes | memoryview) -> int:
    """CRC-32C of a body, as its producer computes it."""
    crc: int = crc32c(body)
    return crc


def encode_header(header: FrameHeader) -> bytes:
    """The 128 bytes of a header; its CRC is computed, `header.header_crc` is ignored."""
    origin = header.origin
    rest = _REST.pack(
        header.body_bytes,
        header.body_crc,
        header.previous_header_crc,
        header.log_id,
        header.epoch,
        header.first_sequence,
        header.record_count,
        header.stream,
        header.kind,
        header.flags,
        0,
        header.elapsed_ms,
        header.node_ns,
        header.committed_sequence,
        0 if origin is None else origin.node,
        0,
        0 if origin is None else origin.epoch,
        0 if origin is None else origin.sequence,
        header.log_time_ms,
        _RESERVED,
    )
    return _LEAD.pack(MAGIC, VERSION, HEADER_BYTES, crc32c(rest)) + rest


def header_crc_of(encoded: bytes | memoryview) -> int:
    """The CRC field of an encoded header."""
    return int.from_bytes(encoded[8:12], "little")


def seal(header: FrameHeader) -> tuple[FrameHeader, bytes]:
    """The header with its CRC set, and its 128 bytes."""
    encoded = encode_header(header)
    return msgspec.structs.replace(header, header_crc=header_crc_of(encoded)), encoded


def encode(frame: Frame) -> bytes:
    """Header, body and padding of a frame."""
    return b"".join((encode_header(frame.header), frame.body, padding(frame.header.body_bytes)))


def decode_header(buffer: bytes | memoryview, offset: int = 0) -> FrameHeader | NeedMore:
    """Header at `offset`; the body is neither needed nor looked at.

    Raises:
        DecodeError: the bytes are no header of this version, its CRC does not fit, or a length is out of bounds.
    """
    missing = offset + HEADER_BYTES - len(buffer)
    if missing > 0:
        return NeedMore(missing)
    (
        magic,
        version,
        header_bytes,
        header_crc,
        body_bytes,
        crc,
        previous,
        log_id,
        epoch,
        first_sequence,
        record_count,
        stream,
        kind,
        flags,
        gap_a,
        elapsed_ms,
        node_ns,
        committed,
        origin_node,
        gap_b,
        origin_epoch,
        origin_sequence,
        log_time_ms,
        reserved,
    ) = _ALL.unpack_from(buffer, offset)
    if magic != MAGIC or version != VERSION or header_bytes != HEADER_BYTES:
        raise DecodeError(offset, f"no frame of version {VERSION} starts here")
    if crc32c(memoryview(buffer)[offset + 12 : offset + HEADER_BYTES]) != header_crc:
        raise DecodeError(offset, "header CRC does not fit")
    if body_bytes > BODY_BYTES_MAX or not 0 < record_count <= RECORDS_MAX:
        raise DecodeError(offset, f"{record_count} records in {body_bytes} bytes")
    if not 0 < first_sequence <= SEQUENCE_MAX - RECORDS_MAX or epoch > SEQUENCE_MAX:
        raise DecodeError(offset, f"position {epoch}:{first_sequence} is out of range")
    if gap_a or gap_b or reserved != _RESERVED:
        raise DecodeError(offset, "reserved bytes are not zero")
    if origin_node == 0 and (origin_epoch or origin_sequence):
        raise DecodeError(offset, "an origin position without an origin")
    return FrameHeader(
        log_id,
        epoch,
        first_sequence,
        record_count,
        stream,
        kind,
        body_bytes,
        crc,
        previous,
        flags,
        elapsed_ms,
        log_time_ms,
        node_ns,
        committed,
        Origin(origin_node, origin_epoch, origin_sequence) if origin_node else None,
        header_crc,
    )


def check_body(header: FrameHeader, buffer: bytes | memoryview, offset: int) -> None:
    """Compare the body and padding that follow the header at `offset` with what the header says.

    Raises:
        DecodeError: body or padding is cut short, the CRC does not fit, or the padding is not zero.
    """
    start = offset + HEADER_BYTES
    end = start + header.body_bytes
    if offset + header.frame_bytes > len(buffer):
        raise DecodeError(offset, "frame is cut short")
    view = memoryview(buffer)
    if crc32c(view[start:end]) != header.body_crc:
        raise DecodeError(offset, "body CRC does not fit")
    if view[end : offset + header.frame_bytes] != _PADDING[header.body_bytes % ALIGNMENT]:
        raise DecodeError(offset, "padding is not zero")


def last_of(chunk: bytes | memoryview) -> tuple[FrameHeader, int]:
    """Header of the last frame in `chunk`, and how many there are: at least one, whole, and checked before.

    Headers before the last are passed over by their length alone: a tenth of what decoding them costs.
    """
    offset = end = count = 0
    while end < len(chunk):
        offset = end
        (body_bytes,) = _BODY_BYTES.unpack_from(chunk, offset + _LEAD.size)
        end += frame_bytes(body_bytes)
        count += 1
    header = decode_header(chunk, offset)
    assert isinstance(header, FrameHeader), "the chunk ends with a whole frame"
    return header, count


def frames(buffer: bytes | memoryview, *, verify: bool = True) -> Iterator[tuple[FrameHeader, memoryview]]:
    """Header and body of every frame in `buffer`, which must hold whole frames end to end.

    Args:
        buffer: frames as they stand in a log, or as the raw part of a FeedData carries them.
        verify: also check the bodies; headers are always checked.

    Raises:
        DecodeError: damage, or a frame that is cut short; frames before it have been yielded.
    """
    view = memoryview(buffer)
    offset = 0
    while offset < len(view):
        header = decode_header(view, offset)
        if isinstance(header, NeedMore) or offset + header.frame_bytes > len(view):
            raise DecodeError(offset, "frame is cut short")
        if verify:
            check_body(header, view, offset)
        start = offset + HEADER_BYTES
        yield header, view[start : start + header.body_bytes]
        offset += header.frame_bytes
