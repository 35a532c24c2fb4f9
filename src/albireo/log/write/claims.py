"""Claims: commit positions that the holder's frames name while this disk does not have the records yet.

A frame proves that the records it calls committed were durable on every member of the set when the frame was made. A
member that catches up is not in the set: it gets frames that name records it has received and not yet synced. After an
honest power cut some of those records may be missing while the frame that calls them committed is there, which would
look like corruption. So while a member catches up, its store header says how far frames are believed (`claims_to`).

Spec: ADR-0110.
"""

from collections.abc import Sequence
from typing import Final

from albireo.codec.frame import FrameHeader

CALM_MS: Final = 10_000
"""Log time without a claim ahead of this disk after which all claims count again: two header updates per catch-up."""


class Claims:
    """Claims heard since open, or since a cut."""

    def __init__(self) -> None:
        self._highest = 0
        self._ahead_ms = 0
        """Log time of the last frame at which the highest claim was not durable here."""

    def taken(self, headers: Sequence[FrameHeader], durable_sequence: int, claims_to: int | None) -> int | None:
        """Value that `claims_to` must have before these frames may reach the disk."""
        self._highest = max(self._highest, *[header.committed_sequence for header in headers])
        log_time_ms = headers[-1].log_time_ms
        if self._highest > durable_sequence:
            self._ahead_ms = log_time_ms
            return durable_sequence if claims_to is None else claims_to
        return claims_to if log_time_ms - self._ahead_ms <= CALM_MS else None
