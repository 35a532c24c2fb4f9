"""The world of messages: it holds over many seeds, and every shortcut is caught (ADR-0184)."""

from functools import partial
from typing import Final

import pytest

from albireo.sim.engine.stage import first_caught, seen_in
from albireo.sim.message.mutations import HARMLESS, MESSAGE_SHORTCUTS, SEEDS_PER_SHORTCUT, catch_message_shortcut
from albireo.sim.message.world import MessageWorld
from tests.long_form import check_caught, some

CAUGHT_BY: Final = {
    "accepted number forgotten at its deadline": 2,
    "served on in a new life": 1,
    "restored store said to go on": 2,
    "never said before the refusal is on record": 7,
    "earlier receivers forgotten as one gives back": 1,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize("first", range(0, 3_000, 100))
def test_nothing_is_carried_out_twice_late_or_silently(first: int) -> None:
    for seed in some(range(first, first + 100), 50):
        assert seen_in(MessageWorld(seed).play) == ""


@pytest.mark.parametrize("name", MESSAGE_SHORTCUTS)
def test_a_shortcut_is_caught(name: str) -> None:
    check_caught(partial(catch_message_shortcut, name), CAUGHT_BY.get(name, 0), range(SEEDS_PER_SHORTCUT))


@pytest.mark.parametrize("name", MESSAGE_SHORTCUTS)
def test_the_machines_hold_in_the_workload_of_each_shortcut(name: str) -> None:
    """What catches a shortcut is the shortcut, not the workload."""
    _, swarm = MESSAGE_SHORTCUTS[name]
    for seed in some(range(100, 120), 20):
        assert seen_in(MessageWorld(seed, swarm).play) == ""


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_shortcut_is_told_as_such(name: str) -> None:
    variant, swarm = HARMLESS[name]
    assert first_caught(lambda seed: MessageWorld(seed, swarm, variant).play(), some(range(30), 10)) is None


def test_a_world_replays_exactly() -> None:
    one, other = MessageWorld(3, is_verbose=True), MessageWorld(3, is_verbose=True)
    assert (seen_in(one.play), one.trace) == (seen_in(other.play), other.trace)


def test_worlds_see_all_that_can_happen() -> None:
    """Seeds that nothing happens in prove nothing."""
    said: set[str] = set()
    for seed in range(12):
        world = MessageWorld(seed).play()
        said |= {str(one) for one in world.stage.ledger.said.values()}
    assert said >= {"verified", "expired", "cancelled", "unknown"}
