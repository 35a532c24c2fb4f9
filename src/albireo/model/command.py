"""Command: an order to an item, with a proof of its outcome.

A command ends in exactly one of the named outcomes; `unknown` is one of them and is never guessed away.
"""

from enum import StrEnum
from typing import Final

import msgspec

from albireo.model.value import Value

ID_REUSED: Final = "was given to an order with another"
"""Words of the refusal of an id that names an order already; a client knows the refusal by them."""


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

    command_id: str
    """UUID drawn by whoever orders; a retry with the same id is the same command."""
    item_id: int
    value: Value
    user: str
    reason: str = ""
    requested_ns: int = 0
    """Wall time at the node that accepted the request."""
    expires_ms: int = 10_000
    """Log time after which it must not be sent any more."""
    principal: str | msgspec.UnsetType = msgspec.UNSET
    """Name of the key, or the local user, behind the order (model.principal); `user` is what was claimed. Unset, and
    left out of its bytes, in an order of 0.1.0."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a command."""

    command_id: str
    outcome: Outcome
    detail: str = ""
    read_back: Value | None = None
    finished_ns: int = 0
    ack_guid: str = ""
    """Drawn by the node that executed it: the proof of delivery."""
