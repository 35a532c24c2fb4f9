"""Worlds of the simulated pair, counted: seeds that must hold, shortcuts that must be caught, one seed to look at.

Spec: issue 3, Proof; design/pair.md, How it is proven.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.sim.engine.stage import seen_in
from albireo.sim.machines.mutations import MUTATIONS, catch
from albireo.sim.machines.parts import PLAIN, Variant
from albireo.sim.machines.world import PairWorld

SEEDS_PER_MUTATION: Final = 50
"""A directed workload that needs more of them is no directed one."""

Told = Callable[[str], None]
"""Called after each piece of work, with what was done."""


class Broken(msgspec.Struct, frozen=True):
    """One seed that showed what must never happen."""

    seed: int
    what: str


class Proof(msgspec.Struct, kw_only=True):
    """What a range of seeds came to."""

    seeds: int = 0
    events: int = 0
    """Steps of real machines that a message, a disk or a person caused; timers and copies are not counted."""
    acked: int = 0
    """Batches acknowledged to a producer."""
    broken: list[Broken] = msgspec.field(default_factory=list)


def prove(seeds: Sequence[int], told: Told, variant: Variant = PLAIN) -> Proof:
    """Play each seed in its own mix of faults.

    Args:
        told: called after each world.
        variant: broken machines, to see that they are told of.
    """
    proof = Proof()
    for seed in seeds:
        world = PairWorld(seed, variant=variant)
        if seen := seen_in(world.play):
            proof.broken.append(Broken(seed, seen))
        proof.seeds += 1
        proof.events += world.events
        proof.acked += len(world.ledger.acknowledged)
        told(f"seed {seed}")
    return proof


def try_shortcuts(told: Told) -> dict[str, int | None]:
    """Each shortcut with the first seed of its workload that caught it; None if none of them did."""
    caught: dict[str, int | None] = {}
    for name in MUTATIONS:
        found = catch(name, range(SEEDS_PER_MUTATION))
        caught[name] = None if found is None else found[0]
        told(name)
    return caught


def replay(seed: int, variant: Variant = PLAIN) -> tuple[list[str], str]:
    """Every line that the world noted, and what was violated; empty if nothing was."""
    world = PairWorld(seed, variant=variant, is_verbose=True)
    what = seen_in(world.play)
    return world.trace, what
