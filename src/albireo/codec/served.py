"""Messages of topics as columns, and the raw part by which the actor `topics` serves them.

    part    = head_bytes:u32 count:u32 head topic_id:u64[n] number:u64[n] epoch:u64[n] sequence:u64[n] at_ns:i64[n]
              length:u32[n] flags:u8[n] message[n]
    head    msgpack, array-like: names of the topics by their ids; keys and headers by index of the message

A part goes beside a `FeedData`, whose positions are those of its first and its last message. Spec: ADR-0247.
"""

import struct
from collections.abc import Mapping
from typing import Annotated, Final, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.puts import Extra
from albireo.model.bounded import Count, Name
from albireo.model.position import Position

REDELIVERED: Final = 1
"""Flag of a message that somebody may have been given before."""
_LEAD: Final = struct.Struct("<II")
_WIDE: Final = (("topic_id", "<u8"), ("number", "<u8"), ("epoch", "<u8"), ("sequence", "<u8"), ("at_ns", "<i8"))
_ROW_BYTES: Final = 5 * 8 + 4 + 1

Numbers = NDArray[np.uint64]


class MessageColumns(msgspec.Struct, frozen=True, eq=False):
    """n messages in the order of the log. Bodies lie in one buffer, each at its own place."""

    topic_id: Numbers
    number: Numbers
    """Number of each message in its topic."""
    epoch: Numbers
    sequence: Numbers
    at_ns: NDArray[np.int64]
    """Wall time of the append; Unix ns, UTC."""
    lengths: NDArray[np.uint32]
    starts: NDArray[np.int64]
    """Place of each body in the buffer, in bytes."""
    buffer: bytes | memoryview
    extras: Mapping[int, Extra] = {}
    """Keys and headers by index."""

    def __len__(self) -> int:
        return len(self.number)

    @property
    def first(self) -> Position:
        return Position(int(self.epoch[0]), int(self.sequence[0]))

    @property
    def last(self) -> Position:
        return Position(int(self.epoch[-1]), int(self.sequence[-1]))

    @property
    def size_bytes(self) -> int:
        """Bytes of a part that serves them, but for its head."""
        return int(self.lengths.sum(dtype=np.int64)) + _ROW_BYTES * len(self)

    def take(self, chosen: NDArray[np.intp]) -> Self:
        """Some of the messages, by their rising indices; bodies stay where they are."""
        extras: Mapping[int, Extra] = {}
        if self.extras:
            places = {int(index): place for place, index in enumerate(chosen)}
            extras = {places[index]: one for index, one in self.extras.items() if index in places}
        return type(self)(
            self.topic_id[chosen],
            self.number[chosen],
            self.epoch[chosen],
            self.sequence[chosen],
            self.at_ns[chosen],
            self.lengths[chosen],
            self.starts[chosen],
            self.buffer,
            extras,
        )

    def up_to(self, size_bytes: int) -> Self:
        """The first messages that fit into so many bytes; one at least, if there is any."""
        ends = np.cumsum(self.lengths.astype(np.int64) + _ROW_BYTES)
        count = max(1, int(np.searchsorted(ends, size_bytes, "right")))
        return self if count >= len(self) else self.between(0, count)

    def between(self, begin: int, end: int) -> Self:
        """The messages with these indices, `end` not among them; nothing is copied."""
        extras = {index - begin: one for index, one in self.extras.items() if begin <= index < end}
        return type(self)(
            self.topic_id[begin:end],
            self.number[begin:end],
            self.epoch[begin:end],
            self.sequence[begin:end],
            self.at_ns[begin:end],
            self.lengths[begin:end],
            self.starts[begin:end],
            self.buffer,
            extras,
        )

    def bodies(self) -> bytes:
        """All bodies end to end."""
        view, starts, ends = memoryview(self.buffer), self.starts, self.starts + self.lengths
        parts = np.flatnonzero(starts[1:] != ends[:-1]) + 1  # Those that lie side by side are one piece.
        begins = starts[np.concatenate([[0], parts])] if len(self) else starts
        stops = ends[np.concatenate([parts - 1, [len(self) - 1]])] if len(self) else ends
        return b"".join([view[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)])


