"""`albireo topology` and `albireo doctor` on files and on this machine."""

import json
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.findings import Finding
from albireo.cli.site.checkup import disk, ports, sync_latency
from albireo.cli.site.device_look import devices
from albireo.cli.site.survey import rows_of, write_files
from albireo.cli.topology_file import read_topology
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.modbus.guessing import Guess
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import Survey
from albireo.field.offered import KnownKinds
from albireo.runtime.text_reader import TextReader
from tests.parts.port import free_port

TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:{port}"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{device}"
  items = "p1.csv"
"""
TABLE = "name,kind,address,type,hi,lo,unit\nco_1,input,0,float32,70,,ppm\nfan_1,coil,3,,,,\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "topology.toml").write_text(TOPOLOGY.format(port=5000, device=502))
    (tmp_path / "p1.csv").write_text(TABLE)
    return tmp_path


def test_a_good_topology_is_told_with_its_counts(site: Path) -> None:
    result = CliRunner().invoke(cli, ["topology", "check", str(site / "topology.toml"), "--json"])
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert (answer["valid"], answer["nodes"], answer["adapters"]) == (True, {"root": 2}, 1)
    assert re.fullmatch("[0-9a-f]{64}", answer["hash"])
    (site / "topology.toml").write_text("# Another form.\n" + (site / "topology.toml").read_text())
    told = CliRunner().invoke(cli, ["topology", "check", str(site / "topology.toml")])
    assert f"hash {answer['hash'][:12]}." in told.stdout


def test_a_wrong_topology_exits_with_78_and_gives_every_mistake(site: Path) -> None:
    (site / "p1.csv").write_text(TABLE.replace("70,,", "70,80,").replace("coil,3", "coil,x"))
    result = CliRunner().invoke(cli, ["topology", "check", str(site / "topology.toml"), "--json"])
    assert result.exit_code == 78
    mistakes = json.loads(result.stdout)["mistakes"]
    assert [(one["file"], one["line"], one["key_path"]) for one in mistakes] == [
        ("p1.csv", 2, "hi"),
        ("p1.csv", 3, "address"),
    ]
    assert "p1.csv:3" in result.stderr and "What to do" in result.stderr


@pytest.mark.parametrize("name", ["nothing.toml", "."])
def test_a_file_that_is_none_exits_with_78(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(cli, ["topology", "check", str(tmp_path / name)])
    assert result.exit_code == 78
    assert "cannot read" in result.stderr


def test_the_modbus_adapter_judges_its_rows_and_bits_of_one_register_may_share_it(site: Path) -> None:
    table = "name,kind,address,type,bit\na,holding,1,bool,0\nb,holding,1,bool,1\nc,holding,1,float32,\nd,holding,2,,\n"
    (site / "p1.csv").write_text(table)
    loaded = load_topology("topology.toml", TextReader(site), KnownKinds())
    assert isinstance(loaded, LoadedTopology)
    assert [(one.line, one.key_path) for one in loaded.warnings] == [(5, "address")]


def test_an_address_as_manuals_number_them_is_told_with_what_is_meant(site: Path) -> None:
    """A warning: devices have such protocol addresses too. One beyond all addresses is a mistake, with that hint."""
    (site / "p1.csv").write_text("name,kind,address\na,holding,40001\nb,input,30011\nc,holding,40001\nd,coil,40001\n")
    result = CliRunner().invoke(cli, ["topology", "check", str(site / "topology.toml"), "--json"])
    assert result.exit_code == 0
    told = [one for one in json.loads(result.stdout)["mistakes"] if "manual" in one["text"]]
    assert [(one["line"], one["key_path"]) for one in told] == [(2, "address")]
    assert "(and 2 more rows)" in told[0]["text"] and "write 0" in told[0]["remedy"]
    (site / "p1.csv").write_text("name,kind,address\na,holding,400001\n")
    result = CliRunner().invoke(cli, ["topology", "check", str(site / "topology.toml"), "--json"])
    assert result.exit_code == 78 and "400001 is kind holding, address 0" in result.stdout


def test_without_a_device_the_first_topology_watches_this_machine(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["topology", "new", "--out", str(tmp_path / "site"), "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["items"] == 0
    (node,) = read_topology(tmp_path / "site" / "topology.toml").topology.node
    assert [adapter.kind for adapter in node.adapter] == ["host"]


def test_files_that_are_there_are_not_overwritten_unless_told(site: Path) -> None:
    before = (site / "topology.toml").read_text()
    assert CliRunner().invoke(cli, ["topology", "new", "--out", str(site)]).exit_code == 1
    assert (site / "topology.toml").read_text() == before
    assert CliRunner().invoke(cli, ["topology", "new", "--out", str(site), "--force"]).exit_code == 0
    with pytest.raises(Exception, match="overwritten"):
        write_files(site, [], overwrites=False)


@pytest.fixture
def closed_port() -> int:
    return free_port()


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_device_that_is_not_there_exits_with_69_and_writes_nothing(tmp_path: Path, closed_port: int) -> None:
    arguments = ["topology", "new", "--modbus", f"127.0.0.1:{closed_port}", "--out", str(tmp_path / "s"), "--json"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 69
    assert "Modbus TCP" in json.loads(result.stdout)["remedy"]
    assert not (tmp_path / "s").exists()


class RefusingUnit(socketserver.BaseRequestHandler):
    """A gateway that answers for units which are not there: illegal data address, whatever is read."""

    def handle(self) -> None:
        while head := self.request.recv(8):
            self.request.recv(int.from_bytes(head[4:6], "big") - 2)
            self.request.sendall(head[:4] + b"\0\3" + head[6:7] + bytes([head[7] | 0x80, 2]))


@pytest.fixture
def refusing_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), RefusingUnit) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_unit_that_has_nothing_is_told_and_writes_nothing(tmp_path: Path, refusing_port: int) -> None:
    arguments = ["topology", "new", "--modbus", f"127.0.0.1:{refusing_port}", "--out", str(tmp_path / "s"), "--json"]
    result = CliRunner().invoke(cli, [*arguments, "--device-id", "7", "--address-max", "20"])
    assert result.exit_code == 69
    answer = json.loads(result.stdout)
    assert "unit 7 answers and has nothing up to address 20" in answer["error"]
    assert "--device-id" in answer["remedy"]
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("text", ["", "host:port", "http://x:1", "x:99999"])
def test_an_address_that_is_none_is_a_usage_error(tmp_path: Path, text: str) -> None:
    arguments = ["topology", "new", f"--modbus={text}", "--out", str(tmp_path / "s")]
    assert CliRunner().invoke(cli, arguments).exit_code == 2


def test_guesses_become_rows_that_the_loader_takes(tmp_path: Path) -> None:
    guesses = (
        Guess(kind=TableKind.HOLDING, address=0, type="float32", word_order="little", seen="1.5"),
        Guess(kind=TableKind.HOLDING, address=2, type="int16", seen="-3", is_doubtful=True),
        Guess(kind=TableKind.HOLDING, address=10, type="string", length=20, seen="'Pump'"),
        Guess(kind=TableKind.COIL, address=7, type="bool", seen="true"),
    )
    rows = rows_of(Survey(guesses=guesses, tables=(), requests=9, is_complete=True, skipped=0))
    assert [row["name"] for row in rows] == ["holding_0", "holding_2", "holding_10", "coil_7"]
    assert rows[0]["description"] == "guess: float32, read 1.5"
    assert rows[1]["description"] == "doubtful guess: int16, read -3"
    judge = KnownKinds()["modbus"].judge
    assert judge is not None
    assert not [row for row in rows if isinstance(judge({k: v for k, v in row.items() if v}), list)]


@pytest.mark.slow
def test_the_doctor_looks_at_this_machine(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", "--data", str(tmp_path), "--json"])
    assert result.exit_code in (0, 1)
    answer = json.loads(result.stdout)
    names = {check["name"] for check in answer["checks"]}
    assert {"python", "numpy", "pyzmq", "disk free", "sync latency", "open files", "clock sync", "boot clock"} <= names
    assert all(check["remedy"] for check in answer["checks"] if check["status"] in ("warning", "failed"))


def test_the_doctor_sees_ports_that_are_taken_and_devices_that_answer(
    site: Path, open_port: int, closed_port: int
) -> None:
    def examined(port: int, device: int) -> list[Finding]:
        (site / "topology.toml").write_text(TOPOLOGY.format(port=port, device=device))
        loaded = read_topology(site / "topology.toml")
        return [*ports(loaded.topology), *devices(loaded)]

    assert [one.status for one in examined(closed_port, open_port)] == ["good", "warning"], "it says nothing"
    assert [one.status for one in examined(open_port, closed_port)] == ["warning", "warning"]


def test_the_port_of_another_machine_is_not_judged(site: Path) -> None:
    text = TOPOLOGY.format(port=5000, device=502).replace("127.0.0.1:5000", "192.0.2.7:5000")
    (site / "topology.toml").write_text(text.partition("  [[node.adapter]]")[0])
    assert list(ports(read_topology(site / "topology.toml").topology)) == []


def test_a_disk_that_cannot_be_written_is_a_failed_check_not_an_exception(tmp_path: Path) -> None:
    """A directory below a file: even root cannot write there."""
    (tmp_path / "file").write_text("")
    findings = {one.name: one for one in disk(tmp_path / "file" / "deeper")}
    assert findings["sync latency"].status in ("good", "warning"), "the nearest directory that exists is judged"
    with pytest.raises(OSError, match="file"):
        sync_latency(tmp_path / "file" / "deeper")
