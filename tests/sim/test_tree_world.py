"""A tree of whole nodes under faults, by seed; see docs/simulation.md.

A failure prints the seed; `TreeWorld(seed).play()` plays it again, and `TreeWorld.trace` tells it line by line.
"""

from functools import partial
from typing import Final

import msgspec
import pytest

from albireo.model.instant import SECOND
from albireo.sim.tree.shortcuts import SHORTCUTS, catch
from albireo.sim.tree.world import HEAL_NS, SLOW_BYTES_PER_S, TreeWorld, swarm_of_tree
from tests.long_form import IS_LONG, check_caught, some

FOUND: Final = (4, 17, 43, 222, 451, 495)
"""Seeds that found something: forks two levels below, branches of equal epochs, a restored site, or parent, not
followed, values of an earlier run of the parent that looked live."""
LONG: Final = frozenset({"a fork is not marked", "the epochs of a copy are not told"})
"""Shortcuts that show only after a minute in which nothing comes."""


@pytest.mark.parametrize("seed", sorted({*some(range(500), 25), *FOUND}), ids=lambda seed: f"seed-{seed}")
def test_every_copy_is_true_once_and_whole(seed: int) -> None:
    TreeWorld(seed).play()


def test_same_seed_same_story() -> None:
    first, second = TreeWorld(4).play(), TreeWorld(4).play()
    assert first.trace == second.trace
    assert first.agenda.count == second.agenda.count


def test_a_site_on_a_slow_cable_catches_up_after_it_was_cut_off() -> None:
    """10 kB/s carry more than the site records; repeats of what is on its way must not use that up."""
    world = TreeWorld(1, msgspec.structs.replace(swarm_of_tree(1), faults=()))
    north, cable = world.machines["root/north"], ("root-north", "root")
    for machine in world.machines.values():
        machine.start_soon(0)
    world.within(HEAL_NS, world.is_well, lambda: "no tree")
    world.stage.network.slow(*cable, SLOW_BYTES_PER_S)
    world.stage.network.cut_both(*cable, 90_000)
    world.agenda.play_until(world.agenda.at + 90 * SECOND)
    end = world.copies.end_of(north.log.log_id)

    def is_copied() -> bool:
        return world.copies.judge("root", world.machines["root"].log.frames()).get(north.log.log_id, 0) >= end

    world.within(HEAL_NS, is_copied, lambda: f"not copied: {world._ends()}", every=100)
    world.within(HEAL_NS, world.is_well, lambda: f"not live: {world._ends()}", every=100)


CAUGHT_BY: Final = {
    "repeats are taken": 4,
    "a branch that nobody tells of is not noticed": 4,
    "another log of a child is not noticed": 7,
    "values of a child that is away stay good": 22,
    "a copy is followed from one further": 5,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize("name", [name for name in SHORTCUTS if IS_LONG or name not in LONG])
def test_a_tree_that_takes_a_shortcut_is_caught(name: str) -> None:
    check_caught(partial(catch, name), CAUGHT_BY.get(name, 0), range(50))