class ServedHead(msgspec.Struct, frozen=True, array_like=True):
    """Head of a part."""

    topics: Annotated[dict[Count, Name], Meta(max_length=100_000)] = {}
    extras: Annotated[dict[Count, Extra], Meta(max_length=1_000_000)] = {}
    lost: Annotated[dict[Count, Count], Meta(max_length=100_000)] = {}
    """Messages of its topic that a policy took from this subscription before a message, by index of that one."""
    failed: Annotated[dict[Count, Count], Meta(max_length=100_000)] = {}
    """Deliveries of a message of a shared subscription that failed, by index."""


class ServedMessages(msgspec.Struct, frozen=True, eq=False):
    """A part that was read."""

    messages: MessageColumns
    flags: NDArray[np.uint8]
    topics: Mapping[int, str]
    lost: Mapping[int, int]
    failed: Mapping[int, int] = {}


_encoder: Final = msgspec.msgpack.Encoder()
_head_decoder: Final = msgspec.msgpack.Decoder(ServedHead)


def encode_served(
    messages: MessageColumns,
    flags: NDArray[np.uint8],
    topics: Mapping[int, str],
    lost: Mapping[int, int] | None = None,
    failed: Mapping[int, int] | None = None,
) -> bytes:
    """A part.

    Args:
        flags: of each message.
        topics: names by id, of each topic that they are of.
        lost: number of messages that are gone before a message, by its index.
        failed: number of deliveries of a message that failed, by its index.
    """
    head = _encoder.encode(ServedHead(dict(topics), dict(messages.extras), dict(lost or {}), dict(failed or {})))
    columns = (np.ascontiguousarray(getattr(messages, name), dtype).data.cast("B") for name, dtype in _WIDE)
    lengths = np.ascontiguousarray(messages.lengths, "<u4").data.cast("B")
    return b"".join((_LEAD.pack(len(head), len(messages)), head, *columns, lengths, flags.tobytes(), messages.bodies()))


def decode_served(part: bytes | memoryview) -> ServedMessages:
    """Inverse of `encode_served`.

    Raises:
        DecodeError: it is malformed, or a message is of a topic without a name.
    """
    view = memoryview(part)
    if len(view) < _LEAD.size:
        raise DecodeError(len(view), "messages without a head")
    head_bytes, count = _LEAD.unpack_from(view)
    at = _LEAD.size + head_bytes
    begin = at + count * _ROW_BYTES
    if begin > len(view):
        raise DecodeError(len(view), "messages: columns are cut off")
    try:
        head = _head_decoder.decode(view[_LEAD.size : at])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_LEAD.size, f"messages: {error}") from error
    wide = []
    for _, dtype in _WIDE:
        wide.append(np.frombuffer(view, dtype, count, at))
        at += 8 * count
    lengths = np.frombuffer(view, "<u4", count, at)
    flags = np.frombuffer(view, np.uint8, count, at + 4 * count)
    ends = begin + np.cumsum(lengths, dtype=np.int64)
    if (int(ends[-1]) if count else begin) != len(view):
        raise DecodeError(begin, "messages of another length than is said")
    if any(index >= count for index in (*head.extras, *head.lost, *head.failed)):
        raise DecodeError(_LEAD.size, "a key, headers or a loss of no message")
    topic_id, number, epoch, sequence, at_ns = wide
    if not set(np.unique(topic_id).tolist()) <= head.topics.keys():
        raise DecodeError(_LEAD.size, "a message of a topic without a name")
    if count and (np.any(sequence[1:] <= sequence[:-1]) or int(max(sequence[-1], epoch.max(), number.max())) >= 2**63):
        raise DecodeError(begin, "messages out of order, or out of bounds")
    messages = MessageColumns(topic_id, number, epoch, sequence, at_ns, lengths, ends - lengths, view, head.extras)
    return ServedMessages(messages, flags, head.topics, head.lost, head.failed)
