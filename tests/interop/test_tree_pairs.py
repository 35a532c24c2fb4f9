"""Pairs in a tree: whoever takes over goes on with what lies below and above, without a gap and without a double.

The acting members of all pairs are killed in the same moment, under load; or that of one pair is killed while an order
of the root is under way, which is carried out once, and the root hears what became of it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.client import Client, NodeRefused, OutcomeUnknown, connect
from albireo.codec.frame import Frame, frames
from albireo.codec.message_records import MessageDone, MessageEnded
from albireo.drill.account import judge
from albireo.drill.load import ConsumedMessages, ProducerWorker
from albireo.log.log import Log
from albireo.model.command import Outcome, Receipt
from albireo.model.quality import GOOD
from tests.parts.core_pair import aside, until
from tests.parts.paired_tree import PairTree
from tests.parts.tree_links import copied, own_frames
from tests.parts.tree_orders import told
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

ROOT, NORTH, PUMP, SOUTH = "root", "root/north", "root/north/pump", "root/south"
LONG_MS = 3_600_000
"""Time in which an order is wanted, if a busy machine is not to end it."""
SHAPES: Mapping[str, Mapping[str, bool]] = {
    "a site below a pair": {ROOT: True, NORTH: False},
    "a pair below a lone root": {ROOT: False, NORTH: True},
    "a pair between lone nodes": {ROOT: False, NORTH: True, PUMP: False},
    "a pair below a pair": {ROOT: True, NORTH: True},
    "pairs at three levels": {ROOT: True, NORTH: True, PUMP: True},
}


def numbers(log: Log) -> Mapping[str, list[int]]:
    """The numbers of the load in a log, in log order."""
    record = ConsumedMessages()
    for one in frames(log.read_appended(0, 1 << 24)):
        record._take(Frame(*one))
    return record.numbers


def until_item(client: Client, name: str) -> None:
    """Wait until an item is known."""
    awaited(lambda: client.items(name))


def until_live(client: Client, name: str) -> None:
    """Wait until the value of an item is good, and goes on."""
    seen = client.read(name).value
    awaited(lambda: client.read(name), lambda one: one.quality == GOOD and one.value != seen)


def known(tree: PairTree, node: str) -> None:
    with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
        until_item(client, f"{node}:speed")


def alive(tree: PairTree, node: str) -> None:
    with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
        until_item(client, f"{node}:number_1")
        until_live(client, f"{node}:number_1")


def ordered_until_told(tree: PairTree, arguments: Mapping[str, Any]) -> Receipt:
    """Outcome of one order, asked for again under its id whenever nobody is left who would answer."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
                return msgspec.convert(client.ask("write", timeout_s=PATIENCE_S, **arguments), Receipt)
        except (OutcomeUnknown, NodeRefused):
            assert time.monotonic() < ends, arguments


def order(tree: PairTree, node: str, value: float) -> None:
    """Order a write that nothing comes in the way of."""
    known(tree, node)
    asked = {"item": f"{node}:speed", "value": value, "command_id": f"order of {value}", "expires_ms": LONG_MS}
    assert ordered_until_told(tree, asked).outcome is Outcome.VERIFIED


@pytest.mark.parametrize("killed", [ROOT, NORTH])
def test_an_order_under_way_in_a_takeover_is_carried_out_once_and_told(tmp_path: Path, killed: str) -> None:
    """Whoever takes over at the site can't know what the device did: it says so at the deadline, and orders nothing."""
    tree = PairTree(tmp_path, {ROOT: True, NORTH: True})
    outcome, expires_ms = (Outcome.UNKNOWN, 5_000) if killed == NORTH else (Outcome.VERIFIED, LONG_MS)
    arguments = {"item": f"{NORTH}:speed", "value": 1.0, "command_id": "order-1", "expires_ms": expires_ms}

    async def story() -> None:
        async with tree.up():
            with tree.device(NORTH) as device:
                await aside(partial(known, tree, NORTH))
                device.is_slow.set()
                waiting = asyncio.create_task(aside(partial(ordered_until_told, tree, arguments)))
                await until(lambda: bool(device.orders), "the device has the order")
                await tree.kill_acting_of(killed)
                device.is_slow.clear()
                assert (await waiting).outcome is outcome
                await aside(partial(order, tree, NORTH, 2.0))
                assert device.values == [1.0, 2.0]
            await tree.serve_all()
            done, ended = told(tree.core(NORTH).log, MessageDone), told(tree.core(ROOT).log, MessageEnded)
            assert [(one.name, one.guid, one.end.outcome) for one in done] == [
                (one.name, one.guid, one.end.outcome) for one in ended
            ]
            assert [one.end.outcome.value for one in ended] == [outcome.value, "verified"]

    asyncio.run(story())


