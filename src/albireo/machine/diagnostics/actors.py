"""Actors beside CORE that are watched: adapters by what is heard of them, faces by boot's word."""

from collections.abc import Sequence

from albireo.machine.desk.registry import Registry
from albireo.machine.diagnostics.adapters import SILENT_NS, AdapterWatch
from albireo.machine.diagnostics.faces import FaceWatch
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import ActorTold
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Turn
from albireo.model.instant import Instant


class ActorWatch(RootPart):
    """The watch of one tenure."""

    def __init__(self, config: RootConfig, registry: Registry, messages: dict[int, str], now: Instant) -> None:
        """`messages`: what is wrong, by item id, for the cases that are raised of it; filled here."""
        messages.clear()
        self._registry = registry
        self.adapters = AdapterWatch(config.adapters, registry, messages, now)
        self.faces = FaceWatch(config.faces, registry, messages)

    @property
    def asks_boot(self) -> bool:
        """True: boot's word on the actors is wanted."""
        return self.adapters.asks_boot or self.faces.asks_boot

    def declare(self, turn: Turn, now: Instant) -> tuple[int, ...]:
        """Declare the items, as this node begins to lead; returns their ids."""
        return self.adapters.declare(turn, now) + self.faces.declare(turn, now)

    def told(self, actors: Sequence[ActorTold]) -> None:
        """Take boot's word on the actors of this node."""
        self.adapters.told(actors)
        self.faces.told(actors)

    def tick(self, now: Footing, turn: Turn) -> None:
        """Mark the items of adapters that fell silent; while the log takes records, append a sample of each
        actor that stopped or began to run since the last look."""
        if not now.is_serving:
            return
        moment = now.moment
        self._registry.find_silent(moment, SILENT_NS, turn)
        if not now.is_open:
            return
        self.adapters.time_passed(moment, turn)
        self.faces.time_passed(moment, turn)
