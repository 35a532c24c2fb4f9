"""Manifest of the stored messages of a node: the files there are, and up to which record they have everything; and what
the members of a pair say to each other to fill what files lack.

    manifest = "ALBT" crc:u32 msgpack
    word     = part 0: msgpack, tagged; part 1 of MessagesSent: messages (codec/served.py)

Spec: ADR-0247.
"""

import struct
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.model.bounded import Count, LogId, Name, Number32
from albireo.model.position import Epochs, Position

MAGIC: Final = b"ALBT"
FILES_MAX: Final = 100_000
_LEAD: Final = struct.Struct("<4sI")


class MessageFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of messages, sorted by topic and number: those of a stretch of the log, which no other file has."""

    name: Name
    first_sequence: Count
    last_sequence: Count
    rows: Count
    size_bytes: Count
    plain_bytes: Count
    """Size of its rows in memory: messages that are all alike take next to nothing in a file."""
    crc: Number32
    """Checksum of its footer; its pages have their own."""
    lasts: dict[Count, Count]
    """Number of the last message of each topic."""


class MessageHole(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the log of which the messages are lacking; the other member may have them."""

    first_sequence: Count
    last_sequence: Count
    lasts: dict[Count, Count]
    """Number of each topic up to which messages may be lacking."""


class MessageManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest."""

    node: Name = ""
    log_id: LogId = b""
    history: Epochs = ()
    position: Position = Position()
    """Last record of which the messages are in files."""
    generation: Count = 0
    files: Annotated[tuple[MessageFile, ...], Meta(max_length=FILES_MAX)] = ()
    """Files in the order of the log."""
    holes: Annotated[tuple[MessageHole, ...], Meta(max_length=FILES_MAX)] = ()
    """Stretches that no file has; a file and a hole have no record in common."""
    tables: dict[Name, bytes] = {}
    """Snapshots of the tables of topics, as of that position."""


class MessagesAsked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """Question for stored messages of a stretch of the log; the first ones of them."""

    number: Count
    log_id: LogId
    after: Count
    """Sequence behind which they are."""
    up_to: Count


class MessagesSent(msgspec.Struct, frozen=True, kw_only=True, tag="sent"):
    """Answer to the question of this number."""

    number: Count
    scanned_to: Count
    """Sequence up to which these are all."""
    lacks_to: Count = 0
    """Sequence up to which the sender lacks what is behind these, too; 0: it does not."""


FillWord = MessagesAsked | MessagesSent
_encoder: Final = msgspec.msgpack.Encoder()
_word_decoder: Final[msgspec.msgpack.Decoder[FillWord]] = msgspec.msgpack.Decoder(FillWord)
_decoder: Final = msgspec.msgpack.Decoder(MessageManifest)


def encode_manifest(manifest: MessageManifest) -> bytes:
    body = _encoder.encode(manifest)
    return _LEAD.pack(MAGIC, crc32c(body)) + body


def decode_manifest(data: bytes) -> MessageManifest:
    """Inverse of `encode_manifest`.

    Raises:
        DecodeError: it is damaged, or no manifest.
    """
    if len(data) < _LEAD.size or data[:4] != MAGIC or crc32c(data[_LEAD.size :]) != _LEAD.unpack_from(data)[1]:
        raise DecodeError(0, "no manifest of messages, or a damaged one")
    try:
        return _decoder.decode(data[_LEAD.size :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_LEAD.size, str(error)) from error


def encode_word(word: FillWord) -> bytes:
    return _encoder.encode(word)


def decode_word(part: bytes | memoryview) -> FillWord:
    """Inverse of `encode_word`. Raises DecodeError: it is no word."""
    try:
        return _word_decoder.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(0, str(error)) from error
