"""What a name stands for here is told by `topology check` and `doctor`; of `status` see test_status.py."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.site import names as names_module
from albireo.cli.site.checkup import names
from albireo.cli.topology_file import read_topology
from albireo.runtime.link.names import HostNames
from tests.parts.name_server import REFUSED, SILENT, NamesOfSystem

TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
endpoint = "tcp://good.check:5000"
[[node]]
id = "root/north"
endpoint = "tcp://127.0.0.1:5001"
uplink = { dial = ["tcp://silent.check:5000"] }
[[node]]
id = "root/south"
endpoint = "tcp://refused.check:5000"
[[node]]
id = "root/west"
endpoint = "tcp://here.check:5000"
"""


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[NamesOfSystem]:
    monkeypatch.setattr(names_module, "LOOK_S", 0.05)
    monkeypatch.setattr(names_module, "NAMES", HostNames())
    made = NamesOfSystem(monkeypatch)
    made.answers |= {
        "good.check": ("10.0.0.5", "fd00::5"),
        "silent.check": SILENT,
        "refused.check": REFUSED,
        "here.check": ("127.0.1.1",),
    }
    yield made
    made.goes_on.set()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    return tmp_path / "topology.toml"


def test_topology_check_tells_each_name_and_waits_for_none(system: NamesOfSystem, file: Path) -> None:
    told = CliRunner().invoke(cli, ["topology", "check", str(file)])
    assert told.exit_code == 0
    assert told.stdout.splitlines()[1:] == [
        "good.check stands for 10.0.0.5, fd00::5 here",
        "here.check stands for 127.0.1.1 here",
        "refused.check stands for nothing here (Temporary failure in name resolution)",
        "silent.check stands for nothing here (the name server has not answered yet)",
    ]
    written = json.loads(CliRunner().invoke(cli, ["topology", "check", str(file), "--json"]).stdout)
    assert written["names"]["good.check"] == {"addresses": ["10.0.0.5", "fd00::5"], "trouble": ""}


def test_the_doctor_judges_each_name(system: NamesOfSystem, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one.name: one for one in names(read_topology(file).topology)}
    assert {name: one.status for name, one in found.items()} == {
        "name good.check": "good",
        "name here.check": "warning",
        "name refused.check": "warning",
        "name silent.check": "warning",
    }
    assert found["name here.check"].value.endswith("which is this machine, not one called so")
    assert all(one.remedy for one in found.values() if one.status == "warning")
    monkeypatch.setattr(socket, "gethostname", lambda: "here.plant")
    assert {one.status for one in names(read_topology(file).topology) if one.name == "name here.check"} == {"good"}
