"""Reads of the log that a turn asks for on behalf of followers, and what became of them."""

import msgspec

from albireo.model.position import Position


class Pull(msgspec.Struct, frozen=True):
    """Read committed frames after `after`, at most `bytes_max`, keep `streams`, send them to `to` with `previous`."""

    to: bytes
    after: int
    bytes_max: int
    streams: tuple[int, ...]
    previous: Position
    offset: int = 0
    """Bytes of the next frame that went already."""
    piece: int = 0
    """Number of pieces in which they went."""
    in_pieces: bool = False
    """The follower takes a frame above `bytes_max` in pieces."""


class Given(msgspec.Struct, frozen=True):
    """Outcome of a pull."""

    pull: Pull
    scanned: int = 0
    """Everything up to here was looked at."""
    last: Position | None = None
    """Up to here frames were sent; nothing: none matched."""
    size_bytes: int = 0
    offset: int = 0
    """Bytes of the next frame that went, if it is not whole yet."""
    is_all: bool = False
    """Nothing more is committed."""
    is_lost: bool = False
    """The follower is gone, or what it wants can't be read: it says hello again."""
