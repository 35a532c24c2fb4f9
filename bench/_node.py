"""A real node for the benchmarks, and readings of what it costs."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from albireo.client import Client, ClientError, connect

START_S: Final = 60.0
STOP_S: Final = 30.0


@contextlib.contextmanager
def running_node(topology: Path, data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`albireo node run` in a process of its own; stopped cleanly at the end."""
    with running(data, "node", "run", "--topology", str(topology), "--data", str(data)) as process:
        yield process


@contextlib.contextmanager
def running(data: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs until it is stopped, with `data` as its directory; stopped cleanly at the end."""
    command = [sys.executable, "-c", "from albireo.cli import main; main()", *arguments]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            wait_for_node(process, data)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_node(process: subprocess.Popen[bytes], data: Path) -> None:
    """Until every actor runs."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise RuntimeError(f"the node ended with exit code {process.returncode}")
        actors: Any = []
        with contextlib.suppress(ClientError), connect(data, is_pinned=True) as client:
            actors = client.ask("actors", of="boot", timeout_s=1.0)
        if actors and all(one["state"] == "running" for one in actors):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the node did not run within {START_S:g} s")


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The node's processes."""
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [one.cpu_times() for one in processes]
    return sum(one.user + one.system for one in times)


def resident_bytes(processes: list[psutil.Process]) -> int:
    return sum(one.memory_info().rss for one in processes)


def unshared_bytes(processes: list[psutil.Process]) -> int:
    """What would be free without them: pages that no other process maps."""
    return sum(one.memory_full_info().uss for one in processes)


def longest_turn_ms(client: Client, actor: str = "core") -> tuple[float, float]:
    """Longest turn of an actor in the last ten to twenty seconds: (by its CPU time, by the wall)."""
    actors: Any = client.ask("actors", of="boot")
    one = next(one for one in actors if one["name"] == actor)
    return one["longest_turn_cpu_ns"] / 1e6, one["longest_turn_ns"] / 1e6


def write_topology(directory: Path, *lines: str) -> Path:
    """A node that stands alone, with more lines of its own."""
    path = directory / "topology.toml"
    head = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"', *lines]
    path.write_text("\n".join([*head, "[[node]]", 'id = "root"', 'endpoint = "tcp://127.0.0.1:5000"', ""]))
    return path
