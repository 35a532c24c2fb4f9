"""Settings of COMM for an adapter: its part of `[[node.adapter]]`, JSON from boot."""

import msgspec

from albireo.field.contract import WRITE_MAX_MS
from albireo.model.topology import Guard, Standby


class CommConfig(msgspec.Struct, frozen=True, kw_only=True):
    """COMM's part of an adapter's arguments; what it does not know is the adapter's own."""

    name: str
    kind: str
    poll_ms: int = 1_000
    backoff_min_ms: int = 500
    backoff_max_ms: int = 2_000
    heartbeat_ms: int = 10_000
    """An item that stands still is sent at least this often, and four times within its own `stale_s` or `frozen_s`."""
    diagnostics_ms: int = 5_000
    queue_mib: int = 32
    """Samples that wait for CORE; beyond it the oldest are dropped and become a gap record."""
    begins_acting: bool = True
    """False on a member of a pair: it stands by until CORE says who acts."""
    standby: Standby = Standby.CONNECTED
    guard: Guard = Guard.LEASE
    write_max_ms: int = WRITE_MAX_MS
    """Part of the lease that must be left when a write starts, in a pair whose guard is bounded by time."""
    voter_address: int | None = None
    seed: int | None = None
    """Seed of the back-off's jitter; None draws one."""

    def __post_init__(self) -> None:
        if self.poll_ms < 10 or self.heartbeat_ms < 100 or self.diagnostics_ms < 100 or self.queue_mib < 1:
            raise ValueError("poll_ms >= 10, heartbeat_ms >= 100, diagnostics_ms >= 100, queue_mib >= 1")
        if self.write_max_ms < 1:
            raise ValueError("write_max_ms >= 1")
