"""Commit positions that the holder's frames speak of while this disk does not have the records yet.

A frame proves that what it calls committed was durable on every member of the set when it was made. A member that
catches up is not in the set: it gets frames that speak of records it has received and not yet synced. After an honest
power cut some of those records may be missing while the frame that calls them committed is there, which would look like
corruption. So while it catches up, the store header says how far frames are to be believed (`claims_to`).

Spec: ADR-0110.
"""

from collections.abc import Sequence
from typing import Final

from albireo.codec.frame import FrameHeader

CALM_MS: Final = 10_000
"""So much log time without a claim ahead of this disk, and all count again: two header updates per catch-up."""


class Claims:
    """What was heard since open, or since a cut."""

    def __init__(self) -> None:
        self._highest = 0
        self._ahead_ms = 0
        """Log time of the last frame while the highest was not durable here."""

    def taken(self, headers: Sequence[FrameHeader], durable_sequence: int, claims_to: int | None) -> int | None:
        """What `claims_to` must say before these frames may reach the disk."""
        self._highest = max(self._highest, *[header.committed_sequence for header in headers])
        log_time_ms = headers[-1].log_time_ms
        if self._highest > durable_sequence:
            self._ahead_ms = log_time_ms
            return durable_sequence if claims_to is None else claims_to
        return claims_to if log_time_ms - self._ahead_ms <= CALM_MS else None
