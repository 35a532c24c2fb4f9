"""One round of each drill in which a pair of a tree takes over, on real processes."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from albireo.drill.tree.shapes import SHAPES
from tests.long_form import IS_LONG

pytestmark = [pytest.mark.drill, pytest.mark.slow]

DRILL = [sys.executable, "-c", "from albireo.cli import main; main()", "drill"]


@pytest.mark.parametrize("fault", SHAPES if IS_LONG else ["stale-parent", "pairs-everywhere"])
def test_one_round_holds(tmp_path: Path, fault: str) -> None:
    directory = tmp_path / "drill"
    command = [*DRILL, fault, "--rounds", "1", "--json", "--keep", str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    (one,) = answer["rounds"]
    assert (answer["fault"], answer["held"]) == (fault, True)
    assert one["acked"] > 0 and one["orders"] > 0 and one["verified"] > 0
    assert not [found for found in psutil.process_iter(["cmdline"]) if str(directory) in str(found.info["cmdline"])]
