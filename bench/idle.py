"""An idle node in thread placement: what it keeps in memory, and what it costs to do nothing."""

import tempfile
import time
from pathlib import Path
from typing import Final

from bench import Progress, Result, case, result
from bench._node import cpu_seconds, family, resident_bytes, running_node, write_topology

SETTLE_S: Final = 15.0
MEASURE_S: Final = 15.0


def run(progress: Progress) -> Result:
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
    return result(
        "idle",
        [
            case("resident memory, thread placement, with the host adapter", "MiB", resident, goal="<= 200"),
            case("CPU of one core, thread placement, with the host adapter", "%", percent),
        ],
    )
