"""How a member came to lead.

Spec: design/pair.md, rules 1, 9, 12.
"""

import msgspec

from albireo.model.instant import Instant


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """How this tenure came about."""

    epoch: int
    members: tuple[int, ...]
    accepted_by: tuple[str, ...]
    from_voters: Instant
    """End of the lease that the grant itself gave."""
    not_before: Instant = Instant(0)
    """No output write before: the old holder's lease may still run (fast takeover)."""
    is_forced: bool = False
    is_decided: bool = False
    """No voter confirms it: force, or no voters at all."""


def forced_grant(epoch: int, index: int) -> Grant:
    """The operator's word instead of the voters'."""
    return Grant(epoch=epoch, members=(index,), accepted_by=(), from_voters=Instant(0), is_forced=True, is_decided=True)
