"""Fold of a table: which records change it, and how."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.slices import read_slices
from albireo.machine.table.shape import K, R, TableShape
from albireo.machine.table.table import Table
from albireo.model.instant import LogTime

F = TypeVar("F", bound="TableFold[Any, Any]")


class Tables(Protocol):
    """The folds of all tables."""

    def of(self, which: type[F]) -> F:
        """The fold of a table."""


class TableFold(ABC, Generic[K, R]):
    """A fold whose state is a table. Bounded by who appends its records."""

    shape: ClassVar[TableShape[Any, Any]]
    records: ClassVar[tuple[type[msgspec.Struct], ...]]
    """Types of the records, or heads of other contents, that change it."""

    def __init__(self) -> None:
        self.table: Table[K, R] = Table(self.shape)

    def among(self, tables: Tables) -> None:
        """Know the others. Those that are declared before this one have folded each record when it comes here."""

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[R]:
        return iter(self.table)

    def __contains__(self, key: K) -> bool:
        return key in self.table

    def find(self, key: K) -> R | None:
        return self.table.get(key)

    @abstractmethod
    def fold(self, record: Any, sequence: int, header: FrameHeader) -> None:
        """Fold a committed record, one of `records`."""

    def forget_pending(self) -> None:
        """Nothing is appended above the committed records: a new tenure begins."""

    def deadline(self) -> LogTime | None:
        """Log time at which something is due although no record comes; None: nothing is."""
        return None

    def restore(self, section: bytes) -> None:
        """Take a snapshot of the table, into a fold that has folded nothing.

        Raises:
            DecodeError: not a snapshot of this table.
        """
        self.table.restore(read_slices(section))
