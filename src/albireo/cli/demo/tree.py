"""The demo's tree: a pair at the root, a lone site, and a site that is a pair voted by its PLCs; each with its keys.

    data/primary, data/backup        the members of the root
    data/w1                          the witness
    data/north                       the lone site
    data/south/primary, .../backup   the members of the other one
    data/site                        topology.toml, item tables, and a folder for each tunnel

Whoever reaches the root's addresses from the site in the north goes through the cable, which can be cut.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from albireo.cli.acting import ActingDirectory, status_of
from albireo.cli.demo.cable import Cable
from albireo.cli.demo.processes import LOG, DemoProcesses
from albireo.cli.output import Failure
from albireo.cli.place import MEMBERS
from albireo.cli.view.watch import SHOWN
from albireo.client import Client, ClientError, connect
from albireo.drill.ports import KeptPorts
from albireo.model.position import Position
from albireo.model.settings import Placement
from albireo.model.status import NodeStatus
from albireo.model.topology import Guard
from albireo.model.tree.node_row import NodeRow
from albireo.plant.tunnel.tree_site import WITNESS, PlantNode, write_tree
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.keys import Keys, introduce

ROOT: Final = "root"
NORTH: Final = "root/north"
SOUTH: Final = f"root/{SHOWN}"
SITES: Final = (NORTH, SOUTH)
START_S: Final = 120.0
"""Twenty processes that import numpy, on two busy cores."""
FLUSH_S: Final = 20.0
"""Longest time that the root gets to fetch what the sites have before they are stopped."""
ANSWER_S: Final = 2.0
PAGE_S: Final = 60.0
"""Longest time that the first admin of a page may take to be on record."""
PAUSE_S: Final = 0.1


class DemoNode:
    """A node of the demo: its members by the names of their places, and their data directories."""

    def __init__(self, plan: PlantNode, directory: Path) -> None:
        self.plan = plan
        self.id = plan.id
        places = {f"{plan.id}[{one}]": directory / one for one in MEMBERS} if plan.is_pair else {plan.id: directory}
        self.places = places
        self.acting = ActingDirectory(list(places.values()))
        self.is_begun = not plan.is_pair or (directory / MEMBERS[0] / "log").exists()
        """True: the voters of the pair have their first record."""

    def status(self) -> NodeStatus | None:
        """Status of the acting member; None: none answers."""
        return status_of(self.acting(), timeout_s=ANSWER_S)

    def begin(self) -> None:
        """Give the voters of the pair the first record, once its member answers."""
        if self.is_begun:
            return
        with contextlib.suppress(ClientError, RuntimeFault), _pinned(next(iter(self.places.values()))) as client:
            client.ask("pair_init")
            self.is_begun = True

    def is_ready(self, status: NodeStatus) -> bool:
        """Every PLC is heard, and of a pair both members are in the set."""
        heard = {one.name for one in status.adapters if one.connected}
        is_whole = not self.plan.is_pair or (status.pair is not None and status.pair.members == (0, 1))
        return self.plan.ports.keys() <= heard and is_whole

    def login(self, patience_s: float) -> str:
        """Address of its page, and who logs in there with which password; empty: its admin had one before.

        Both members of a pair write a password down, and the one whose is not on record then takes its file away.
        """
        ends = time.monotonic() + patience_s
        while time.monotonic() < ends:
            files = [file for place in self.places.values() for file in (place / "web").glob("*.first-login")]
            if len(files) < 2 and self._has_people():
                for file in files:
                    url, name, password = file.read_text().split()
                    return f"{url}; log in as {name} with {password}, once"
                break
            time.sleep(PAUSE_S)
        return ""

    def _has_people(self) -> bool:
        with contextlib.suppress(ClientError, RuntimeFault), _pinned(self.acting()) as client:
            return bool(client.people())
        return False

    def end(self) -> Position:
        """End of its log; Position() when nobody answers."""
        status = self.status()
        return Position() if status is None else Position(status.log.epoch, status.log.sequence)


class DemoTree:
    """All nodes and the witness as processes, and the cable of the site in the north."""

    def __init__(self, site: Path, ports: Mapping[str, Mapping[str, int]], data: Path) -> None:
        """`ports`: Modbus TCP ports of the PLCs, by site."""
        self._data, self._kept = data, KeptPorts(16)
        numbers = iter(self._kept.numbers)
        witness, *rest = (f"tcp://127.0.0.1:{next(numbers)}" for _ in range(10))
        above, cabled = [int(one.rpartition(":")[2]) for one in rest[:2]], [next(numbers), next(numbers)]
        pages = tuple(f"http://127.0.0.1:{next(numbers)}" for _ in range(4))
        self.cable = Cable(dict(zip(cabled, above, strict=True)))
        plans = (
            PlantNode(
                id=ROOT,
                label="Control centre",
                clients=(rest[0], rest[1]),
                peers=(rest[2], rest[3]),
                voters=(f"witness:{WITNESS}",),
                pages=pages[:2],
            ),
            PlantNode(
                id=NORTH,
                label="North tunnel",
                clients=(rest[4],),
                ports=ports[NORTH],
                dial=tuple(f"tcp://127.0.0.1:{port}" for port in cabled),
                placement=Placement.THREAD,
            ),
            PlantNode(
                id=SOUTH,
                label="South tunnel",
                clients=(rest[5], rest[6]),
                peers=(rest[7], rest[8]),
                voters=(*(f"plc:{plc}" for plc in ports[SOUTH]), f"witness:{WITNESS}"),
                ports=ports[SOUTH],
                guard=Guard.PLC,
                placement=Placement.THREAD,
                pages=pages[2:],
            ),
        )
        self.nodes = {one.id: DemoNode(one, data / one.id.partition("/")[2]) for one in plans}
        self._topology = write_tree(site, plans, witness)
        self._processes = DemoProcesses()
        _make_keys(self._places())

    @property
    def root(self) -> DemoNode:
        return self.nodes[ROOT]

    def _places(self) -> dict[str, Path]:
        """Directories of all processes, by the names of their keys."""
        nodes = {name: path for node in self.nodes.values() for name, path in node.places.items()}
        return {f"witness:{WITNESS}": self._data / WITNESS} | nodes

    def start(self) -> None:
        self.cable.begin()
        for name, directory in self._places().items():
            kind, _, witness = name.partition(":")
            role = ("witness", "--name", witness) if kind == "witness" else ("node", "run", "--id", name)
            self._processes.start(name, directory, *role, "--topology", str(self._topology))

    def restart_ended(self) -> None:
        """Start ended processes again when it is time; called now and then."""
        self._processes.restart_ended()

    @property
    def is_running(self) -> bool:
        """Whether at least one member of the root runs."""
        return any(self._processes.runs(name) for name in self.root.places)

    def wait_until_connected(self) -> dict[str, int]:
        """Returns the epoch of each node, once all hear their PLCs, both pairs are whole, and the root hears its sites.

        Raises:
            Failure: a process ended, or it took longer than START_S.
        """
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            self._processes.check()
            for node in self.nodes.values():
                node.begin()
            found = {name: status for name, node in self.nodes.items() if (status := node.status()) is not None}
            ready = {name: one.log.epoch for name, one in found.items() if self.nodes[name].is_ready(one)}
            if ready.keys() == self.nodes.keys() and self._are_sites_heard():
                return ready
            time.sleep(PAUSE_S)
        told = "\n".join(self._processes.tail(name) for name in self._places())
        raise Failure(f"the nodes were not ready within {START_S:.0f} s:\n{told}", f"see {self._data}/*/{LOG}")

    def pages(self) -> Iterator[str]:
        """Where the page of each node is that has one, and how to log in there, for people."""
        for node in self.nodes.values():
            if node.plan.pages:
                yield f"the page of {node.id} is at {node.login(PAGE_S) or node.plan.pages[0]}"

    def _are_sites_heard(self) -> bool:
        rows = self.rows()
        return bool(rows) and all(one.stale_since_ns is None and one.complete_to_ns for one in rows.values())

    def rows(self) -> dict[str, NodeRow]:
        """The sites as the root sees them; empty when it does not answer."""
        with contextlib.suppress(ClientError, RuntimeFault), self.at_root() as client:
            return {one.node: one for one in client.tree()}
        return {}

    def hears(self, node: str) -> bool:
        """Whether the root hears the site."""
        row = self.rows().get(node)
        return row is not None and row.stale_since_ns is None

    def at_root(self) -> Client:
        """A client of the member of the root that acts. Raises ClientError, RuntimeFault."""
        return connect(self.root.acting(), timeout_s=ANSWER_S, is_pinned=True)

    def has_fetched(self, node: str, end: Position) -> bool:
        """Whether the root hears the site and has its log up to `end`."""
        row = self.rows().get(node)
        return row is not None and row.stale_since_ns is None and end <= position_of(row)

    def fetch_all(self) -> None:
        """Returns when the root has what the sites have now, or after FLUSH_S."""
        wanted = {site: self.nodes[site].end() for site in SITES}
        ends = time.monotonic() + FLUSH_S
        while not all(self.has_fetched(site, end) for site, end in wanted.items()) and time.monotonic() < ends:
            time.sleep(PAUSE_S)

    def stop(self) -> int:
        """Stop sites, then root, then witness, of a pair the passive member first. The highest exit code."""
        codes = [self._processes.stop(name) for site in (*SITES, ROOT) for name in self._passive_first(site)]
        codes.append(self._processes.stop(f"witness:{WITNESS}"))
        self.cable.end()
        self._kept.close()
        return max(codes)

    def _passive_first(self, node: str) -> Iterator[str]:
        places, acting = self.nodes[node].places, self.nodes[node].acting()
        yield from sorted(places, key=lambda name: places[name] == acting)


def name_of(node: str) -> str:
    """Name of a site below the root, such as `north`."""
    return node.rpartition("/")[2]


def position_of(row: NodeRow) -> Position:
    """Place in a site's log up to which the root has it."""
    epoch, _, sequence = row.position.partition(":")
    return Position(int(epoch), int(sequence)) if sequence else Position()


def _pinned(directory: Path) -> Client:
    return connect(directory, timeout_s=10.0, is_pinned=True)


def _make_keys(places: Mapping[str, Path]) -> None:
    """Throw-away keys, once per demo directory: they lie beside what they protect."""
    made = []
    for name, directory in places.items():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (directory / "keys").exists():
            made.append(Keys.new(directory / "keys", name))
    introduce(*made)
