"""A real pair for the benchmarks: two members and three witnesses as processes, with CURVE keys of their own."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from albireo.client import ClientError, connect
from albireo.drill.ports import KeptPorts
from albireo.model.access import AccessRole
from albireo.runtime.link.keys import Keys, introduce

MEMBERS: Final = ("primary", "backup")
WITNESSES: Final = ("w1", "w2", "w3")
START_S: Final = 60.0
STOP_S: Final = 20.0
CLIENT: Final = "bench"


class Pair(msgspec.Struct):
    """A running pair."""

    directory: Path
    clients: dict[str, str]
    """Client endpoint by member."""
    keys: Keys
    processes: dict[str, subprocess.Popen[bytes]]

    def data(self, name: str) -> Path:
        return self.directory / name

    def place(self, member: str) -> str:
        return f"root[{member}]"

    def status(self, member: str) -> dict[str, Any]:
        """Empty while it does not answer."""
        try:
            with connect(self.data(member), is_pinned=True) as client:
                found = client.ask("status", timeout_s=2.0)
        except ClientError:
            return {}
        return found if isinstance(found, dict) else {}

    def states(self) -> dict[str, str]:
        return {member: self.status(member).get("role", "") for member in MEMBERS}

    def wait_until_whole(self) -> str:
        """Until one member is active and the other one is ready; returns the active one."""
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            states = self.states()
            if sorted(states.values()) == ["active", "ready"]:
                return next(member for member, state in states.items() if state == "active")
            time.sleep(0.1)
        raise RuntimeError(f"the pair is not whole within {START_S:g} s: {self.states()}")

    def start(self, name: str) -> None:
        """Start a member or a witness."""
        if name in MEMBERS:
            arguments = ["node", "run", "--id", self.place(name)]
        else:
            arguments = ["witness", "--name", name]
        topology = str(self.directory / "topology.toml")
        with (self.directory / f"{name}.log").open("ab") as said:
            self.processes[name] = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from albireo.cli import main; main()", *arguments),
                    *("--topology", topology, "--data", str(self.data(name))),
                ],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def family(self, name: str) -> list[psutil.Process]:
        parent = psutil.Process(self.processes[name].pid)
        return [*parent.children(recursive=True), parent]

    def kill(self, name: str) -> None:
        """SIGKILL for all its processes, stopped first, so that none outlives the others by a moment."""
        family = self.family(name)
        for one in family:
            one.suspend()
        for one in family:
            one.kill()
        self.processes[name].wait()


@contextlib.contextmanager
def running_pair(directory: Path, more: str = "") -> Iterator[Pair]:
    """Ends with both members in the set. Nobody else gets their ports meanwhile. `more`: further lines of the node."""
    with KeptPorts(7) as kept:
        yield from _running_pair(directory, [f"tcp://127.0.0.1:{port}" for port in kept.numbers], more)


def _running_pair(directory: Path, endpoints: list[str], more: str) -> Iterator[Pair]:
    topology, clients = _topology(endpoints)
    (directory / "topology.toml").write_text(topology + more)
    rings = {}
    for name in (*MEMBERS, *WITNESSES, CLIENT):
        known_as = f"root[{name}]" if name in MEMBERS else f"witness:{name}" if name in WITNESSES else name
        (directory / name).mkdir(mode=0o700)
        rings[name] = Keys.new(directory / name / "keys", known_as)
    introduce(*rings.values(), role=AccessRole.OPERATE)
    pair = Pair(directory, clients, rings[CLIENT], {})
    try:
        for name in (*WITNESSES, *MEMBERS):
            pair.start(name)
        _initialise(pair)
        pair.wait_until_whole()
        yield pair
    finally:
        for process in pair.processes.values():
            process.terminate()
        for process in pair.processes.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _initialise(pair: Pair) -> None:
    ends = time.monotonic() + START_S
    while True:
        try:
            with connect(pair.data("primary"), is_pinned=True) as client:
                client.ask("pair_init", timeout_s=10.0)
        except ClientError as error:
            if time.monotonic() > ends:
                raise RuntimeError(f"the pair could not be begun: {error}") from error
            time.sleep(0.2)
        else:
            return


def _topology(endpoints: list[str]) -> tuple[str, dict[str, str]]:
    witnesses = "".join(
        f'[[witness]]\nname = "{name}"\nendpoint = "{endpoint}"\n'
        for name, endpoint in zip(WITNESSES, endpoints[:3], strict=True)
    )
    voters = ", ".join(f'"witness:{name}"' for name in WITNESSES)
    one, one_peer, two, two_peer = endpoints[3:]
    text = f"""cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
{witnesses}
[[node]]
id = "root"
voters = [{voters}]
primary = {{ client = "{one}", peer = ["{one_peer}"] }}
backup = {{ client = "{two}", peer = ["{two_peer}"] }}
"""
    return text, {"primary": one, "backup": two}
