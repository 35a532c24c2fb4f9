"""Command: an order to an item, with a proof of its outcome.

A command ends in exactly one of the named outcomes; `unknown` is one of them and is never guessed away. Some items have
to be selected first: somebody has the item to himself for a moment, looks at it, and orders next.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.bounded import Name, Number32, Signed, Text
from albireo.model.value import Value

SELECT_MS: Final = 30_000
"""Time of a selection if nobody says how long."""
SELECT_MS_MAX: Final = 300_000
"""Longest time of a selection: nobody else can order meanwhile."""
SELECTIONS_MAX: Final = 1_000
"""Most items of a node that are selected at once."""


class Outcome(StrEnum):
    """Named end states of a command, and the two states on the way."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    VERIFIED = "verified"
    """Written and read back equal."""
    EXECUTED = "executed"
    """Written; the device gives no read-back."""
    MISMATCHED = "mismatched"
    """Written, but another value was read back."""
    REJECTED = "rejected"
    """Never sent because it is not allowed, out of range or for an unknown item; or refused by the device."""
    EXPIRED = "expired"
    """Never sent because its time ran out first."""
    UNKNOWN = "unknown"
    """Sent or perhaps sent; nobody can tell what the device did."""

    @property
    def is_final(self) -> bool:
        return self not in (Outcome.REQUESTED, Outcome.ACCEPTED)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An order to write one item."""

    command_id: Text
    """UUID drawn by whoever orders; a retry with the same id is the same command."""
    item_id: Number32
    value: Value
    user: Text
    reason: Text = ""
    requested_ns: Signed = 0
    """Wall time at the node that accepted the request."""
    expires_ms: Signed = 10_000
    """Log time after which it must not be sent any more."""
    principal: Name = ""
    """Name of the key, or the local user, behind the order (model.principal); `user` is what was claimed."""
    selected_ns: Signed = 0
    """Wall time at which the selection began that the order used; 0: it used none."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a command."""

    command_id: Text
    outcome: Outcome
    detail: Text = ""
    read_back: Value | None = None
    finished_ns: Signed = 0
    ack_guid: Text = ""
    """Drawn by the node that executed it: the proof of delivery."""
    cause: Text = ""
    """Cause in the words of AddCause (model.tree.message); empty: the usual one of the outcome."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """An item is selected."""

    item_id: Number32
    selection_id: Text
    """Drawn by whoever selects; the order that uses the selection names it."""
    user: Text
    """Who was claimed to select it."""
    principal: Name
    """Name of the key, or the local user, behind it (model.principal)."""
    since_ns: Signed
    """Wall time at the node that owns the item."""
    for_ms: Annotated[int, Meta(ge=0, le=SELECT_MS_MAX)]
    """Elapsed time after which it ends by itself."""
    reason: Text = ""


class ItemSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selected item as people and programs see it."""

    selection_id: str
    item: str
    """Full name."""
    user: str
    principal: str
    reason: str
    since_ns: int
    """Wall time at the node that owns the item."""
    for_ms: int
    left_ms: int
    """Time that is left of it, at the node that owns the item; after an answer of a node above, all of it."""
    stale_since_ns: int | None = None
    """Wall time since which nothing was heard of that node; 0: never in this run; None: it is heard."""
