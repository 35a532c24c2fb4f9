"""Thirty Hexabus devices below a pair, 20 % of datagrams lost, while both members are upgraded one after the other."""

from pathlib import Path

import pytest

from albireo.drill.fault.network import NetworkGround
from albireo.drill.fault.upgrade import RAISED_S, lead_to, levels, start_anew
from albireo.drill.house.house import HouseDrill
from albireo.drill.pair import MEMBERS, Pair, other_of
from tests.long_form import in_long_form
from tests.own.next_version.remarks import LEVEL
from tests.own.next_version.versions import upgrade

pytestmark = [
    pytest.mark.crowd,
    pytest.mark.drill,
    pytest.mark.slow,
    in_long_form("forty processes for two minutes; `test_house_drill.py` has the same house without an upgrade"),
    pytest.mark.skipif(bool(NetworkGround.objection()), reason=f"no namespaces: {NetworkGround.objection()}"),
]


def upgraded(pair: Pair) -> None:
    """As an operator does it: who does not lead is started with the next version and led to, then the other one."""
    older, _ = pair.wait_healthy()
    newer = other_of(older)
    for member in (newer, older):
        upgrade(pair, member)
        start_anew(pair, member)
        lead_to(pair, member)
    pair.until("the log is raised", lambda: levels(pair) == dict.fromkeys(MEMBERS, (LEVEL, LEVEL)), RAISED_S)


def test_an_upgrade_of_the_master_loses_and_doubles_no_event(tmp_path: Path) -> None:
    account = HouseDrill(tmp_path, lambda _: None, kills=0, beside=upgraded).run(10.0)
    assert account.held and (account.events_lost, account.events_doubled, account.disagreements) == (0, 0, 0)
    assert account.events >= 40 and account.lights >= 8 and account.thermostats >= 6
