"""`albireo gate` as a real process in front of a simulated PLC: stopped, killed, started again, asked how it is."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pymodbus.client import ModbusTcpClient

from albireo.cli import cli
from albireo.drill.plcs import GATED, GATED_ADDRESS, Plcs
from albireo.machine.output.mailbox import (
    MAILBOX_REGISTERS,
    MEMBERS,
    STATUS_REGISTERS,
    MailboxOrder,
    decode_answer,
    decode_status,
    encode_order,
)
from albireo.machine.output.mailbox import Result as Answered
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()", "gate", "--name", "p1"]
TOPOLOGY = """
cluster = "11111111-2222-3333-4444-555555555555"

[[node]]
id = "root"

  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{0}"
  gated_url = "tcp://127.0.0.1:{1}"
  guard = "gate"
  mailbox_address = {2}
  dead_time_ms = 100
  items = "p1.csv"

  [[node.adapter]]
  name = "host"
  kind = "host"
"""
TABLE = f"name,kind,address,type,writable,target\nout,holding,{GATED_ADDRESS},uint16,true,1\n"


class Site:
    """One gate with its disk, started as often as it takes, and the PLC behind it."""

    def __init__(self, directory: Path, plcs: Plcs) -> None:
        self.port = free_port()
        self.data = directory / "data"
        self.topology = directory / "plant.toml"
        self.topology.write_text(TOPOLOGY.format(self.port, plcs.ports[GATED], MAILBOX_ADDRESS))
        (directory / "p1.csv").write_text(TABLE)
        self.log = directory / "log"
        self._plcs = plcs
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        command = [*PROGRAM, "--topology", str(self.topology), "--data", str(self.data), "--json", *more]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def status(self) -> Result:
        return CliRunner().invoke(cli, ["gate", "--name", "p1", "--data", str(self.data), "--status", "--json"])

    def seen(self) -> dict[str, Any]:
        """How it is, once it answers."""
        ends = time.monotonic() + PATIENCE_S
        while (found := self.status()).exit_code:
            assert time.monotonic() < ends, self.log.read_text()
            time.sleep(0.05)
        answer = json.loads(found.stdout)
        assert isinstance(answer, dict)
        return answer

    @contextlib.contextmanager
    def client(self) -> Iterator[ModbusTcpClient]:
        self.seen()
        client = ModbusTcpClient("127.0.0.1", port=self.port, timeout=PATIENCE_S)
        assert client.connect()  # type: ignore[no-untyped-call]  # pymodbus leaves it untyped.
        try:
            yield client
        finally:
            client.close()  # type: ignore[no-untyped-call]  # As above.

    def written(self) -> list[int]:
        return [one.words[0] for one in self._plcs.carried[GATED]]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    plcs = Plcs("127.0.0.1")
    plcs.begin()
    made = Site(tmp_path, plcs)
    yield made
    made.end()
    plcs.end()


def ordered(client: ModbusTcpClient, epoch: int, *, count: int, value: int = 0, target: int = 1) -> Answered:
    """The answer to one order of member 0."""
    first = MAILBOX_ADDRESS + MEMBERS * MAILBOX_REGISTERS
    boot = decode_status(client.read_holding_registers(first, count=STATUS_REGISTERS).registers).boot
    order = MailboxOrder(count=count, epoch=epoch, boot=boot, target=target, value=value)
    assert not client.write_registers(MAILBOX_ADDRESS, list(encode_order(order))).isError()
    ends = time.monotonic() + PATIENCE_S
    while True:
        box = client.read_holding_registers(MAILBOX_ADDRESS, count=MAILBOX_REGISTERS).registers
        if (answer := decode_answer(box)).done == count:
            return answer.result
        assert time.monotonic() < ends


def test_a_gate_that_was_killed_comes_back_with_its_guard_and_another_number(site: Site) -> None:
    process = site.start()
    with site.client() as client:
        assert ordered(client, 4, count=1, target=0) is Answered.DONE
        assert ordered(client, 4, count=2, value=40) is Answered.DONE
        assert ordered(client, 6, count=3, target=0) is Answered.DONE
    before = site.seen()
    process.kill()
    process.wait()
    site.start()
    with site.client() as client:
        after = site.seen()
        assert (after["guard"], after["boot"]) == (6, before["boot"] % 0xFFFF + 1)
        assert ordered(client, 4, count=1, value=41) is Answered.STALE
        assert ordered(client, 6, count=2, target=0) is Answered.DONE
        assert ordered(client, 6, count=3, value=60) is Answered.DONE
    assert site.written() == [40, 60]


def test_it_stops_cleanly_and_says_so(site: Site) -> None:
    process = site.start()
    with site.client() as client:
        assert ordered(client, 4, count=1, target=0) is Answered.DONE
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert json.loads(site.log.read_text().splitlines()[-1]) == {"gate": "p1", "exit": 0}
    assert site.status().exit_code == 69


def test_a_second_one_on_its_data_is_refused(site: Site) -> None:
    site.start()
    site.seen()
    second = site.start()
    assert second.wait(PATIENCE_S) == 78
    # It stands before or behind the words for people: those have a thread of their own.
    (said,) = [json.loads(line) for line in site.log.read_text().splitlines() if '"remedy"' in line]
    assert "--data" in said["remedy"]


def test_what_it_shows_is_for_people_too(site: Site) -> None:
    site.start()
    with site.client() as client:
        ordered(client, 4, count=1, target=0)
        client.write_register(GATED_ADDRESS, 1)
        shown = CliRunner().invoke(cli, ["gate", "--name", "p1", "--data", str(site.data), "--status"])
    head, line, refused = shown.stdout.splitlines()
    row = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (row["gate"], row["state"], row["guard"], row["orders"]) == ("root:p1", "writes", "4", "1 done")
    assert refused == "refused: 1 plain_write"


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("p2", [], "the topology has root:p1"),
        ("host", [], "no adapter with a gate"),
        ("p1", ["--listen", "0.0.0.0"], "write tcp://HOST:PORT"),
    ],
)
def test_what_it_can_not_do_is_refused_with_what_to_do(site: Site, name: str, more: list[str], said: str) -> None:
    command = ["gate", "--topology", str(site.topology), "--data", str(site.data), "--json", "--name", name, *more]
    found = CliRunner().invoke(cli, command)
    answer = json.loads(found.stdout.splitlines()[-1])
    assert (found.exit_code, said in answer["error"]) == (78, True), answer
    assert "docs/gate.md" in answer["remedy"]
    assert not site.data.exists()
