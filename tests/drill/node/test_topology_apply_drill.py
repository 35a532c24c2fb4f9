"""A changed topology on a node that runs: items come and go without a restart of it; the rest is refused by name."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as line_to
from websockets.typing import Origin

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.client import ClientError, connect
from albireo.runtime.link.keys import Keys, introduce
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

TOPOLOGY = """cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:{door}"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{port}"
  items = "p1.csv"
"""
TABLE = "name,kind,address,type\nco,input,0,float32\nfan,coil,1,\n"
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]


class Site:
    """A node that runs, with its files, and keys for one below. Its device does not answer; its items are known."""

    def __init__(self, home: Path) -> None:
        self.file, self.table, self.data = home / "topology.toml", home / "p1.csv", home / "data"
        self.file.write_text(TOPOLOGY.format(port=free_port(), door=free_port()))
        self.table.write_text(TABLE)
        self.said = home / "said"
        self.north = home / "north"
        rings = [Keys.new(data / "keys", node) for data, node in ((self.data, "root"), (self.north, "root/north"))]
        introduce(*rings)

    def apply(self, *options: str) -> Result:
        arguments = ["topology", "apply", str(self.file), "--data", str(self.data), *options]
        return CliRunner().invoke(cli, arguments)

    def applied(self, *options: str) -> Any:
        result = self.apply(*options, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.splitlines()[-1])

    def items(self, pattern: str = "*") -> set[str]:
        with connect(self.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            return {one.name for one in client.items(pattern)}

    def runs(self) -> dict[str, int]:
        with connect(self.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            actors: Any = client.ask("actors", of="boot")
        return {one["name"]: one["run"] for one in actors}

    def runs_by_its_file(self) -> tuple[bool, str]:
        """Whether `topology show` says so of the node, and by which words it doubts it."""
        arguments = ["topology", "show", str(self.file), "--data", str(self.data), "--json"]
        tree = json.loads(CliRunner().invoke(cli, arguments).stdout.splitlines()[-1])
        health = tree["nodes"][0]["health"]
        doubts = [one.partition(",")[0] for one in health["wrong"] if "another file" in one]
        return health["hash"] == tree["hash"], "".join(doubts)

    def until(self, is_so: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                if is_so():
                    return
            except ClientError:
                pass
            assert time.monotonic() < ends, self.said.read_text()
            time.sleep(0.1)

    @contextlib.contextmanager
    def running(self, node: str, data: Path) -> Iterator[None]:
        """A node by the file as it is now."""
        command = [*PROGRAM, "node", "run", "--id", node, "--topology", str(self.file), "--data", str(data)]
        with self.said.open("ab") as said:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait() == 0

    def below(self) -> list[tuple[str, bool]]:
        """Nodes below, and whether each is heard."""
        with connect(self.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            return [(one.node, one.stale_since_ns is None) for one in client.tree()]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.running("root", site.data):
        site.until(lambda: {"root:co", "root:fan"} <= site.items())
        yield site


def test_items_come_and_go_and_only_their_adapter_starts_anew(site: Site) -> None:
    before = site.runs()
    site.table.write_text(TABLE.replace("fan,coil,1,", "pump,coil,2,"))
    trial = site.applied("--dry-run")
    assert (trial["applied"], trial["started_anew"]) == (False, ["p1"])
    assert site.runs() == before and "root:pump" not in site.items()

    told = site.applied()
    assert told["applied"] and [(one["how"], one["name"]) for one in told["taken"]] == [
        ("removed", "fan"),
        ("added", "pump"),
    ]
    site.until(lambda: "root:pump" in site.items())
    site.until(lambda: site.runs()["comm.p1"] == before["comm.p1"] + 1)
    after = site.runs()
    assert {name: run for name, run in after.items() if name != "comm.p1"} == {
        name: run for name, run in before.items() if name != "comm.p1"
    }
    again = site.applied()
    assert again["taken"] == [] and again["started_anew"] == [], "the node knows what it took up"
    assert again["hash"]["old"] == again["hash"]["new"] == told["hash"]["new"]


def test_changed_limits_hold_as_the_node_runs(site: Site) -> None:
    def fill() -> float:
        with connect(site.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            reading = client.read("root:core/items_fill")
        return float(reading.value or 0)

    before = site.runs()
    site.until(lambda: 0 < fill() < 1)
    site.file.write_text(site.file.read_text() + "[limits]\nitems_max = 1000\n")
    told = site.applied()
    assert told["applied"] and [one["name"] for one in told["taken"]] == ["limits.items_max"]
    site.until(lambda: fill() >= 1)
    assert site.runs() == before, "nobody began anew"


def test_another_zone_holds_for_page_and_history_as_the_node_runs_and_when_it_stands(tmp_path: Path) -> None:
    def by_zone(zone: str) -> None:
        face = f'[[node.face]]\nname = "page"\nkind = "web"\nbind = "{page}"\n'
        site.file.write_text(f'zone = "{zone}"\n{plain}{face}')

    def zone_of_page() -> str:
        with (
            contextlib.suppress(OSError, ConnectionClosed),
            line_to(f"{page}/ws".replace("http", "ws"), origin=page) as line,
        ):
            line.send('{"kind":"begin","token":""}')
            return str(json.loads(line.recv(PATIENCE_S))["zone"])
        return ""

    def status_zone() -> str:
        with connect(site.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            return client.status().zone

    def zone_of_history() -> str:
        result = CliRunner().invoke(
            cli, ["history", "core/turn_ms", "--every", "1d", "--data", str(site.data), "--json"]
        )
        assert result.exit_code == 0, result.output
        return str(json.loads(result.stdout.splitlines()[-1])["zone"])

    site, page = Site(tmp_path), Origin(f"http://127.0.0.1:{free_port()}")
    plain = site.file.read_text()
    by_zone("Europe/Vienna")
    with site.running("root", site.data):
        site.until(lambda: "root:core/turn_ms" in site.items() and zone_of_page() == "Europe/Vienna")
        site.until(lambda: status_zone() == zone_of_history() == "Europe/Vienna")
        before = site.runs()
        by_zone("Mars/Olympus")
        assert site.apply().exit_code == ExitCode.BAD_CONFIGURATION
        by_zone("Asia/Kathmandu")
        told = site.applied()
        assert (told["started_anew"], [one["name"] for one in told["taken"]]) == (["page"], ["zone"])
        site.until(lambda: status_zone() == zone_of_history() == zone_of_page() == "Asia/Kathmandu")
        assert {name for name, run in site.runs().items() if run != before[name]} == {"face.page"}
    assert zone_of_history() == "Asia/Kathmandu"


def test_what_takes_a_restart_is_refused_by_name_and_nothing_else_is_taken_up(site: Site) -> None:
    before = site.runs()
    site.table.write_text(TABLE.replace("fan,coil,1,", "pump,coil,2,"))
    site.file.write_text(site.file.read_text() + "[log]\nkeep_h = 9\n")
    result = site.apply("--json")
    assert result.exit_code == ExitCode.FAILED
    answer = json.loads(result.stdout.splitlines()[-1])
    assert not answer["applied"] and [one["name"] for one in answer["refused"]] == ["log.keep_h"]
    assert "log.keep_h" in answer["error"] and "restart root" in answer["error"]
    site.file.write_text("cluster = 5\n")
    assert site.apply().exit_code == ExitCode.BAD_CONFIGURATION
    assert site.runs() == before and "root:pump" not in site.items()


def test_a_site_below_comes_and_goes_as_the_node_runs(site: Site) -> None:
    before, alone = site.runs(), site.file.read_text()
    site.file.write_text(alone + '[[node]]\nid = "root/north"\n')
    told = site.applied()
    assert [(one["how"], one["node"]) for one in told["taken"]] == [("added", "root/north")]
    site.until(lambda: site.below() == [("root/north", False)])
    with site.running("root/north", site.north):
        site.until(lambda: site.below() == [("root/north", True)])
        site.until(lambda: "root/north:core/topology_differs" in site.items("north:*"))
        site.file.write_text(alone)
        assert site.applied()["applied"]
        site.until(lambda: site.below() == [])
    assert site.runs() == before, "an actor of the node began anew"
