"""The play of a world of any kind: safety under faults, then liveness without them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self

from albireo.model.instant import MS
from albireo.sim.engine.faults import Faults
from albireo.sim.engine.stage import StageT


class World(ABC, Generic[StageT]):
    """World of any kind, on top of its parts, which hold what it saw. A violation ends it at once."""

    faults: Faults[StageT, Any]

    def __init__(self, stage: StageT) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.trace = stage.trace

    def play(self) -> Self:
        self.faults.begin()
        self.agenda.play_until(self.agenda.at + self.stage.swarm.faults_for_ms * MS)
        self.stage.end_faults()
        self.settle()
        return self

    @abstractmethod
    def settle(self) -> None:
        """Heal everything, and check that within a bounded time all is well, and all that was begun is done."""

    def within(self, limit_ns: int, is_so: Callable[[], bool], otherwise: Callable[[], str], every: int = 100) -> None:
        """Play until `is_so`; it is a violation if that takes more than `limit_ns`."""
        if not self.agenda.play_until(self.agenda.at + limit_ns, is_so, every):
            self.stage.fail(otherwise())
