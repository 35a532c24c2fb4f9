"""Simulated time: what happens when in one world, and clocks that run at a rate of their own."""

import heapq
import random
from collections.abc import Callable
from functools import partial

from albireo.model.instant import MS, SECOND, Instant


class Agenda:
    """Queue of what happens when in one world. Things of one instant happen in the order in which they were noted."""

    def __init__(self, watch: Callable[[], object] | None = None) -> None:
        """
        Args:
            watch: called after each thing that happened.
        """
        self.at = SECOND
        """Present instant, ns; the world begins at 1 s."""
        self.count = 0
        """Number of things that have happened."""
        self._watch = watch
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._serial = 0

    def call_at(self, at: int, what: Callable[[], object]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (at if at > self.at else self.at, self._serial, what))

    def after_ms(self, wait_ms: float, what: Callable[[], object]) -> None:
        self.call_at(self.at + int(wait_ms * MS), what)

    def play_until(self, at: int, is_over: Callable[[], bool] = lambda: False, every: int = 100) -> bool:
        """Play until `at`; True as soon as `is_over` says so, asked after each `every` things and at the end."""
        queue, watch, first = self._queue, self._watch, self.count
        while queue and queue[0][0] <= at:
            self.at, _, what = heapq.heappop(queue)
            what()
            if watch is not None:
                watch()
            self.count += 1
            if (self.count - first) % every == 0 and is_over():
                return True
        self.at = at
        return is_over()


class MachineClock:
    """Monotonic clock of one machine, with a rate and a beginning of its own."""

    def __init__(self, chance: random.Random, drift: float) -> None:
        self.rate = 1.0 + chance.uniform(-drift, drift)
        self.offset = chance.randrange(1, 1000) * SECOND

    def local(self, at: int) -> Instant:
        return Instant(self.offset + int(at * self.rate))

    def world(self, local: int) -> int:
        return int((local - self.offset) / self.rate) + 1


class Timer:
    """Alarm that rings at the earliest instant it was armed for, by the clock of its owner, who then arms it again."""

    def __init__(self, agenda: Agenda, clock: MachineClock, ring: Callable[[], object]) -> None:
        self._agenda = agenda
        self._clock = clock
        self._ring = ring
        self._at = 0

    def arm(self, due: Instant | None) -> None:
        if due is not None:
            at = max(self._agenda.at + 1, self._clock.world(due))
            if not self._agenda.at < self._at <= at:
                self._at = at
                self._agenda.call_at(at, partial(self._come, at))

    def _come(self, at: int) -> None:
        if self._at == at:
            self._at = 0
            self._ring()
