"""The everyday commands at a lone node with keys, from a network namespace of their own.

One node and one PLC for all of it: each test takes up where the one before left the plant.
"""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.drill.plcs import STAMP_ADDRESS as PLAIN_REGISTER
from albireo.drill.plcs import Plcs
from albireo.model.access import AccessRole, RoleGrant
from albireo.runtime import Keys
from albireo.runtime.link.keys import introduce
from tests.parts.far_desk import PROGRAM, FarDesk, Said, said
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ANNA, LOOKER, STRANGER = "anna@desk", "looker@desk", "stranger@desk"
TABLE = "name,kind,address,type,writable,minimum,maximum,hi,severity"
HIGH, LOW = 60, 7


class LonePlant:
    """The node, the PLC behind it, and the desk from which it is asked."""

    def __init__(self, home: Path, desk: FarDesk, plc_port: int) -> None:
        self.home, self.desk = home, desk
        port, self.deaf_port = free_ports(2)
        self.at = f"tcp://{desk.address}:{port}"
        self.topology = home / "plant.toml"
        self.topology.write_text(
            f"""cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "root"
endpoint = "{self.at}"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{plc_port}"
  items = "out.csv"
  poll_ms = 200
"""
        )
        (home / "out.csv").write_text(f"{TABLE}\nout,holding,{PLAIN_REGISTER},uint16,true,0,100,50,700\n")
        self.keys = {name: Keys.new(self.key_directory(name), name) for name in ("root", ANNA, LOOKER, STRANGER)}
        introduce(self.keys["root"], self.keys[ANNA], self.keys[LOOKER], role=AccessRole.OPERATE)
        self.keys["root"].trust(LOOKER, self.keys[LOOKER].public, RoleGrant(AccessRole.VIEW))
        self.keys[STRANGER].trust("root", self.keys["root"].public)
        command = ["node", "run", "--topology", str(self.topology), "--data", str(home / "data")]
        with (home / "said").open("wb") as log:
            self.node = subprocess.Popen([*PROGRAM, *command], env=desk.environment, stdout=log, stderr=log)

    def key_directory(self, name: str) -> Path:
        return self.home / "data" / "keys" if name == "root" else self.home / "keys" / name

    def as_(self, name: str) -> list[str]:
        return ["--at", self.at, "--keys", str(self.key_directory(name))]

    def run(self, *arguments: str) -> Said:
        return self.desk.run(*arguments, *self.as_(ANNA))

    def done(self, *arguments: str) -> Any:
        found = self.run(*arguments)
        assert found.code == 0, found
        return found.answer

    def cases_of_out(self) -> list[Any]:
        """A busy machine has cases of its own beside it."""
        return [one for one in self.done("cases", "list")["cases"] if one["item"] == "root:out"]

    def until(self, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.node.poll() is None and time.monotonic() < ends, (self.home / "said").read_text()[-5_000:]

    def is_polled(self) -> bool:
        found = self.run("items", "out")
        return found.code == 0 and found.answer["items"][0]["quality_name"] == "Good"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LonePlant]:
    if objection := FarDesk.objection():
        pytest.skip(objection)
    home = tmp_path_factory.mktemp("plant")
    plcs = Plcs("127.0.0.1")
    plcs.begin()
    try:
        with FarDesk(home / "desk") as desk:
            made = LonePlant(home, desk, plcs.ports["p2"])
            try:
                made.until(made.is_polled)
                yield made
            finally:
                made.node.terminate()
                made.node.wait()
    finally:
        plcs.end()


def test_a_day_at_the_desk(plant: LonePlant) -> None:
    assert plant.done("status")["node"] == "root"
    assert [one["name"] for one in plant.done("items", "out")["items"]] == ["root:out"]
    receipt = plant.done("write", "out", str(HIGH), "--reason", "test")
    assert (receipt["outcome"], receipt["read_back"]) == ("verified", HIGH)
    plant.until(lambda: bool(plant.done("items", "out")["items"][0]["value"] == HIGH))
    shown = {one["item"]: one["value"] for one in plant.done("watch")["items"]}
    assert shown["root:out"] == HIGH
    plant.until(lambda: bool(plant.cases_of_out()))
    (case,) = plant.cases_of_out()
    (acked,) = plant.done("cases", "ack", str(case["case_id"]), "--comment", "seen", "--user", "anna")["cases"]
    assert (acked["is_acked"], acked["actor"], acked["comment"]) == (True, "anna", "seen")
    (listed,) = plant.cases_of_out()
    assert (acked | {"item": "root:out"}).items() <= listed.items()
    plant.until(lambda: HIGH in [row["value"] for row in plant.done("history", "out", "--aggregate", "raw")["rows"]])
    averages = plant.done("history", "out", "--every", "1s")
    assert (averages["item"], averages["aggregate"]) == ("root:out", "average")
    plant.until(lambda: "write_ended" in {one["action"] for one in plant.done("events", "--kind", "audit")["events"]})
    told = plant.done("events")["events"]
    assert {one["principal"] for one in told if one["action"] == "write"} == {ANNA}
    assert "root:out" in {one["item"] for one in told if one["kind"] == "case"}


