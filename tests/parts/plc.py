"""Simulated PLCs in the hands of a test: their delays end when it says so, and they may stand still for a second."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from albireo.plant.tunnel.plc import pair_area
from albireo.plant.tunnel.site import write_site

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


def patient_site(directory: Path, ports: Mapping[str, int]) -> Path:
    """The demo's topology, with time limits that a PLC which stands still does not reach."""
    topology = write_site(directory, ports)
    text = topology.read_text()
    assert "timeout_ms = 1000\n" in text
    topology.write_text(text.replace("timeout_ms = 1000\n", "timeout_ms = 30000\n  dead_time_ms = 60000\n"))
    return topology
