"""One round of a drill, by the command that people give."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psutil

DRILL: Final = [sys.executable, "-c", "from albireo.cli import main; main()", "drill"]


def one_round(directory: Path, fault: str) -> dict[str, Any]:
    """Figures of a round that held and left no process behind."""
    command = [*DRILL, fault, "--rounds", "1", "--json", "--keep", str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    (one,) = answer["rounds"]
    assert (answer["fault"], answer["held"]) == (fault, True)
    assert not [found for found in psutil.process_iter(["cmdline"]) if str(directory) in str(found.info["cmdline"])]
    assert isinstance(one, dict)
    return one
