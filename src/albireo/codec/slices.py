"""Slices: the shape of a section of a snapshot.

    section  = slice*
    slice    = length:u32 value:msgpack

A fold copies its state first (fast), then its slices are made one after another (slow), so that CORE may do other work
between two of them.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from albireo.codec.errors import DecodeError

SLICE_ROWS: Final = 1_000
"""Structs encoded in one slice of a snapshot: about a millisecond."""
_LENGTH: Final = struct.Struct("<I")

T = TypeVar("T")


def sliced(value: object) -> bytes:
    """One slice."""
    data = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(data)) + data


def list_slices(values: Sequence[object]) -> Iterator[bytes]:
    """A long list as slices of SLICE_ROWS."""
    for first in range(0, len(values), SLICE_ROWS):
        yield sliced(values[first : first + SLICE_ROWS])


def unsliced(data: bytes | memoryview, as_type: type[T]) -> T:
    """The value of one slice.

    Raises:
        DecodeError: not a value of this type.
    """
    try:
        return msgspec.msgpack.decode(data, type=as_type)
    # NB: text that is not UTF-8 is a UnicodeDecodeError, which msgspec does not wrap.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(0, f"snapshot: {error}") from error


def read_slices(data: bytes | memoryview) -> Iterator[memoryview]:
    """The msgpack value of each slice.

    Raises:
        DecodeError: a slice is cut short.
    """
    view, offset = memoryview(data), 0
    while offset < len(view):
        begins = offset + _LENGTH.size
        if begins > len(view):
            raise DecodeError(offset, "the length of a slice is cut short")
        (length,) = _LENGTH.unpack_from(view, offset)
        offset = begins + length
        if offset > len(view):
            raise DecodeError(begins, f"a slice of {length} bytes is cut short")
        yield view[begins:offset]
