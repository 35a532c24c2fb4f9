"""A tree of whole nodes in one process, from a seed: a root, two sites, and a node below one of them, in a bad world.

Real are the shells, logs, folds, doors and uplinks; simulated are time, disks, the network, the threads of the logs and
the processes' loops. A seed draws its own mix of faults. Checked all the while: values of a node that is not heard do
not look live above. Checked at the end: every copy is true, once, whole (ledger.py) and complete, and what is shown of
a node, above it and beyond, is what it has.

Spec: design/tree.md; docs/simulation.md.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, Self

from albireo.machine.tree.child import ChildConfig
from albireo.machine.tree.followed_states import UNHEARD_NS
from albireo.model.instant import MS, SECOND
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.node.core.uplinks import UplinkArguments
from albireo.sim.engine.disk import SimDisk
from albireo.sim.engine.faults import Faults
from albireo.sim.engine.world import World
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.nodes.swarm import NodeSwarm, log_config_of
from albireo.sim.tree.ledger import TreeLedger
from albireo.sim.tree.node import OpenDoor, TreeMachine

NODES: Final = ("root", "root/north", "root/north/pump", "root/south")
FAULTS: Final = ("kill", "power", "cut", "pause", "restore", "wipe")
BEYOND: Final = {
    "root/north": ("root", "root/south"),
    "root/north/pump": ("root", "root/north", "root/south"),
    "root/south": ("root/north",),
}
"""Nodes that each one follows at its parent: the whole tree, or a part of it."""
SLOW_BYTES_PER_S: Final = 10_000
HEAL_NS: Final = 60 * SECOND
LOOK_MS: Final = 500.0
NOTICE_NS: Final = UNHEARD_NS + SECOND
"""Time after which a neighbour that is away must not look live."""
HEARSAY_NS: Final = 2 * SECOND
"""Time after which a node of which a neighbour knows that it is away must not look live, over a slow cable as well."""


def swarm_of_tree(seed: int) -> NodeSwarm:
    """Draw the mix of one seed."""
    drawn = [FAULTS[(seed * 7 + number * 5) % len(FAULTS)] for number in range(1 + seed % 4)]
    return NodeSwarm(
        faults=(*drawn, *["slow"] * (seed % 5 == 0), *["clock"] * (seed % 7 == 0)),
        fault_every_ms=(400.0, 1_000.0, 2_500.0)[seed % 3],
        faults_for_ms=12_000,
        delay_ms=(0.3, 2.0, 20.0)[seed // 3 % 3],
        sync_ms=(0.5, 5.0)[seed % 2],
        drift=0.01,
        segment_bytes=65_536,
        keep_s=3_600.0,
        bytes_per_s=(100_000_000, 300_000)[seed // 2 % 2],
    )


class TreeFaults(Faults[NodeStage, TreeMachine]):  # type: ignore[type-var]  # No node of a tree holds a lease.
    """Faults of one tree. A method named in `Mix.faults` is one fault."""

    def __init__(self, stage: NodeStage, machines: Sequence[TreeMachine]) -> None:
        super().__init__(stage, stage.network, machines, ())
        self.images: dict[str, SimDisk] = {}

    def begin(self) -> None:
        if not self.images:
            self._take_images()
        super().begin()

    def _take_images(self) -> None:
        """Take backups now and then; nobody knows which of them is put back."""
        for machine in self.members:
            if machine.is_up and self.chance.random() < 0.5:
                self.images[machine.name] = machine.disk.image(self.chance.getrandbits(32))
        if self.stage.has_faults:
            self.agenda.after_ms(1_500, self._take_images)

    def _any(self) -> TreeMachine:
        return self.chance.choice(list(self.members))

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

    def _cable(self) -> tuple[str, str]:
        """Draw the cable of a node to its parent."""
        machine = self.chance.choice([one for one in self.members if "/" in one.node])
        return machine.name, name_of(machine.node.rpartition("/")[0])

    def cut(self) -> None:
        cable, for_ms = self._cable(), self.chance.uniform(100, 9_000)
        self.stage.note(cable[0], f"cut off for {for_ms:.0f} ms")
        self.network.cut_both(*cable, for_ms)

    def slow(self) -> None:
        cable = self._cable()
        self.stage.note(cable[0], f"heard at {SLOW_BYTES_PER_S} bytes/s from now on")
        self.stage.network.slow(*cable, SLOW_BYTES_PER_S)

    def clock(self) -> None:
        machine = self._any()
        machine.host.wall_shift_ns = self.chance.randrange(-36_000, 36_000) * SECOND
        self.stage.note(machine.name, f"clock jumps by {machine.host.wall_shift_ns // SECOND} s")

    def restore(self) -> None:
        """Put back a backup of a disk."""
        machine = self._any()
        image = self.images.get(machine.name)
        if image is not None and machine.is_up:
            machine.restore(image.image(self.chance.getrandbits(32)))

    def wipe(self) -> None:
        """Come back with an empty disk."""
        machine = self._any()
        if machine.is_up:
            machine.restore(SimDisk(self.chance.getrandbits(32)))


class TreeWorld(World[NodeStage]):
    """World of one tree with all its parts."""

    faults: TreeFaults

    def __init__(self, seed: int, swarm: NodeSwarm | None = None) -> None:
        super().__init__(NodeStage(seed, swarm or swarm_of_tree(seed)))
        stage = self.stage
        self.copies = TreeLedger(stage.fail)
        self.machines: dict[str, TreeMachine] = {}
        for node in NODES:
            host = Host(name_of(node), stage.chance, stage.swarm.drift)
            stage.network.hosts[door_of(node)] = (host, -1)
            self.machines[node] = TreeMachine(stage, host, self.copies, self._arguments(node))
        self.faults = TreeFaults(stage, list(self.machines.values()))
        self._unheard_since: dict[tuple[tuple[str, str], str, str], int] = {}
        """Instant since which nothing is told of a node over an edge, and why; empty: the neighbour hears nothing."""

    def _arguments(self, node: str) -> CoreArguments:
        parent = node.rpartition("/")[0]
        children = [one for one in NODES if one.rpartition("/")[0] == node]
        return CoreArguments(
            node=node,
            cluster="c",
            log=log_config_of(self.stage.swarm),
            retention=Retention(keep_h=24.0, snapshot_every_s=2, scrub_bytes_per_s=0, parent=parent),
            door=OpenDoor(endpoint=door_of(node)),
            uplink=UplinkArguments(parent=parent, endpoints={parent: door_of(parent)}, beyond=BEYOND[node])
            if parent
            else None,
            children=tuple(
                ChildConfig(node=one, places=(one,), nodes=tuple(two for two in NODES if two.startswith(f"{one}/")))
                for one in children
            ),
        )

    def play(self) -> Self:
        """Play a new tree, then faults, then quiet; nobody goes on afterwards with what a process was about to do."""
        try:
            for machine in self.machines.values():
                machine.start_soon(self.stage.chance.random() * 300)
            self.within(HEAL_NS, self.is_well, lambda: f"no tree: {self._ends()}")
            self._look()
            return super().play()
        finally:
            for machine in self.machines.values():
                if machine.actor is not None:
                    machine.actor.loop.end()

    def settle(self) -> None:
        self.faults.heal()
        self.within(HEAL_NS, self.is_well, lambda: f"not well after the last fault: {self._ends()}")
        ends = {one.log.log_id: self.copies.end_of(one.log.log_id) for one in self.machines.values()}
        self.within(HEAL_NS, partial(self._have_all, ends), lambda: f"not all is copied: {self._ends()}", every=1_000)
        self.within(HEAL_NS, self._show_what_is, lambda: f"the mirrors differ: {self._ends()}", every=20)
        for machine in self.machines.values():
            assert machine.root is not None
            own = {one.node for one in machine.root.folds.dim}
            if own != {machine.node}:
                self.stage.fail(f"{machine.node} holds items of {own} as its own")
            mirrors = machine.root.tree.all_mirrors
            if any(one.refused for one in mirrors.values()):
                self.stage.fail(f"{machine.node} was told items of another node")

    def is_well(self) -> bool:
        return all(
            one.root is not None and all(two.stale_since_ns is None for two in one.root.tree.all_mirrors.values())
            for one in self.machines.values()
        )

    def _have_all(self, ends: dict[bytes, int]) -> bool:
        """Each node has everything of those below that was committed then; each copy is judged."""
        found = []
        for machine in self.machines.values():
            copies = self.copies.judge(machine.node, machine.log.frames())
            below = [one for one in self.machines.values() if one.node.startswith(f"{machine.node}/")]
            found += [copies.get(one.log.log_id, 0) >= ends[one.log.log_id] for one in below]
        return all(found)

    def _show_what_is(self) -> bool:
        """Tell whether each node is shown above as it is, at this moment."""
        for machine in self.machines.values():
            root = machine.root
            if root is None:
                return False
            for node, mirror in root.tree.all_mirrors.items():
                other = self.machines[node].root
                if other is None:
                    return False
                own = {one.full_name: other.folds.readings([one]) for one in other.folds.dim}
                shown = {one.full_name: mirror.dim.index_of(one.item_id) for one in mirror.dim}
                if own.keys() != shown.keys():
                    return False
                readings = {name: [mirror.dim.reading_at(at)] for name, at in shown.items() if at is not None}
                if readings != own:
                    return False
        return True

    def _look(self) -> None:
        """Look whether a node that was away for long, or what is seen through it, looks live at a neighbour."""
        for above in self.machines.values():
            for child in above.arguments.children:
                below = self.machines[child.node]
                self._look_at(above, below, (child.node,))
                self._look_at(below, above, BEYOND[child.node])
        if self.stage.has_faults:
            self.agenda.after_ms(LOOK_MS, self._look)

    def _look_at(self, here: TreeMachine, other: TreeMachine, nodes: Sequence[str]) -> None:
        """Look whether these nodes, which are seen through a neighbour, look live while it is away."""
        is_seen = here.root is not None and here.actor is not None and here.actor.paused_until <= self.agenda.at
        edge, why = (here.node, other.node), self._silence(here, other)
        found, self._unheard_since = self._unheard_since, {}
        self._unheard_since.update((key, since) for key, since in found.items() if key[0] != edge)
        for node in nodes if is_seen else ():
            if not why and (node == other.node or _is_live(other, node)):
                continue
            since = self._unheard_since[edge, node, why] = found.get((edge, node, why), self.agenda.at)
            for_ms = (self.agenda.at - since) // MS
            if for_ms > (NOTICE_NS if why else HEARSAY_NS) // MS and _is_live(here, node):
                self.stage.fail(f"{node} is not heard for {for_ms} ms and looks live at {here.node}")

    def _silence(self, here: TreeMachine, other: TreeMachine) -> str:
        """Reason why a neighbour says nothing, another one for each time that it begins; empty: it speaks."""
        network, actor = self.stage.network, other.actor
        if network.is_cut_off(here.name, other.name):
            return f"cut until {network.cut_until(here.name, other.name)}"
        if other.root is None or actor is None:
            return f"down, up since {other.up_since}"
        return f"paused until {actor.paused_until}" if actor.paused_until > self.agenda.at else ""

    def _ends(self) -> str:
        rows = []
        for one in self.machines.values():
            root = one.root
            seen = [] if root is None else [(n.node, n.stale_since_ns, n.position, n.trouble) for n in root.tree.seen()]
            rows.append((one.node, "down" if root is None else str(one.log.committed), seen))
        return str(rows)


def _is_live(here: TreeMachine, node: str) -> bool:
    """Whether another node looks live here."""
    return here.root is not None and here.root.tree.all_mirrors[node].stale_since_ns is None


def name_of(node: str) -> str:
    return node.replace("/", "-")


def door_of(node: str) -> str:
    return f"tcp://{name_of(node)}:door"
