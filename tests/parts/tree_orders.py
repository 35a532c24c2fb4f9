"""Parts that tests share: an order given at the root is carried out once by the node that owns the item."""

import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.codec.frame import frames
from albireo.codec.message import ProducerHello, WriteDone, WriteOrder
from albireo.codec.record import Kind, Record, decode_records
from albireo.log.log import Log
from albireo.model.command import Outcome, Receipt
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.runtime import SyncLink
from tests.parts.core_pair import until
from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode

ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"


SET_POINT = DataItem(name="speed", value_type=ValueType.FLOAT64, is_writable=True, minimum=0.0, maximum=100.0)


class Device(threading.Thread):
    """An adapter that carries out every order at once, and counts them."""

    def __init__(self, data: Path, item: DataItem = SET_POINT) -> None:
        super().__init__(daemon=True)
        self.orders: list[WriteOrder] = []
        self._item = item
        self._ends = threading.Event()
        self._link = SyncLink(data, "core")

    def run(self) -> None:
        self._link.send(ProducerHello(producer="p1", items=(self._item,), run=1, takes_orders=True))
        while not self._ends.is_set():
            received = self._link.receive(0.1)
            if received is not None and isinstance(received[0], WriteOrder):
                order = received[0]
                self.orders.append(order)
                receipt = Receipt(command_id=order.command_id, outcome=Outcome.VERIFIED, read_back=order.value)
                self._link.send(WriteDone(receipt=receipt))

    def end(self) -> None:
        self._ends.set()
        self.join()
        self._link.close()


@contextlib.contextmanager
def device(node: TreeNode, above: TreeNode, item: DataItem = SET_POINT) -> Iterator[Device]:
    """The adapter, once the node above knows its item."""
    one = Device(node.data, item)
    one.start()
    try:
        with above.program() as program:
            asked_until(
                program, lambda rows: item.name in {row["item"]["name"] for row in rows}, "items", node=node.node
            )
        yield one
    finally:
        one.end()


@contextlib.asynccontextmanager
async def up(node: TreeNode) -> AsyncIterator[Core]:
    """The node, once it takes orders to other nodes: the record of its messages' life is committed."""
    async with node.core_up() as core:
        await until(lambda: core.root.tree.post.messages.is_serving, "messages")
        yield core


def told(log: Log, kind: type) -> list[Any]:
    """Records of one kind in a log."""
    found: list[Record] = []
    for header, body in frames(log.read_appended(0, 1 << 24)):
        if header.kind == Kind.RECORDS:
            found += decode_records(body, header.record_count)
    return [one for one in found if isinstance(one, kind)]


def run(node: TreeNode, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(node.data)])


def shown(node: TreeNode, *arguments: str) -> Any:
    """What a command says with --json."""
    result = run(node, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])
