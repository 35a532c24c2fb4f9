"""The world of topics: it holds over many seeds, and every shortcut is caught (docs/simulation.md)."""

from functools import partial
from typing import Final

import pytest

from albireo.sim.engine.stage import seen_in
from albireo.sim.topics.shortcuts import SEEDS_PER_SHORTCUT, TOPIC_SHORTCUTS, catch
from albireo.sim.topics.world import TopicsWorld
from tests.long_form import check_caught, some

CAUGHT_BY: Final = {
    "cursor told before its commit": 12,
    "half a transaction: messages without the cursor": 1,
    "served before the place is reached that a consumer names": 4,
    "transactions judged by what is folded only": 27,
    "versions of keys judged by what is folded only": 1,
    "settled before it is folded": 12,
    "all leases over with the first": 8,
    "delivered again on a new line": 5,
    "dead letter not done where it was": 1,
    "gap of a policy not told": 1,
    "consumers not sent on": 5,
    "cursor moved over what is given": 28,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize("first", range(0, 2_000, 100))
def test_each_message_comes_once_in_order_and_as_often_as_it_is_told(first: int) -> None:
    for seed in some(range(first, first + 100), 33):
        assert seen_in(TopicsWorld(seed).play) == ""


@pytest.mark.parametrize("name", TOPIC_SHORTCUTS)
def test_a_shortcut_is_caught(name: str) -> None:
    check_caught(partial(catch, name), CAUGHT_BY.get(name, 0), range(SEEDS_PER_SHORTCUT))


def test_worlds_see_all_that_can_happen() -> None:
    """Seeds that nothing happens in prove nothing."""
    worlds = [TopicsWorld(seed).play() for seed in range(10)]
    assert sum(world.ledger.given for world in worlds) > 300
    assert min(world.core.epoch for world in worlds) > 2
    assert all(sum(len(world.ledger.bodies[world.topics[name]]) for world in worlds) > 3 for name in ("dead", "made"))
    assert sum(len(world.refused) for world in worlds) > 3
    assert sum(len(readers) > 1 for world in worlds for readers in world.ledger.seen.values()) > 10
