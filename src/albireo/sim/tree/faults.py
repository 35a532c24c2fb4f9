"""Faults of the simulated tree: of machines, cables between levels, disks, clocks, and of the pairs in it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from albireo.model.instant import MS, SECOND
from albireo.sim.engine.disk import SimDisk
from albireo.sim.engine.faults import Faults
from albireo.sim.nodes.machine import Machine
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.tree.node import LoneMachine
from albireo.sim.tree.site import Site

SLOW_BYTES_PER_S: Final = 10_000
IMAGES_EVERY_MS: Final = 1_500.0


class TreeFaults(Faults[NodeStage, Machine]):  # type: ignore[type-var]  # Who holds a lease is drawn by site here.
    """Faults of one tree. A method named in `Mix.faults` is one fault."""

    def __init__(self, stage: NodeStage, sites: Mapping[str, Site]) -> None:
        machines = [one for site in sites.values() for one in site.all_machines()]
        super().__init__(stage, stage.network, machines, ())
        self._sites = sites
        self.images: dict[str, SimDisk] = {}

    def begin(self) -> None:
        if not self.images:
            self._take_images()
        super().begin()

    def _take_images(self) -> None:
        """Take backups now and then; nobody knows which of them is put back."""
        for machine in self._lone():
            if machine.is_up and self.chance.random() < 0.5:
                self.images[machine.name] = machine.disk.image(self.chance.getrandbits(32))
        if self.stage.has_faults:
            self.agenda.after_ms(IMAGES_EVERY_MS, self._take_images)

    def _lone(self) -> list[LoneMachine]:
        return [one for one in self.members if isinstance(one, LoneMachine)]

    def _any(self) -> Machine:
        return self.chance.choice(list(self.members))

    def _pairs(self) -> list[Site]:
        return [one for one in self._sites.values() if one.is_pair]

    def heal(self) -> None:
        self.network.heal()
        for machine in self.members:
            if machine.actor is not None:
                machine.actor.paused_until = self.agenda.at
            if not machine.is_up:
                machine.start_soon(0)

    def kill(self) -> None:
        self._any().dies("killed", is_power=False)

    def power(self) -> None:
        self._any().dies("power cut", is_power=True)

    def pause(self) -> None:
        machine = self._any()
        if machine.actor is not None and machine.is_up:
            until = self.agenda.at + int(self.chance.uniform(50, 6_000) * MS)
            machine.actor.paused_until = max(until, machine.actor.paused_until)  # It does not wake before.

    def _cable(self) -> list[tuple[str, str]]:
        """Draw the cable of a node to its parent: those of all its machines, or of one of them."""
        site = self.chance.choice([one for one in self._sites.values() if "/" in one.node])
        above = self._sites[site.node.rpartition("/")[0]]
        cables = [(one, other) for one in site.names for other in above.names]
        return cables if self.chance.random() < 0.7 else [self.chance.choice(cables)]

    def cut(self) -> None:
        self._cut(self._cable(), self.chance.uniform(100, 9_000))

    def _cut(self, cables: Sequence[tuple[str, str]], for_ms: float) -> None:
        for cable in cables:
            self.stage.note(cable[0], f"cut off from {cable[1]} for {for_ms:.0f} ms")
            self.network.cut_both(*cable, for_ms)

    def slow(self) -> None:
        for cable in self._cable():
            self.stage.note(cable[0], f"heard at {SLOW_BYTES_PER_S} bytes/s from now on")
            self.stage.network.slow(*cable, SLOW_BYTES_PER_S)

    def clock(self) -> None:
        machine = self._any()
        machine.host.wall_shift_ns = self.chance.randrange(-36_000, 36_000) * SECOND
        self.stage.note(machine.name, f"clock jumps by {machine.host.wall_shift_ns // SECOND} s")

    def restore(self) -> None:
        """Put back a backup of a disk."""
        lone = self._lone()
        machine = self.chance.choice(lone) if lone else None
        image = None if machine is None else self.images.get(machine.name)
        if machine is not None and image is not None and machine.is_up:
            self._exchange(machine, image.image(self.chance.getrandbits(32)))

    def wipe(self) -> None:
        """Come back with an empty disk."""
        lone = self._lone()
        machine = self.chance.choice(lone) if lone else None
        if machine is not None and machine.is_up:
            self._exchange(machine, SimDisk(self.chance.getrandbits(32)))

    def _exchange(self, machine: LoneMachine, disk: SimDisk) -> None:
        next(site for site in self._sites.values() if machine in site.machines).exchanged()
        machine.restore(disk)

    def take_over(self) -> None:
        """Kill the member of a pair that serves."""
        self._fell(self.chance.choice(self._pairs()))

    def take_over_everywhere(self) -> None:
        """Kill the member that serves in every pair, within half a second."""
        for site in self._pairs():
            self.agenda.after_ms(self.chance.uniform(0, 500), partial(self._fell, site))

    def _fell(self, site: Site) -> None:
        serving = site.serving
        if self.stage.has_faults and serving is not None and all(one.is_up for one in site.machines):
            serving.dies("killed while it serves", is_power=self.chance.random() < 0.5)

    def switchover(self) -> None:
        """Let a pair hand over in order."""
        serving = self.chance.choice(self._pairs()).serving
        if serving is not None:
            self.stage.note(serving.name, "is asked: switchover")
            serving.operator.order("switchover", lambda _: None)

    def cut_members(self) -> None:
        """Cut the members of a pair apart."""
        site = self.chance.choice(self._pairs())
        one, other = site.names
        self._cut([(one, other)], self.chance.uniform(100, 4_000))
