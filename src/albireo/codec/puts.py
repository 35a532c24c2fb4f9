"""Puts: the body of a batch of messages to topics, and of cursors that move. Streams PUTS and OWN_PUTS, kind PUTS.

    body = producer_id:u64 producer_sequence:u64 head_bytes:u32 head length:u32[n] extras message[n]

    head    msgpack, array-like: runs of messages of one topic each, in their order; cursors that move; bytes of extras
    extras  msgpack map of index: [key, headers] of the messages that have one; absent if the head says 0 bytes
    n       messages of the runs together; the frame has as many records, and one if it has no message

A message is the producer's bytes as they came; its identity is its position in the log. CORE and the passive member
read the head only. A transaction is one such body: it is in the log as a whole, or not at all.

Spec: ADR-0243.
"""

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.codec.record import PRODUCER
from albireo.model.bounded import INT64_MAX, Count, Name, Number32
from albireo.model.topic import KEY_BYTES_MAX, Ranges

RUNS_MAX: Final = 1_000
"""Most runs of a batch."""
MOVES_MAX: Final = 1_000
KEYS_PUT_MAX: Final = 1_000
"""Most keys of a batch in its head."""
HEADERS_MAX: Final = 64
_HEAD_BYTES: Final = struct.Struct("<I")
_HEAD_AT: Final = PRODUCER.size + _HEAD_BYTES.size

Body = bytes | memoryview
Key = Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]


class PutRun(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one topic that stand behind each other."""

    topic_id: Count
    count: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    size_bytes: Number32
    """Bytes of their bodies."""


class CursorMoved(msgspec.Struct, frozen=True, array_like=True):
    """A subscription has more of a topic done."""

    subscription_id: Count
    topic_id: Count
    low: Count
    done: Ranges = ()
    since: Count | None = None
    """Number behind which nothing may be done yet, else nothing of the batch is taken; None: whatever is done."""
    consumer: Count = 0
    """Consumer of a shared subscription whose all of `done` must be, else nothing is taken; 0: whoever has it."""


class LeaseStep(IntEnum):
    """Change of a lease."""

    GIVEN = 0
    EXTENDED = 1
    GIVEN_BACK = 2
    """It failed with the messages."""
    RELEASED = 3
    """It did not get to them."""


class LeaseMoved(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a shared subscription are a consumer's from now on, or not any more."""

    subscription_id: Count
    topic_id: Count
    ranges: Ranges
    consumer: Annotated[int, Meta(ge=1, le=INT64_MAX)]
    step: LeaseStep = LeaseStep.GIVEN


class KeyPut(msgspec.Struct, frozen=True, array_like=True):
    """Key of a message to a topic that keeps the last message of each."""

    index: Count
    """Index of the message in its batch."""
    key: Key
    since: Count | None = None
    """Version that the key must have, else nothing of the batch is taken; None: any."""
    is_deleted: bool = False
    """The key is to be gone."""


class PutHead(msgspec.Struct, frozen=True, array_like=True):
    """Head of a batch: all of it that is folded."""

    runs: Annotated[tuple[PutRun, ...], Meta(max_length=RUNS_MAX)] = ()
    moves: Annotated[tuple[CursorMoved, ...], Meta(max_length=MOVES_MAX)] = ()
    extras_bytes: Number32 = 0
    keys: Annotated[tuple[KeyPut, ...], Meta(max_length=KEYS_PUT_MAX)] = ()
    """By rising index."""
    leases: Annotated[tuple[LeaseMoved, ...], Meta(max_length=MOVES_MAX)] = ()

    @property
    def count(self) -> int:
        """Number of messages."""
        return sum(run.count for run in self.runs)


class Extra(msgspec.Struct, frozen=True, array_like=True):
    """Key and headers of a message."""

    key: Key | None = None
    headers: Annotated[dict[Name, Annotated[str, Meta(max_length=10_000)]], Meta(max_length=HEADERS_MAX)] = {}
    is_deleted: bool = False
    """The message says that its key is gone."""


_NOTHING: Final = Extra()


class PutBatch(msgspec.Struct, frozen=True, eq=False):
    """A whole batch."""

    head: PutHead
    bodies: Sequence[memoryview]
    extras: Mapping[int, Extra]


_head_encoder: Final = msgspec.msgpack.Encoder()
_head_decoder: Final = msgspec.msgpack.Decoder(PutHead)
_extras_decoder: Final = msgspec.msgpack.Decoder(dict[int, Extra])


def encode_puts(
    producer_id: int,
    producer_sequence: int,
    messages: Sequence[tuple[int, Sequence[bytes]]],
    moves: Sequence[CursorMoved] = (),
    extras: Mapping[int, Extra] | None = None,
    keys: Sequence[KeyPut] = (),
    leases: Sequence[LeaseMoved] = (),
) -> bytes:
    """A body.

    Args:
        messages: topic id and bodies of each run.
        extras: keys and headers by index of the message in the batch.
    """
    said = _head_encoder.encode(dict(extras)) if extras else b""
    runs = tuple(PutRun(topic_id, len(bodies), sum(map(len, bodies))) for topic_id, bodies in messages)
    head = _head_encoder.encode(PutHead(runs, tuple(moves), len(said), tuple(keys), tuple(leases)))
    flat = [body for _, bodies in messages for body in bodies]
    lengths = np.fromiter(map(len, flat), np.dtype("<u4"), len(flat)).tobytes()
    numbers = PRODUCER.pack(producer_id, producer_sequence)
    return b"".join((numbers, _HEAD_BYTES.pack(len(head)), head, lengths, said, *flat))


def record_count_of(head: PutHead) -> int:
    """Number of records of the frame that has this batch."""
    return max(1, head.count)


def decode_head(body: Body) -> PutHead:
    """The head of a body, which may be all that is there of it.

    Raises:
        DecodeError: it is malformed, or a field is out of its bounds.
    """
    return _decoded_head(memoryview(body))[0]


def head_bytes_of(body: Body) -> bytes:
    """The head of a body as it stands there, behind its length. Raises DecodeError, as `decode_head`."""
    view = memoryview(body)
    return bytes(view[PRODUCER.size : _decoded_head(view)[1]])


def _decoded_head(view: memoryview) -> tuple[PutHead, int]:
    """The head, and where it ends."""
    if len(view) < _HEAD_AT:
        raise DecodeError(len(view), "puts without a head")
    end = _HEAD_AT + _HEAD_BYTES.unpack_from(view, PRODUCER.size)[0]
    if end > len(view):
        raise DecodeError(len(view), "the head of puts is cut off")
    try:
        return _head_decoder.decode(view[_HEAD_AT:end]), end
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_HEAD_AT, f"puts: {error}") from error


