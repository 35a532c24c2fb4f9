"""The world of Hexabus: it holds over many seeds, and every shortcut is caught (docs/simulation.md)."""

from functools import partial
from typing import Final

import pytest

from albireo.codec.hexabus.journal import DeviceLeft, HouseSnapshot, HouseTaken, ResetOrdered
from albireo.sim.engine.stage import seen_in
from albireo.sim.hexabus.shortcuts import HEXABUS_SHORTCUTS, SEEDS_PER_SHORTCUT, catch
from albireo.sim.hexabus.world import HexWorld
from tests.long_form import check_caught, some

CAUGHT_BY: Final = {
    "device does not look at what an event needs": 8,
    "recovery with what is so now": 7,
    "recovery that waits for no pieces": 3,
    "void records folded": 1,
    "snapshot taken that others overtook": 11,
    "number zero not left out": 5,
    "late copy of a reset taken for another one": 1,
    "first packets of other lives forgotten": 13,
    "joins and times of other machines count": 36,
    "times of day not in the snapshot": 5,
}
"""Seed that catches a shortcut, where it is not seed 0."""


@pytest.mark.parametrize("first", range(0, 2_000, 100))
def test_events_are_kept_ordered_and_acted_on_once_through_all_faults(first: int) -> None:
    for seed in some(range(first, first + 100), 33):
        assert seen_in(HexWorld(seed).play) == ""


@pytest.mark.parametrize("name", HEXABUS_SHORTCUTS)
def test_a_shortcut_of_hexabus_is_caught(name: str) -> None:
    check_caught(partial(catch, name), CAUGHT_BY.get(name, 0), range(SEEDS_PER_SHORTCUT))


def test_worlds_of_hexabus_see_all_that_can_happen() -> None:
    """Seeds that nothing happens in prove nothing."""
    worlds = [HexWorld(seed).play() for seed in range(12)]
    kinds = {type(record.entry) for world in worlds for record, _ in world.ledger.valid}
    assert {DeviceLeft, HouseSnapshot, HouseTaken, ResetOrdered} <= kinds
    assert sum(world.ledger.void for world in worlds) > 1 and {world.loss_at_first for world in worlds} >= {
        0.0,
        0.2,
        0.4,
    }
    assert any(world.ledger.valid[0][0].entry != worlds[0].ledger.valid[0][0].entry for world in worlds)
    devices = [one for world in worlds for one in world.devices.values()]
    assert sum(one.acked for one in devices) > 300 and sum(one.acts.count for one in devices) > 1_500
    assert min(world.epoch for world in worlds) >= 2
