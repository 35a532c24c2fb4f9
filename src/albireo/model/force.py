"""Force: a value that somebody puts in the place of what an item's device measures, for a time."""

from typing import Final

import msgspec

from albireo.model.value import Value

FORCES_MAX: Final = 10_000
"""Most items of a node that are forced at once."""
FORCE_MS_MAX: Final = 7 * 86_400_000
"""Longest time for which a force is ordered, one week: who needs it longer orders it again, and looks at it again."""
MEASURED: Final = "/measured"
"""Ending of the local name under which the measured value of an item is recorded while the item is forced."""


class Force(msgspec.Struct, frozen=True, kw_only=True):
    """An item is forced to a value."""

    item_id: int
    measured_id: int
    """Item to which the samples of `item_id` go as long as this lasts."""
    value: Value
    user: str
    """Who was claimed to order it."""
    reason: str
    since_ns: int
    """Wall time at the node that took the order."""
    for_ms: int
    """Log time after which it ends by itself, counted from its record."""
    principal: str = ""
    """Name of the key, or the local user, behind the order (model.principal)."""
    command_id: str = ""
    """Command id of the message that ordered it; empty: it was ordered here."""


class MeasuredNow(msgspec.Struct, frozen=True, kw_only=True):
    """Latest measured value of a forced item."""

    value: Value | None
    """None: no usable one is known."""
    quality: int
    source_ns: int


class ForcedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A forced item as people see it."""

    item: str
    """Full name."""
    value: Value
    measured: MeasuredNow
    user: str
    principal: str
    reason: str
    since_ns: int
    left_ms: int
    """Log time that is left; it stands still while the node is down."""
    unit: str = ""
