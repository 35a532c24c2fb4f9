"""Telling: how the rows of one store are told where those of several stores of its node are read as one (joined.py)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from albireo.codec.history import NO_ITEM, FileEntry
from albireo.machine.history.declared import Row


class Telling(msgspec.Struct, frozen=True, eq=False):
    """Rows of one store as they are told among those of all."""

    shift: int = 0
    """Number by which its sequences are told higher."""
    ids: Mapping[int, int] | None = None
    """Told ids by own ids; None: they are the same."""

    def told(self, item_id: Any) -> Any:
        return item_id if self.ids is None or item_id is None else self.ids.get(item_id, NO_ITEM)

    def own(self, item_ids: Sequence[int]) -> tuple[int, ...]:
        """Own ids of items, rising; of those that the store has."""
        wanted = set(item_ids)
        return tuple(sorted(wanted if self.ids is None else (own for own, told in self.ids.items() if told in wanted)))

    def row(self, row: Row) -> Row:
        ids: Any = row.get("item_ids", ())
        one = {"item_id": self.told(row["item_id"])} if "item_id" in row else {}
        more = {"item_ids": [self.told(own) for own in ids]} if "item_ids" in row else {}
        return {**row, **one, **more, "sequence": row["sequence"] + self.shift}  # type: ignore[operator]  # A number.

    def table(self, table: pa.Table) -> pa.Table:
        for place, field in enumerate(table.schema):
            column = table.column(place)
            if field.name in ("sequence", "sequence_max") and self.shift:
                table = table.set_column(place, field, pc.add(column, self.shift))
            elif field.name == "item_id" and self.ids is not None:
                found = column.combine_chunks().dictionary_encode()
                ids = pa.array([self.told(own) for own in found.dictionary.to_pylist()], field.type)
                table = table.set_column(place, field, ids.take(found.indices))
            elif field.name == "item_ids" and self.ids is not None:
                lists = [[self.told(own) for own in row or ()] for row in column.to_pylist()]
                table = table.set_column(place, field, pa.array(lists, field.type))
        return table


AS_IT_IS: Final = Telling()


class JoinedFile(FileEntry, frozen=True, kw_only=True):
    """A file of one of several stores, by its path below the folder that has them all."""

    telling: Telling


def telling_of(entry: FileEntry) -> Telling:
    return entry.telling if isinstance(entry, JoinedFile) else AS_IT_IS
