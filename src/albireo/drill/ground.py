"""Ground: what a pair of a drill stands on - addresses and disks - and what must be there for it."""

import subprocess
from pathlib import Path

import msgspec


class ProcessHost(msgspec.Struct, frozen=True):
    """Place in which a process of the drill runs."""

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()
    """Command that runs it there."""


class Ground:
    """This machine as it is: everything on loopback, every data directory in that of the drill.

    Others offer more: cables that can be cut (network.py), disks that can fail (disks.py).
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.own_address = ProcessHost().address
        """Address under which the members reach this program."""
        self.hosts: dict[str, ProcessHost] = {}
        """Hosts by name of a member or witness; loopback where there is none."""
        self.data: dict[str, Path] = {}
        """Data directories that lie elsewhere."""
        self.environment: dict[str, dict[str, str]] = {}
        """Variables of a member or witness beyond the environment of the drill."""

    @staticmethod
    def objection() -> str:
        """Why this ground can't be made here; empty: it can."""
        return ""

    def make(self) -> None:
        """Called once, before the pair.

        Raises:
            DrillError: it could not be made, although nothing spoke against it.
        """

    def release(self) -> None:
        """Called before the pair ends: what would keep its processes from ending is let go."""

    def undo(self) -> None:
        """Called once, after the pair has ended, also when `make` was not finished."""


class DrillError(Exception):
    """The drill itself could not be done; the message says why."""


def run_tool(*command: str) -> None:
    """
    Raises:
        DrillError: it failed; says what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DrillError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
