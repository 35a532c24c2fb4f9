"""Words about stored history between a node and those below it: what a node let go of before it was copied.

    history above --StoredAsked--> CORE above --the link for the log--> CORE below --> history below
    history below --StoredGiven--> CORE below --the same link--> CORE above --> history above

Raw parts beside each carry one word of codec/history_copy.py, into which no CORE looks.

Spec: ADR-0218.
"""

from typing import Final

import msgspec

from albireo.model.bounded import LogId, Name, Seat

PIECE_BYTES: Final = 256 << 10
"""Most bytes of one piece. One piece is under way at a time, and heartbeats wait behind it: 2 ms at 1 Gbit/s."""


class StoredAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="stored_asked"):
    """A history to that of a node below: a question about the stored history of one log."""

    node: Name
    """Node whose log it is: the one that is asked, or one further below."""
    log_id: LogId
    member: Seat = 0
    """Set by the CORE below: member of the node above by whose link the question came, and the answer goes."""


class StoredGiven(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="stored_given"):
    """The answer."""

    node: Name
    log_id: LogId
    member: Seat = 0
    """As in the question."""
