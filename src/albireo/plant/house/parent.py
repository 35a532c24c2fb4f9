"""The process that forks the devices of the simulated house, after it has loaded what all of them need.

python -m albireo.plant.house.parent     reads a `HouseTold` line, then words: {"device": NAME, ...} for a device,
                                         {"kill": NAME} ends it by SIGKILL, {"start": NAME} begins it again
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from typing import Any, Final

import msgspec

from albireo.plant.house.device import HouseTold, run_device

_PR_SET_PDEATHSIG: Final = 1


class _Parent:
    """The process that forks."""

    def __init__(self, told: HouseTold) -> None:
        self._told = told
        self._devices = {one.name: one for one in told.devices}
        self._running: dict[str, tuple[int, int]] = {}
        self._starts = 0

    def start(self, name: str) -> None:
        self._starts += 1
        inner, outer = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(outer)
                for _, other in self._running.values():
                    os.close(other)
                _die_with_parent()
                told, seed = self._told, self._told.seed * 1_000_003 + self._starts
                one = self._devices[name]
                asyncio.run(run_device(one, told.master, told.interface, told.network, seed, inner))
                code = 0
            finally:
                os._exit(code)
        os.close(inner)
        self._running[name] = pid, outer

    def kill(self, name: str) -> None:
        pid, outer = self._running.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(outer)

    def take(self, line: bytes) -> None:
        word: dict[str, Any] = msgspec.json.decode(line)
        if "kill" in word:
            self.kill(word["kill"])
        elif "start" in word:
            self.start(word["start"])
        elif word["device"] in self._running:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._running[word["device"]][1], line)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    told = msgspec.json.decode(sys.stdin.buffer.readline(), type=HouseTold)
    parent = _Parent(told)
    for one in told.devices:
        parent.start(one.name)
    for line in sys.stdin.buffer:
        parent.take(line)
    for name in list(parent._running):
        parent.kill(name)


if __name__ == "__main__":
    main()
