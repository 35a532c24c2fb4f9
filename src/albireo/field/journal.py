"""Journal of an adapter: entries that both members of a node have in one sequence (topic_journal.py).

Each member's adapter reads all of them. What was put is known to be on record, and at which place among what others
put, when it is read. Entries are forgotten once both have let them go.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from albireo.runtime.link.lines import LineTo

JOURNAL_PREFIX: Final = "adapters."


class JournalEntryRead(msgspec.Struct, frozen=True):
    """An entry."""

    number: int
    """From 1, in the order of the journal."""
    at_ns: int
    """Wall time at which the node took it."""
    epoch: int
    """Epoch of the log in which the node took it."""
    data: bytes


Read = Callable[[Sequence[JournalEntryRead]], None]
"""Takes the next entries; called in the loop."""


class AdapterJournal(Protocol):
    """The journal, as an adapter has it. For one loop."""

    @property
    def trouble(self) -> str:
        """Why it is of no use any more; empty: it is. Then it is to be closed, and another one opened."""
        ...

    async def open(self, read: Read) -> None:
        """Begin to read. Raises JournalLost: the node does not answer, or refuses."""
        ...

    def put(self, data: bytes) -> None:
        """Put an entry behind those that were put before; it waits for nothing."""
        ...

    def let_go(self, number: int) -> None:
        """Entries before this one are never wanted again."""
        ...

    async def close(self) -> None:
        """End; never raises. What was put and not read may be on record, or not."""
        ...


class JournalLost(Exception):
    """The journal can't be had."""


class JournalPlace(msgspec.Struct, frozen=True):
    """Place of a journal: the ways to the node, and who of its members this one is."""

    doors: tuple[LineTo, ...]
    """The primary's first, of a pair; an empty endpoint is that of the place itself."""
    keys: str = ""

    @property
    def member(self) -> int:
        return next(index for index, one in enumerate(self.doors) if not one.endpoint)

    def target(self, data: Path) -> tuple[LineTo, ...]:
        return tuple(one if one.endpoint else LineTo(str(data)) for one in self.doors)
