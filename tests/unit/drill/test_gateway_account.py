"""Judgement of a round at unruly devices: each thing that must not be seen is enough not to hold."""

import msgspec
import pytest

from albireo.drill.unruly import WORST, GatewayAccount, GatewayRound
from albireo.plant.unruly.cases import cases

WELL = GatewayAccount(device="silent", polls=30, polls_min=24, orders=1, written=True)


def test_a_round_without_a_flaw_holds() -> None:
    assert WELL.held
    assert GatewayRound(devices=(WELL, WELL), restarts=0).held
    assert not GatewayRound(devices=(WELL, WELL), restarts=1).held


@pytest.mark.parametrize(
    "flaw", [{"wrong": 1}, {"not_good": 1}, {"lost": 1}, {"untrue": 1}, {"written": False}, {"polls": 23}]
)
def test_one_flaw_of_one_device_does_not_hold(flaw: dict[str, int]) -> None:
    flawed = msgspec.structs.replace(WELL, **flaw)
    round_ = GatewayRound(devices=(WELL, flawed), restarts=0)
    assert not flawed.held
    assert not round_.held
    assert "DID NOT HOLD: silent" in round_.told()


def test_the_twelve_worst_devices_are_cases() -> None:
    assert len(WORST) == len(set(WORST)) == 12
    assert set(WORST) <= set(cases(1.0))
