"""Kinds of adapters, as their authors declare them.

A kind is one value: which keys its part of the topology file has, which columns its item table has and what judges a
row of it, and where the function is that makes an adapter. The loader is handed the kinds, so codecs know no adapter.
"""

from collections.abc import Callable, Mapping

import msgspec

from albireo.model.item import DataItem
from albireo.model.topology import AdapterConfig


class RowMistake(msgspec.Struct, frozen=True):
    """A mistake in one cell of a row, as an adapter tells it."""

    column: str
    """Name of the column; empty where no single column is to blame."""
    text: str
    remedy: str


class AddressSpan(msgspec.Struct, frozen=True):
    """Addresses that a row takes; two rows of one space that share an address are suspicious, though not wrong."""

    space: str
    """Name of the address space, such as `holding registers of unit 1`."""
    first: int
    count: int

    @property
    def end(self) -> int:
        """First address behind the span."""
        return self.first + self.count


class Judged(msgspec.Struct, frozen=True):
    """A row that its adapter can use."""

    item: DataItem
    span: AddressSpan | None = None
    """None where sharing is usual, such as the bits of one register."""
    doubt: RowMistake | None = None
    """A cell that is right as it stands, and often means something else."""
    dead_band: float = 0.0
    """Width within which the adapter sends no change, engineering units."""


class AdapterKind(msgspec.Struct, frozen=True, kw_only=True):
    """Declaration of a kind of adapter: all that must be known of it before one of its kind runs."""

    create: str = ""
    """Place of the function that makes an adapter, `module:name` (`field.kinds.Create`): named, not imported, so that a
    process pays for the protocols that it speaks."""
    settings: type[AdapterConfig] = AdapterConfig
    """Keys of its `[[node.adapter]]`: the common ones and its own."""
    trouble: str = ""
    """Why the kind can't be had, although somebody offers it; empty: it can."""
    needs_url: bool | None = True
    """True: a url is required; False: it is refused; None: it is optional."""
    needs_items: bool = True
    columns: tuple[str, ...] = ()
    """Columns that may stand in its item table; empty switches the check off."""
    judge: Callable[[Mapping[str, str]], Judged | list[RowMistake]] | None = None
    """Judges one row: cells as text, empty ones and unknown columns left out."""
