"""Manifest of the stored messages of a node: the files there are, and up to which record they have everything.

    manifest = "ALBT" crc:u32 msgpack

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
    crc: Number32
    lasts: dict[Count, Count]
    """Number of the last message of each topic."""


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
    tables: dict[Name, bytes] = {}
    """Snapshots of the tables of topics, as of that position."""


_encoder: Final = msgspec.msgpack.Encoder()
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
