"""Cables that can be cut: each process in a network namespace of its own, all on one bridge.

    this program (clients) --- bridge 198.18.N.1 ---+--- primary .2   +--- w1 .4
                                                    +--- backup  .3   +--- w2 .5   +--- w3 .6

A cut drops packets silently (iptables in the namespace), as a pulled cable two switches away does: nobody is told,
nothing is refused. The addresses are those reserved for tests of devices (RFC 2544).
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from albireo.drill.ground import DrillError, Ground, ProcessHost, run_tool

PLACES: Final = ("primary", "backup", "w1", "w2", "w3")
TOOLS: Final = ("ip", "iptables")


class NetworkGround(Ground):
    """Namespaces, a bridge, and the cables between them."""

    def __init__(self, directory: Path, more: Sequence[str] = ()) -> None:
        """`more`: further places beside those of the pair."""
        super().__init__(directory)
        self._places = (*PLACES, *more)
        number = os.getpid() % 65_536
        self._mark = f"alb{number:x}"
        self._bridge = f"{self._mark}br"
        self._net = f"198.{18 + number // 256 % 2}.{number % 256}"
        self.own_address = f"{self._net}.1"
        self.hosts = {
            name: ProcessHost(f"{self._net}.{index + 2}", ("ip", "netns", "exec", self._space(name)))
            for index, name in enumerate(self._places)
        }

    @staticmethod
    def objection() -> str:
        if os.geteuid() != 0:
            return "network namespaces need root"
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            return f"{' and '.join(missing)} not installed (Debian: iproute2, iptables)"
        name = f"alb{os.getpid() % 65_536:x}try"
        try:
            run_tool("ip", "netns", "add", name)
            run_tool("ip", "netns", "exec", name, "iptables", "-A", "INPUT", "-j", "DROP")
        except DrillError as error:
            return str(error)
        finally:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        return ""

    def make(self) -> None:
        run_tool("ip", "link", "add", self._bridge, "type", "bridge")
        run_tool("ip", "addr", "add", f"{self.own_address}/24", "dev", self._bridge)
        run_tool("ip", "link", "set", self._bridge, "up")
        for name in self._places:
            self._connect(name)

    def _connect(self, name: str) -> None:
        space, plug = self._space(name), f"{self._mark}{name}"
        run_tool("ip", "netns", "add", space)
        run_tool("ip", "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", space)
        run_tool("ip", "link", "set", plug, "master", self._bridge, "up")
        run_tool("ip", "-n", space, "addr", "add", f"{self.hosts[name].address}/24", "dev", "eth0")
        run_tool("ip", "-n", space, "link", "set", "eth0", "up")
        run_tool("ip", "-n", space, "link", "set", "lo", "up")

    def undo(self) -> None:
        for name in self._places:
            subprocess.run(["ip", "netns", "del", self._space(name)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def _space(self, name: str) -> str:
        return f"{self._mark}{name}"

    def drop(self, name: str, *, goes_in: bool, goes_out: bool, only: str = "") -> None:
        """Drop what reaches this place, leaves it, or both; only between it and another place, if one is named."""
        peer = self.hosts[only].address if only else ""
        inside = self.hosts[name].within
        if goes_in:
            run_tool(*inside, "iptables", "-A", "INPUT", "-i", "eth0", *(["-s", peer] if only else []), "-j", "DROP")
        if goes_out:
            run_tool(*inside, "iptables", "-A", "OUTPUT", "-o", "eth0", *(["-d", peer] if only else []), "-j", "DROP")

    def drop_to_port(self, name: str, port: int) -> None:
        """Drop what this place says to one port of this program, and what comes from there."""
        inside = self.hosts[name].within
        run_tool(*inside, "iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")
        run_tool(*inside, "iptables", "-A", "INPUT", "-p", "tcp", "--sport", str(port), "-j", "DROP")

    def mend(self, name: str) -> None:
        """Every cable of this place is whole again."""
        run_tool(*self.hosts[name].within, "iptables", "-F")
