"""A node alone whose CORE dies goes on with its messages under the same boot; one that starts anew ends them."""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from albireo.client import ClientError, NodeRefused, connect
from albireo.codec.message import ProducerHello, WriteOrder
from albireo.codec.questions.messages import InboxMessage
from albireo.model.command import Outcome, Receipt
from albireo.model.tree.proof import MessageProof
from albireo.runtime import ActorSpec
from albireo.runtime.actor.supervisor import Supervisor
from tests.parts.core_pair import aside
from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode, tree_of
from tests.parts.tree_orders import SET_POINT, Device
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

ROOT: Final = "root"
NORTH: Final = "root/north"


@contextlib.asynccontextmanager
async def booted(node: TreeNode) -> AsyncIterator[Supervisor]:
    """CORE of a node in a process of its own, under a boot."""
    core = ActorSpec("core", "albireo.node.core.actor:create", msgspec.to_builtins(node.arguments))
    supervisor = Supervisor(node.data, [core])
    assert await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


def epoch_of(node: TreeNode) -> int:
    """Epoch of the tenure of a node; 0: nobody answers."""
    with contextlib.suppress(ClientError), connect(node.endpoint, timeout_s=1.0) as client:
        return client.status().log.epoch
    return 0


async def kill(boot: Supervisor, node: TreeNode) -> None:
    """Kill CORE; returns once its successor serves."""
    before = await aside(partial(epoch_of, node))
    assert before > 0
    os.kill(boot.states()[0].pid, signal.SIGKILL)
    await aside(lambda: awaited(lambda: epoch_of(node), lambda epoch: epoch > before))


def sent(node: TreeNode) -> str:
    """Send a message, once the log has the level for it; returns its id."""

    def send() -> str:
        with contextlib.suppress(NodeRefused), connect(node.endpoint) as client:
            return client.send(NORTH, b"recipe", expires_s=2 * PATIENCE_S, wait=False)
        return ""

    return awaited(send)


def received(node: TreeNode) -> InboxMessage:
    with connect(node.endpoint) as client:
        return next(iter(client.inbox(timeout_s=PATIENCE_S)))


def take(node: TreeNode, message: InboxMessage) -> None:
    with connect(node.endpoint) as client:
        client.take(message)


def served(node: TreeNode, count: int) -> None:
    """Take so many messages as they come."""
    with connect(node.endpoint) as client:
        for message in itertools.islice(client.inbox(timeout_s=PATIENCE_S), count):
            client.take(message)


def ended(node: TreeNode, command_id: str) -> MessageProof:
    with connect(node.endpoint) as client:
        found = client.message(command_id, timeout_s=PATIENCE_S)
        assert found is not None
        return found


def test_what_an_origin_had_open_goes_on_when_its_core_is_killed(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    async def story() -> list[str]:
        async with north.core_up(), booted(root) as boot:
            found = [await aside(partial(sent, root))]
            for _ in range(2):
                await kill(boot, root)
                found.append(await aside(partial(sent, root)))  # Messages are served again: else it was no tenure.
            await aside(partial(served, north, len(found)))
            return [(await aside(partial(ended, root, one))).outcome for one in found]

    assert asyncio.run(story()) == ["executed"] * 3


def test_what_a_receiver_had_is_its_own_still_when_its_core_is_killed(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    async def story() -> MessageProof:
        async with root.core_up(), booted(north) as boot:
            command_id = await aside(partial(sent, root))
            message = await aside(partial(received, north))
            await kill(boot, north)
            await aside(partial(take, north, message))
            proof: MessageProof = await aside(partial(ended, root, command_id))
            return proof

    assert asyncio.run(story()).outcome == "executed"


class SlowDevice(Device):
    """An adapter whose device does what it was ordered, and is silent about it."""

    def run(self) -> None:
        self._link.send(ProducerHello(producer="p1", items=(SET_POINT,), run=1, takes_orders=True))
        while not self._ends.is_set():
            received = self._link.receive(0.1)
            if received is not None and isinstance(received[0], WriteOrder):
                self.orders.append(received[0])


def test_an_order_under_way_when_its_owners_core_is_killed_is_carried_out_once_and_told(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    def known() -> None:
        with root.program() as program:
            asked_until(program, lambda rows: "speed" in {row["item"]["name"] for row in rows}, "items", node=NORTH)

    def ordered() -> Receipt:
        with connect(root.endpoint) as client:
            return client.write("north:speed", 42.0, "more wind", expires_s=5.0)

    async def story() -> None:
        async with root.core_up(), booted(north) as boot:
            adapter = SlowDevice(north.data)
            adapter.start()
            await aside(known)
            order = asyncio.create_task(aside(ordered))
            await aside(lambda: awaited(lambda: adapter.orders))
            await kill(boot, north)
            assert (await order).outcome is Outcome.UNKNOWN, "nobody knows what the device did"
            await aside(adapter.end)
            assert len(adapter.orders) == 1

    asyncio.run(story())


def test_a_node_that_starts_anew_ends_what_it_had_open(tmp_path: Path) -> None:
    """Its store may be an old copy now, of a time before it said that nothing will be done."""
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    def check(command_id: str) -> None:
        assert ended(root, command_id).outcome in ("expired", "unknown")
        with connect(north.endpoint) as client:
            assert list(client.inbox(timeout_s=0.5)) == [], "a receiver has it all the same"

    async def story() -> None:
        async with north.core_up():
            async with booted(root):
                command_id = await aside(partial(sent, root))
            async with booted(root):
                await aside(partial(check, command_id))

    asyncio.run(story())
