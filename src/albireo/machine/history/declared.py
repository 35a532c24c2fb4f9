"""Declared items: each with its versions, and from when to when each of them was in force.

A version begins when CORE appended the declaration, and ends with the next one of the item, or when the item was
forgotten. So what a gap or a hold asks - whose item was it then, how soon was it stale - has the answer of that time,
whatever was declared since. Which version a sample is of is told by sequences of the log (`kinds`), not by times: a
program may have any clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from albireo.codec.item_kinds import ItemKinds
from albireo.machine.history.trace import PLAIN_HOLDS, Holds, hold_limit_ns
from albireo.model.bounded import INT64_MAX
from albireo.model.instant import SECOND
from albireo.model.item import KnownItem
from albireo.model.item_states import states_text, word_in
from albireo.model.value import ValueType, number_text, value_text

Row = dict[str, object]
STALE_NS_MAX: Final = 2**62
"""Longest stale time that is stored; no hold is as long."""
VERSIONS_MAX: Final = 100
"""Most versions kept of one item; the oldest are left out then."""
_MOMENTS: Final = ("valid_from_ns", "valid_to_ns", "sequence")
WHOLE_NODE: Final = ("core", "history")
"""Sources whose gaps without items touch every item of the node."""


def item_row(known: KnownItem, valid_from_ns: int | None = None, sequence: int = 0) -> Row:
    """A declaration as a row of codec.history.ITEMS. `valid_from_ns` None, `sequence` 0: nobody knows since when."""
    alarm = known.item.alarm
    stale_s = None if alarm is None else alarm.stale_s
    return {
        "item_id": known.item_id,
        "node": known.node,
        "name": known.item.name,
        "value_type": int(known.item.value_type),
        "unit": known.item.unit,
        "description": known.item.description,
        "adapter": known.item.adapter,
        "states": states_text(known.item.states),
        "stale_ns": None if stale_s is None else int(min(stale_s * SECOND, STALE_NS_MAX)),
        "valid_from_ns": valid_from_ns,
        "valid_to_ns": None,
        "sequence": sequence,
    }


class DeclaredItems:
    """Versions of every item; it is replaced, never changed."""

    def __init__(self, versions: Mapping[int, tuple[Row, ...]]) -> None:
        self.versions = versions
        """Versions by item id, oldest first; each item has one at least."""

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, object]]) -> "DeclaredItems":
        """From rows of codec.history.ITEMS, those of an item in the order of their beginnings."""
        found: dict[int, tuple[Row, ...]] = {}
        for row in rows:
            item_id = row["item_id"]
            assert isinstance(item_id, int)
            found[item_id] = (*found.get(item_id, ()), dict(row))
        return cls(found)

    @property
    def items(self) -> dict[int, Row]:
        """The last version of each item, by id."""
        return {item_id: versions[-1] for item_id, versions in self.versions.items()}

    def rows(self) -> list[Row]:
        """All versions, as they are stored."""
        return [row for item_id in sorted(self.versions) for row in self.versions[item_id]]

    def with_news(self, news: Sequence[Row]) -> "DeclaredItems":
        """These items with later rows: declarations, and ends (`end_row`). The same object if they say nothing new."""
        changed: dict[int, tuple[Row, ...]] = {}
        for row in news:
            item_id = row["item_id"]
            assert isinstance(item_id, int)
            before = changed.get(item_id, self.versions.get(item_id, ()))
            after = _followed(before, row)
            if after is not before:
                changed[item_id] = after
        return DeclaredItems({**self.versions, **changed}) if changed else self

    def with_past(self, past: "DeclaredItems", before_ns: int) -> "DeclaredItems":
        """These items with what another history of the same log knows of the time before `before_ns`.

        This one may lack that time. What it knows of later times stays as it is. The same object if nothing is new.
        """
        found = {
            item_id: _joined(versions, self.versions.get(item_id, ()), before_ns)
            for item_id, versions in past.versions.items()
        }
        changed = {
            item_id: versions for item_id, versions in found.items() if versions != self.versions.get(item_id, ())
        }
        return DeclaredItems({**self.versions, **changed}) if changed else self

    def of_adapter(self, adapter: str) -> tuple[int, ...]:
        """Ids of the items that are the adapter's now, rising."""
        mine = (item_id for item_id, versions in self.versions.items() if _is_in_force(versions[-1], adapter))
        return tuple(sorted(mine))

    def touches(self, gap: Mapping[str, object], item_id: int) -> bool:
        """Whether a row of codec.history.GAPS is about the item."""
        item_ids = gap["item_ids"]
        if isinstance(item_ids, list | tuple) and item_ids:
            return item_id in item_ids
        return gap["source"] in WHOLE_NODE or any(
            row["adapter"] == gap["source"] and _covers(row, gap["node_ns"]) for row in self.versions.get(item_id, ())
        )

    def holds(self, item_id: int) -> Holds:
        """Longest hold of the item's usable values."""
        versions = self.versions.get(item_id, ())
        if all(row["stale_ns"] is None for row in versions):
            return PLAIN_HOLDS
        return Holds(
            np.array([_number(row["valid_from_ns"], 0) for row in versions], np.int64),
            np.array([hold_limit_ns(_optional(row["stale_ns"])) for row in versions], np.int64),
        )

    def kinds(self, item_id: int) -> ItemKinds:
        """Types and units of the item's values; of one that nobody declared: numbers without a unit."""
        versions = self.versions.get(item_id, ())
        found: list[Row] = []
        for row in versions:
            # A later version with a lower sequence: the log left the branch of those above.
            while found and _number(found[-1]["sequence"], 0) > _number(row["sequence"], 0) > 0:
                found.pop()
            if not found or _is_other(found[-1], row):
                found.append(row)
        last = versions[-1] if versions else None
        return ItemKinds(
            item_id=item_id,
            name=f"{last['node']}:{last['name']}" if last else str(item_id),
            declared=tuple(_number(row["sequence"], 0) for row in found) or (0,),
            types=tuple(ValueType(_number(row["value_type"], 0)) for row in found) or (ValueType.FLOAT64,),
            units=tuple(str(row["unit"]) for row in found) or ("",),
        )

    def shown(self, item_id: int, sequence: int, value: float) -> str | None:
        """How people read a bool, or a value that has a word, as the item was declared before this record; None: by
        its digits."""
        versions = self.versions.get(item_id)
        if not versions:
            return None
        at = next((row for row in reversed(versions) if _number(row["sequence"], 0) < sequence), versions[0])
        word = word_in(str(at["states"]), number_text(value))
        is_bool = at["value_type"] == ValueType.BOOL
        return value_text(bool(value) if is_bool else value, word=word) if word or is_bool else None


