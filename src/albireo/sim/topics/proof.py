"""Worlds of topics, counted: seeds that must hold, shortcuts that must be caught."""

from collections.abc import Sequence

from albireo.sim.engine.stage import seen_in
from albireo.sim.machines.proof import Broken, Proof, Told
from albireo.sim.topics.shortcuts import SEEDS_PER_SHORTCUT, TOPIC_SHORTCUTS, catch
from albireo.sim.topics.world import STEPS, TopicsWorld


def prove(seeds: Sequence[int], told: Told) -> Proof:
    """Play each seed."""
    proof = Proof()
    for seed in seeds:
        world = TopicsWorld(seed)
        if seen := seen_in(world.play):
            proof.broken.append(Broken(seed, seen))
        proof.seeds += 1
        proof.events += STEPS
        proof.acked += world.ledger.given
        told(f"seed {seed}")
    return proof


def try_shortcuts(told: Told) -> dict[str, int | None]:
    """Return each shortcut with the first seed that caught it; None if none of them did."""
    caught: dict[str, int | None] = {}
    for name in TOPIC_SHORTCUTS:
        found = catch(name, range(SEEDS_PER_SHORTCUT))
        caught[name] = None if found is None else found[0]
        told(name)
    return caught