def test_every_command_says_what_it_does_beside_the_node(plant: LonePlant) -> None:
    def beside(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, [*arguments, "--data", str(plant.home / "data"), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.splitlines()[-1])

    for arguments in (["status"], ["items", "out"], ["cases", "list"], ["history", "out"], ["events"], ["watch"]):
        here, far = beside(*arguments), plant.done(*arguments)
        of_boot = {"actors"} if arguments == ["status"] else set()
        assert here.keys() - of_boot == far.keys(), "boot speaks with programs of its own machine only"
    assert [one for one in beside("cases", "list")["cases"] if one["item"] == "root:out"] == plant.cases_of_out()


def test_the_node_is_named_by_topology_environment_and_site(plant: LonePlant) -> None:
    keys = str(plant.key_directory(ANNA))
    desk, topology = plant.desk, str(plant.topology)
    by_option = desk.run("items", "out", "--topology", topology, "--id", "root", "--keys", keys)
    by_variable = desk.run("items", "out", ALBIREO_AT=plant.at, ALBIREO_KEYS=keys)
    assert by_option.code == by_variable.code == 0, (by_option, by_variable)
    assert desk.run("site", "add", "plant", "--topology", topology, "--id", "root", "--keys", keys).code == 0
    for arguments in (["events"], ["history", "out"], ["write", "out", str(LOW)]):
        found = desk.run(*arguments)
        assert (found.code, "site plant is meant" in found.talk) == (0, True), found
    assert desk.run("site", "remove", "plant").code == 0


@contextlib.contextmanager
def somebody_else(address: str, port: int) -> Iterator[str]:
    """A listener that is no node: it takes connections and says nothing that a node would."""
    with socket.create_server((address, port)):
        yield f"tcp://{address}:{port}"


def test_who_is_not_let_in_is_told_why_and_what_to_do(plant: LonePlant) -> None:
    """At once, for each waits as long as a node may take."""
    with somebody_else(plant.desk.address, plant.deaf_port) as deaf:
        anna = ["--keys", str(plant.key_directory(ANNA)), "--json"]
        begun = {
            "stranger": plant.desk.begin("status", *plant.as_(STRANGER), "--json"),
            "no keys": plant.desk.begin("status", "--at", plant.at, "--json"),
            "wrong name": plant.desk.begin("status", "--at", f"{plant.at}#nobody", *anna),
            "no node": plant.desk.begin("status", "--at", deaf, *anna),
            "nobody": plant.desk.begin("events", "--at", f"tcp://{plant.desk.address}:9", *anna),
            "looker": plant.desk.begin("write", "out", "8", *plant.as_(LOOKER), "--json"),
        }
        found = {name: said(process) for name, process in begun.items()}
    stranger = found["stranger"]
    assert stranger.code == 69, stranger
    assert f"albireo keys trust {STRANGER} {plant.keys[STRANGER].public}" in stranger.answer["remedy"]
    assert (found["no keys"].code, "--keys" in found["no keys"].answer["remedy"]) == (2, True), found["no keys"]
    assert (found["wrong name"].code, "keys trust 'nobody'" in found["wrong name"].answer["remedy"]) == (69, True)
    assert (found["no node"].code, "is it a node?" in found["no node"].answer["remedy"]) == (69, True), found["no node"]
    assert (found["nobody"].code, "start the node" in found["nobody"].answer["remedy"]) == (69, True), found["nobody"]
    assert (found["looker"].code, "needs the role operate" in found["looker"].answer["error"]) == (1, True)
    assert "albireo access grant" in found["looker"].answer["remedy"], found["looker"]
