"""Thirty devices below a pair, 20 % of datagrams lost: the adapter is killed, then the member that leads."""

from pathlib import Path

import pytest

from albireo.drill.fault.network import NetworkGround
from albireo.drill.house.house import HouseDrill
from tests.long_form import some

pytestmark = [
    pytest.mark.crowd,
    pytest.mark.drill,
    pytest.mark.slow,
    pytest.mark.skipif(bool(NetworkGround.objection()), reason=f"no namespaces: {NetworkGround.objection()}"),
]


@pytest.mark.parametrize("seed", some(range(5), 5))
def test_no_acknowledged_event_is_lost_or_doubled_and_all_machines_agree(seed: int, tmp_path: Path) -> None:
    told: list[str] = []
    account = HouseDrill(tmp_path, told.append, seed=seed).run(16.0)
    assert account.held and (account.events_lost, account.events_doubled, account.disagreements) == (0, 0, 0)
    assert account.events >= 40 and account.lights >= 8 and account.thermostats >= 6
    assert (account.takeovers, account.restarts) == (1, 1) and account.takeover_s is not None
