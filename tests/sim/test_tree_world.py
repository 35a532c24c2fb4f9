"""A tree of whole nodes under faults, by seed; see docs/simulation.md.

A failure prints the seed; `TreeWorld(seed).play()` plays it again, and `TreeWorld.trace` tells it line by line.
"""

from functools import partial
from typing import Final

import msgspec
import pytest

from albireo.model.instant import SECOND
from albireo.sim.tree.faults import SLOW_BYTES_PER_S
from albireo.sim.tree.shortcuts import ORDER_SHORTCUTS, SHORTCUTS, catch
from albireo.sim.tree.site import Site
from albireo.sim.tree.swarm import swarm_of_tree
from albireo.sim.tree.world import HEAL_NS, TreeWorld
from tests.long_form import IS_LONG, check_caught, some

FOUND: Final = (3, 6, 30, 63)
"""Seeds that found something: a member on standby spun once it had a letter; one that caught up over 300 kB/s gave up
as it heard no heartbeat behind the frames; a program that went on waited for good while its node got another disk, or
was refused what it had under way, by the item ids of the log before."""
LONG: Final = frozenset({"a fork is not marked", "the epochs of a copy are not told"})
"""Shortcuts that show only after a minute in which nothing comes: they take ten seconds and more."""


@pytest.mark.parametrize("seed", sorted({*some(range(500), 125), *FOUND}), ids=lambda seed: f"seed-{seed}")
def test_every_copy_is_true_once_and_whole(seed: int) -> None:
    TreeWorld(seed).play()


def test_same_seed_same_story() -> None:
    first, second = TreeWorld(322).play(), TreeWorld(322).play()
    assert first.trace == second.trace
    assert first.agenda.count == second.agenda.count


def test_a_site_on_a_slow_cable_catches_up_after_it_was_cut_off() -> None:
    """10 kB/s carry more than the site records; repeats of what is on its way must not use that up."""
    world = TreeWorld(1, msgspec.structs.replace(swarm_of_tree(1), faults=(), pairs=()))
    north, cable = world.sites["root/north"], ("root-north", "root")
    for site in world.sites.values():
        site.start()
    world.within(HEAL_NS, world.is_well, lambda: "no tree")
    world.stage.network.slow(*cable, SLOW_BYTES_PER_S)
    world.stage.network.cut_both(*cable, 90_000)
    world.agenda.play_until(world.agenda.at + 90 * SECOND)
    end = world.copies.end_of(north.log_id)

    def is_copied() -> bool:
        return world.copies.judge("root", world.sites["root"].machines[0].log.frames()).get(north.log_id, 0) >= end

    world.within(HEAL_NS, is_copied, lambda: f"not copied: {world.ends()}", every=100)
    world.within(HEAL_NS, world.is_well, lambda: f"not live: {world.ends()}", every=100)


CAUGHT_BY: Final = {
    "repeats are taken": 6,
    "a copy ends where the folds say": 8,
    "a fork is not marked": 4,
    "the epochs of a copy are not told": 4,
    "a branch that nobody tells of is not noticed": 4,
    "another log of a child is not noticed": 11,
    "values of a child that is away stay good": 8,
    "a child has its own subtree back": 2,
    "what is stale at a neighbour looks live": 8,
    "an envelope is folded as own": 1,
    "a copy is followed from one further": 10,
    "carried out again after a takeover": 3,
    "silence taken for never": 8,
    "expired said after a body left": 9,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize(
    "name", [name for name in some((*SHORTCUTS, *ORDER_SHORTCUTS), 2) if IS_LONG or name not in LONG]
)
def test_a_tree_that_takes_a_shortcut_is_caught(name: str) -> None:
    check_caught(partial(catch, name), CAUGHT_BY.get(name, 0), range(50))


@pytest.mark.parametrize("seed", some(range(2), 2))
def test_orders_hold_in_the_workload_of_their_shortcuts(seed: int) -> None:
    """What catches a shortcut is the shortcut, not the workload."""
    swarm = ORDER_SHORTCUTS["expired said after a body left"][2]
    assert "verified" in TreeWorld(seed, swarm).play().orders.outcomes


APART_S: Final = 3_600


@pytest.mark.skipif(not IS_LONG, reason="two minutes; a day at another pace is in test_tree_day.py")
def test_a_subtree_that_is_cut_off_lives_on_and_is_complete_above_afterwards() -> None:
    """It records, carries out orders of its own, shows its items, and hands everything up when the cable is whole."""
    world = TreeWorld(
        5, msgspec.structs.replace(swarm_of_tree(5), faults=(), order_every_ms=0.0, batch_every_ms=2_000.0)
    )
    north, pump, root = (world.sites[node] for node in ("root/north", "root/north/pump", "root"))
    with world.living():
        world.begin()
        for name in north.names:
            world.stage.network.cut_both(name, "root", APART_S * 1_000)
        before = {site.node: (site.program.acknowledged, log_time_s(site)) for site in (north, pump)}
        for _ in range(6):
            world.agenda.play_until(world.agenda.at + APART_S * SECOND // 6 - SECOND)
            for machine in pump.machines:
                machine.adapter.measure(0.0)
            world.agenda.play_until(world.agenda.at + SECOND // 2)
            world.order(north, pump)
        for site in (north, pump):
            acknowledged, began_s = before[site.node]
            assert site.program.acknowledged - acknowledged > APART_S // 8
            assert log_time_s(site) - began_s > APART_S * 0.9
        assert north.root is not None and root.root is not None
        assert north.root.tree.mirrors[pump.node].stale_since_ns is None
        assert root.root.tree.mirrors[north.node].stale_since_ns is not None
        assert sum(pump.device.done.values()) > 0
        world.stage.end_faults()
        world.settle()


def log_time_s(site: Site) -> float:
    assert site.root is not None
    return site.root.folds.log_time_ms / 1_000
