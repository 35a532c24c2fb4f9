"""Force: a value that somebody puts in the place of what an item's device measures, for a time."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Name, Number32, Signed, Text
from albireo.model.item_states import States
from albireo.model.value import Value

FORCES_MAX: Final = 10_000
"""Most items of a node that are forced at once."""
FORCE_MS_MAX: Final = 7 * 86_400_000
"""Longest time for which a force is ordered, one week: who needs it longer orders it again, and looks at it again."""
MEASURED: Final = "/measured"
"""Ending of the local name under which the measured value of an item is recorded while the item is forced."""


class Force(msgspec.Struct, frozen=True, kw_only=True):
    """An item is forced to a value."""

    item_id: Number32
    measured_id: Number32
    """Item to which the samples of `item_id` go as long as this lasts."""
    value: Value
    user: Text
    """Who was claimed to order it."""
    reason: Text
    since_ns: Signed
    """Wall time at the node that took the order."""
    for_ms: Annotated[int, Meta(ge=0, le=FORCE_MS_MAX)]
    """Log time after which it ends by itself, counted from its record."""
    principal: Name = ""
    """Name of the key, or the local user, behind the order (model.principal)."""
    command_id: Text = ""
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
    states: States = ()
