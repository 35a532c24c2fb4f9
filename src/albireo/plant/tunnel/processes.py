"""Starts and stops the processes of a tunnel: one plant and one Modbus TCP server per PLC, or one for all of it."""

import asyncio
import os
import select
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.wire import (
    SOCKET_NAME,
    ActAsked,
    Done,
    FaultsAsked,
    PlcFaults,
    ResetConnections,
    Restart,
    ScenarioAsked,
    WireError,
    ZeroVoter,
    connected,
    framed,
    receive,
)
from albireo.plant.tunnel.scenario import Scenario

START_S: Final = 20.0
"""Importing numpy and pymodbus takes 2 s on two busy cores."""
STOP_S: Final = 5.0
ANSWER_S: Final = 5.0


class TunnelError(Exception):
    """The tunnel could not be started or asked; the message says why and what to do."""


class Tunnel:
    """A running tunnel. Use as a context manager, or call `stop`."""

    def __init__(self, directory: Path) -> None:
        """Nothing runs yet: `start_tunnel` starts it."""
        self.directory = directory
        self.ports: dict[str, int] = {}
        """Modbus TCP port of each PLC on 127.0.0.1."""
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        """The plant first, then the PLCs."""
        return [child.pid for child in self._children]

    def spawn(self, module: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """A process of this tunnel, which `stop` ends."""
        options = ["--child", "--directory", str(self.directory), *arguments]
        # A session of its own: Ctrl-C at the terminal goes to whoever started the tunnel, which stops it in order.
        child = subprocess.Popen(
            [sys.executable, "-m", f"albireo.plant.tunnel.{module}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def stop(self) -> None:
        """Ends every process; returns when all are gone."""
        for child in reversed(self._children):
            child.terminate()
        for child in reversed(self._children):
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
        self._children.clear()

    def begin(self, scenario: Scenario, target: int | None = None, plc: str = "p1") -> None:
        """Begins a scenario; `target` is a section or fan from 0.

        Raises:
            TunnelError: no such place, or the plant does not answer.
        """
        begin(self.directory, scenario, target, plc)

    def set_faults(self, plc: str, faults: PlcFaults) -> None:
        """The faults of a PLC from the next tick on; raises as `act`."""
        _ask(self.directory, FaultsAsked(plc=plc, faults=faults))

    def act(self, plc: str, act: Restart | ZeroVoter | ResetConnections) -> None:
        """Something that happens to a PLC once; returns when the PLC was told.

        Raises:
            TunnelError: no such PLC, or the plant does not answer.
        """
        _ask(self.directory, ActAsked(plc=plc, act=act))

    def __enter__(self) -> "Tunnel":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_tunnel(
    directory: Path,
    *,
    seed: int = 1,
    ports: Mapping[str, int] | None = None,
    guarded: Collection[str] = (),
    notes_orders: bool = False,
) -> Tunnel:
    """A running tunnel with its socket in `directory`; PLCs without a given port take a free one.

    Args:
        guarded: PLCs whose set points are reached through the output mailboxes only; a plain write is refused.
        notes_orders: each PLC writes what it carried out to `PLC.orders.jsonl` (`orders.CarriedOrder`).

    Raises:
        TunnelError: a process ended or was not ready within START_S.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tunnel = Tunnel(directory)

    def server(plc: str) -> "subprocess.Popen[bytes]":
        options = ["--guarded"] * (plc in guarded) + ["--orders"] * notes_orders
        return tunnel.spawn("plc.server", "--plc", plc, "--port", str((ports or {}).get(plc, 0)), *options)

    try:
        _ready_line(tunnel.spawn("plant", "--seed", str(seed)))
        # All PLCs are started before the first is waited for: most of the time goes into imports.
        servers = {plc: server(plc) for plc in PLCS}
        tunnel.ports = {plc: int(str(_ready_line(child)["port"])) for plc, child in servers.items()}
    except BaseException:  # Ctrl-C too: whatever it was goes on, no process stays behind.
        tunnel.stop()
        raise
    return tunnel


def start_whole_tunnel(directory: Path, *, seed: int = 1, guarded: Collection[str] = ()) -> Tunnel:
    """A running tunnel as one process (`whole`); raises as `start_tunnel`."""
    directory.mkdir(parents=True, exist_ok=True)
    tunnel = Tunnel(directory)
    try:
        options = [f"--guarded={plc}" for plc in guarded]
        said = _ready_line(tunnel.spawn("whole", "--seed", str(seed), *options))
        tunnel.ports = msgspec.convert(said["ports"], dict[str, int])
    except BaseException:  # Ctrl-C too: whatever it was goes on, no process stays behind.
        tunnel.stop()
        raise
    return tunnel


def begin(directory: Path, scenario: Scenario, target: int | None = None, plc: str = "p1") -> None:
    """Begins a scenario in the tunnel whose socket lies in `directory`.

    Raises:
        TunnelError: nothing runs there, or the plant refuses.
    """
    _ask(directory, ScenarioAsked(scenario=scenario, target=target, plc=plc))


def _ask(directory: Path, question: ScenarioAsked | FaultsAsked | ActAsked) -> None:
    async def asked() -> Done:
        async with asyncio.timeout(ANSWER_S), connected(directory) as (reader, writer):
            writer.write(framed(question))
            answer = await receive(reader)
        if not isinstance(answer, Done):
            raise TunnelError("the plant broke off before it answered")
        return answer

    try:
        done = asyncio.run(asked())
    except (OSError, WireError) as error:
        raise TunnelError(
            f"no simulated tunnel at {directory / SOCKET_NAME} ({error}): start `albireo demo`"
        ) from error
    if done.error:
        raise TunnelError(done.error)


def _ready_line(child: "subprocess.Popen[bytes]") -> dict[str, object]:
    """The line by which the child says that it is ready."""
    assert child.stdout is not None
    deadline = time.monotonic() + START_S
    said = b""
    while not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
            raise TunnelError(f"{_shown(child)} was not ready within {START_S:.0f} s")
        piece = os.read(child.stdout.fileno(), 4_096)
        if not piece:
            raise TunnelError(
                f"{_shown(child)} ended with {child.wait(STOP_S)} before it was ready, and said why on standard error"
            )
        said += piece
    return msgspec.json.decode(said, type=dict[str, object])


def _shown(child: "subprocess.Popen[bytes]") -> str:
    command = child.args
    return " ".join(str(part) for part in command[1:]) if isinstance(command, list) else str(command)
