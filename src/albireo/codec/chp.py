"""Clustered Hashmap Protocol: its commands as parts of ZeroMQ messages, and items as its values.

    ICANHAZ    = "ICANHAZ?" subtree                              client -> server
    KVSYNC     = key sequence "" "" value                        server -> client, as all below but the last
    KTHXBAI    = "KTHXBAI" sequence "" "" subtree
    KVPUB      = key sequence uuid properties value              an empty value deletes the key
    HUGZ       = "HUGZ" 8%x00 "" "" ""
    KVSET      = key sequence uuid properties value              client -> server
    sequence   = 8OCTET                                          network order
    subtree    = "" / "/" *(segment "/")
    uuid       = "" / 16OCTET
    properties = *(name "=" text LF)

Each name to the right is one part. Spec: ZeroMQ RFC 12 (CHP). Decision on the values: ADR-0174.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.model import quality
from albireo.model.bounded import INT64_MAX, INT64_MIN
from albireo.model.item import Reading
from albireo.model.value import Value

Part = bytes | memoryview

ICANHAZ: Final = b"ICANHAZ?"
KTHXBAI: Final = b"KTHXBAI"
HUGZ: Final = b"HUGZ"

KEY_BYTES_MAX: Final = 255
"""Longest key or subtree: the C programs of the ZeroMQ Guide hold no longer one."""
UUID_BYTES: Final = 16
PROPERTIES_BYTES_MAX: Final = 4096
PART_BYTES_MAX: Final = 64 * 1024
"""Largest part that is taken from a socket, so also the largest value."""
PARTS_MAX: Final = 6
"""Most parts of a message that means anything: five, and the identity before them."""
TTL_S_MAX: Final = 3600.0
"""Longest time to live; a longer one is cut to it, because no order of a node waits for longer."""

_SUBTREE: Final = re.compile(rb"(?:/[^/]+)*/")
_SECONDS: Final = re.compile(rb"\d{1,9}(?:\.\d{1,9})?")


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """A command of five parts: all of them but ICANHAZ."""

    key: bytes
    sequence: int = 0
    """Number of 64 bit without a sign."""
    uuid: bytes = b""
    properties: bytes = b""
    value: bytes = b""


def encode(one: KeyValue) -> list[bytes]:
    """The parts of a command."""
    return [one.key, one.sequence.to_bytes(8, "big"), one.uuid, one.properties, one.value]


def decode(parts: Sequence[Part]) -> KeyValue:
    """Inverse of `encode`.

    Raises:
        DecodeError: it is no such command.
    """
    if len(parts) != 5:
        raise DecodeError(0, f"{len(parts)} parts, not 5")
    key, sequence, uuid, properties, value = parts
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise DecodeError(0, f"a key of {len(key)} bytes, not 1..{KEY_BYTES_MAX}")
    if len(sequence) != 8:
        raise DecodeError(0, f"a sequence of {len(sequence)} bytes, not 8")
    if len(uuid) not in (0, UUID_BYTES):
        raise DecodeError(0, f"a UUID of {len(uuid)} bytes, not 0 or {UUID_BYTES}")
    if len(properties) > PROPERTIES_BYTES_MAX or len(value) > PART_BYTES_MAX:
        raise DecodeError(0, f"{len(properties)} bytes of properties, {len(value)} of a value")
    return KeyValue(
        key=bytes(key),
        sequence=int.from_bytes(sequence, "big"),
        uuid=bytes(uuid),
        properties=bytes(properties),
        value=bytes(value),
    )


def decode_request(parts: Sequence[Part]) -> bytes:
    """The subtree that an ICANHAZ asks for. A missing part is an empty one: early programs of the Guide leave it out.

    Raises:
        DecodeError: it is no ICANHAZ.
    """
    if not 1 <= len(parts) <= 2 or parts[0] != ICANHAZ:
        raise DecodeError(0, f"{len(parts)} parts that are no ICANHAZ")
    subtree = bytes(parts[1]) if len(parts) == 2 else b""
    if not is_subtree(subtree):
        raise DecodeError(0, "a subtree that does not begin and end with a slash")
    return subtree


def is_subtree(text: bytes) -> bool:
    """It is empty, or begins and ends with a slash and has no empty segment."""
    return len(text) <= KEY_BYTES_MAX and (not text or _SUBTREE.fullmatch(text) is not None)


def time_to_live_s(properties: bytes) -> float | None:
    """The property `ttl` in seconds; None: there is none, or it is no number above zero. Others mean nothing."""
    for line in properties.split(b"\n"):
        name, _, text = line.partition(b"=")
        if name == b"ttl" and _SECONDS.fullmatch(text):
            return min(float(text), TTL_S_MAX) or None
    return None


def encode_reading(reading: Reading) -> bytes:
    """The value of an item as JSON. Its `value` is null where it is unknown: with a bad quality, and for NaN."""
    told = {
        "value": None if quality.is_bad(reading.quality) else reading.value,
        "quality": quality.name(reading.quality),
        "source_ns": reading.source_ns,
        "unit": reading.unit,
    }
    return msgspec.json.encode(told)


def decode_order(value: bytes) -> Value:
    """The value that a KVSET orders: one JSON number, text, true or false.

    Raises:
        DecodeError: it is none of these.
    """
    try:
        found = msgspec.json.decode(value, type=int | float | bool | str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(0, f"a value that is no JSON number, text, true or false: {error}") from error
    if isinstance(found, float) and not math.isfinite(found):
        raise DecodeError(0, "a number without an end")
    if isinstance(found, int) and not INT64_MIN <= found <= INT64_MAX:
        raise DecodeError(0, "a number beyond 64 bit")
    return found
