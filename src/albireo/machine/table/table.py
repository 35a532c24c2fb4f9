"""Table: rows by key, and what of them changed since.

    absent --put--> there --put--> there, changed --remove, or a last word--> gone --gone_max others went--> forgotten

Positions are numbers that never fall: sequences of a log in a fold, changes in a mirror. A viewer that has the state of
a position is told the rows that were put since and the keys that went; one that may lack what is forgotten takes the
whole state (`forgotten_at`).

Cost of `put` and `remove`: O(1). Cost of `changed_since`: O(changed).
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Generic, cast

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.slices import list_slices, sliced, unsliced
from albireo.machine.table.shape import K, R, TableShape


class _TableHead(msgspec.Struct, frozen=True, array_like=True):
    """First slice of a snapshot; after it come the rows, then the last words about what is gone, if there are any."""

    changed_at: list[int]
    """Position at which each row was put."""
    gone: list[int | str]
    """Keys that are gone, the one that went first coming first."""
    gone_at: list[int]
    forgotten_at: int


class Table(Generic[K, R]):
    """Rows of one shape."""

    def __init__(self, shape: TableShape[K, R], gone_max: int | None = None) -> None:
        """`gone_max`: as in `shape`, where less than that is to be kept."""
        self.shape = shape
        self._gone_max = shape.gone_max if gone_max is None else min(gone_max, shape.gone_max)
        self._rows: dict[K, R] = {}
        self._gone: dict[K, R | None] = {}
        """Keys that went lately, the first one first, with the last word about each, if there was one."""
        self._changed: dict[K, int] = {}
        """Position of the latest change of each row and of what is gone, the earliest first."""
        self.forgotten_at = 0
        """Position of the latest change that nobody is told of any more; 0: none."""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        """Rows in the order in which they came to be there."""
        return iter(self._rows.values())

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def get(self, key: K) -> R | None:
        return self._rows.get(key)

    def last_words(self) -> Iterator[R]:
        """Last words about keys that went lately, the first one first."""
        return (one for one in self._gone.values() if one is not None)

    def put(self, row: R, at: int) -> None:
        """Add a row, or change it. `at`: not below that of an earlier change."""
        key = self.shape.key(row)
        if self.shape.is_over is not None and self.shape.is_over(row):
            self._rows.pop(key, None)
            self._went(key, row, at)
        else:
            if self._gone:
                self._gone.pop(key, None)
            self._rows[key] = row
            self._note(key, at)

    def take(self, rows: Iterable[R], gone: Iterable[K], at: int) -> int:
        """Put the rows that another node tells, as far as the bound of its table goes, and remove what is gone there.

        Returns:
            Number of rows that were left out.
        """
        left_out = 0
        for row in rows:
            if len(self._rows) < self.shape.rows_max or self.shape.key(row) in self._rows:
                self.put(row, at)
            else:
                left_out += 1
        for key in gone:
            self.remove(key, at)
        return left_out

    def remove(self, key: K, at: int) -> R | None:
        """Remove a row, and return it; None: it is not there."""
        row = self._rows.pop(key, None)
        if row is not None:
            self._went(key, None, at)
        return row

    def _went(self, key: K, last: R | None, at: int) -> None:
        self._gone.pop(key, None)
        self._gone[key] = last
        self._note(key, at)
        if len(self._gone) > self._gone_max:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self.forgotten_at = max(self.forgotten_at, self._changed.pop(oldest))

    def _note(self, key: K, at: int) -> None:
        self._changed.pop(key, None)  # So that the latest change stands last.
        self._changed[key] = at

    @property
    def changed_at(self) -> int:
        """Place of the last change; 0: there was none."""
        return next(reversed(self._changed.values()), 0)

    def changed_since(self, position: int) -> list[K]:
        """Keys of rows that were put after `position`, and of those that went; below 0: of all rows."""
        if position < 0:
            return list(self._rows)
        found: list[K] = []
        for key in reversed(self._changed):
            if self._changed[key] <= position:
                break
            found.append(key)
        return found

    def word(self, key: K) -> R | None:
        """Word to be told of a key that changed: its row, or the last word about it; None: that it is gone."""
        row = self._rows.get(key)
        return self._gone.get(key) if row is None else row

    def snapshot_slices(self) -> Iterator[bytes]:
        """The table as it stands now, encoded slice by slice as the iterator is drawn on."""
        changed = self._changed
        head = _TableHead(
            changed_at=[changed[one] for one in self._rows],
            gone=list(self._gone),
            gone_at=[changed[one] for one in self._gone],
            forgotten_at=self.forgotten_at,
        )
        rows: list[R | None] = list(self._rows.values())
        if any(True for _ in self.last_words()):
            rows += self._gone.values()
        return chain([sliced(head)], list_slices(rows))

    def snapshot(self) -> bytes:
        """All slices; equal tables give equal bytes."""
        return b"".join(self.snapshot_slices())

    def restore(self, slices: Iterator[memoryview]) -> None:
        """Take the slices of a snapshot into this table, which has no row yet.

        Raises:
            DecodeError: not a snapshot of this table.
        """
        head = unsliced(next(slices, b""), _TableHead)
        shape: type[list[R | None]] = list[self.shape.row | None]  # type: ignore[name-defined]  # Made as it is declared.
        rows = [row for one in slices for row in unsliced(one, shape)]
        there = len(head.changed_at)
        present, last = rows[:there], rows[there:] or [None] * len(head.gone)
        if len(present) != there or None in present or not len(last) == len(head.gone) == len(head.gone_at):
            raise DecodeError(0, f"snapshot: {self.shape.name}: {len(rows)} rows, not what its first slice says")
        self._rows = {self.shape.key(row): row for row in present if row is not None}
        self._gone = dict(zip(cast(list[K], head.gone), last, strict=True))
        at = [*zip(self._rows, head.changed_at, strict=True), *zip(self._gone, head.gone_at, strict=True)]
        self._changed = dict(sorted(at, key=itemgetter(1)))
        self.forgotten_at = head.forgotten_at
