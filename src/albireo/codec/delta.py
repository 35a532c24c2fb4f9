"""Delta: what leads from one state of a node to a later one, in pieces, as the messages of the state feed tell it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.model import bounded
from albireo.model.bounded import ENTRIES_MAX
from albireo.model.position import Position

TableKey = bounded.Count | bounded.Name


class StateCursor(msgspec.Struct, frozen=True, array_like=True):
    """How far the pieces of a delta have gone (machine/fold/state_piece.py)."""

    stage: bounded.Count = 0
    at: TableKey | None = None
    """Last row, or key, that went; None: none did."""


class StateDelta(msgspec.Struct, frozen=True, array_like=True):
    """A delta of which a follower has the first pieces."""

    position: Position
    """Position to which it leads."""
    pieces: bounded.Count
    after: StateCursor
    is_whole: bool
    """It has the whole state, not only what changed since the follower's position."""


class TablePart(msgspec.Struct, frozen=True, array_like=True):
    """Changes of one table (machine/table)."""

    rows: msgspec.Raw
    """Rows that came or changed, each in the shape of its table; only who knows the table looks into them."""
    gone: Annotated[tuple[TableKey, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Keys of rows that are not there any more."""
