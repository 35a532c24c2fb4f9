"""An idle node and an idle witness: what they keep in memory, and what it costs a node to do nothing."""

import tempfile
import time
from pathlib import Path
from typing import Final

from bench import Case, Progress, Result, case, result
from bench._node import (
    cpu_seconds,
    family,
    resident_bytes,
    running,
    running_node,
    unshared_bytes,
    write_topology,
)

SETTLE_S: Final = 15.0
MEASURE_S: Final = 15.0
SEALED_S: Final = 90.0
"""By then the history has sealed a first file, and has loaded all that it ever loads."""
PAIR: Final = """
cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"

[[witness]]
name = "w1"
endpoint = "tcp://127.0.0.1:5009"

[[node]]
id = "root"
voters = ["witness:w1"]

[node.primary]
client = "tcp://127.0.0.1:5001"
peer = ["tcp://127.0.0.1:5002"]

[node.backup]
client = "tcp://127.0.0.1:5003"
peer = ["tcp://127.0.0.1:5004"]
"""


def run(progress: Progress) -> Result:
    return result("idle", [*_threads(progress), _processes(progress), *_witness(progress)])


def _threads(progress: Progress) -> list[Case]:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        topology = write_topology(directory, "[runtime]", 'placement = "thread"')
        with running_node(topology, directory / "data") as node:
            progress(f"an idle node, thread placement, {SETTLE_S + MEASURE_S:g} s")
            time.sleep(SETTLE_S)
            processes = family(node)
            before = cpu_seconds(processes)
            time.sleep(MEASURE_S)
            percent = (cpu_seconds(processes) - before) / MEASURE_S * 100
            resident = resident_bytes(processes) / 2**20
    return [
        case("resident memory, thread placement, with the host adapter", "MiB", resident, goal="<= 200"),
        case("CPU of one core, thread placement, with the host adapter", "%", percent),
    ]


def _processes(progress: Progress) -> Case:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with running_node(write_topology(directory), directory / "data") as node:
            progress(f"an idle node, process placement, {SEALED_S:g} s")
            time.sleep(SEALED_S)
            unshared = unshared_bytes(family(node)) / 2**20
    return case("unshared memory, five processes, with the host adapter", "MiB", unshared, goal="<= 150")


def _witness(progress: Progress) -> list[Case]:
    with tempfile.TemporaryDirectory() as scratch:
        topology, data = Path(scratch) / "topology.toml", Path(scratch) / "data"
        topology.write_text(PAIR)
        with running(data, "witness", "--name", "w1", "--topology", str(topology), "--data", str(data)) as witness:
            progress(f"an idle witness, {SETTLE_S:g} s")
            time.sleep(SETTLE_S)
            processes = family(witness)
            unshared, resident = unshared_bytes(processes) / 2**20, resident_bytes(processes) / 2**20
    return [
        case("unshared memory, witness", "MiB", unshared, goal="<= 30"),
        case("resident memory, witness: with the pages of libraries", "MiB", resident),
    ]
