"""Told tables: what of a table goes in one piece of a state, and what a state says of the tables known here."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from albireo.codec.delta import TableKey, TablePart
from albireo.codec.errors import DecodeError
from albireo.codec.message import FeedState
from albireo.machine.table.shape import K, R, TableShape
from albireo.machine.table.table import Table

AnyTable = Table[Any, Any]
AnyShape = TableShape[Any, Any]

_encoder: Final = msgspec.msgpack.Encoder()


class TableCut(msgspec.Struct, frozen=True, eq=False):
    """Part of the changes of a table that finds room in a piece."""

    part: TablePart | None
    """None: nothing of it does, or nothing changed."""
    room: int
    """Bytes that are left."""
    is_all: bool
    last: TableKey | None
    """Key behind which the next piece goes on; None: at the beginning."""


def cut_table(table: AnyTable, since: int, behind: TableKey | None, room: int, *, is_first: bool) -> TableCut:
    """The next changes of a table, by rising keys.

    Args:
        behind: key of the last one that went; None: none did.
        is_first: nothing else is in the piece, so one change goes in any case.
    """
    keys = table.changed_since(since)
    if behind is not None:
        keys = [one for one in keys if isinstance(behind, type(one)) and one > behind]  # A follower may say anything.
    keys.sort()
    rows: list[msgspec.Raw] = []
    gone: list[TableKey] = []
    last = behind
    for key in keys:
        row = table.word(key)
        data = _encoder.encode(key if row is None else row)
        if len(data) > room and not (is_first and last is behind):
            break
        room = max(0, room - len(data))
        last = key
        if row is None:
            gone.append(key)
        else:
            rows.append(msgspec.Raw(data))
    is_all = not keys or last == keys[-1]
    part = TablePart(msgspec.Raw(_encoder.encode(rows)), tuple(gone)) if rows or gone else None
    return TableCut(part, room, is_all, last)


class TableChange(msgspec.Struct, Generic[K, R], frozen=True):
    """Changes of one table that a state tells."""

    rows: tuple[R, ...] = ()
    """Rows that came or changed, and last words about rows that are gone."""
    gone: tuple[K, ...] = ()
    """Keys of rows that are gone without one."""


class TableChanges:
    """Changes of all tables that a state tells and that are known here."""

    def __init__(self, state: FeedState, shapes: Mapping[str, AnyShape]) -> None:
        """
        Args:
            shapes: of the tables that are known, by name; others are passed over.
        """
        self.found: dict[str, TableChange[Any, Any]] = {}
        """By the name of the table."""
        self.passed_over = len(state.tables.keys() - shapes.keys())
        """Number of tables that are not known."""
        self.faults: tuple[str, ...] = ()
        """Reasons why tables are not taken: a row that is none of its table, or has a field out of its bounds."""
        for name, part in state.tables.items():
            if (shape := shapes.get(name)) is not None:
                try:
                    self.found[name] = TableChange(shape.decode(part.rows), part.gone)
                except DecodeError as error:
                    self.faults += (str(error),)

    def of(self, shape: TableShape[K, R]) -> TableChange[K, R]:
        return self.found.get(shape.name, TableChange())

    def add(self, others: Sequence["TableChanges"]) -> None:
        """Take the changes that later pieces of the same state tell."""
        for other in others:
            self.passed_over = max(self.passed_over, other.passed_over)
            self.faults += other.faults
            for name, more in other.found.items():
                known = self.found.get(name, TableChange())
                self.found[name] = TableChange(known.rows + more.rows, known.gone + more.gone)