def test_a_pair_sees_a_sibling_on_while_the_pair_above_it_is_taken_over_and_while_it_is_itself(tmp_path: Path) -> None:
    """Its items go on at the other members, and never vanish meanwhile."""
    beyond = {NORTH: (ROOT, SOUTH)}
    tree = PairTree(tmp_path, {ROOT: True, NORTH: True, SOUTH: False}, beyond)
    source = ProducerWorker(0, tree.lines(SOUTH), None)

    def seen(*, is_known: bool) -> None:
        with connect(tree.lines(NORTH), timeout_s=PATIENCE_S) as client:
            if is_known:
                assert client.items("south:number_1"), "the items of the sibling are gone"
            else:
                until_item(client, "south:number_1")
            until_live(client, "south:number_1")
            until_item(client, "root:core/turn_ms")

    def both_know(pair: str) -> bool:
        """Who never heard of them can't keep them, or give them to others."""
        mirrors = [core.root.tree.all_mirrors[SOUTH] for core in tree.pairs[pair].cores.values()]
        return len(mirrors) == 2 and all(one.dim.by_name(f"{SOUTH}:number_1") is not None for one in mirrors)

    async def story() -> None:
        async with tree.up():
            source.start()
            source.offer(is_on=True)
            await aside(partial(seen, is_known=False))
            for pair in (ROOT, NORTH):
                await until(lambda pair=pair: both_know(pair), "the items of the sibling at both members")  # type: ignore[misc]
                await tree.kill_acting_of(pair)
                await aside(partial(seen, is_known=True))
            for core in tree.pairs[NORTH].cores.values():
                assert not any(one.refused for one in core.root.tree.seen())
                assert {one.node for one in core.root.folds.dim} == {NORTH}

    try:
        asyncio.run(story())
    finally:
        source.stop()
    assert not source.failure


def test_a_node_above_tells_who_leads_a_pair_below_and_what_is_wrong(tmp_path: Path) -> None:
    """Through a takeover; of a pair that is not heard nothing is told that was so once."""
    tree = PairTree(tmp_path, {ROOT: False, NORTH: True})

    def seen() -> tuple[str, dict[str, float | None]]:
        with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
            (row,) = client.tree()
            return row.leads, row.pair

    def is_told(leads: str, at_risk: float | None) -> Callable[[tuple[str, dict[str, float | None]]], bool]:
        return lambda told: told[0] == leads and told[1].get("at_risk", -1.0) == at_risk

    async def story() -> None:
        async with tree.up():
            places = tree.pairs[NORTH].places
            led = tree.acting(NORTH)
            await aside(partial(awaited, seen, is_told(places[led], 0.0)))
            await tree.kill_acting_of(NORTH)
            await aside(partial(awaited, seen, is_told(places[1 - led], 1.0)))
            await tree.pairs[NORTH].kill(1 - led)
            await aside(partial(awaited, seen, is_told("", None)))

    asyncio.run(story())


@pytest.mark.parametrize("shape", SHAPES)
def test_all_who_act_are_killed_at_once_and_nothing_is_lost_or_doubled(tmp_path: Path, shape: str) -> None:
    tree = PairTree(tmp_path, SHAPES[shape])
    bottom = tree.ids[-1]
    source = ProducerWorker(0, tree.lines(bottom), None)

    async def complete() -> None:
        """Wait until the root has committed all that the load was told to be safe."""
        source.offer(is_on=False)
        await until(lambda: source.acks.acked == source.acks.offered, "all acknowledged")
        end = source.acks.position

        def has_all() -> bool:
            origin = tree.core(ROOT).root.folds.origins.of_node(bottom) if tree.serves(ROOT) else None
            return origin is not None and origin.last >= end

        await until(has_all, "all at the root")

    async def story() -> None:
        async with tree.up():
            source.start()
            source.offer(is_on=True)
            with tree.device(bottom) as device:
                await aside(partial(order, tree, bottom, 1.0))
                await aside(partial(alive, tree, bottom))
                await tree.kill_acting()
                await aside(partial(order, tree, bottom, 2.0))
                await aside(partial(alive, tree, bottom))
                await complete()
                await tree.serve_all()
                assert device.values == [1.0, 2.0]
            record = {node: numbers(tree.core(node).log) for node in tree.ids}
            found = judge({source.name: range(1, source.acks.acked + 1)}, record)
            assert (found.lost, found.doubled, found.reordered) == (0, 0, 0), found.details
            assert found.acked >= 2
            for node in tree.ids[1:]:
                own, there = own_frames(tree.core(node).log), copied(tree.core(ROOT).log, tree.core(node).log.log_id)
                assert own.startswith(there), f"the copy of {node} at the root is no prefix of its own frames"

    try:
        asyncio.run(story())
    finally:
        source.stop()
    assert not source.failure
