"""One round of a fault as `albireo drill` does it: real processes, CURVE, live load; of three faults in the long form.

`make drill` does every fault; the bounds of the gaps are those of the benchmarks (`bench failover`), not of a test that
shares its machine.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long_form import some
from tests.parts.pair_drill import left_behind
from tests.parts.process_pair import until

pytestmark = [pytest.mark.drill, pytest.mark.slow]

DRILL = [sys.executable, "-c", "from albireo.cli import main; main()", "drill"]


@pytest.mark.parametrize("fault", some(["pause-active", "two-lives", "kill-active"], 3))
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(tmp_path: Path, fault: str) -> None:
    directory = tmp_path / "drill"
    command = [*DRILL, fault, "--rounds", "1", "--json", "--keep", str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    (one,) = answer["rounds"]
    assert answer["fault"] == fault and answer["held"]
    assert one["lost"] == one["doubled"] == one["reordered"] == one["stale_writes"] == 0
    assert one["acked"] > 200
    assert one["gap_s"] > 0
    assert one["epoch_after"] > one["epoch_before"] > 0
    until(lambda: left_behind(directory) == [], lambda: str(left_behind(directory)))
