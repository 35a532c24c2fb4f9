"""A site behind a cable that is cut and mended: orders are written once, and what changed meanwhile is shown after."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pytest

from albireo.client import connect
from albireo.model import quality as q
from albireo.model.command import Outcome, Receipt
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.cable import behind_a_cable, is_heard
from tests.parts.core_pair import aside
from tests.parts.lone import asked_until
from tests.parts.tree import tree_of
from tests.parts.tree_links import has_all, read
from tests.parts.tree_orders import NORTH, ROOT, device, up
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

ORDERS = 24
CO = DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=50.0))


def test_orders_over_a_flapping_cable_are_each_written_once_or_never(tmp_path: Path) -> None:
    """What is told of each order is what the device had of it."""
    nodes = tree_of(tmp_path, ROOT, NORTH)
    relay = behind_a_cable(nodes)

    def ordered(number: int) -> Receipt:
        with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as client:
            return client.write("north:speed", float(number), expires_s=20.0)

    def story() -> None:
        with device(nodes[NORTH], nodes[ROOT]) as adapter, ThreadPoolExecutor(ORDERS) as people:

            def has_more(than: int) -> bool:
                return len(adapter.orders) > than or all(one.done() for one in asked)

            asked = [people.submit(ordered, number) for number in range(ORDERS)]
            while not all(one.done() for one in asked):
                relay.carry_out(relay.mend())
                awaited(partial(has_more, len(adapter.orders)))
                relay.carry_out(relay.cut())
                relay.carry_out(relay.mend())
            ends = {float(number): one.result().outcome for number, one in enumerate(asked)}
            written = Counter(one.value for one in adapter.orders)
        assert max(written.values()) == 1
        assert {value for value, end in ends.items() if end is Outcome.VERIFIED} <= written.keys()
        assert not {value for value, end in ends.items() if end is Outcome.EXPIRED} & written.keys()
        assert set(ends.values()) <= {Outcome.VERIFIED, Outcome.EXPIRED, Outcome.UNKNOWN}
        assert written

    async def world() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]):
            await aside(story)

    relay.begin()
    try:
        asyncio.run(world())
    finally:
        relay.end()


def test_items_and_alarms_that_change_while_a_site_is_away_are_shown_as_they_are_then(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    relay = behind_a_cable(nodes)

    def cases() -> list[str]:
        with connect(root.endpoint, timeout_s=PATIENCE_S) as client:
            return sorted(one.item for one in client.cases(node=NORTH) if one.item.startswith(f"{NORTH}:c"))

    def story() -> None:
        north.produce([(0, 5, 80.0, q.GOOD)], items=[CO])
        with root.program() as program:
            read(program, NORTH, 80.0)
        assert awaited(cases) == [f"{NORTH}:co"]
        relay.carry_out(relay.cut())
        is_heard(root, NORTH, False)
        north.produce([(0, 6, 20.0, q.GOOD)], items=[CO])
        north.produce([(0, 7, 90.0, q.GOOD)], "kiln", [msgspec.structs.replace(CO, name="ch4")])
        with root.program() as program:
            assert program.result("read", node=NORTH, names=(f"{NORTH}:co",))[0]["quality"] != q.GOOD
        relay.carry_out(relay.mend())
        with root.program() as program:
            read(program, NORTH, 20.0)
            asked_until(program, lambda rows: rows[0]["value"] == 90.0, "read", node=NORTH, names=(f"{NORTH}:ch4",))
            has_all(program, north)
        awaited(cases, lambda found: f"{NORTH}:ch4" in found)

    async def world() -> None:
        async with root.core_up(), north.core_up():
            await aside(partial(is_heard, root, NORTH, True))
            await aside(story)

    relay.begin()
    try:
        asyncio.run(world())
    finally:
        relay.end()
