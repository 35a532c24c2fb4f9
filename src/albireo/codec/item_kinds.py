"""Kinds of values: type and unit in which an item's values are told, one kind after another as it was declared anew.

The log's order decides, and no clock: a row is of the last declaration before it in the log.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.model.bounded import Count, LongText, Number32
from albireo.model.value import ValueType

METADATA: bytes = b"items"
"""Key under which the schema of an answer has its items, as JSON."""


class ItemKinds(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds of one item, oldest first; there is one at least."""

    item_id: Number32
    name: LongText
    """Full name, as it was declared last."""
    declared: tuple[Count, ...]
    """Log sequences of the declarations, rising. The first kind counts before its declaration, too."""
    types: tuple[ValueType, ...]
    units: tuple[LongText, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.declared) == len(self.types) == len(self.units):
            raise ValueError("as many types and units as declarations, and one at least")

    def at(self, sequence: NDArray[np.int64]) -> NDArray[np.intp]:
        """Number of the kind of rows with these sequences."""
        return np.maximum(np.searchsorted(np.array(self.declared), sequence) - 1, 0)

    def is_of(self, *types: ValueType) -> NDArray[np.bool_]:
        """Whether each kind is of one of these types."""
        return np.isin(self.types, types)


def metadata_of(kinds: list[ItemKinds]) -> dict[bytes, bytes]:
    return {METADATA: msgspec.json.encode(kinds)}


def kinds_in(metadata: dict[bytes, bytes] | None) -> list[ItemKinds]:
    """The items of an answer; none, if it does not say them.

    Raises:
        msgspec.DecodeError: it is no such metadata.
    """
    return msgspec.json.decode((metadata or {}).get(METADATA, b"[]"), type=list[ItemKinds])
