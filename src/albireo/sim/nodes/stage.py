"""Stage on which every part of the world of whole nodes stands: cables, lives of processes, pace of disks."""

import random

from albireo.model.instant import MS
from albireo.sim.engine.agenda import Agenda
from albireo.sim.engine.stage import Stage
from albireo.sim.nodes.network import Network
from albireo.sim.nodes.swarm import NodeSwarm


class NodeStage(Stage[NodeSwarm]):
    """Stage of one seed's world of whole nodes."""

    def __init__(self, seed: int, swarm: NodeSwarm, *, is_verbose: bool = False) -> None:
        super().__init__(seed, swarm, random.Random(f"node world {seed}"), Agenda(), is_verbose=is_verbose)
        self.network = Network(self)
        self.lives = 0
        """Number of processes that ever began."""

    def sync_ns(self) -> int:
        """Draw how long a sync takes."""
        most = self.swarm.sync_ms * (10 if self.chance.random() < 0.02 else 1)
        return int((0.05 + self.chance.random() * most) * MS)
