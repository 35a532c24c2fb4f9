"""Parts that tests share: a house of simulated devices in a network namespace, and a desk in another one beside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from albireo.drill.ground import run_tool
from albireo.plant.house.device import BadNetwork, DeviceTold
from albireo.plant.house.processes import HouseProcesses
from tests.parts.waiting import PATIENCE_S

DESK: Final = "fd00::2"
INTERFACE: Final = "eth0"
GROUP_HEX: Final = "ff050000000000000000000000000205"
PROGRAM: Final = (sys.executable, "-c", "from albireo.cli import main; main()")


class HexabusSpace:
    """The two namespaces, joined by a cable, and the devices."""

    def __init__(self, devices: Sequence[DeviceTold], loss: float = 0.0) -> None:
        """`loss`: share of datagrams that devices lose, each way."""
        number = f"{os.getpid() % 65_536:x}"
        self._house, self._desk = f"albhexh{number}", f"albhexd{number}"
        self._devices = devices
        within = ("ip", "netns", "exec", self._house)
        self.house = HouseProcesses(devices, interface=INTERFACE, network=BadNetwork(loss=loss), within=within)
        self.within = ("ip", "netns", "exec", self._desk)
        """Command that runs another one at the desk."""
        self._begun: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "HexabusSpace":
        try:
            for space in (self._house, self._desk):
                run_tool("ip", "netns", "add", space)
            end = ("name", INTERFACE, "netns")
            run_tool("ip", "link", "add", *end, self._house, "type", "veth", "peer", *end, self._desk)
            hosts = {self._house: [one.host for one in self._devices], self._desk: [DESK]}
            for space, own in hosts.items():
                for link in ("lo", INTERFACE):
                    run_tool("ip", "-n", space, "link", "set", link, "up")
                for host in own:
                    run_tool("ip", "-n", space, "addr", "add", f"{host}/64", "dev", INTERFACE, "nodad")
            self.house.start()
            self.house.look()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for command in self._begun:  # Those that a failed test did not end.
            command.kill()
            command.wait()
        try:
            self.house.stop()
        finally:
            self._remove()

    def _remove(self) -> None:
        for space in (self._desk, self._house):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def begin(self, out: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        """A command at the desk that goes on until `ended`; `out`: takes its JSON, and what it says beside that."""
        command = [*self.within, *PROGRAM, *arguments, "--json"]
        with out.open("wb") as shown, out.with_suffix(".said").open("wb") as talk:
            self._begun.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=talk))
        return self._begun[-1]

    def run(self, *arguments: str) -> tuple[int, Any]:
        """Exit code and JSON of a command at the desk."""
        command = [*self.within, *PROGRAM, *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    def python(self, program: str, *arguments: str) -> str:
        """Standard output of a program at the desk."""
        command = [*self.within, sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout

    def members(self) -> int:
        """Sockets at the desk that belong to the group."""
        groups = self.python("print(open('/proc/net/igmp6').read())")
        return sum(int(line.split()[3]) for line in groups.splitlines() if GROUP_HEX in line and INTERFACE in line)


def ended(process: "subprocess.Popen[bytes]", out: Path) -> tuple[list[Any], str]:
    """End a command by Ctrl-C: all its answers, and what it said beside them."""
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
    talk = out.with_suffix(".said").read_text()
    assert code == 0, talk
    return [json.loads(line) for line in out.read_text().splitlines()], talk


def write_site(directory: Path, table: str) -> Path:
    """A topology with one node that is the master of these devices."""
    directory.mkdir()
    (directory / "house.csv").write_text(table)
    adapter = f'name = "house"\nkind = "hexabus"\ninterface = "{INTERFACE}"\npoll_ms = 200\nitems = "house.csv"\n'
    text = f'cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a12"\n[[node]]\nid = "root"\n[[node.adapter]]\n{adapter}'
    (directory / "topology.toml").write_text(text)
    return directory / "topology.toml"
