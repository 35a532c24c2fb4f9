"""How faults come in a world of any kind: one after the other at drawn distances, until they end."""

from abc import ABC, abstractmethod
from typing import Generic

from albireo.sim.engine.stage import StageT


class Faults(ABC, Generic[StageT]):
    """A method without an argument is one fault, named as in `Mix.faults`. None begins while the world is shielded."""

    def __init__(self, stage: StageT) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = stage.chance

    def begin(self) -> None:
        swarm = self.stage.swarm
        if swarm.faults:
            self.agenda.after_ms(20 + self.chance.expovariate(1.0 / swarm.fault_every_ms), self._one)

    def _one(self) -> None:
        if self.stage.has_faults:
            if not self.stage.is_shielded:
                getattr(self, self.chance.choice(self.stage.swarm.faults))()
            self.begin()

    @abstractmethod
    def heal(self) -> None:
        """Everything works from now on."""
