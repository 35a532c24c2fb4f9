"""A pair in one process, from a seed: two members, voters, producers, outputs, and a world that misbehaves.

The machines are the real ones; the shell around them is shell.py. Time is simulated, each machine has a clock of
its own rate. A seed draws its own mix of faults (swarm.py). Safety is checked at every event; liveness once the
faults stop: within a bounded time both members are in the set and every batch is acknowledged.

Checked
    by the ledger: what is committed, acknowledged and on which disks; by the outputs: what PLCs applied;
    by the stage: never two members with a valid permit; here: that it gets well again.

Not here: frames, files and sockets (the log and the runtime have their own worlds).
Spec: design/pair.md, How it is proven.
"""

from functools import partial
from typing import Final

from albireo.model.instant import SECOND
from albireo.sim.engine.world import World
from albireo.sim.machines.clients import Clients
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.outputs import AppliedOutputs
from albireo.sim.machines.parts import PLAIN, Variant
from albireo.sim.machines.scenes import Scenes
from albireo.sim.machines.shell import Shell
from albireo.sim.machines.stage import MemberNode, PairStage
from albireo.sim.machines.swarm import PairSwarm, swarm_of
from albireo.sim.machines.voters import Voters

RECOVERY_NS: Final = 20 * SECOND
"""Bound on getting well once the faults stopped."""


class PairWorld(World[PairStage]):
    """World of one pair of machines with all its parts; it begins when it is made."""

    def __init__(
        self, seed: int, swarm: PairSwarm | None = None, variant: Variant = PLAIN, *, is_verbose: bool = False
    ) -> None:
        super().__init__(PairStage(seed, swarm or swarm_of(seed), variant, is_verbose=is_verbose))
        stage = self.stage
        self.network = stage.network
        self.ledger = PairLedger(stage)
        self.voters = Voters(stage, self.ledger)
        self.members = stage.members
        self.members += [MemberNode(stage, index) for index in (0, 1)]
        self.clients = Clients(stage, self.ledger)
        self.outputs = AppliedOutputs(stage)
        self.shell = Shell(stage, self.ledger, self.voters, self.clients, self.outputs)
        self.faults = Scenes(stage, self.shell)
        for voter in self.voters.witnesses.values():
            self.voters.start(voter)
        for member in self.members:
            self.agenda.after_ms(stage.chance.random() * 50, partial(self.shell.start, member))
        self.clients.begin()
        self.outputs.begin()

    @property
    def events(self) -> int:
        """Number of steps that something other than a timer or a copy of a message caused."""
        return self.stage.steps - self.stage.timers - self.network.copies

    def settle(self) -> None:
        self.faults.heal()
        self._get_well()
        producers = self.clients.producers
        offered = [producer.offered for producer in producers]
        answered_ns = 5 * SECOND + self.stage.config.handover_ns  # A stop begun under faults may wait for its outputs.
        self.within(
            answered_ns,
            lambda: self.clients.has_acked(offered),
            lambda: f"batches wait: {offered}, acknowledged {[producer.acked for producer in producers]}",
        )
        self.agenda.play_until(self.agenda.at + SECOND)
        if not self.stage.is_well():  # A stop that was asked for under faults ends after them.
            self._get_well()
            self.agenda.play_until(self.agenda.at + SECOND)
        self.ledger.check_end()
        if self.clients.local:
            self.clients.local.check_end()
        if self.stage.is_well():
            self.outputs.check_end()

    def _get_well(self) -> None:
        self.within(
            RECOVERY_NS,
            self.stage.is_well,
            lambda: f"not well 20 s after the last fault: {[m.machine.state.value for m in self.members]}",
        )
