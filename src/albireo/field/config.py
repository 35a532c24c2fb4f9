"""Settings of COMM for one adapter, beside those of its `[[node.adapter]]`; JSON from boot."""

import msgspec

from albireo.runtime.link.lines import LineTo


class CommConfig(msgspec.Struct, frozen=True, kw_only=True):
    """COMM's own part of an actor's arguments; the rest are the settings of the adapter and its item rows."""

    heartbeat_ms: int = 10_000
    """An item that stands still is sent at least this often, and four times within its own `stale_s` or `frozen_s`."""
    diagnostics_ms: int = 5_000
    queue_mib: int = 32
    """Samples that wait for CORE; beyond it the oldest are dropped and become a gap record."""
    begins_acting: bool = True
    """False on a member of a pair: it stands by until CORE says who acts."""
    doors: tuple[LineTo, ...] = ()
    """Doors of the node, of a pair the primary's first; an empty endpoint is that of the place itself."""
    keys: str = ""
    """Directory of the keys of the place; empty: none."""
    seed: int | None = None
    """Seed of the back-off's jitter; None draws one."""

    def __post_init__(self) -> None:
        if self.heartbeat_ms < 100 or self.diagnostics_ms < 100 or self.queue_mib < 1:
            raise ValueError("heartbeat_ms >= 100, diagnostics_ms >= 100, queue_mib >= 1")
