"""Nodes above and below each other in one loop, some of them pairs: their COREs, over real links, on real logs."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from albireo.codec.message import ProducerHello, RoleAsked, RoleTold, WriteDone, WriteOrder
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.tree.nodes import ChildConfig
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.uplinks import UplinkArguments
from albireo.runtime import SyncLink
from albireo.runtime.link.lines import LineTo
from tests.parts.core_pair import Plant, begun, until
from tests.parts.tree import TreeNode, tree_of

SET_POINT = DataItem(name="speed", value_type=ValueType.FLOAT64, is_writable=True, minimum=0.0, maximum=100.0)


class Device(threading.Thread):
    """An adapter on the machine of each member of a node, or of a lone node: carries out every order, and counts.

    While `is_slow` is set it says nothing of what it carried out; it does so later.
    """

    def __init__(self, places: Mapping[Path, str]) -> None:
        """`places`: name of the place of each data directory."""
        super().__init__(daemon=True)
        self.orders: list[tuple[str, WriteOrder]] = []
        """Place that gave each order, and the order."""
        self.is_slow = threading.Event()
        self._ends = threading.Event()
        self._untold: list[tuple[Path, WriteOrder]] = []
        self._places = dict(places)
        self._links = {data: SyncLink(data, "core") for data in places}

    def run(self) -> None:
        for link in self._links.values():
            link.send(RoleAsked(adapter="p1", reaches=True))
        while not self._ends.is_set():
            for data, link in list(self._links.items()):
                self._turn(data, link)
            if not self.is_slow.is_set():
                self._tell()

    def _turn(self, data: Path, link: SyncLink) -> None:
        received = link.receive(0.02)
        if received is None:
            return
        match received[0]:
            case RoleTold(is_acting=True):
                link.send(ProducerHello(producer="p1", items=(SET_POINT,), run=1, takes_orders=True))
            case WriteOrder() as order:
                self.orders.append((self._places[data], order))
                self._untold.append((data, order))

    def _tell(self) -> None:
        """Say what became of each order, to the member that gave it."""
        for data, order in self._untold:
            receipt = Receipt(command_id=order.command_id, outcome=Outcome.VERIFIED, read_back=order.value)
            self._links[data].send(WriteDone(receipt=receipt))
        self._untold.clear()

    @property
    def values(self) -> list[object]:
        """What was ordered, in order."""
        return [order.value for _, order in self.orders]

    def end(self) -> None:
        self._ends.set()
        self.join()
        for link in self._links.values():
            link.close()


class PairTree:
    """Nodes of a tree, the root first."""

    def __init__(
        self, home: Path, nodes: Mapping[str, bool], beyond: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """
        Args:
            nodes: True: a pair; by id, each behind the one above it.
            beyond: nodes whose states a node follows at its parent, by its id.
        """
        self.ids = list(nodes)
        self.pairs: dict[str, Plant] = {}
        self.lone: dict[str, TreeNode] = {}
        self.cores: dict[str, Core] = {}
        """Of the lone nodes that are up."""
        names = {one: self._places(one, is_pair=nodes[one]) for one in nodes}
        (home / "lone").mkdir()
        alone = tree_of(home / "lone", *nodes)
        for node in self.ids:
            children = tuple(
                ChildConfig(
                    node=one, places=names[one], nodes=tuple(two for two in self.ids if two.startswith(f"{one}/"))
                )
                for one in self.ids
                if one.rpartition("/")[0] == node
            )
            parent = node.rpartition("/")[0]
            uplink = self._uplink(parent, (beyond or {}).get(node, ())) if parent else None
            if nodes[node]:
                place = home / node.replace("/", "~")
                place.mkdir()
                made = self.pairs[node] = Plant(place, (), node, cold_wait_ns=SECOND)
                made.children, made.uplink = children, uplink
            else:
                lone = self.lone[node] = alone[node]
                lone.arguments = msgspec.structs.replace(lone.arguments, children=children, uplink=uplink)

    @staticmethod
    def _places(node: str, *, is_pair: bool) -> tuple[str, ...]:
        return (f"{node}[primary]", f"{node}[backup]") if is_pair else (node,)

    def _uplink(self, parent: str, beyond: tuple[str, ...]) -> UplinkArguments:
        endpoints = {one.peer: one.endpoint for one in self.lines(parent)}
        return UplinkArguments(parent=parent, endpoints=endpoints, beyond=beyond)

    def lines(self, node: str) -> tuple[LineTo, ...]:
        """Where clients reach a node."""
        if node in self.pairs:
            return self.pairs[node].lines
        return (LineTo(self.lone[node].endpoint, node),)

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """All nodes serve, both members of each pair are in its set, and envelopes may be recorded."""
        async with contextlib.AsyncExitStack() as ends:
            for node in self.ids:
                if node in self.pairs:
                    made = await ends.enter_async_context(begun(self.pairs[node]))
                    await made.start(1)
                else:
                    self.cores[node] = await ends.enter_async_context(self.lone[node].core_up())
            for made in self.pairs.values():
                await made.wait_for("active", "ready")
            for node in self.ids:
                await until(partial(self.serves, node), f"{node} serves")
            yield

    async def serve_all(self) -> None:
        """Wait until some member of each pair serves: on a busy machine a lease may end for a moment."""
        for node in self.ids:
            await until(partial(self.serves, node), f"{node} serves")

    def serves(self, node: str) -> bool:
        return node in self.cores or any(one.root.role.is_serving for one in self.pairs[node].cores.values())

    def acting(self, node: str) -> int:
        """Index of the member of a pair that serves."""
        (found,) = [index for index, core in self.pairs[node].cores.items() if core.root.role.is_serving]
        return found

    def core(self, node: str) -> Core:
        """CORE of a lone node, or of the member that serves."""
        return self.cores[node] if node in self.cores else self.pairs[node].cores[self.acting(node)]

    async def kill_acting(self) -> None:
        """Kill the acting members of all pairs at once, and wait until the others act."""
        await self.kill_acting_of(*self.pairs)

    async def kill_acting_of(self, *nodes: str) -> None:
        """Kill the acting members of these pairs at once, and wait until the others act."""
        await self.serve_all()
        await asyncio.gather(*(self.pairs[node].kill(self.acting(node)) for node in nodes))
        for node in nodes:
            await until(partial(_all_serve, self.pairs[node]), "takeover")

    @contextlib.contextmanager
    def device(self, node: str) -> Iterator[Device]:
        if node in self.pairs:
            made = self.pairs[node]
            places = {made.data(index): place for index, place in enumerate(made.places)}
        else:
            places = {self.lone[node].data: node}
        one = Device(places)
        one.start()
        try:
            yield one
        finally:
            one.end()


def _all_serve(made: Plant) -> bool:
    return all(one.root.role.is_serving for one in made.cores.values())
