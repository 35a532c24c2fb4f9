"""State downward: a site sees the nodes beyond that it asks for, live or stale as they are, and may order there."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import SessionOver, connect
from albireo.model import quality as q
from albireo.model.command import Outcome, Receipt
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.core_pair import aside, until
from tests.parts.lone import Program, asked_until
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.tree_orders import device

pytestmark = pytest.mark.slow

ROOT, NORTH, PUMP, SOUTH = "root", "root/north", "root/north/pump", "root/south"


def shown(program: Program, node: str, value: float | None, quality: int = q.GOOD) -> Any:
    """The reading of the item of another node, once it has this value and quality."""
    return asked_until(
        program,
        lambda found: [(one["value"], one["quality"]) for one in found] == [(value, quality)],
        "read",
        node=node,
        names=("co",),
    )[0]


def recorded(node: TreeNode, value: float, at: int = 5) -> None:
    node.produce([(0, at, value, q.GOOD)], producer=f"boiler{at}")


def test_a_site_shows_its_parent_and_a_sibling_live_and_stale_once_they_are_away(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, SOUTH, beyond={NORTH: (ROOT, SOUTH)})

    def live(values: dict[str, float]) -> Any:
        with nodes[NORTH].program() as program:
            rows = [shown(program, node, value) for node, value in values.items()]
            assert {one["node"] for one in program.result("items", node=SOUTH)} == {SOUTH}
            return rows, program.result("tree")

    def stale(*away: str) -> Any:
        with nodes[NORTH].program() as program:
            for node in away:
                shown(program, node, 2.0 if node == SOUTH else 1.0, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
            asked_until(program, lambda rows: all(only(rows, node)["stale_since_ns"] for node in away), "tree")
            return program.result("tree")

    async def story() -> None:
        async with nodes[NORTH].core_up() as north:
            async with nodes[ROOT].core_up() as root:
                async with nodes[SOUTH].core_up():
                    await aside(partial(recorded, nodes[ROOT], 1.0))
                    await aside(partial(recorded, nodes[SOUTH], 2.0))
                    rows, tree = await aside(partial(live, {ROOT: 1.0, SOUTH: 2.0}))
                    assert [one["name"] for one in rows] == ["root:co", "root/south:co"]
                    assert {one["node"]: (one["by"], one["stale_since_ns"]) for one in tree} == {
                        ROOT: (ROOT, None),
                        SOUTH: (ROOT, None),
                    }
                tree = await aside(partial(stale, SOUTH))
                assert only(tree, ROOT)["stale_since_ns"] is None, "the parent is there"
                since = root.root.tree.mirrors[SOUTH].stale_since_ns
                assert only(tree, SOUTH)["stale_since_ns"] == since, "not since when the parent tells it"
            tree = await aside(partial(stale, SOUTH, ROOT))
            assert only(tree, SOUTH)["stale_since_ns"] == since
            async with nodes[ROOT].core_up(), nodes[SOUTH].core_up():
                await aside(partial(live, {ROOT: 1.0, SOUTH: 2.0}))
            assert {one.node for one in north.root.folds.dim} == {NORTH}, "items of others are no items of its own"

    asyncio.run(story())


def test_a_node_two_levels_down_sees_the_whole_tree(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP, SOUTH, beyond={NORTH: (ROOT, SOUTH), PUMP: (ROOT, NORTH, SOUTH)})

    def seen() -> None:
        for number, node in enumerate(nodes.values()):
            recorded(node, float(number))
        with nodes[PUMP].program() as program:
            for number, name in ((0, ROOT), (1, NORTH), (3, SOUTH)):
                shown(program, name, float(number))

    def stale_but_north() -> Any:
        """The parent is live: the way between it and the root is cut."""
        with nodes[PUMP].program() as program:
            for number, node in ((0, ROOT), (3, SOUTH)):
                shown(program, node, float(number), q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
            shown(program, NORTH, 1.0)
            asked_until(program, lambda rows: only(rows, SOUTH)["stale_since_ns"], "tree")
            assert only(program.result("tree"), NORTH)["stale_since_ns"] is None

    async def story() -> None:
        async with nodes[NORTH].core_up(), nodes[PUMP].core_up(), nodes[SOUTH].core_up():
            async with nodes[ROOT].core_up():
                await aside(seen)
            await aside(stale_but_north)

    asyncio.run(story())


def test_an_operator_at_one_site_orders_an_item_of_another_one(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, SOUTH, beyond={NORTH: (ROOT, SOUTH)})

    def story_of() -> tuple[Receipt, int, Any]:
        with device(nodes[SOUTH], nodes[NORTH]) as adapter, connect(nodes[NORTH].endpoint) as client:
            with nodes[ROOT].program() as program:
                asked_until(program, lambda rows: only(rows, NORTH)["stale_since_ns"] is None, "tree")
            receipt = client.write("south:speed", 42.0, "more wind")
            client.force("south:speed", 7.0, "test", for_s=600)
            with nodes[NORTH].program() as program:
                asked_until(program, bool, "forces", node=SOUTH)
            forced = client.forces()
            return receipt, len(adapter.orders), [(one.item, one.value) for one in forced]

    async def story() -> None:
        async with nodes[ROOT].core_up(), nodes[NORTH].core_up(), nodes[SOUTH].core_up():
            receipt, count, forces = await aside(story_of)
            assert (receipt.outcome, count) == (Outcome.VERIFIED, 1)
            assert forces == [("root/south:speed", 7.0)]

    asyncio.run(story())


def told(node: TreeNode, *arguments: str) -> Any:
    """What a command says of a node, as JSON."""
    found = CliRunner().invoke(cli, [*arguments, "--data", str(node.data), "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def test_the_commands_at_a_site_show_items_and_cases_of_another_one(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, SOUTH, beyond={NORTH: (ROOT, SOUTH)})
    alarmed = DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=1.0))
    calm = DataItem(name="no", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=1.0))

    def story_of() -> tuple[Any, ...]:
        nodes[SOUTH].produce([(0, 5, 2.0, q.GOOD), (1, 5, 0.5, q.GOOD)], items=[alarmed, calm])
        recorded(nodes[NORTH], 3.0)
        with nodes[NORTH].program() as program:
            shown(program, SOUTH, 2.0)
            asked_until(program, bool, "cases", node=SOUTH)
            with connect(nodes[SOUTH].endpoint) as owner:
                owner.force("no", 5.0, "test", for_s=600)
                owner.force("co", 3.0, "test", for_s=600)
            asked_until(program, lambda rows: "root/south:no" in {one["item"] for one in rows}, "cases", node=SOUTH)
            shown(program, SOUTH, 3.0, q.GOOD_LOCAL_OVERRIDE)
        here, none = nodes[NORTH], CliRunner().invoke(cli, ["watch", "nord:*", "--data", str(nodes[NORTH].data)])
        watched = told(here, "watch", "south:co", "co")
        return told(here, "items", "south:co"), watched, told(here, "cases", "list", "south"), none

    def afterwards(since: int | None) -> Any:
        """Once it is told above since when it is away; who stood still for long says it of itself first."""
        with nodes[NORTH].program() as program:
            asked_until(program, lambda rows: only(rows, SOUTH)["stale_since_ns"] == since, "tree")
            shown(program, SOUTH, 3.0, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
        here = nodes[NORTH]
        return told(here, "watch", "south:co"), told(here, "items", "south:co"), told(here, "cases", "list", "south")

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up():
            async with nodes[SOUTH].core_up():
                items, watched, cases, none = await aside(story_of)
            mirror = root.root.tree.mirrors[SOUTH]
            await until(lambda: mirror.stale_since_ns, "it is missed above")
            stale, old_items, old_cases = await aside(partial(afterwards, mirror.stale_since_ns))
        assert [(one["name"], one["value"]) for one in items["items"]] == [("root/south:co", 3.0)]
        assert {(one["item"], one["value"], one["is_forced"]) for one in watched["items"]} == {
            ("root/south:co", 3.0, True),
            ("root/north:co", 3.0, False),
        }
        numbers = [(one["item"], one["case_id"]) for one in cases["cases"] if one["item"] == "root/south:co"]
        assert [(one["item"], one["case_id"]) for one in watched["cases"]] == numbers
        assert len(numbers) == 1
        assert watched["stale"] == {}
        assert none.exit_code != 0
        assert "nord:*" in none.output
        assert stale["stale"][SOUTH] > 0
        (one,) = stale["items"]
        assert (one["quality"], one["is_forced"]) == ("UncertainNoCommunicationLastUsable", True)
        assert [one["stale_since_ns"] for one in [*items["items"], *cases["cases"]]] == [None] * (
            1 + len(cases["cases"])
        )
        assert [one["stale_since_ns"] for one in old_items["items"]] == [stale["stale"][SOUTH]]
        (of_south,) = [one for one in old_cases["cases"] if one["item"] == "root/south:co"]
        assert (of_south["stale_since_ns"], of_south["is_item_forced"]) == (stale["stale"][SOUTH], True)
        assert not of_south["is_forced"], "its case was raised by the device"
        (by_force,) = [one for one in old_cases["cases"] if one["item"] == "root/south:no"]
        assert (by_force["value"], by_force["is_forced"]) == (5.0, True)
        assert all(one["stale_since_ns"] is None for one in old_cases["cases"] if one["item"].startswith("root/north:"))

    asyncio.run(story())


def test_the_end_of_a_session_is_none_of_a_node_below_that_follows_from_the_same_address(tmp_path: Path) -> None:
    """Without keys, programs and nodes of one machine have one name; its session is that of the programs."""
    nodes = tree_of(tmp_path, ROOT, NORTH, beyond={NORTH: (ROOT,)})

    def followed(value: float) -> None:
        with nodes[NORTH].program() as program:
            shown(program, ROOT, value)

    def begun() -> None:
        """A session goes on for 30 s when its links are gone."""
        with connect(nodes[ROOT].endpoint) as one:
            one.status()

    def ended() -> None:
        with connect(nodes[ROOT].endpoint) as chief, connect(nodes[ROOT].endpoint) as other:
            other.status()
            (row,) = chief.sessions("root")
            chief.end_session(row)
            with pytest.raises(SessionOver):
                other.status()

    async def story() -> None:
        async with nodes[ROOT].core_up():
            await aside(partial(recorded, nodes[ROOT], 1.0))
            await aside(begun)
            async with nodes[NORTH].core_up():
                await aside(partial(followed, 1.0))
                await aside(ended)
                await aside(partial(nodes[ROOT].produce, [(0, 9, 3.0, q.GOOD)], "boiler5"))
                await aside(partial(followed, 3.0))

    asyncio.run(story())
