"""Releases: one member runs the last release and the other this version, and whoever leads is killed.

    each round     the holder ends at once; the member of the other release takes over, so two rounds kill each once
    the last one   besides, the member of the last release is stopped and started with this version on the same store

`ALBIREO_LAST_RELEASE` names the folder into which the wheel of the last release was installed (`make last-release`).
On the module path of that member it comes before this version.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import albireo
from albireo.drill.fault.fault import Fault
from albireo.drill.ground import DrillError, Ground
from albireo.drill.pair import MEMBERS, Pair
from albireo.drill.process import STARTER as THIS_STARTER

VARIABLE: Final = "ALBIREO_LAST_RELEASE"
LAST_STARTER: Final = "albireo.cli.tied"
"""Module of the last release that runs a command and ends with whoever started it."""
OLDER: Final = MEMBERS[0]
"""The member that runs the last release."""


class LastRelease(Ground):
    """A ground on which the last release is installed beside this version."""

    @staticmethod
    def objection() -> str:
        if VARIABLE in os.environ and (Path(os.environ[VARIABLE]) / "albireo").is_dir():
            return ""
        return (
            f"{VARIABLE} names no folder with the last release: `make last-release` makes one, out of the git history"
        )


class Releases(Fault):
    """See the module."""

    def begin(self, pair: Pair) -> None:
        group = pair.groups[OLDER]
        group.environment["PYTHONPATH"] = os.environ[VARIABLE]
        group.starter = LAST_STARTER
        asked = [sys.executable, "-P", "-c", "import albireo; print(albireo.__version__)"]
        said = subprocess.run(asked, env=os.environ | group.environment, capture_output=True, text=True, check=False)
        if said.returncode or said.stdout.strip() == albireo.__version__:
            raise DrillError(f"{os.environ[VARIABLE]} is no earlier release: {said.stdout}{said.stderr}")

    def strike(self, pair: Pair, active: str) -> None:
        pair.groups[active].kill()

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].start()

    def conclude(self, pair: Pair, active: str) -> str:
        group = pair.groups[OLDER]
        if group.stop() != 0:
            raise DrillError(f"{OLDER} did not stop in order\n{pair.tails()}")
        del group.environment["PYTHONPATH"]
        group.starter = THIS_STARTER
        group.start()
        pair.wait_healthy()
        return f"{OLDER} goes on with this version, on the store that the last release wrote"
