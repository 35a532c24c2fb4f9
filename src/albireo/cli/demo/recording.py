"""The part of a demo in which things happen: tunnels, tree, orders, cut and view, from first start to last stop.

    tunnels start -> tree starts -> orders, cut, view -> the root fetches all -> tree stops -> tunnels stop

Whatever ends it, it goes this way from the view on.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.cli.demo.cut import Cut, CutTold
from albireo.cli.demo.orders import DemoOrders, OrdersTold
from albireo.cli.demo.processes import LOG
from albireo.cli.demo.signals import Signals
from albireo.cli.demo.tree import NORTH, ROOT, SITES, SOUTH, DemoTree, name_of
from albireo.cli.output import Failure, say
from albireo.cli.view.state import LiveState
from albireo.cli.view.view import LiveView
from albireo.cli.view.watch import SITE
from albireo.drill.ground import DrillError
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.status import NodeStatus
from albireo.model.tree.node_row import NodeRow
from albireo.plant.tunnel import Tunnel, TunnelError, start_whole_tunnel
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.runtime.clock import wall_ns

GUARDED: Final = {NORTH: (), SOUTH: tuple(PLCS)}
"""PLCs whose set points are reached through the output mailboxes only: those of the pair, which they vote for."""


class DemoOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command."""

    data: Path
    is_fresh: bool
    """Begin with an empty directory; else go on with what is there."""
    seconds: float | None
    """Seconds from the moment when all is connected; None: the demo goes on until the operator leaves."""
    seed: int
    has_pipeline: bool
    has_view: bool


class RecordedNode(msgspec.Struct, kw_only=True):
    """A node after its stop."""

    data: Path
    """Directory of the member that acted last; of a pair that was never begun, the one above both members."""
    epoch: int = 0
    """Epoch at the begin; a different one at the end says that there was a takeover, or a restart."""
    status: NodeStatus | None = None
    """Last status of that member; None: it did not answer."""

    @property
    def has_another_epoch(self) -> bool:
        return self.status is not None and self.status.log.epoch != self.epoch


class Recorded(msgspec.Struct, kw_only=True):
    """Result of plants, tree and view."""

    nodes: dict[str, RecordedNode]
    """By id, the root first."""
    rows: Mapping[str, NodeRow] = {}
    """The sites as the root saw them last."""
    commands: OrdersTold = OrdersTold()
    cuts: list[CutTold] = []
    complaints: list[str] = []


class Recording:
    """Runs all of it once. `run` returns when everything is stopped."""

    def __init__(self, options: DemoOptions, signals: Signals) -> None:
        self._options, self._signals = options, signals
        places = {node: options.data / node.partition("/")[2] for node in (ROOT, *SITES)}
        self._recorded = Recorded(nodes={node: RecordedNode(data=place) for node, place in places.items()})

    def run(self) -> Recorded:
        """Raises Failure: it could not begin."""
        with contextlib.ExitStack() as afterwards:
            try:
                with self._signals.raising():
                    self._run(afterwards)
            except (TunnelError, DrillError) as error:
                raise Failure(str(error), "`albireo doctor` says what this machine lacks") from error
        return self._recorded

    def _run(self, afterwards: contextlib.ExitStack) -> None:
        options = self._options
        say(f"starting two tunnels, their nodes and the root above them; everything is kept in {options.data}")
        site = options.data / SITE
        tunnels: dict[str, Tunnel] = {}
        for number, node in enumerate(SITES):
            directory = site / name_of(node)
            tunnels[node] = start_whole_tunnel(directory, seed=options.seed + number, guarded=GUARDED[node])
            afterwards.callback(tunnels[node].stop)
        tree = DemoTree(site, {node: tunnel.ports for node, tunnel in tunnels.items()}, options.data)
        afterwards.callback(self._stop, tree)
        tree.start()
        for node, epoch in tree.wait_until_connected().items():
            self._recorded.nodes[node].epoch = epoch
        view = LiveView(tree.root.acting, lambda what, node: tunnels.get(node, tunnels[SOUTH]).begin(what), ("*:*",))
        pages = list(tree.pages())
        for page in pages:
            say(page)
        if options.has_view:
            view.tell(pages[0])
        cut = Cut(tree, NORTH, options.seconds, view.tell if options.has_view else say)
        orders = DemoOrders(tree.at_root, SITES, tree.hears)
        afterwards.callback(self._take_outcomes, tree, orders, cut)
        afterwards.callback(cut.end)
        afterwards.callback(orders.end)
        cut.begin()
        orders.begin()
        view.run(DemoUntil(tree, options.seconds, frozenset(tunnels[SOUTH].ports)), is_plain=not options.has_view)

    def _take_outcomes(self, tree: DemoTree, orders: DemoOrders, cut: Cut) -> None:
        self._recorded.commands, self._recorded.cuts = orders.commands, cut.told
        if not self._signals.are_urgent:
            tree.fetch_all()

    def _stop(self, tree: DemoTree) -> None:
        self._recorded.rows = tree.rows()
        for node in tree.nodes.values():
            found = self._recorded.nodes[node.id]
            found.status, found.data = node.status(), node.acting()
        has_report = self._options.has_pipeline and not self._signals.are_urgent
        say("stopping the nodes" + ("; the report follows" if has_report else ""))
        code = tree.stop()
        if code != 0 and not any(node.has_another_epoch for node in self._recorded.nodes.values()):
            self._recorded.complaints.append(
                f"a process of a node ended with {code}, see {LOG} in {self._options.data}/*"
            )


class DemoUntil:
    """Whether the demo is over: the root is gone, or the PLCs in the view were polled for long enough."""

    GRACE_NS: Final = 2 * SECOND
    """Grace time: with every PLC off no poll tells that time is up, so the clock does, this much later."""

    def __init__(self, tree: DemoTree, seconds: float | None, plcs: frozenset[str]) -> None:
        self._tree = tree
        self._length_ns = None if seconds is None else round(seconds * SECOND)
        self._plcs = plcs
        self._first_ns: int | None = None

    def __call__(self, live: LiveState) -> bool:
        self._tree.restart_ended()
        if not self._tree.is_running:
            return True
        if self._length_ns is None:
            return False
        polled = [
            current.source_ns
            for item_id, current in live.values.items()
            if quality.is_good(current.quality)
            and (known := live.items.get(item_id)) is not None
            and known.item.adapter in self._plcs
        ]
        if self._first_ns is None:
            self._first_ns = max(polled, default=None)
        if self._first_ns is None:
            return False
        is_polled_long = max(polled, default=0) - self._first_ns >= self._length_ns
        return is_polled_long or wall_ns() - self._first_ns >= self._length_ns + self.GRACE_NS
