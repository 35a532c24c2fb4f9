"""Effects of the machine that serves exclusive subscriptions (serving.py)."""

from collections.abc import Mapping

import msgspec

from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedDone
from albireo.codec.puts import CursorMoved
from albireo.machine.topics.consumer import ConsumerPlace


class Say(msgspec.Struct, frozen=True):
    """Effect: send this to a consumer; if nobody is there, `lost` is to be called."""

    to: ConsumerPlace
    message: FeedAnswer | FeedData | FeedAlive | FeedDone
    raw: tuple[bytes, ...] = ()


class ReadStored(msgspec.Struct, frozen=True, eq=False):
    """Effect: read messages from files, and call `stored`."""

    to: ConsumerPlace
    wanted: Mapping[int, int]
    """Topics, and number of each behind which messages are wanted."""
    after: int
    """Sequence of the record behind which they are."""
    up_to: int
    bytes_max: int


class RecordMoves(msgspec.Struct, frozen=True, eq=False):
    """Effect: have these cursors recorded, and call `recorded` with this number once they are committed."""

    batch: int
    moves: tuple[CursorMoved, ...]


Effect = Say | ReadStored | RecordMoves
