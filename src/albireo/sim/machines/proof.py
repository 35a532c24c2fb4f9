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
"""Number of seeds within which a mutation's workload must catch it; one that needs more is not directed."""

Told = Callable[[str], None]
"""Function that is called after each piece of work, with what was done."""


class Broken(msgspec.Struct, frozen=True):
    """One seed that showed what must never happen."""

    seed: int
    what: str


class Proof(msgspec.Struct, kw_only=True):
    """Outcome of a range of seeds."""

    seeds: int = 0
    events: int = 0
    """Number of steps of real machines that a message, a disk or a person caused; not of timers and copies."""
    acked: int = 0
    """Number of batches acknowledged to a producer; of a world of topics, of messages given to consumers."""
    broken: list[Broken] = msgspec.field(default_factory=list)


def prove(seeds: Sequence[int], told: Told, variant: Variant = PLAIN) -> Proof:
    """Play each seed in its own mix of faults.

    Args:
        told: called after each world.
        variant: machines to play; with broken ones, to see that they are found.
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
    """Return each shortcut with the first seed of its workload that caught it; None if none of them did."""
    caught: dict[str, int | None] = {}
    for name in MUTATIONS:
        found = catch(name, range(SEEDS_PER_MUTATION))
        caught[name] = None if found is None else found[0]
        told(name)
    return caught


def replay(seed: int, variant: Variant = PLAIN) -> tuple[list[str], str]:
    """Play one seed; returns every line that the world noted, and what was violated: empty if nothing was."""
    world = PairWorld(seed, variant=variant, is_verbose=True)
    what = seen_in(world.play)
    return world.trace, what
