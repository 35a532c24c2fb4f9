"""The page: how old a change is when a page has it, and what many pages cost the face and CORE.

A real node with its face, a producer of 200 items that change ten times a second, and pages as WebSockets in a process
of their own: one, then 200 that look at the same; then real browsers (`_browser.py`). All share the machine.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from albireo.client import Client, connect
from albireo.drill.ports import KeptPorts
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from bench import Case, Progress, Result, case, result
from bench._browser import cases as browser_cases
from bench._node import family, running_node

ITEMS: Final = 200
PAGES: Final = 200
MEASURED_S: Final = 15.0
TICK_S: Final = 0.1
PUTS: Final = 400
TOPOLOGY: Final = """cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "root"
[[node.face]]
name = "page"
kind = "web"
bind = "{url}"
"""
LOOKING: Final = "import sys; from bench.page import look; look(*sys.argv[1:])"
CHANGING: Final = "import sys; from bench.page import change; change(*sys.argv[1:])"


def run(progress: Progress) -> Result:
    with KeptPorts(1) as kept, tempfile.TemporaryDirectory() as scratch:
        url = f"http://127.0.0.1:{kept.numbers[0]}"
        topology, data = Path(scratch) / "plant.toml", Path(scratch) / "data"
        topology.write_text(TOPOLOGY.format(url=url))
        with running_node(topology, data) as node, _child(CHANGING, str(data)), connect(data, timeout_s=60.0) as client:
            parts = {one.cmdline()[-1]: one for one in family(node) if len(one.cmdline()) > 2}
            face, core = parts["face.page"], parts["core"]
            found = _measured(client, url, face, core, progress)
    with tempfile.TemporaryDirectory() as scratch:
        return result("page", [*found, *browser_cases(Path(scratch), progress)])


def _measured(client: Client, url: str, face: psutil.Process, core: psutil.Process, progress: Progress) -> list[Case]:
    progress(f"{ITEMS} items at 10 Hz, a client")
    watched = _watched(client)
    progress(f"{PUTS} puts, no page")
    quiet = _put_times(client)
    found = {}
    for count in (1, PAGES):
        progress(f"{count} pages")
        with _child(LOOKING, url, str(count), capture=True) as looking:
            _until_said(looking, "all there")
            before = [_cpu_s(one) for one in (face, core)]
            began = time.perf_counter()
            said = _until_said(looking, "ages")
            seconds = time.perf_counter() - began
            spent = [(_cpu_s(one) - was) / seconds for one, was in zip((face, core), before, strict=True)]
            puts = _put_times(client) if count > 1 else []
            found[count] = (json.loads(said), spent, puts, face.memory_info().rss / 2**20)
    (ages, (face_1, core_1), _, _), (many, (face_n, core_n), puts, size) = found[1], found[PAGES]
    return [
        case("age of a change at a page, p50, beside a client", "ms", _at(ages, 0.5), _at(watched, 0.5), "<= 3"),
        case("age of a change at a page, p99, beside a client", "ms", _at(ages, 0.99), _at(watched, 0.99), "<= 4"),
        case(f"the same with {PAGES} pages, p50", "ms", _at(many, 0.5), _at(watched, 0.5)),
        case(f"the same with {PAGES} pages, p99", "ms", _at(many, 0.99), _at(watched, 0.99)),
        case("CPU of the face, one page", "% of a core", 100 * face_1),
        case(
            "CPU of the face for each further page", "% of a core", 100 * (face_n - face_1) / (PAGES - 1), goal="<= 1"
        ),
        case(f"CPU of the face, {PAGES} pages", "% of a core", 100 * face_n, goal="<= 100"),
        case(f"memory of the face, {PAGES} pages", "MiB", size, goal="<= 300"),
        case(f"CPU of CORE, {PAGES} pages beside one", "% of a core", 100 * core_n, 100 * core_1, "<= 1.1"),
        case(f"commit p99, {PAGES} pages beside none", "ms", _at(puts, 0.99), _at(quiet, 0.99), "<= 1.2"),
    ]


def _at(values: list[float], share: float) -> float:
    return float(np.quantile(values, share))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _watched(client: Client) -> list[float]:
    """Ages at a client of changes of the same items, in ms."""
    ages: list[float] = []
    ends = time.monotonic() + MEASURED_S
    for changes in client.watch("item_*", timeout_s=1.0):
        ages += [1e-6 * (time.time_ns() - changes.readings[0].node_ns)] if changes.readings else []
        if time.monotonic() > ends:
            break
    return ages[5:]


def _put_times(client: Client) -> list[float]:
    """Times of puts that are durable, one in flight, in ms."""
    times = []
    with client.producer("commits", [DataItem(name="commit", value_type=ValueType.FLOAT64)]) as producer:
        for number in range(PUTS):
            began = time.perf_counter()
            producer.offer([_batch(1, float(number))])
            producer.flush(10.0)
            times.append(1e3 * (time.perf_counter() - began))
    return times


def _batch(count: int, value: float) -> SampleBatch:
    now = np.full(count, time.time_ns(), np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.arange(count, dtype=np.uint32),
        source_ns=now,
        node_ns=now,
        value=np.full(count, value),
        quality=np.zeros(count, np.uint32),
    )


def change(data: str) -> None:
    """Change all items ten times a second, until somebody ends this process. The time of a value is its own."""
    items = [DataItem(name=f"item_{number}", value_type=ValueType.FLOAT64) for number in range(ITEMS)]
    due = time.monotonic()
    with connect(data, timeout_s=60.0) as client, client.producer("bench", items) as producer:
        while True:
            producer.offer([_batch(ITEMS, time.time() % 1000)])
            due += TICK_S
            time.sleep(max(0.0, due - time.monotonic()))


def look(url: str, count: str) -> None:
    """Open pages, and print the ages of what one of them is told."""
    asyncio.run(_look(url, int(count)))


async def _look(url: str, count: int) -> None:
    import websockets

    address = url.replace("http", "ws", 1) + "/ws"
    async with contextlib.AsyncExitStack() as stack:
        lines = []
        for _ in range(count):
            line = await stack.enter_async_context(websockets.connect(address, origin=url, max_size=None))  # type: ignore[arg-type]
            await line.send(json.dumps({"kind": "begin", "patterns": ["root:item_*"]}))
            await line.recv()
            lines.append(line)
        print("all there", flush=True)
        taking = [asyncio.ensure_future(_take(line)) for line in lines[1:]]
        ages: list[float] = []
        ends = time.monotonic() + MEASURED_S
        while time.monotonic() < ends:
            word = json.loads(await lines[0].recv())
            if word["kind"] == "view" and word.get("values"):
                ages.append(1e3 * time.time() - word["values"][0][3])
        print(json.dumps(ages[5:]), flush=True)
        await asyncio.gather(_take(lines[0]), *taking)  # Until this process is ended.


async def _take(line: object) -> None:
    while True:
        await line.recv()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _child(code: str, *arguments: str, capture: bool = False) -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE if capture else None, text=True
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def _until_said(child: "subprocess.Popen[str]", what: str) -> str:
    """A line of the child."""
    assert child.stdout is not None
    said = child.stdout.readline()
    if not said:
        raise RuntimeError(f"the pages ended before they said {what}")
    return said
