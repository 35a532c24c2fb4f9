"""Tables as messages tell them, and records as frames bring them."""

from collections.abc import Sequence

import msgspec

from albireo.codec.delta import TableKey, TablePart
from albireo.codec.frame import FrameHeader
from albireo.codec.record import Kind, Stream
from albireo.machine.feed.viewing import decode_state
from albireo.machine.fold.state_piece import StatePiece
from albireo.machine.table.told import TableChanges


def told_rows(*rows: msgspec.Struct, gone: Sequence[TableKey] = ()) -> TablePart:
    """Changes of a table in a state."""
    return TablePart(msgspec.Raw(msgspec.msgpack.encode(rows)), tuple(gone))


def changes_of(piece: StatePiece) -> TableChanges:
    """Changes that a piece tells."""
    return decode_state(piece.message, piece.raw).tables


def header_at(log_time_ms: int = 0, sequence: int = 1) -> FrameHeader:
    """The header of a frame with one record."""
    return FrameHeader(b"", 1, sequence, 1, Stream.STATE, Kind.RECORDS, 0, 0, log_time_ms=log_time_ms)
