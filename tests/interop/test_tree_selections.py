"""Select before operate in a tree: from the root, two levels down, over real links; over a takeover of the owner."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.client import AlreadySelected, CommandIdReused, ItemSelection, NodeRefused, NotSelected, aconnect, connect
from albireo.codec.record import CommandRequested, ItemSelected, SelectionEnded
from albireo.model.command import Outcome, Receipt
from albireo.model.item import Control
from tests.parts import paired_tree
from tests.parts.core_pair import aside, until
from tests.parts.paired_tree import PairTree
from tests.parts.tree import tree_of
from tests.parts.tree_orders import NORTH, PUMP, ROOT, SET_POINT, device, run, shown, told, up
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow
SIGN = msgspec.structs.replace(SET_POINT, control=Control.SELECT)


def test_an_item_two_levels_down_is_selected_and_written_from_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def by_commands() -> None:
        refused = run(nodes[ROOT], "write", "pump:speed", "40")
        assert (refused.exit_code, "--yes" in refused.output) == (2, True)
        written = shown(nodes[ROOT], "write", "pump:speed", "40", "--yes", "--user", "ann", "--reason", "fog")
        assert (written["outcome"], written["selection"]["item"]) == ("verified", f"{PUMP}:speed")
        for key in (ROOT, PUMP):
            course = shown(nodes[key], "command", "show", written["command_id"])
            stages = [(one["stage"], one["node"]) for one in course["steps"]]
            assert stages[:3] == [("selected", PUMP), ("requested", ROOT), ("authorised", ROOT)]
            assert all(one["at_ns"] for one in course["steps"])

    def by_a_program() -> None:
        with connect(nodes[ROOT].endpoint) as client, connect(nodes[PUMP].data, name="bob") as other:
            with pytest.raises(NotSelected, match="has to be selected"):
                client.write("pump:speed", 50.0)
            selection = client.select("pump:speed", "inspection")
            with pytest.raises(AlreadySelected, match=r"\(inspection\)"):
                other.select("speed")
            with pytest.raises(NotSelected, match="has selected speed"):
                other.write("speed", 1.0, selection=msgspec.structs.replace(selection, selection_id="x"))
            receipt = client.write("pump:speed", 50.0, selection=selection)
            assert receipt.outcome is Outcome.VERIFIED
            late = client.write("pump:speed", 60.0, selection=selection)
            assert (late.outcome, late.cause) == (Outcome.REJECTED, "object-not-selected")
            given_back = client.select("pump:speed")
            client.deselect(given_back)
            with pytest.raises(NotSelected):
                client.deselect(given_back)
            assert other.write("speed", 70.0, selection=other.select("speed")).outcome is Outcome.VERIFIED
            with pytest.raises(NodeRefused, match="no item"):
                client.select("pump:nothing")

    def story_of() -> list[object]:
        with device(nodes[PUMP], nodes[ROOT], SIGN) as adapter:
            by_commands()
            by_a_program()
            return [one.value for one in adapter.orders]

    async def awaited() -> None:
        async with await aconnect(nodes[ROOT].endpoint) as client:
            selection = await client.select("pump:speed", for_s=60)
            assert (selection.for_ms, selection.item) == (60_000, f"{PUMP}:speed")
            await client.deselect(selection)
            with pytest.raises(NotSelected):
                await client.write("pump:speed", 1.0, selection=selection, expires_s=1.0)

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]), up(nodes[PUMP]) as pump:
            assert await aside(story_of) == [40.0, 50.0, 70.0]
            causes = [one.cause for one in told(pump.log, SelectionEnded)]
            assert causes == ["operated", "operated", "cancelled", "operated"]

    asyncio.run(story())


def test_selections_two_levels_down_are_listed_and_ended_at_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def listed(count: int) -> list[dict[str, Any]]:
        def rows() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = shown(nodes[ROOT], "selections", "list", "pump")["selections"]
            return found

        return awaited(rows, lambda found: len(found) == count)

    def story_of() -> None:
        with device(nodes[PUMP], nodes[ROOT], SIGN), connect(nodes[PUMP].data, name="bob") as bob:
            selection = bob.select("speed", "inspection", for_s=300)
            (row,) = listed(1)
            assert (row["item"], row["user"], row["reason"]) == (f"{PUMP}:speed", "bob", "inspection")
            assert 0 < row["left_ms"] <= 300_000 and row["stale_since_ns"] is None
            with connect(nodes[PUMP].data) as there:
                assert [one.selection_id for one in there.selections()] == [selection.selection_id]
            ended = shown(nodes[ROOT], "selections", "end", "pump:speed", "--reason", "he left", "--user", "chief")
            assert ended["selection"]["user"] == "bob"
            assert listed(0) == []
            with pytest.raises(NotSelected, match="is over"):
                bob.write("speed", 1.0, selection=selection)
            none = run(nodes[ROOT], "selections", "end", "pump:speed")
            assert (none.exit_code, "is not selected" in none.output) == (1, True)

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]), up(nodes[PUMP]) as pump:
            await aside(story_of)
            assert [one.cause for one in told(pump.log, SelectionEnded)] == ["ended"]

    asyncio.run(story())


def test_one_id_is_one_order_or_message_wherever_it_goes(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> None:
        with device(nodes[NORTH], nodes[ROOT]) as adapter, connect(nodes[ROOT].endpoint) as client:
            order: dict[str, Any] = {"item": "north:speed", "value": 1.0, "command_id": "c1"}
            first = msgspec.convert(client.ask("write", **order), Receipt)
            assert first.outcome is Outcome.VERIFIED
            assert msgspec.convert(client.ask("write", **order), Receipt) == first
            for other in ({"value": 2.0}, {"item": f"{NORTH}:speed", "value": 2.0}):
                with pytest.raises(CommandIdReused, match="another content"):
                    client.ask("write", **order | other)
            with pytest.raises(CommandIdReused, match="another kind"):
                client.ask("send", node="north", body=b"recipe", command_id="c1")
            with pytest.raises(CommandIdReused, match="another kind"):
                client.ask("select", item="north:speed", selection_id="c1")
            assert [one.value for one in adapter.orders] == [1.0]

    async def story() -> None:
        async with up(nodes[NORTH]):
            async with up(nodes[ROOT]):
                await aside(story_of)
            async with up(nodes[ROOT]):
                await aside(again)

    def again() -> None:
        """The root has started anew."""
        with connect(nodes[ROOT].endpoint) as client, pytest.raises(CommandIdReused):
            client.ask("send", node="north", body=b"recipe", command_id="c1")

    asyncio.run(story())


def test_a_selection_at_a_pair_goes_on_at_the_member_that_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired_tree, "SET_POINT", SIGN)
    tree = PairTree(tmp_path, {ROOT: False, NORTH: True})

    def selected() -> ItemSelection:
        with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client:
            awaited(lambda: client.items("north:speed"))
            return client.select("north:speed", "fog", for_s=300)

    def used(selection: ItemSelection) -> None:
        with connect(tree.lines(ROOT), timeout_s=PATIENCE_S) as client, connect(tree.lines(NORTH)) as site:
            with pytest.raises(AlreadySelected, match="fog"):
                site.select("speed")
            with pytest.raises(NotSelected):
                site.write("speed", 1.0)
            receipt = client.write("north:speed", 40.0, selection=selection, expires_s=PATIENCE_S)
            assert receipt.outcome is Outcome.VERIFIED

    async def story() -> None:
        async with tree.up():
            with tree.device(NORTH) as adapter:
                selection = await aside(selected)
                await tree.kill_acting_of(NORTH)
                await until(partial(tree.serves, NORTH), "the other member serves")
                await aside(partial(used, selection))
                assert adapter.values == [40.0]
            log = tree.core(NORTH).log
            assert [one.selection_id for one in told(log, ItemSelected)] == [selection.selection_id]
            assert [one.cause for one in told(log, SelectionEnded)] == ["operated"]
            assert len(told(log, CommandRequested)) == 1

    asyncio.run(story())
