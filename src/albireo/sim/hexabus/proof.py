"""Worlds of Hexabus, counted: seeds that must hold, shortcuts that must be caught."""

from collections.abc import Sequence

from albireo.sim.engine.stage import seen_in
from albireo.sim.hexabus.shortcuts import HEXABUS_SHORTCUTS, SEEDS_PER_SHORTCUT, catch
from albireo.sim.hexabus.world import HexWorld
from albireo.sim.machines.proof import Broken, Proof, Told


def prove(seeds: Sequence[int], told: Told) -> Proof:
    """Play each seed."""
    proof = Proof()
    for seed in seeds:
        world = HexWorld(seed)
        if seen := seen_in(world.play):
            proof.broken.append(Broken(seed, seen))
        proof.seeds += 1
        proof.events += len(world.journal)
        proof.acked += sum(one.acked for one in world.devices.values())
        told(f"seed {seed}")
    return proof


def try_shortcuts(told: Told) -> dict[str, int | None]:
    """Return each shortcut with the first seed that caught it; None if none of them did."""
    caught: dict[str, int | None] = {}
    for name in HEXABUS_SHORTCUTS:
        found = catch(name, range(SEEDS_PER_SHORTCUT))
        caught[name] = None if found is None else found[0]
        told(name)
    return caught
