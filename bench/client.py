"""The client: what it costs to load, to read one value, and to watch many.

Reads go over TCP with CURVE to a real pair, whose processes share the machine with the client. Watched are 2,000 items
of a producer in a process of its own, all of which change ten times a second.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from albireo.client import Client, connect
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from bench import Case, Progress, Result, case, median, result
from bench._pair import MEMBERS, running_pair

LOADS: Final = 5
READS: Final = 1_000
ITEMS: Final = 2_000
TICK_S: Final = 0.1
WATCH_S: Final = 15.0
LOAD: Final = """
import resource, sys, time
began, used = time.perf_counter(), time.process_time()
from albireo import connect
times = time.perf_counter() - began, time.process_time() - used
print(*times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, int("pyarrow" in sys.modules))
"""
CHANGING: Final = "import sys; from bench.client import change; change(*sys.argv[1:])"


def run(progress: Progress) -> Result:
    cases = loading(progress)
    with tempfile.TemporaryDirectory() as scratch, running_pair(made(Path(scratch) / "pair")) as pair:
        members = ",".join(f"{pair.clients[name]}#{pair.place(name)}" for name in MEMBERS)
        changing = subprocess.Popen([sys.executable, "-c", CHANGING, members, str(pair.keys.directory)])
        try:
            with connect(members, keys=pair.keys) as client:
                cases += [*watching(client, progress), *reading(client, progress)]
        finally:
            changing.terminate()
            changing.wait()
    return result("client", cases)


def made(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    return directory


def loading(progress: Progress) -> list[Case]:
    """A program that loads the client and ends; the first of them leaves the compiled modules, as an install does."""
    progress("loading")
    found = []
    with tempfile.TemporaryDirectory() as compiled:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(1 + LOADS):
            said = subprocess.run(
                [sys.executable, "-c", LOAD],
                env={**kept, "PYTHONPYCACHEPREFIX": compiled},
                capture_output=True,
                check=True,
                text=True,
            ).stdout
            found.append([float(one) for one in said.split()])
    times, used, sizes, arrow = zip(*found[1:], strict=True)
    return [
        case("`from albireo import connect`", "s", median(times), goal="<= 0.25"),
        case("the same, CPU time", "s", median(used)),
        case("memory of a program that did nothing else", "MiB", median(sizes), goal="<= 60"),
        case("Arrow is loaded with it", "of 1", max(arrow), goal="<= 0"),
    ]


def reading(client: Client, progress: Progress) -> list[Case]:
    """One question after the other, while the items go on changing and nothing else is asked."""
    progress(f"{READS} reads")
    times = []
    for _ in range(READS):
        began = time.perf_counter()
        client.read("item_1")
        times.append(1e3 * (time.perf_counter() - began))
    return [
        case("one value read, TCP with CURVE, p50", "ms", float(np.quantile(times, 0.5)), goal="<= 1.5"),
        case("one value read, TCP with CURVE, p99", "ms", float(np.quantile(times, 0.99))),
    ]


def watching(client: Client, progress: Progress) -> list[Case]:
    """Age of each value when the reader has it, and what the client costs, on all its threads."""
    progress(f"watching {ITEMS} items for {WATCH_S:g} s")
    ages: list[float] = []
    count, began, used = 0, 0.0, 0.0
    for changes in client.watch("item_*"):
        now = time.perf_counter()
        if not began and len(changes.readings) >= ITEMS:
            began, used = now, time.process_time()
        elif began:
            count += len(changes.readings)
            if changes.readings:
                ages.append(1e-6 * (time.time_ns() - changes.readings[0].node_ns))
        if began and now - began > WATCH_S:
            break
    seconds = time.perf_counter() - began
    share = 100 * (time.process_time() - used) / seconds
    return [
        case(f"changes of {ITEMS} items at 10 Hz that came", "1/s", count / seconds, goal=">= 19,000"),
        case("age of a change when the reader has it, p50", "ms", float(np.quantile(ages, 0.5))),
        case("age of a change when the reader has it, p99", "ms", float(np.quantile(ages, 0.99)), goal="<= 200"),
        case("CPU of the watching program", "% of a core", share, goal="<= 15"),
    ]


def change(members: str, keys: str) -> None:
    """Change all items ten times a second, until somebody ends this process."""
    items = [DataItem(name=f"item_{number}", value_type=ValueType.FLOAT64) for number in range(ITEMS)]
    ids, quality = np.arange(ITEMS, dtype=np.uint32), np.zeros(ITEMS, np.uint32)
    due = time.monotonic()
    with connect(members, keys=keys) as client, client.producer("bench", items) as producer:
        while True:
            now = np.full(ITEMS, time.time_ns(), np.int64)
            batch = SampleBatch(
                value_type=ValueType.FLOAT64,
                item_id=ids,
                source_ns=now,
                node_ns=now,
                value=np.random.default_rng().random(ITEMS),
                quality=quality,
            )
            producer.offer([batch])
            due += TICK_S
            producer.wait(0)
            time.sleep(max(0.0, due - time.monotonic()))
