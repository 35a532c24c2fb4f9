"""A pair of real processes of which one member is today's and the other of the next version, under live load.

Each round whoever leads is killed, so two rounds kill either: the member of the other version takes over, and goes on
in the same log. Then the lead is moved, the older member is upgraded too, the log is raised, and what only the next
version knows is recorded while members die; today's software does not start on it any more. Nothing that was
acknowledged is lost, doubled or out of order at any reader.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from albireo.client import NodeRefused, connect
from albireo.drill.fault.fault import Fault
from albireo.drill.fault.faults import FAULTS, FaultEntry
from albireo.drill.fault.upgrade import (
    BAD_CONFIGURATION,
    RAISED_S,
    REFUSED_S,
    check_levels,
    lead_to,
    levels,
    start_anew,
)
from albireo.drill.pair import MEMBERS, Pair, other_of
from albireo.drill.rehearsal import Rehearsal
from tests.long_form import in_long_form
from tests.own.next_version.remarks import LEVEL, known
from tests.own.next_version.versions import next_version, upgrade
from tests.parts.process_pair import ALBIREO
from tests.parts.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.drill,
    pytest.mark.slow,
    in_long_form("a dozen starts of a pair, four minutes; `test_simulated.py` upgrades members of the seeded world"),
]

OLDER, NEWER = MEMBERS


def refused(pair: Pair, passive: str) -> None:
    """As software of today it does not start on the raised log, and says so."""
    group = pair.groups[passive]
    assert group.stop() == 0
    del group.environment["PYTHONPATH"]
    group.start()
    pair.until(f"{passive} refuses to start", lambda: not group.is_running, REFUSED_S)
    assert group.stop() == BAD_CONFIGURATION
    assert f"the log is at feature level {LEVEL}, this node knows {LEVEL - 1}" in group.log.read_text()
    upgrade(pair, passive)
    group.start()
    pair.wait_healthy()


class Mixed(Fault):
    """See the module."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.counts: dict[str, Any] = {}
        """Remarks at each member in the end, with how often each was noted."""

    def begin(self, pair: Pair) -> None:
        upgrade(pair, NEWER)

    def strike(self, pair: Pair, active: str) -> None:
        pair.groups[active].kill()

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].start()

    def conclude(self, pair: Pair, active: str) -> str:
        check_levels(pair, {OLDER: LEVEL - 1, NEWER: LEVEL})
        for member in MEMBERS:
            lead_to(pair, member)
        pair.until("a remark is refused for the level of the log", lambda: self.is_too_early(pair), RAISED_S)
        upgrade(pair, OLDER)
        start_anew(pair, OLDER)
        pair.until("the log is raised", lambda: levels(pair) == dict.fromkeys(MEMBERS, (LEVEL, LEVEL)), RAISED_S)
        for number in range(2):
            self.note(pair, f"before {number}")
            pair.wait_steady()
            leader, _ = pair.wait_healthy()
            pair.groups[leader].kill()
            self.note(pair, f"after {number}")
            pair.groups[leader].start()
            pair.wait_healthy()
            lead_to(pair, other_of(leader))
        refused(pair, other_of(pair.wait_healthy()[0]))
        self.counts = {member: pair.ask(member, "remarks") for member in MEMBERS}
        return f"the log is at feature level {LEVEL}, with {len(self.noted)} notes"

    def is_too_early(self, pair: Pair) -> bool:
        """False: whoever leads is between two leases."""
        with pytest.raises(NodeRefused) as refused:
            self.note(pair, "too early")
        return f"at feature level {LEVEL - 1}" in str(refused.value)

    def note(self, pair: Pair, text: str) -> None:
        with connect(pair.lines, keys=pair.keys, timeout_s=PATIENCE_S) as client:
            assert client.ask("remark", text=text) == text
        self.noted.append(text)


def of_two_versions(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    fault, said = Mixed(), list[str]()
    monkeypatch.setitem(FAULTS, "mixed", FaultEntry("two versions", lambda _: fault))
    report = Rehearsal("mixed", home, said.append).run(2)
    assert report.held, "\n".join(said)
    assert [one.lost + one.doubled + one.reordered for one in report.rounds] == [0, 0]
    assert all(one.acked > 0 and one.epoch_after > one.epoch_before for one in report.rounds)
    assert len(fault.noted) == 4
    assert fault.counts == dict.fromkeys(MEMBERS, dict.fromkeys(fault.noted, 1))


def of_two_levels(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drill `upgrade`, which needs a version with a level before its own: both members have it, held back."""
    drill = [*ALBIREO, "drill", "upgrade", "--json", "--keep", str(home)]
    for environment, told in ((next_version(), {"held": True}), ({}, {"held": None})):
        ran = subprocess.run(drill, env=os.environ | environment, capture_output=True, check=False)
        answer = json.loads(ran.stdout.splitlines()[-1])
        assert ran.returncode == 0 and answer | told == answer, ran.stderr.decode()


@pytest.mark.parametrize("members", [of_two_levels, of_two_versions])
def test_members_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    members(tmp_path / "drill", monkeypatch)
