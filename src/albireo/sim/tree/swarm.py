"""Mix of what goes wrong in one simulated tree, and its shape: which nodes are pairs, who orders what."""

from collections.abc import Mapping
from typing import Final

from albireo.sim.nodes.swarm import NodeSwarm

NODES: Final = ("root", "root/north", "root/north/pump", "root/south")
PAIRS: Final = ((), ("root",), ("root/north",), ("root/north/pump",), ("root", "root/north", "root/north/pump"))
"""Nodes that are pairs: none, the root, the middle, the bottom, all three."""
BEYOND: Final[Mapping[str, tuple[str, ...]]] = {
    "root": (),
    "root/north": ("root", "root/south"),
    "root/north/pump": ("root", "root/north", "root/south"),
    "root/south": ("root/north",),
}
"""Nodes that each one follows at its parent: the whole tree, or a part of it."""
FAULTS: Final = ("kill", "power", "cut", "pause", "restore", "wipe")
PAIR_FAULTS: Final = ("take_over", "take_over_everywhere", "switchover", "cut_members")


class TreeSwarm(NodeSwarm, frozen=True, kw_only=True):
    """Mix of one tree."""

    pace: int = 1
    """Times as long as in a plant that members wait for each other (sim/tree/day.py slows the rest down)."""
    keep_h: Mapping[str, float] = {}
    """Age up to which a node keeps records that everybody has, by node; a day of those that are not named."""
    hold_days: float = 30.0
    """Age up to which records are held for the parent."""
    hold_bytes: Mapping[str, int] = {}
    """Size up to which they are, by node; 8 GiB of those that are not named."""
    snapshot_every_s: int = 2
    reaches_on_standby: bool = True
    """Adapters on standby reach their device; as those that act do not say so, their members hand over for it."""

    pairs: tuple[str, ...] = ()
    order_every_ms: float = 0.0
    """Mean time between two orders; 0: nobody orders anything."""
    expires_ms: tuple[int, ...] = (300, 2_000, 6_000)


def swarm_of_tree(seed: int) -> TreeSwarm:
    """Draw the mix of one seed."""
    drawn = [FAULTS[(seed * 7 + number * 5) % len(FAULTS)] for number in range(1 + seed % 4)]
    pairs = PAIRS[seed // 2 % len(PAIRS)] if seed % 2 else ()
    among = [PAIR_FAULTS[(seed // 2 + number) % len(PAIR_FAULTS)] for number in range(2)] if pairs else []
    return TreeSwarm(
        pairs=pairs,
        order_every_ms=(150.0, 400.0, 0.0)[seed // 4 % 3],
        voters=1,
        faults=(*drawn, *among, *["slow"] * (seed % 5 == 0), *["clock"] * (seed % 7 == 0)),
        fault_every_ms=(400.0, 1_000.0, 2_500.0)[seed % 3],
        faults_for_ms=12_000,
        delay_ms=(0.3, 2.0, 20.0)[seed // 3 % 3],
        sync_ms=(0.5, 5.0)[seed % 2],
        drift=0.01,
        batch_every_ms=(100.0, 400.0)[seed // 5 % 2],
        segment_bytes=65_536,
        keep_s=3_600.0,
        bytes_per_s=(100_000_000, 300_000)[seed // 2 % 2],
    )
