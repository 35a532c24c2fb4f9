"""Bounds of the numbers, texts and lists of a record that comes from outside; who breaks one is refused by its name.

Parquet, SQL and Spark have integers of 64 bit with a sign, while msgpack reaches one bit further. An envelope may hold
records beyond the bounds all the same, because it is what another node wrote: decoding and folds take them, and the
history keeps an event in the place of what it can't store.

A field is bounded by its name, the same in every kind of record (docs/formats/log.md).
"""

from typing import Final

import msgspec

from albireo.model.bounded import INT64_MAX, INT64_MIN, TEXT_CHARS_MAX
from albireo.model.instant import WALL_NS_MAX
from albireo.model.tree import message

ENTRIES_MAX: Final = 1_000_000
"""Most entries of one list: as many as a node has items."""
MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Largest map or raw part taken from a socket (also the socket's ZMQ_MAXMSGSIZE)."""
PARTS_MAX: Final = 4096
"""Most parts of one message, its map included."""
TOTAL_BYTES_MAX: Final = 2 * MESSAGE_BYTES_MAX
"""Most bytes of all parts of one message: the largest map, and as much beside it."""
OPEN_BYTES_MAX: Final = 1024 * 1024
"""Largest map of a message with a field of any content, save an answer that was asked for. 32 MiB of empty lists take
2.3 GiB and 14 s to decode; of bounded fields they are refused before anything is made of them."""

Range = tuple[int, int]
"""Smallest and largest allowed number."""
_WALL: Final[Range] = (-WALL_NS_MAX, WALL_NS_MAX)
_COUNT: Final[Range] = (0, INT64_MAX)
_RANGES: Final[dict[str, Range]] = {
    "value": (INT64_MIN, INT64_MAX),
    "read_back": (INT64_MIN, INT64_MAX),
    "item_id": (0, 2**32 - 1),
    "item_ids": (0, 2**32 - 1),
    "run": (0, 2**64 - 1),
    "branch_id": (0, 2**64 - 1),
}
"""Ranges of the fields that are neither wall times (`..._ns`) nor counts. Random numbers have all 64 bits."""


def objection(record: msgspec.Struct) -> str:
    """Name of a field of `record`, at any depth, that is out of bounds, and why; empty: all are within."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        found = _objection(name, value)
        if found:
            return found
    return ""


def _objection(name: str, value: object) -> str:
    match value:
        case bool() | float() | None:
            return ""
        case int():
            return _out_of_range(name, value, value)
        case str():
            return _too_long(name, len(value), TEXT_CHARS_MAX, "characters")
        case bytes():
            return _too_long(name, len(value), message.BODY_BYTES_MAX, "bytes")
        case tuple():
            found = _too_long(name, len(value), ENTRIES_MAX, "entries")
            return found or (_out_of_range(name, min(value), max(value)) if value else "")
        case msgspec.Struct():
            return objection(value)
        case _:
            raise AssertionError(f"{name}: nothing bounds a {type(value).__name__}")


def _too_long(name: str, length: int, most: int, unit: str) -> str:
    return f"{name} has {length} {unit}, at most {most}" if length > most else ""


def _out_of_range(name: str, least: int, most: int) -> str:
    low, high = _WALL if name.endswith("_ns") else _RANGES.get(name, _COUNT)
    if least >= low and most <= high:
        return ""
    return f"{name} is {least if least < low else most}, outside {low}..{high}"
