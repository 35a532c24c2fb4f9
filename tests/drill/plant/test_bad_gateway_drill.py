"""One round of `albireo drill bad-gateway`: a real node at gateways whose units misbehave."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from albireo.drill.unruly import DEVICES
from tests.parts.pair_drill import left_behind
from tests.parts.process_pair import until

pytestmark = [pytest.mark.crowd, pytest.mark.drill, pytest.mark.slow]

DRILL = [sys.executable, "-c", "from albireo.cli import main; main()", "drill", "bad-gateway"]


def test_units_that_misbehave_cost_their_neighbours_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "drill"
    command = [*DRILL, "--rounds", "1", "--json", "--keep", str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    (one,) = answer["rounds"]
    assert (answer["fault"], answer["held"], one["restarts"]) == ("bad-gateway", True, 0)
    assert {device["device"] for device in one["devices"]} == set(DEVICES)
    assert {device["wrong"] + device["not_good"] + device["untrue"] for device in one["devices"]} == {0}
    until(lambda: left_behind(directory) == [], lambda: str(left_behind(directory)))
