"""A pair of whole nodes under faults, by seed: the real shells, logs, folds and voters; see docs/simulation.md.

A failure prints the seed; `World(seed).run()` plays it again, and `World.trace` tells it line by line.
"""

import pytest

from albireo.sim.node_pair import World

SEEDS = 100


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_nothing_acknowledged_is_lost_and_both_get_equal(seed: int) -> None:
    World(seed).run()


def test_same_seed_same_story() -> None:
    first, second = World(7).run(), World(7).run()
    assert first.trace == second.trace
    assert (first.agenda.count, first.ledger.end) == (second.agenda.count, second.ledger.end)
