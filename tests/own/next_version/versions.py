"""Processes of the next version, for drills."""

import os
from pathlib import Path
from typing import Final

from albireo.drill.pair import Pair

HERE: Final = Path(__file__).parent
CHECKOUT: Final = HERE.parents[2]


def next_version() -> dict[str, str]:
    """Environment of a process of the next version."""
    path = [str(HERE), str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def upgrade(pair: Pair, member: str) -> None:
    """Let the member be of the next version from its next start on."""
    pair.groups[member].environment |= next_version()
