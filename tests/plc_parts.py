"""The clock of a simulated PLC, in the hands of a test: what it delays comes when the test says so."""

import asyncio
from typing import Final

import pytest

from albireo.sim.tunnel import pair_area

CYCLE_MS: Final = 3_600_000
"""A delay that no test waits out."""


class PlcCycles:
    """Every simulated PLC in this loop goes by the loop's clock, and is ahead of it by the cycles that have passed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead_s = 0.0
        monkeypatch.setattr(pair_area, "_now", lambda: asyncio.get_running_loop().time() + self._ahead_s)

    def pass_one(self) -> None:
        """What was delayed by a cycle has come."""
        self._ahead_s += CYCLE_MS / 1e3
