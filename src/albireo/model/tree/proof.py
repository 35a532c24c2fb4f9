"""Proof: what became of a message that a program sent to another node, or of an order that was taken back."""

import msgspec


class MessageProof(msgspec.Struct, frozen=True, kw_only=True):
    """End of a message. With `executed` both ends have the same name and guid on record."""

    command_id: str
    name: str
    """Name of the message: origin, owner, life and number; empty: an order to an item of the node itself."""
    guid: str
    outcome: str
    """`executed`: a receiver has taken it; `expired` or `rejected`: none had it, and none will; `unknown`: one may."""
    cause: str = ""
    detail: str = ""
    ended_ns: int = 0
    """Wall time at the node that says it."""
    reply: bytes | None = None
    """Answer of the receiver that took it; None: nothing, or it is kept no more."""
