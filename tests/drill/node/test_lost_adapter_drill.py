"""Adapters on real processes: killed in a loop, stopped in a loop, never able to start. Each is a case that says which.

Method: one node with adapters for its own machine; whoever watches their process ids kills or stops each new one.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.client import Client, ClientError, connect
from albireo.model.item import Condition
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()", "node", "run"]
TOPOLOGY = """cluster = "11111111-2222-3333-4444-555555555555"
[[node]]
id = "root"
[[node.adapter]]
name = "killed"
kind = "host"
[[node.adapter]]
name = "stopped"
kind = "host"
[[node.adapter]]
name = "broken"
kind = "host"
guard = "stamp"  # An adapter of this kind has none, so it ends at its start.
"""


class Pest(threading.Thread):
    """Sends each new process of an actor a signal, until it is told to end."""

    def __init__(self, data: Path, actor: str, number: signal.Signals) -> None:
        super().__init__(name=f"pest of {actor}")
        self._data = data
        self._actor = actor
        self._number = number
        self._is_over = threading.Event()
        self.pids: list[int] = []

    def run(self) -> None:
        with connect(self._data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            while not self._is_over.is_set():
                pid = next(one["pid"] for one in actors(client) if one["name"] == self._actor)
                if pid and pid not in self.pids:
                    self.pids.append(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, self._number)
                self._is_over.wait(0.02)

    def end(self) -> None:
        self._is_over.set()
        self.join(PATIENCE_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[-1], signal.SIGCONT)


def actors(client: Client) -> list[dict[str, Any]]:
    found: Any = client.ask("actors", of="boot")
    rows: list[dict[str, Any]] = found
    return rows


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    topology, data = tmp_path / "topology.toml", tmp_path / "data"
    topology.write_text(TOPOLOGY)
    with (tmp_path / "node.log").open("wb") as said:
        node = subprocess.Popen([*PROGRAM, "--topology", str(topology), "--data", str(data)], stdout=said, stderr=said)
    try:
        yield data
    finally:
        node.terminate()
        node.wait(PATIENCE_S)


def until(data: Path, holds: Callable[[Client], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        with contextlib.suppress(ClientError), connect(data, timeout_s=2.0, is_pinned=True) as client:
            while time.monotonic() < ends:
                if holds(client):
                    return
                time.sleep(0.05)  # A real node in other processes: nothing else tells.
    raise AssertionError("waited in vain")


def lost(client: Client) -> dict[str, tuple[bool, str]]:
    """Activity and message of each case "device lost", by item."""
    found: Any = client.ask("cases")
    return {
        case["item"]: (case["is_active"], case.get("message", ""))
        for case in found
        if case["condition"] == Condition.DEVICE_LOST
    }


def runs(client: Client, *names: str) -> bool:
    said = {one.item.name: one.reading.value for one in client.items("*/running")}
    return all(said.get(f"{name}/running") is True for name in names)


def test_an_adapter_that_is_killed_stopped_or_unable_to_start_is_a_case_that_says_so_and_ends(data: Path) -> None:
    until(data, lambda client: runs(client, "killed", "stopped"))
    pests = [
        Pest(data, "comm.killed", signal.SIGKILL),
        Pest(data, "comm.stopped", signal.SIGSTOP),
    ]
    for pest in pests:
        pest.start()
    found: dict[str, tuple[bool, str]] = {}

    def are_told(client: Client) -> bool:
        """All three in one look: one that was left alone for a while, because its pest stood still, is none then."""
        found.clear()
        found.update(lost(client))
        return len(found) == 3 and all(is_active for is_active, _ in found.values())

    try:
        until(data, are_told)
    finally:
        for pest in pests:
            pest.end()
    messages = {name: found[f"root:{name}/running"][1] for name in ("killed", "stopped", "broken")}
    assert messages["killed"].startswith("restarts in a loop")
    assert "SIGKILL" in messages["killed"]
    assert messages["stopped"].startswith("hangs")
    assert messages["broken"].startswith("never started")
    assert "guard" in messages["broken"]
    until(data, lambda client: runs(client, "killed", "stopped"))
    with connect(data, is_pinned=True) as client:
        assert lost(client)["root:broken/running"][0]
        assert not any(is_active for item, (is_active, _) in lost(client).items() if "broken" not in item)
