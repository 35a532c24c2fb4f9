"""Nodes above and below each other in one loop: their COREs and histories, over real links, on real logs."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from albireo.log import LogConfig
from albireo.machine.kernel.named import HISTORY, above
from albireo.model.item import DataItem
from albireo.model.tree.nodes import ChildConfig
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.node.core.uplinks import UplinkArguments
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.membership.door import DoorArguments
from albireo.runtime import running
from albireo.runtime.link.lines import LineTo
from tests.parts.history import Sample, batch_of
from tests.parts.lone import Program
from tests.parts.port import free_ports
from tests.parts.producing import producing
from tests.parts.waiting import PATIENCE_S

CO = DataItem(name="co", value_type=ValueType.FLOAT64)


class TreeNode:
    """One lone node of a tree, its door open on loopback."""

    def __init__(
        self,
        home: Path,
        nodes: Sequence[str],
        node: str,
        ports: dict[str, int],
        beyond: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """
        Args:
            nodes: ids of all nodes.
            ports: port of each node's door.
            beyond: nodes outside its subtree whose states it follows at its parent.
            host: address of all doors.
        """
        self.node = node
        self.endpoint = f"tcp://{host}:{ports[node]}"
        parent = node.rpartition("/")[0]
        endpoints = {parent: f"tcp://{host}:{ports[parent]}"} if parent else {}
        uplink = UplinkArguments(parent=parent, endpoints=endpoints, beyond=tuple(beyond)) if parent else None
        below = [one for one in nodes if one.rpartition("/")[0] == node]
        children = tuple(
            ChildConfig(node=one, places=(one,), nodes=tuple(two for two in nodes if two.startswith(f"{one}/")))
            for one in below
        )
        self.arguments = CoreArguments(
            node=node,
            cluster="c",
            log=LogConfig(segment_bytes=1 << 20, free_bytes_min=0),
            retention=Retention(named=(HISTORY, above(parent)) if parent else (HISTORY,)),
            door=DoorArguments(endpoint=self.endpoint, is_open_without_keys=True),
            uplink=uplink,
            children=children,
        )
        self.data = home / node.replace("/", "~")
        self.data.mkdir()

    @contextlib.asynccontextmanager
    async def core_up(self) -> AsyncIterator[Core]:
        core = Core(self.arguments)
        async with running(core, self.data):
            yield core

    @contextlib.asynccontextmanager
    async def history_up(self) -> AsyncIterator[Historian]:
        historian = Historian(HistoryArguments(node=self.node))
        async with running(historian, self.data):
            yield historian

    def produce(self, rows: Sequence[Sample], producer: str = "boiler", items: Sequence[DataItem] = (CO,)) -> None:
        """Record rows of one item, through the door; for a thread of its own."""
        with producing(producer, list(items), [LineTo(self.endpoint, self.node)], None) as one:
            one.offer([batch_of(rows, ValueType.FLOAT64, rows[-1][1])])
            assert one.wait(PATIENCE_S)

    def program(self) -> Program:
        return Program(self.endpoint, None)


def tree_of(home: Path, *nodes: str, beyond: Mapping[str, Sequence[str]] | None = None) -> dict[str, TreeNode]:
    """The nodes of a tree by their ids. `beyond`: as in `TreeNode`, by id."""
    ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))
    return {one: TreeNode(home, nodes, one, ports, (beyond or {}).get(one, ())) for one in nodes}


def only(rows: Any, node: str) -> Any:
    """The row of one node in the answer `tree`."""
    return next(one for one in rows if one["node"] == node)