def end_row(item_id: int, at_ns: int) -> Row:
    """The item was forgotten."""
    return {"item_id": item_id, "valid_to_ns": at_ns}


def _followed(before: tuple[Row, ...], row: Row) -> tuple[Row, ...]:
    """The versions of an item with its next row."""
    if "name" not in row:
        return (*before[:-1], before[-1] | row) if before else before
    if not before:
        return (row,)
    last = before[-1]
    if last["valid_to_ns"] is None and _content(last) == _content(row):
        is_on_another_branch = 0 < _number(row["sequence"], 0) < _number(last["sequence"], 0)
        return (*before[:-1], last | {"sequence": row["sequence"]}) if is_on_another_branch else before
    begin = row["valid_from_ns"]
    ended = last if last["valid_to_ns"] is not None else last | {"valid_to_ns": begin}
    if last["valid_from_ns"] == begin and not _is_other(last, row):
        return (*before[:-1], row)
    return (*before[:-1], ended, row)[-VERSIONS_MAX:]


def _joined(past: tuple[Row, ...], known: tuple[Row, ...], before_ns: int) -> tuple[Row, ...]:
    """Versions of an item: those of `past` that began before a time, and behind them those of `known` that did not."""
    older = tuple(row for row in past if _number(row["valid_from_ns"], -INT64_MAX) < before_ns)
    if not older:
        return known
    newer = [row for row in known if _number(row["valid_from_ns"], -INT64_MAX) >= before_ns]
    last = older[-1]
    if known and _number(last["valid_to_ns"], INT64_MAX) >= before_ns:  # When it ends is better known here.
        last = last | {"valid_to_ns": None if newer else known[-1]["valid_to_ns"]}
    joined = (*older[:-1], last)
    for row in newer:
        joined = _followed(joined, row)
        if row["valid_to_ns"] is not None:
            joined = (*joined[:-1], joined[-1] | {"valid_to_ns": row["valid_to_ns"]})
    return joined[-VERSIONS_MAX:]


def _content(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _MOMENTS}


def _is_other(before: Row, row: Row) -> bool:
    """Whether values of the two versions are not of one kind."""
    return (before["value_type"], before["unit"]) != (row["value_type"], row["unit"])


def _is_in_force(row: Row, adapter: str) -> bool:
    return row["adapter"] == adapter and row["valid_to_ns"] is None


def _covers(row: Row, at_ns: object) -> bool:
    """Whether the version was in force at a time."""
    at = _number(at_ns, 0)
    return _number(row["valid_from_ns"], -INT64_MAX) <= at < _number(row["valid_to_ns"], INT64_MAX)


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _optional(value: object) -> int | None:
    return value if isinstance(value, int) else None
