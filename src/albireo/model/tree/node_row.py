"""Node row: another node, as the node that is asked sees it."""

import msgspec


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node below, or beyond: one whose state is followed at the parent."""

    node: str
    by: str
    """Child through which it is reached, or the parent."""
    stale_since_ns: int | None
    """Wall time since which nothing was heard of it; 0: never in this run; None: it is heard."""
    items: int
    position: str
    """Last record of it that lies above; empty: none."""
    complete_to_ns: int
    """The watermark: wall time up to which all that it recorded lies above, never beyond what was heard of it; 0:
    nothing yet."""
    behind: int
    """Number of records that are still to come; -1: not known."""
    missing: int = 0
    """Number of records of it that no log above will ever have; the stored history may have their rows."""
    feature_level: int = 0
    topology_hash: str = ""
    stores: int = 1
    """Number of its stores that are known above: one more for each new disk."""
    set_back_ns: int = 0
    """Wall time at which its present store came with less than is known of the node; 0: it did not."""
    refused: int = 0
    """Number of deliveries and declarations that were not taken."""
    trouble: str = ""
    leads: str = ""
    """Place of the member that leads, of a pair directly below; empty: it is no pair, or nobody knows."""
    pair: dict[str, float | None] = {}
    """Figures of a pair, as its items `pair/...` tell them: at_risk, other_lost, voters_silent, ...; None: not known
    now. Empty: it stands alone, or was never heard."""
