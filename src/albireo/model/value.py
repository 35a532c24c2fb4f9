"""A value and its type, the number of an item, a gap: the parts of samples that need no columns.

They stand apart from `model/samples.py` so that a process without samples (witness, logger, boot) loads no numpy.
"""

from decimal import Decimal
from enum import IntEnum
from typing import Final, NewType

import msgspec

from albireo.model.bounded import Count, Ids, Signed, Text

ItemId = NewType("ItemId", int)
"""Number of an item (u32), allotted by CORE at first sight of (node, name), never reused. 0 is no item."""


class ValueType(IntEnum):
    """Type of every value of one batch; the numbers are those of the stored format."""

    FLOAT64 = 1
    INT64 = 2
    BOOL = 3
    STRING = 4


Value = float | Signed | bool | Text
"""A single value, used at the edges only (a command, a row of a table)."""


def number_text(number: float) -> str:
    """All digits that tell a number from its neighbours; none behind the point of a whole one."""
    return str(number).removesuffix(".0")


def value_text(value: Value | None, unit: str = "", word: str = "") -> str:
    """A value as a person reads it, with all its digits, or its word before it; unknown is a dash, never a zero."""
    if value is None:
        return "-"
    if word:
        return f"{word} ({value_text(value, unit)})"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else number_text(value)
    return f"{text} {unit}" if unit else text


def difference(one: float, other: float) -> float:
    """The double nearest to what `one` is above `other` as decimals: 40.3 is 0.1 above 40.2 (ADR-0262)."""
    return float(Decimal(str(one)) - Decimal(str(other)))


EXACT: Final = 2.0**53
"""From this magnitude on a float64 is not every integer."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """An interval in which samples were or may have been lost; written by whoever lost them."""

    source: Text
    """Name of the adapter that lost them, or `core` or `history`."""
    reason: Text
    """`device_lost`, `adapter_down`, `node_down`, `overflow`, `refused`, `log_damage`; `committed_lost`: a forced
    promotion, or a lost disk, took them out of the log again; `not_replicated`: the other member has them;
    `let_go`: a node below deleted them, beyond its limits, before the node above had them."""
    from_ns: Signed
    """Wall time of the last sample known to be there."""
    to_ns: Signed
    """Wall time of the first sample after the gap."""
    item_ids: Ids = ()
    """Items concerned; empty: every item of `source`, of `core` and `history` every item there is."""
    lost: Count | None = None
    """Number of samples dropped; None: nobody can know it."""
