"""A tree of whole nodes in one process, from a seed: a root, two sites, and a node below one of them, in a bad world.

Real are the shells, logs, folds, doors and uplinks, members of pairs and their witnesses; simulated are time, disks,
the network, the threads of the logs and the processes' loops. A seed draws its own mix of faults, which nodes are
pairs, and how much is ordered. On each node a program counts, and a device can be written. Checked

    all the while   values of a node that is not heard do not look live above, or beyond; what a node alone acknowledges
                    it has committed; each pair as the world of whole nodes checks it (nodes/ledger.py)
    at the end      every copy is true, once, whole (ledger.py) and complete; what programs counted is there, once and
                    in order; what is shown of a node, above it and beyond, is what it has; orders ended as they are
                    told to have, at most once (orders.py)

Spec: design/tree.md; docs/simulation.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Self

from albireo.codec.message import Answer
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.items.forces import FORCES, Forces
from albireo.machine.root.root import Root
from albireo.machine.tree.followed_states import UNHEARD_NS
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import MS, SECOND
from albireo.model.item import Reading
from albireo.sim.engine.network import OUTSIDE
from albireo.sim.engine.world import World
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.tree.device import ITEM
from albireo.sim.tree.faults import TreeFaults
from albireo.sim.tree.ledger import TreeLedger
from albireo.sim.tree.node import LoneMachine, TreeMember
from albireo.sim.tree.orders import Order, OrderLedger, disagreements, open_orders
from albireo.sim.tree.site import Site
from albireo.sim.tree.swarm import BEYOND, NODES, TreeSwarm, swarm_of_tree

HEAL_NS: Final = 60 * SECOND
LOOK_MS: Final = 500.0
NOTICE_NS: Final = UNHEARD_NS + SECOND
"""Time after which a neighbour that is away must not look live."""
HEARSAY_NS: Final = 2 * SECOND
"""Time after which a node of which a neighbour knows that it is away must not look live, over a slow cable as well."""
FORCE_MS: Final = 1_500


class TreeWorld(World[NodeStage]):
    """World of one tree with all its parts."""

    faults: TreeFaults

    def __init__(self, seed: int, swarm: TreeSwarm | None = None, *, is_verbose: bool = False) -> None:
        self.swarm = swarm or swarm_of_tree(seed)
        super().__init__(NodeStage(seed, self.swarm, is_verbose=is_verbose))
        stage = self.stage
        self.chance = stage.chance
        self.copies = TreeLedger(stage.fail)
        outside = Host(OUTSIDE, stage.chance, self.swarm.drift)
        self.sites = {node: Site(stage, self.copies, node, outside) for node in NODES}
        self.orders = OrderLedger(stage.fail, {node: site.device for node, site in self.sites.items()})
        self.faults = TreeFaults(stage, self.sites)
        self._unheard_since: dict[tuple[str, str], dict[tuple[object, ...], int]] = {}
        """Instant since which nothing is told of a node, by machine and neighbour; then by node, tenure, and why."""

    def play(self) -> Self:
        """Play a new tree, then faults, then quiet."""
        with self.living():
            self.begin()
            return super().play()

    @contextmanager
    def living(self) -> Iterator[None]:
        """Let the world go on inside; nobody goes on afterwards with what a process was about to do."""
        try:
            yield
        finally:
            for site in self.sites.values():
                for machine in site.all_machines():
                    if machine.actor is not None:
                        machine.actor.loop.end()

    def begin(self) -> None:
        """Play from nothing to a tree in which everybody hears everybody."""
        for site in self.sites.values():
            site.start()
            self._count(site)
        self.within(HEAL_NS, self.is_well, lambda: f"no tree: {self.ends()}")
        self._look()
        if self.swarm.order_every_ms:
            self._order_soon()

    def _count(self, site: Site) -> None:
        site.program.offer()
        wait_ms = self.swarm.batch_every_ms * (0.5 + self.chance.random())
        self.agenda.after_ms(wait_ms, partial(self._count, site))

    # Orders.

    def _order_soon(self) -> None:
        self.agenda.after_ms(self.chance.expovariate(1.0 / self.swarm.order_every_ms), self._order_next)

    def _order_next(self) -> None:
        if self.stage.has_faults:
            giver = self.chance.choice(list(self.sites.values()))
            owners = [one for one in self.sites if one == giver.node or one.startswith(f"{giver.node}/")]
            self.order(giver, self.sites[self.chance.choice(owners)])
            self._order_soon()

    def order(self, giver: Site, owner: Site) -> Order | None:
        """Give an order at one node to the device of another; None: the node that would give it is away."""
        serving = giver.serving
        if serving is None:
            return None
        if self.chance.random() < 0.15:
            self.force(serving, owner, FORCE_MS)
            return None
        order = self.give(serving, giver, owner, self.chance.choice(self.swarm.expires_ms))
        if giver is not owner and self.chance.random() < 0.2:
            self.agenda.after_ms(self.chance.uniform(0, 400), partial(self._take_back, giver, order))
        return order

    def give(self, serving: TreeMember | LoneMachine, giver: Site, owner: Site, expires_ms: int) -> Order:
        """Give an order at the machine of a node that serves."""
        order = self.orders.give(giver.node, owner.node, giver.stores)

        def answered(answer: Answer) -> None:
            self.stage.tell(giver.node, f"{order.command_id}: {answer.outcome}")
            order.answers.append(answer)

        self.stage.tell(giver.node, f"orders {owner.node}:{ITEM} = {order.value} within {expires_ms} ms")
        serving.operator.order(
            "write",
            answered,
            item=f"{owner.node}:{ITEM}",
            value=order.value,
            command_id=order.command_id,
            user="sim",
            expires_ms=expires_ms,
        )
        return order

    def _take_back(self, giver: Site, order: Order) -> None:
        serving = giver.serving
        if serving is not None:
            serving.operator.order("cancel", lambda _: None, command_id=order.command_id, user="sim")

    def force(self, serving: TreeMember | LoneMachine, owner: Site, for_ms: int) -> None:
        """Force the device of a node, at the machine that serves another or the same."""
        item = f"{owner.node}:{ITEM}"
        serving.operator.order(
            "force", lambda _: None, item=item, value=-1.0, for_ms=for_ms, reason="simulated", user="sim"
        )

    # The end.

    def settle(self) -> None:
        self.faults.heal()
        self.within(HEAL_NS, self.is_well, lambda: f"not well after the last fault: {self.ends()}")
        self.converge()

    def converge(self) -> None:
        """Check that all gets quiet, complete and equal."""
        sites = self.sites.values()
        for site in sites:
            site.program.is_quiet = True
        self.within(HEAL_NS, self._is_drained, lambda: f"batches wait: {self._batches()}", every=1_000)
        self.within(HEAL_NS, self._are_done, lambda: f"orders without an end: {self._open()}", every=1_000)
        ends = {one.log_id: self.copies.end_of(one.log_id) for one in sites}
        self.within(HEAL_NS, partial(self._have_all, ends), lambda: f"not all is copied: {self.ends()}", every=1_000)
        shown: set[tuple[str, str]] = set()
        self.within(HEAL_NS, partial(self._show_what_is, shown), lambda: f"mirrors differ: {self.ends()}", every=20)
        self.within(HEAL_NS, self._all_serve, lambda: f"nobody serves: {self.ends()}", every=20)
        for site in sites:
            self._check_site(site)
        self._check_orders()

    def _all_serve(self) -> bool:
        """A pair may just hand over."""
        return all(site.root is not None for site in self.sites.values())

    def is_well(self) -> bool:
        return all(site.is_well() for site in self.sites.values()) and all(
            mirror.stale_since_ns is None for _, root in self._roots() for mirror in root.tree.all_mirrors.values()
        )

    def _roots(self) -> list[tuple[TreeMember | LoneMachine, Root]]:
        return [(one, one.root) for site in self.sites.values() for one in site.machines if one.root is not None]

    def _is_drained(self) -> bool:
        return all(site.program.is_drained for site in self.sites.values())

    def _batches(self) -> list[tuple[str, int, int]]:
        return [(one.node, one.program.offered, one.program.acknowledged) for one in self.sites.values()]

    def _are_done(self) -> bool:
        return self.is_well() and not self._open()

    def _open(self) -> list[str]:
        return [order for site in self.sites.values() if site.root is not None for order in open_orders(site.root)]

    def _have_all(self, ends: dict[bytes, int]) -> bool:
        """Each node has everything of those below that was committed then; each copy is judged."""
        found = []
        for site in self.sites.values():
            if site.serving is None:
                return False
            copies = self.copies.judge(site.node, site.serving.log.frames())
            below = [one for one in self.sites.values() if one.node.startswith(f"{site.node}/")]
            found += [copies.get(one.log_id, 0) >= ends[one.log_id] for one in below]
        return all(found)

    def _show_what_is(self, shown: set[tuple[str, str]]) -> bool:
        """Tell whether every machine has shown each other node as it is, at one moment or another.

        Args:
            shown: machine and node of what was seen equal so far.
        """
        missing = 0
        for machine, root in self._roots():
            for node, mirror in root.tree.all_mirrors.items():
                other = self.sites[node].root
                if (machine.name, node) in shown:
                    continue
                if other is not None and is_shown(other, mirror):
                    shown.add((machine.name, node))
                else:
                    missing += 1
        return not missing

    def _check_site(self, site: Site) -> None:
        program = site.program
        if program.by is not None:
            self.stage.fail(f"{site.node}: its program was told that another one has its name")
        self.copies.check_counts(site.node, site.log_id, program.number, site.counted_before, program.counted)
        for machine in site.machines:
            root = machine.root
            assert root is not None
            own = {one.node for one in root.folds.dim}
            if own != {site.node}:
                self.stage.fail(f"{machine.name} holds items of {own} as its own")
            if any(one.refused for one in root.tree.all_mirrors.values()):
                self.stage.fail(f"{machine.name} was told items of another node")

    def _check_orders(self) -> None:
        self.orders.check_once()
        roots = {node: site.root for node, site in self.sites.items()}
        stores = {node: site.stores for node, site in self.sites.items()}
        for order in self.orders.given:
            root = roots[order.giver]
            assert root is not None
            self.orders.check(order, root, stores)
        for giver in roots.values():
            for node, owner in roots.items():
                assert giver is not None and owner is not None
                if found := disagreements(giver, owner, is_restored=stores[node] > 0):
                    self.stage.fail(f"receipts differ: {found[0]}")

    def _look(self) -> None:
        """Look whether a node that was away for long, or what is seen through it, looks live at a neighbour."""
        for site in self.sites.values():
            parent = self.sites.get(site.node.rpartition("/")[0])
            if parent is not None:
                for machine in parent.machines:
                    self._look_at(machine, site, (site.node,))
                for machine in site.machines:
                    self._look_at(machine, parent, BEYOND[site.node])
        if self.stage.has_faults:
            self.agenda.after_ms(LOOK_MS, self._look)

    def _look_at(self, here: TreeMember | LoneMachine, other: Site, nodes: Sequence[str]) -> None:
        """Look whether these nodes, which are seen through a neighbour, look live while it tells nothing of them."""
        edge, root = (here.name, other.node), here.root
        before = self._unheard_since.pop(edge, {})
        if root is None or here.actor is None or here.actor.paused_until > self.agenda.at:
            return
        after = self._unheard_since[edge] = {}
        why = [self._silence(here, one) for one in other.machines]
        for node in nodes:
            is_told = node == other.node or any(_is_live(one, node) for one in other.machines)
            if is_told and not all(why):
                continue
            key = node, root.tree.beyond, *why  # A tenure counts the silence anew.
            since = after[key] = before.get(key, self.agenda.at)
            for_ms = (self.agenda.at - since) // MS
            if for_ms > (NOTICE_NS if any(why) else HEARSAY_NS) // MS and _is_live(here, node):
                self.stage.fail(f"{node} is not heard for {for_ms} ms and looks live at {here.name}")

    def _silence(self, here: TreeMember | LoneMachine, other: TreeMember | LoneMachine) -> str:
        """Reason why a machine says nothing here, another one for each time that it begins; empty: it speaks."""
        network, actor = self.stage.network, other.actor
        if network.is_cut_off(here.name, other.name):
            return f"cut until {network.cut_until(here.name, other.name)}"
        if other.root is None or actor is None:
            return f"down, up since {other.up_since}"
        return f"paused until {actor.paused_until}" if actor.paused_until > self.agenda.at else ""

    def ends(self) -> str:
        rows = []
        for site in self.sites.values():
            for one in site.machines:
                root = one.root
                told = [] if root is None else root.tree.seen()
                seen = [(n.node, n.stale_since_ns, n.position, n.trouble) for n in told]
                state = one.state if isinstance(one, TreeMember) else "alone"
                rows.append((one.name, "down" if root is None else f"{state} {one.log.committed}", seen))
        return str(rows)


def _is_live(here: TreeMember | LoneMachine, node: str) -> bool:
    """Whether another node looks live here."""
    return here.root is not None and here.root.tree.all_mirrors[node].stale_since_ns is None


def is_shown(owner: Root, mirror: NodeMirror) -> bool:
    """Whether a node is shown as it is."""
    forced, shown = owner.folds.of(Forces).table, mirror.table(FORCES)
    return _readings(owner.folds.dim) == _readings(mirror.dim) and set(forced) == set(shown)


def _readings(dim: Dim) -> dict[str, Reading]:
    """Readings that a node has, or shows of another, by item."""
    places = [(one.full_name, dim.index_of(one.item_id)) for one in dim]
    return {name: dim.reading_at(place) for name, place in places if place is not None}
