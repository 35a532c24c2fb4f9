"""Starts of adapters: numbers of runs that rise from one start to the next, and the hellos of earlier starts.

An adapter starts again after its predecessor died, on the machine of its CORE, so the boot clock orders their runs:

    run = ms of the boot clock at the start * 2**20 + 20 random bits

A hello that a dead adapter left on its way then shows itself, as its run is below its successor's. CORE compares only
what it heard itself: runs of another member, or from before a boot, are of another clock.
Spec: ADR-0153.
"""

from collections import deque
from typing import Final

from albireo.model.instant import MS, Instant

RANDOM_BITS: Final = 20
TIMES_KEPT: Final = 16


def run_of_start(now: Instant, chance: int, last: int = 0) -> int:
    """Number of a run that begins now, above `last`, the run before in the same process; `chance`: random bits."""
    return max(last + 1, (now // MS) << RANDOM_BITS | chance % (1 << RANDOM_BITS))


class LatestStarts:
    """Latest start of each configured adapter that said hello in one tenure."""

    def __init__(self, adapters: frozenset[str]) -> None:
        self._adapters = adapters
        self._runs: dict[str, int] = {}
        self._times: dict[str, deque[Instant]] = {}
        """When the last starts of each were heard of."""

    def heard(self, name: str, run: int, now: Instant) -> None:
        """Take note of a hello that was taken. A run that began later than now is no adapter's, and orders nothing."""
        if name in self._adapters and run >> RANDOM_BITS <= now // MS:
            if run > self._runs.get(name, 0):
                self._times.setdefault(name, deque(maxlen=TIMES_KEPT)).append(now)
            self._runs[name] = max(run, self._runs.get(name, 0))

    def lately(self, name: str, since: Instant) -> int:
        """Number of starts that were heard of since then, at most TIMES_KEPT."""
        return sum(one >= since for one in self._times.get(name, ()))

    def is_late(self, name: str, run: int) -> bool:
        """True: the hello is of an earlier start than one that was taken."""
        return run < self._runs.get(name, 0)
