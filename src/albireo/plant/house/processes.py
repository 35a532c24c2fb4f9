"""Devices of the simulated house as processes: one parent that has loaded everything, and forks each device.

python -m albireo.plant.house.processes      reads a `HouseTold` line, then words: {"device": NAME, ...}
                                             {"kill": NAME} ends it by SIGKILL, {"start": NAME} begins it again
"""

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.plant.house.device import BadNetwork, DeviceLook, DeviceTold, HouseTold

LOOK_S: Final = 10.0


class HouseFailed(Exception):
    """The devices could not be started, or do not answer."""


class HouseProcesses:
    """The house, for whoever plays with it."""

    def __init__(
        self,
        devices: Sequence[DeviceTold],
        *,
        master: str = "fd00::1",
        interface: str = "eth0",
        network: BadNetwork | None = None,
        seed: int = 1,
        within: Sequence[str] = (),
    ) -> None:
        """`within`: command that runs it, such as `ip netns exec NAME`."""
        self._told = HouseTold(tuple(devices), master, interface, network or BadNetwork(), seed)
        self._within = within
        self._looks: queue.Queue[DeviceLook] = queue.Queue()
        self._look = 0
        self.dead: set[str] = set()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._within, sys.executable, "-m", "albireo.plant.house.parent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, name="house", daemon=True)
        self._reader.start()
        self._say(msgspec.json.encode(self._told))

    def tell(self, device: str, eid: int, value: bool | int | float) -> None:
        """Something happens at an endpoint of a device."""
        self._say(msgspec.json.encode({"device": device, "eid": eid, "value": value}))

    def kill(self, device: str) -> None:
        """A device has no power any more."""
        self.dead.add(device)
        self._say(msgspec.json.encode({"kill": device}))

    def revive(self, device: str) -> None:
        self.dead.discard(device)
        self._say(msgspec.json.encode({"start": device}))

    def look(self) -> dict[str, DeviceLook]:
        """Deeds of each living device so far. Raises HouseFailed: one does not answer."""
        self._look += 1
        wanted = {one.name for one in self._told.devices} - self.dead
        for name in wanted:
            self._say(msgspec.json.encode({"device": name, "look": self._look}))
        found: dict[str, DeviceLook] = {}
        while found.keys() != wanted:
            try:
                one = self._looks.get(timeout=LOOK_S)
            except queue.Empty:
                raise HouseFailed(f"no word of {', '.join(sorted(wanted - found.keys()))}") from None
            if one.look == self._look:
                found[one.device] = one
        return found

    def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise HouseFailed(f"the devices have ended with {self._process.poll()}") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._looks.put(msgspec.json.decode(line, type=DeviceLook))
