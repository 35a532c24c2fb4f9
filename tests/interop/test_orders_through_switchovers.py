"""Orders and messages through switchovers and kills of the pair that they are given at: what is told is what was done.

A refusal means that nothing was done and nothing will be, so no value that was refused may ever be at the device; an
order whose end is told was carried out as often as it says; where nobody knows it is unknown.
"""

import asyncio
import contextlib
import itertools
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from albireo.client import Client, ClientError, NodeRefused, NodeUnreachable, OutcomeUnknown, connect
from albireo.model.command import Outcome
from tests.parts.core_pair import aside, until
from tests.parts.paired_tree import Device, PairTree
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

ROOT, NORTH = "root", "root/north"
CHANGES = 3
ORDERERS = 3


class Orderer(threading.Thread):
    """A program that orders one value after the other, each once, and keeps what it was told of each."""

    def __init__(self, tree: PairTree, first: int) -> None:
        super().__init__(daemon=True)
        self._tree = tree
        self._values = itertools.count(first, ORDERERS)
        self.told: dict[float, str] = {}
        """Outcome of each value; or the name of the error."""
        self.causes: list[str] = []
        self.ends = threading.Event()

    def run(self) -> None:
        with connect(self._tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
            while not self.ends.is_set():
                self._order(client, next(self._values) / 1000)

    def _order(self, client: Client, value: float) -> None:
        try:
            self.told[value] = client.write(f"{NORTH}:speed", value, expires_s=PATIENCE_S).outcome.value
        except ClientError as error:
            self.told[value] = type(error).__name__
            self.causes.append(str(error))
            time.sleep(0.05)  # A member that stands by refuses at once.


def know_the_item(tree: PairTree) -> None:
    with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
        awaited(lambda: client.items(f"{NORTH}:speed"))


def flows(device: Device, done: int) -> bool:
    return len(device.orders) > done + ORDERERS


def switch_over(tree: PairTree, from_member: int) -> None:
    with connect(tree.pairs[ROOT].data(from_member), is_pinned=True) as client, contextlib.suppress(NodeRefused):
        client.ask("switchover", timeout_s=PATIENCE_S, user="test")


async def change_lead(tree: PairTree, *, is_killed: bool) -> None:
    """Have the other member lead, and both be in the set again."""
    made, before = tree.pairs[ROOT], tree.acting(ROOT)
    if is_killed:
        await made.kill(before)
        await until(lambda: tree.serves(ROOT), "taken over")
        await made.start(before)
    else:
        await aside(partial(switch_over, tree, before))
    await until(lambda: {made.state(0), made.state(1)} == {"active", "ready"} and tree.serves(ROOT), "a whole pair")


@pytest.mark.parametrize("is_killed", [False, True], ids=["switchover", "kill"])
def test_what_is_told_of_an_order_is_what_the_device_has(tmp_path: Path, is_killed: bool) -> None:
    tree = PairTree(tmp_path, {ROOT: True, NORTH: False})

    async def story() -> None:
        async with tree.up():
            with tree.device(NORTH) as device:
                await aside(partial(know_the_item, tree))
                orderers = [Orderer(tree, first + 1) for first in range(ORDERERS)]
                for one in orderers:
                    one.start()
                for _ in range(CHANGES):
                    await until(partial(flows, device, len(device.orders)), "orders flow")
                    await change_lead(tree, is_killed=is_killed)
                for one in orderers:
                    one.ends.set()
                    await aside(one.join)
                told = {value: what for one in orderers for value, what in one.told.items()}
                causes = [cause for one in orderers for cause in one.causes]
                carried_out = Counter(device.values)
        assert max(carried_out.values()) == 1
        assert not any("ask again with the same command id" in cause for cause in causes), causes
        of_error = {what: [one for one in told if told[one] == what] for what in set(told.values())}
        for nothing in (NodeRefused, NodeUnreachable):
            assert not carried_out.keys() & set(of_error.get(nothing.__name__, ())), causes
        assert set(of_error.get(Outcome.VERIFIED.value, ())) <= carried_out.keys()
        assert not of_error.get(OutcomeUnknown.__name__), causes

    asyncio.run(story())


def test_a_message_under_way_in_a_switchover_is_told_as_it_ends(tmp_path: Path) -> None:
    tree = PairTree(tmp_path, {ROOT: True, NORTH: False})

    def sent() -> str:
        with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
            return client.send(NORTH, b"hello", expires_s=PATIENCE_S).outcome

    def received() -> bytes:
        with connect(tree.lines(NORTH), timeout_s=PATIENCE_S) as client:
            message = next(client.inbox(timeout_s=PATIENCE_S))
            client.take(message)
            return message.body

    async def story() -> None:
        async with tree.up():
            sending = asyncio.create_task(aside(sent))
            post = tree.core(ROOT).root.tree.post
            await until(lambda: post._waiting, "it is on its way")
            await change_lead(tree, is_killed=False)
            assert await aside(received) == b"hello"
            assert await sending == "executed"

    asyncio.run(story())
