"""The cables of one world, and messages that cross them one by one.

A cable joins two named places; between some there are several, by path. Each is cut in one direction at a time.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from albireo.model.instant import MS
from albireo.sim.engine.stage import Stage

ALL_PATHS: Final = -1
OUTSIDE: Final = "client"
"""Place where the clients of a pair are."""


class Cables:
    """Cables of one world: which of them are cut, and how long something takes to pass."""

    def __init__(self, stage: Stage[Any]) -> None:
        self._stage = stage
        self._cuts: dict[tuple[str, str, int], int] = {}
        """Instant at which each cut ends, ns, by (from, to, path)."""

    def cut(self, source: str, target: str, for_ms: float, path: int = ALL_PATHS) -> None:
        self._cuts[(source, target, path)] = self._stage.agenda.at + int(for_ms * MS)

    def cut_both(self, one: str, other: str, for_ms: float, path: int = ALL_PATHS) -> None:
        """Cut a cable in both directions."""
        self.cut(one, other, for_ms, path)
        self.cut(other, one, for_ms, path)

    def heal(self) -> None:
        self._cuts.clear()

    @property
    def is_whole(self) -> bool:
        return max(self._cuts.values(), default=0) <= self._stage.agenda.at

    def was_cut(self, source: str, target: str, path: int) -> bool:
        """True: this direction is cut now, or was at some time since everything was healed."""
        return (source, target, ALL_PATHS) in self._cuts or (source, target, path) in self._cuts

    def is_cut(self, source: str, target: str, path: int = ALL_PATHS) -> bool:
        cuts = self._cuts
        if not cuts:
            return False
        at = self._stage.agenda.at
        return cuts.get((source, target, ALL_PATHS), 0) > at or cuts.get((source, target, path), 0) > at

    def cut_until(self, source: str, target: str) -> int:
        """Instant at which the last cut of this direction ends, or ended; 0: it was never cut."""
        return self._cuts.get((source, target, ALL_PATHS), 0)

    def is_cut_off(self, one: str, other: str, path: int = ALL_PATHS) -> bool:
        """True: nothing that needs an answer gets through."""
        return self.is_cut(one, other, path) or self.is_cut(other, one, path)

    def delay_ms(self) -> float:
        most_ms: float = self._stage.swarm.delay_ms
        return 0.1 + self._stage.chance.random() * most_ms


class Messages(Cables):
    """Cables on which each message arrives late, twice or never, and nobody is told."""

    def __init__(self, stage: Stage[Any], *, loss: float, duplicate: float, long_delay: float) -> None:
        """
        Args:
            long_delay: share of messages that take up to a second.
        """
        super().__init__(stage)
        self.copies = 0
        self._loss = loss
        self._duplicate = duplicate
        self._long_delay = long_delay
        self._power_cuts: Counter[str] = Counter()

    def send(self, source: str, target: str, path: int, what: Callable[[], None]) -> None:
        stage, chance = self._stage, self._stage.chance
        is_faulty = stage.has_faults
        count = 2 if is_faulty and self._duplicate and chance.random() < self._duplicate else 1
        for _ in range(count):
            if is_faulty and self._loss and chance.random() < self._loss:
                continue
            delay_ms = self.delay_ms()
            if is_faulty and self._long_delay and chance.random() < self._long_delay:
                delay_ms = chance.random() * 1000
            if not self.is_cut(source, target, path):
                stage.agenda.after_ms(delay_ms, partial(self._arrive, source, self._power_cuts[source], what))
        self.copies += count - 1

    def power_cut(self, source: str) -> None:
        """Drop what a sender's buffers still held when its power was cut; a killed process leaves it to the kernel."""
        self._power_cuts[source] += 1

    def _arrive(self, source: str, power_cuts: int, what: Callable[[], None]) -> None:
        if self._power_cuts[source] == power_cuts:
            what()
