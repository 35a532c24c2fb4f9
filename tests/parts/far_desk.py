"""A desk away from the nodes: commands in a network namespace of their own, with one cable to this machine.

    nodes, on this machine's end .1 --- cable (veth) --- .2 the desk: no other address, no route, no node

Nothing at the desk names a node but what a command is told: no variable, no saved site, no `./var`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.drill.ground import DrillError, run_tool
from tests.parts.process_pair import ENVIRONMENT
from tests.parts.waiting import PATIENCE_S

PROGRAM: Final = (sys.executable, "-c", "from albireo.cli import main; main()")
ONE_AFTER_THE_OTHER: Final = (sys.executable, str(Path(__file__).parent / "desk_program.py"))


class Said(msgspec.Struct, frozen=True):
    """What a command said."""

    code: int
    answer: dict[str, Any]
    """The JSON that it ended with."""
    talk: str


class FarDesk:
    """The desk; use as a context manager."""

    def __init__(self, home: Path) -> None:
        number = os.getpid() % 65_536
        self.home = home
        home.mkdir()
        self.address = f"198.{18 + number // 256 % 2}.{number % 256}.241"
        """Address under which it reaches this machine."""
        self._own = f"198.{18 + number // 256 % 2}.{number % 256}.242"
        self._space, self._plug = f"albdesk{number:x}", f"ald{number:x}"
        kept = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("ALBIREO_")}
        self.environment = kept | {"XDG_CONFIG_HOME": str(home / "config")}
        self._program: subprocess.Popen[str] | None = None

    @staticmethod
    def objection() -> str:
        """Why there can be none here; empty: there can."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        if shutil.which("ip") is None:
            return "ip is not installed (Debian: iproute2)"
        name = f"albdesk{os.getpid() % 65_536:x}try"
        try:
            run_tool("ip", "netns", "add", name)
        except DrillError as error:
            return str(error)
        finally:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        return ""

    def __enter__(self) -> "FarDesk":
        run_tool("ip", "netns", "add", self._space)
        run_tool("ip", "link", "add", self._plug, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        run_tool("ip", "addr", "add", f"{self.address}/30", "dev", self._plug)
        run_tool("ip", "link", "set", self._plug, "up")
        run_tool("ip", "-n", self._space, "addr", "add", f"{self._own}/30", "dev", "eth0")
        run_tool("ip", "-n", self._space, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.communicate()
        subprocess.run(["ip", "netns", "del", self._space], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._plug], capture_output=True, check=False)

    def begin(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """A command at the desk, in a process of its own that goes on by itself."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self._space, *PROGRAM, *arguments],
            cwd=self.home,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> Said:
        """A command at the desk, in the process that does them one after the other."""
        if self._program is None:
            self._program = self._begun()
        sending, hearing = self._program.stdin, self._program.stdout
        assert sending is not None and hearing is not None
        sending.write(json.dumps({"arguments": [*arguments, "--json"], "environment": environment}) + "\n")
        sending.flush()
        line = hearing.readline()
        assert line, (self.home / "program.log").read_text()
        code, shown, talk = json.loads(line)
        assert shown, talk
        return Said(code, json.loads(shown.splitlines()[-1]), talk)

    def _begun(self) -> "subprocess.Popen[str]":
        with (self.home / "program.log").open("wb") as log:
            return subprocess.Popen(
                ["ip", "netns", "exec", self._space, *ONE_AFTER_THE_OTHER],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


def said(process: "subprocess.Popen[str]") -> Said:
    """The end of a command that was begun with `--json`."""
    try:
        shown, talk = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert shown, talk
    return Said(process.returncode, json.loads(shown.splitlines()[-1]), talk)