def check_puts(body: Body, record_count: int) -> PutHead:
    """The head of a body of which all but its messages has been checked.

    Raises:
        DecodeError: the head lies about counts, bytes or records, or what stands beside the messages is malformed.
    """
    return taken_apart(memoryview(body), record_count)[0]


def decode_puts(body: Body, record_count: int) -> PutBatch:
    """The whole batch; messages are views of the body. Raises DecodeError, as `check_puts`."""
    head, extras, lengths, begin = taken_apart(memoryview(body), record_count)
    ends = begin + np.cumsum(lengths, dtype=np.int64)
    view = memoryview(body)
    bodies = [view[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    return PutBatch(head, bodies, extras)


def taken_apart(
    view: memoryview, record_count: int
) -> tuple[PutHead, Mapping[int, Extra], np.ndarray[tuple[int], np.dtype[np.uint32]], int]:
    head, at = _decoded_head(view)
    count = head.count
    if record_count != record_count_of(head) or not (head.runs or head.moves or head.leases):
        raise DecodeError(_HEAD_AT, f"puts of {count} messages in {record_count} records")
    begin = at + 4 * count + head.extras_bytes
    if begin > len(view):
        raise DecodeError(len(view), "puts: lengths are cut off")
    lengths = np.frombuffer(view[at : at + 4 * count], np.dtype("<u4"))
    if begin + int(lengths.sum(dtype=np.int64)) != len(view):
        raise DecodeError(begin, "puts: the messages have another length than is said")
    if count:
        starts = np.cumsum([0, *(run.count for run in head.runs[:-1])])
        said = [run.size_bytes for run in head.runs]
        if np.add.reduceat(lengths.astype(np.int64), starts).tolist() != said:
            raise DecodeError(at, "puts: a run has another size than its head says")
    extras: Mapping[int, Extra] = {}
    if head.extras_bytes:
        try:
            extras = _extras_decoder.decode(view[begin - head.extras_bytes : begin])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(at + 4 * count, f"puts: {error}") from error
        if not all(0 <= index < count for index in extras):
            raise DecodeError(at + 4 * count, "puts: a key, or headers, of no message")
    if head.keys:
        places = [one.index for one in head.keys]
        if places[-1] >= count or any(second <= first for first, second in pairwise(places)):
            raise DecodeError(_HEAD_AT, "puts: keys out of order, or of no message")
        known = extras
        extras = dict(known)
        for one in head.keys:
            extras[one.index] = Extra(one.key, known.get(one.index, _NOTHING).headers, one.is_deleted)
    return head, extras, lengths, begin
