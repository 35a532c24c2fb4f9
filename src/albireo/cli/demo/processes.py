"""The demo's child processes: the pair, and the pipeline; each ends when the demo does, however that ends."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import Failure
from albireo.cli.pair.acting import ActingDirectory, status_of
from albireo.cli.place import MEMBERS
from albireo.client import ClientError, connect
from albireo.drill.ports import KeptPorts
from albireo.model.topology import Guard
from albireo.plant.tunnel.site import NODE_ID, WITNESS, PairSite, write_site
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.keys import Keys, introduce

LOG: Final = "node.log"
START_S: Final = 90.0
"""Fifteen processes that import numpy, on two busy cores."""
STOP_S: Final = 40.0
"""Adapters 10 s, then history, then core; each has its own limit."""
RESTART_S: Final = 10.0
"""Long enough to see that the other member goes on alone."""
PAUSE_S: Final = 0.1
TAIL_LINES: Final = 15


class DemoPair:
    """Both members and the witness as processes of their own, each with a directory below the demo's.

    A member that has ended - somebody killed it, to see the other take over - is started again a little later, as a
    service manager would.
    """

    def __init__(self, site: Path, ports: Mapping[str, int], data: Path) -> None:
        self._data = data
        self.directories = [data / member for member in MEMBERS]
        self.acting = ActingDirectory(self.directories)
        self._is_new = not (data / MEMBERS[0] / "log").exists()
        self._ports = KeptPorts(5)
        endpoints = [f"tcp://127.0.0.1:{port}" for port in self._ports.numbers]
        pair = PairSite(clients=(endpoints[0], endpoints[1]), peers=(endpoints[2], endpoints[3]), witness=endpoints[4])
        self._topology = write_site(site, ports, guards=dict.fromkeys(ports, Guard.PLC), pair=pair)
        _make_keys(data)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended_at: dict[str, float] = {}
        for name in (WITNESS, *MEMBERS):
            self._start(name)

    def _start(self, name: str) -> None:
        directory = self._data / name
        role = ("witness", "--name", name) if name == WITNESS else ("node", "run", "--id", f"{NODE_ID}[{name}]")
        with (directory / LOG).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ending_with_us(*role, "--topology", str(self._topology), "--data", str(directory)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the demo, which stops view, node and plant in this order.
            )

    def restart_ended(self) -> None:
        """Start ended members again when it is time; called now and then."""
        now = time.monotonic()
        for name, process in list(self._processes.items()):
            if process.poll() is None:
                self._ended_at.pop(name, None)
            elif now - self._ended_at.setdefault(name, now) >= RESTART_S:
                del self._ended_at[name]
                _close(process)
                self._start(name)

    @property
    def is_running(self) -> bool:
        """Whether at least one member runs."""
        return any(self._processes[name].poll() is None for name in MEMBERS)

    def wait_until_connected(self, adapters: set[str]) -> int:
        """Returns the epoch, once both members are in the set and the acting one hears every adapter.

        Raises:
            Failure: a process ended, or it took longer than START_S.
        """
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    code, log = process.returncode, self._data / name / LOG
                    raise Failure(f"{name} ended with {code}:\n{self.tail(name)}", f"see {log}")
            if self._is_new:
                self._is_new = not self._has_begun()
            status = self.status()
            pair = status.get("pair") or {}
            heard = {one["name"] for one in status["adapters"] if one["connected"]} if status else set()
            if adapters <= heard and pair.get("members") == [0, 1]:
                return int(pair["epoch"])
            time.sleep(PAUSE_S)
        told = "\n".join(self.tail(name) for name in MEMBERS)
        raise Failure(f"the pair was not ready within {START_S:.0f} s:\n{told}", f"see {self._data}/*/{LOG}")

    def _has_begun(self) -> bool:
        """Give the voters the first record."""
        try:
            with connect(self.directories[0], timeout_s=10.0, is_pinned=True) as client:
                client.ask("pair_init")
        except (ClientError, RuntimeFault):
            return False
        return True

    def status(self) -> dict[str, Any]:
        """Status of the acting member; empty when none answers."""
        return status_of(self.acting(), timeout_s=2.0)

    def stop(self) -> int:
        """Stop the passive member, then the acting one, then the witness; the highest exit code."""
        acting = self.acting().name
        order = [name for name in MEMBERS if name != acting] + [acting, WITNESS]
        code = max(self._stop(name) for name in order)
        self._ports.close()
        return code

    def _stop(self, name: str) -> int:
        """Stop it cleanly, or kill it after STOP_S."""
        process = self._processes[name]
        if process.poll() is None:
            process.terminate()
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        _close(process)
        return abs(code)

    def tail(self, name: str) -> str:
        """Last lines of its log."""
        log = self._data / name / LOG
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])


def _close(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def _make_keys(data: Path) -> None:
    """Throw-away keys, once per demo directory: they lie beside what they protect."""
    names = {member: f"{NODE_ID}[{member}]" for member in MEMBERS} | {WITNESS: f"witness:{WITNESS}"}
    made = []
    for directory, name in names.items():
        (data / directory).mkdir(mode=0o700, exist_ok=True)
        if not (data / directory / "keys").exists():
            made.append(Keys.new(data / directory / "keys", name))
    introduce(*made)


def run_pipeline(data: Path) -> dict[str, Any]:
    """The pipeline's answer: tables, seconds, report.

    In a process of its own: Spark may have been installed after this one began.

    Raises:
        Failure: it failed; it has said why on standard error.
    """
    process = subprocess.Popen(
        ending_with_us("pipeline", "run", "--data", str(data), "--json"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        # Not communicate(): it would close the standard input by which the child knows that we live.
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    if code != 0 or not said:
        raise Failure(f"the pipeline ended with {code}", f"try it again: albireo pipeline run --data {data}")
    answer: dict[str, Any] = msgspec.json.decode(said[-1])
    return answer


def ending_with_us(*arguments: str) -> list[str]:
    """Command line of an Albireo command that ends with this process."""
    return [sys.executable, "-m", "albireo.cli.end_with_parent", *arguments]
