"""Real nodes over a slow cable: what a state has on its way is not live, and its pieces count."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from albireo.client import connect
from albireo.drill.relay import CableSpec, Relay
from albireo.model import quality as q
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.cable import behind_a_cable, is_heard
from tests.parts.core_pair import aside
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.tree_orders import NORTH, ROOT
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

COUNT = 1_500
RATE = 20_000
ITEMS = [
    DataItem(name=f"i{n}", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=1e6) if n == COUNT - 1 else None)
    for n in range(COUNT)
]


def slow(relay: Relay) -> Relay:
    relay.way = CableSpec(bytes_per_s=RATE)
    return relay


def values(first: float) -> list[tuple[int, int, float, int]]:
    return [(n, 5, first + n, q.GOOD) for n in range(COUNT)]


def is_shown(root: TreeNode) -> bool:
    """The site is heard, and all its items are known."""
    with root.program() as program:
        row = only(program.result("tree"), NORTH)
    return bool(row["items"] >= COUNT and row["stale_since_ns"] is None)


def play(relay: Relay, root: TreeNode, north: TreeNode, story: Callable[[], None]) -> None:
    async def world() -> None:
        async with root.core_up(), north.core_up():
            await aside(story)

    relay.begin()
    try:
        asyncio.run(world())
    finally:
        relay.end()


def test_pieces_of_a_long_change_are_not_good_before_the_node_counts_as_heard_and_its_case_is_there_first(
    tmp_path: Path,
) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    relay = behind_a_cable(nodes)

    def look() -> tuple[bool, int, float | None, int]:
        """Whether the node is heard, quality and value of an item, and the number of its cases."""
        with connect(root.endpoint, timeout_s=PATIENCE_S) as client:
            (before,) = client.tree()
            reading = client.read(f"{NORTH}:i0")
            (after,) = client.tree()
            cases = [one for one in client.cases(node=NORTH) if one.item.endswith(f":i{COUNT - 1}")]
        is_known = before.stale_since_ns is None or after.stale_since_ns is None
        value = None if reading.value is None else float(reading.value)
        return is_known, reading.quality, value, len(cases)

    def story() -> None:
        north.produce(values(0.0), items=ITEMS)
        awaited(partial(is_shown, root))
        awaited(look, lambda seen: seen[0] and seen[1:3] == (q.GOOD, 0.0))
        relay.carry_out(relay.cut())
        is_heard(root, NORTH, False)
        north.produce([*values(1.0)[:-1], (COUNT - 1, 5, 2e6, q.GOOD)], items=ITEMS)
        slow(relay)
        relay.carry_out(relay.mend())
        seen: list[tuple[bool, int, float | None, int]] = []

        def is_good(one: tuple[bool, int, float | None, int]) -> bool:
            seen.append(one)
            return one[0] and one[1:3] == (q.GOOD, 1.0)

        awaited(look, is_good)
        assert not [one for one in seen if one[1] == q.GOOD and not one[0]]
        assert all(cases == 1 for _, _, value, cases in seen if value == 1.0), "the case is there with the value"

    play(relay, root, north, story)


def test_a_site_whose_cable_is_cut_again_and_again_is_shown_all_the_same(tmp_path: Path) -> None:
    """Its whole state does not come within the time of one link."""
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    relay = slow(behind_a_cable(nodes))
    cuts = 0

    def is_shown_by(at: float) -> bool:
        return is_shown(root) or time.monotonic() > at

    def story() -> None:
        nonlocal cuts
        north.produce(values(0.0), items=ITEMS)
        ends = time.monotonic() + PATIENCE_S
        while not is_shown(root):
            assert time.monotonic() < ends, f"not shown after {cuts} cuts"
            awaited(partial(is_shown_by, time.monotonic() + 6.0))
            relay.carry_out(relay.cut())
            relay.carry_out(relay.mend())
            cuts += 1
        assert cuts > 1

    play(relay, root, north, story)
