"""Named followers: those for which records stay in the log, each up to bounds of its own.

A log without bounds for a follower that never comes would fill the disk. So a follower is declared before it is known:
what it lacks stays up to so many bytes and so long, long before that it is a case, and beyond it the records go. When
it comes after that it is told SNAPSHOT, which is its gap. Only the history and the actor `topics` have no
bounds: they are parts of the node, which rather stops to take records than lose one that it acknowledged.

Spec: design/log-and-feed.md, Feed; ADR-0237.
"""

from typing import Final

import msgspec


class NamedFollower(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declaration of a follower for which records stay."""

    name: str
    """Name under which it follows; nobody else of another machine may."""
    figure: str = ""
    """The diagnostics item `core/<figure>_hold` tells how much of its bounds is used; only of one with bounds."""
    bytes_max: int | None = None
    """Size of the log up to which records stay that it lacks; None: without bound."""
    days: float | None = None
    """Age up to which they stay; None: without bound."""
    bytes_per_s: int = 0
    """Most of what lies behind that it is sent per second; 0: no limit."""

    @property
    def is_bounded(self) -> bool:
        return self.bytes_max is not None or self.days is not None


HISTORY: Final = NamedFollower(name="history")
TOPICS: Final = NamedFollower(name="topics")
"""It has no bounds either: what it lacks are messages that were acknowledged to whoever put them."""


def above(node: str, bytes_max: int = 8 << 30, days: float = 30.0, bytes_per_s: int = 0) -> NamedFollower:
    """The node above, by its id, as `[node.uplink]` has it."""
    return NamedFollower(name=node, figure="uplink", bytes_max=bytes_max, days=days, bytes_per_s=bytes_per_s)
