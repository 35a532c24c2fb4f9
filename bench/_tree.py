"""A real tree for the benchmarks: nodes as processes with CURVE keys of their own, and programs that load its sites."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

import msgspec
import numpy as np
import psutil
from numpy.typing import NDArray

from albireo.client import BatchRefused, Client, ClientError, QueueFull, SampleProducer, connect
from albireo.drill.ports import KeptPorts
from albireo.drill.process import Group
from albireo.model.access import AccessRole
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.tree.node_row import NodeRow
from albireo.model.value import ValueType
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo
from bench._node import cpu_seconds, resident_bytes

START_S: Final = 90.0
LOOK_S: Final = 0.05
PROGRAM: Final = "bench"


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the tree."""

    node: str
    is_pair: bool = False
    """Two members, and a witness of their own."""
    is_threads: bool = False
    """All its actors share one process."""
    more: str = ""
    """More lines of its part of the topology."""

    @property
    def places(self) -> tuple[str, ...]:
        """What runs for it and has a log: the node itself, or each member."""
        return (f"{self.node}[primary]", f"{self.node}[backup]") if self.is_pair else (self.node,)

    @property
    def witness(self) -> str:
        """Name of its witness; empty: it has none."""
        return f"{_name(self.node)}-witness" if self.is_pair else ""


class NodeTree:
    """A tree whose nodes are started one by one."""

    def __init__(self, directory: Path, nodes: Sequence[TreeNode]) -> None:
        self._directory = directory
        self._nodes = {one.node: one for one in nodes}
        places = [place for one in nodes for place in one.places]
        pairs = [one for one in nodes if one.is_pair]
        self._kept = KeptPorts(len(places) + 3 * len(pairs))
        free = iter([f"tcp://127.0.0.1:{port}" for port in self._kept.numbers])
        self.lines = {place: LineTo(next(free), place) for place in places}
        self._between = {name: next(free) for one in pairs for name in (*one.places, one.witness)}
        """Endpoints of members for each other, and of witnesses."""
        self._groups = {place: self._group(place, "node", "run", "--id", place) for place in places}
        for one in pairs:
            self._groups[one.witness] = self._group(one.witness, "witness", "--name", one.witness)
        self.keys = self._make_keys()
        (directory / "topology.toml").write_text(self._topology(), encoding="utf-8")

    def _make_keys(self) -> Keys:
        directory = self._directory / "keys"
        own = Keys.new(directory / PROGRAM, PROGRAM)
        witnesses = {one.witness for one in self._nodes.values() if one.is_pair}
        names = {one: f"witness:{one}" if one in witnesses else one for one in self._groups}
        rings = [Keys.new(directory / _name(one), known_as) for one, known_as in names.items()]
        introduce(own, *rings, role=AccessRole.ADMIN)
        return Keys.load(directory / PROGRAM)

    def _topology(self) -> str:
        lines = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"']
        for one in self._nodes.values():
            if one.is_pair:
                lines += ["[[witness]]", f'name = "{one.witness}"', f'endpoint = "{self._between[one.witness]}"']
        for one in self._nodes.values():
            lines += ["[[node]]", f'id = "{one.node}"', *self._endpoints(one)]
            if one.is_threads:
                lines += ["[node.runtime]", 'placement = "thread"']
            lines.append(one.more)
        return "\n".join(lines) + "\n"

    def _endpoints(self, one: TreeNode) -> list[str]:
        if not one.is_pair:
            return [f'endpoint = "{self.lines[one.node].endpoint}"']
        members = [
            f'{name} = {{ client = "{self.lines[place].endpoint}", peer = ["{self._between[place]}"] }}'
            for name, place in zip(("primary", "backup"), one.places, strict=True)
        ]
        return [*members, f'voters = ["witness:{one.witness}"]']

    def data(self, place: str) -> Path:
        return self._directory / _name(place)

    def _group(self, place: str, *arguments: str) -> Group:
        where = ["--topology", str(self._directory / "topology.toml"), "--data", str(self.data(place))]
        keys = ["--keys", str(self._directory / "keys" / _name(place))]
        return Group(place, [*arguments, *where, *keys], self._directory / f"{_name(place)}.log")

    def places(self, node: str) -> tuple[str, ...]:
        return self._nodes[node].places

    def start(self, *nodes: str) -> None:
        """Start nodes; a pair begins, and is whole when this returns."""
        pairs = [one for one in map(self._nodes.__getitem__, nodes) if one.is_pair]
        for name in (*(one.witness for one in pairs), *(place for node in nodes for place in self.places(node))):
            self._groups[name].start()
        for one in pairs:
            self.wait_until(f"voter of {one.node}", partial(self._has_begun, one.places[0]))
            self.wait_until(f"whole pair {one.node}", partial(self.is_whole, one.node))

    def is_whole(self, node: str) -> bool:
        """Whether one member of a pair acts and the other one has all that it has; a lone node always is."""
        places = self.places(node)
        return len(places) == 1 or sorted(self._role(place) for place in places) == ["active", "ready"]

    def _has_begun(self, place: str) -> bool:
        with contextlib.suppress(ClientError), connect(self.data(place), is_pinned=True) as client:
            client.ask("pair_init")
            return True
        return False

    def _role(self, place: str) -> str:
        """Empty while it does not answer."""
        with contextlib.suppress(ClientError), connect(self.data(place), is_pinned=True) as client:
            return client.status().role
        return ""

    def stop(self, node: str) -> None:
        for place in self.places(node):
            self._groups[place].stop()

    def client(self, node: str, timeout_s: float = START_S) -> Client:
        return connect([self.lines[place] for place in self.places(node)], keys=self.keys, timeout_s=timeout_s)

    def processes(self, node: str) -> list[psutil.Process]:
        firsts = [psutil.Process(self._groups[place].pid) for place in self.places(node)]
        return [one for first in firsts for one in (first, *first.children(recursive=True))]

    def cpu_s(self, *nodes: str) -> float:
        return sum(cpu_seconds(self.processes(node)) for node in nodes)

    def resident_bytes(self, node: str) -> int:
        return resident_bytes(self.processes(node))

    def core_of(self, node: str) -> psutil.Process:
        """The process of CORE of a lone node; the only one in thread placement."""
        return self.cores_of(node)[0]

    def cores_of(self, node: str) -> list[psutil.Process]:
        """The process of CORE, or of each member's."""
        found = self.processes(node)
        return [one for one in found if one.cmdline()[-1:] == ["core"]] or found[:1]

    def received_bytes(self, node: str) -> int | None:
        """Bytes that came to the door of a node on the connections that there are now; None: nothing here tells."""
        found = shutil.which("ss")
        if found is None:
            return None
        port = self.lines[node].endpoint.rpartition(":")[2]
        said = subprocess.run([found, "-tinH", f"sport = :{port}"], capture_output=True, check=True, text=True).stdout
        return sum(int(one) for one in re.findall(r"bytes_received:(\d+)", said))

    def rows(self, at: str) -> dict[str, NodeRow]:
        """Nodes below as a node sees them."""
        with contextlib.suppress(ClientError), self.client(at, 5.0) as client:
            return {one.node: one for one in client.tree()}
        return {}

    def wait_until(self, what: str, is_so: Callable[[], bool], within_s: float = START_S) -> None:
        """Look until it is so.

        Raises:
            RuntimeError: not in time.
        """
        ends = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > ends:
                tails = "\n".join(one.tail() for one in self._groups.values())
                raise RuntimeError(f"no {what} within {within_s:g} s\n{tails}")
            time.sleep(LOOK_S)

    def wait_until_heard(self, at: str, *nodes: str) -> None:
        """Until a node hears these nodes below it."""

        def is_so() -> bool:
            rows = self.rows(at)
            return all(one in rows and rows[one].stale_since_ns is None for one in nodes)

        self.wait_until(f"sign of {', '.join(nodes)} at {at}", is_so)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes at once: nothing that they keep is needed any more."""
        for group in self._groups.values():
            group.kill()
        self._kept.close()


@contextlib.contextmanager
def load(tree: NodeTree, sites: Sequence[str], items: int, rows: int, period_s: float) -> Iterator[psutil.Process]:
    """A process with a producer at each site; `rows` of its items change each `period_s`, one after the other."""
    lines = {site: tree.lines[site].endpoint for site in sites}
    arguments = json.dumps([lines, str(tree.keys.directory), items, rows, period_s])
    command = "import sys; from bench._tree import change; change(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", command, arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the program that changes items ended")
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def change(arguments: str) -> None:
    """Change items of each site, until somebody ends this process."""
    lines, keys, count, rows, period_s = json.loads(arguments)
    with contextlib.ExitStack() as afterwards:
        producers = []
        for site, endpoint in lines.items():
            client = afterwards.enter_context(connect([LineTo(endpoint, site)], keys=keys, timeout_s=START_S))
            producer = client.producer("plc", items_named("change", count))
            afterwards.push(lambda *_, one=producer: one.close(0))
            producer.offer([batch(np.arange(count))])
            producer.flush(START_S)
            producers.append(producer)
        print("ready", flush=True)
        due, turn = time.monotonic(), 0
        step_s = period_s / len(producers)
        while True:
            at = turn // len(producers) * rows
            producers[turn % len(producers)].offer([batch(np.arange(at, at + rows) % count)])
            producers[turn % len(producers)].wait(0)
            turn, due = turn + 1, due + step_s
            time.sleep(max(0.0, due - time.monotonic()))


def fill(producer: SampleProducer, items: int, samples: int) -> None:
    """Batches of all items as fast as the node takes them, until so many samples are committed."""
    offered = done = 0
    while done < samples // items:
        waits_s = 1.0
        if offered < samples // items:
            with contextlib.suppress(QueueFull):
                offered, waits_s = producer.offer([batch(np.arange(items))]), 0.0
        for receipt in producer.wait(waits_s):
            if isinstance(receipt, BatchRefused):
                raise RuntimeError(f"batch {receipt.batch} was refused")  # noqa: TRY004  # No type is wrong.
            done = receipt.batch


def items_named(name: str, count: int) -> list[DataItem]:
    return [DataItem(name=f"{name}_{number}", value_type=ValueType.FLOAT64) for number in range(count)]


def batch(rows: NDArray[np.intp]) -> SampleBatch:
    """A sample of now for each of these items; nobody but the program stamps it."""
    count = len(rows)
    now = np.full(count, time.time_ns(), np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=rows.astype(np.uint32),
        source_ns=now,
        node_ns=now,
        value=np.random.default_rng().random(count),
        quality=np.zeros(count, np.uint32),
    )


def _name(place: str) -> str:
    """A name for files."""
    return place.replace("/", "-").replace("[", ".").rstrip("]")
