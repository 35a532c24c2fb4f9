"""An order given at the root is carried out once by the node that owns the item, and its outcome is proven above."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from albireo.client import NodeRefused, aconnect, connect
from albireo.codec.message_records import MessageDone, MessageEnded
from albireo.machine.orders import kind
from albireo.model.command import Outcome, Receipt
from albireo.model.quality import name as quality_name
from tests.parts.core_pair import aside
from tests.parts.tree import TreeNode, tree_of
from tests.parts.tree_orders import NORTH, PUMP, ROOT, device, run, shown, told, up
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow


def test_an_order_of_the_root_is_verified_two_levels_down(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story_of() -> tuple[Receipt, int]:
        with device(nodes[PUMP], nodes[ROOT]) as adapter, connect(nodes[ROOT].endpoint) as client:
            receipt = client.write("pump:speed", 42.0, "more wind")
            return receipt, len(adapter.orders)

    async def story() -> None:
        async with up(nodes[ROOT]) as root, up(nodes[NORTH]), up(nodes[PUMP]) as pump:
            receipt, count = await aside(story_of)
            assert (receipt.outcome, receipt.read_back, count) == (Outcome.VERIFIED, 42.0, 1)
            (done,), (ended,) = told(pump.log, MessageDone), told(root.log, MessageEnded)
            assert (done.name, done.guid, done.end.outcome) == (ended.name, ended.guid, ended.end.outcome)
            assert receipt.ack_guid == ended.guid

    asyncio.run(story())


def test_what_can_not_be_meant_is_refused_at_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> int:
        with device(nodes[NORTH], nodes[ROOT]) as adapter, connect(nodes[ROOT].endpoint) as client:
            for name, value, words in (
                ("north:speed", 101.0, "101 is above the maximum 100"),
                ("north:other", 1.0, "no item"),
                ("south:speed", 1.0, "nothing is known of a node 'south'"),
                ("north:core/turn_ms", 1.0, "not writable"),
            ):
                with pytest.raises(NodeRefused, match=words):
                    client.write(name, value)
            return len(adapter.orders)

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]):
            assert await aside(story_of) == 0

    asyncio.run(story())


def test_an_order_to_a_site_that_is_away_expires_and_is_never_carried_out(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def known() -> None:
        with device(nodes[NORTH], nodes[ROOT]):
            pass

    def ordered() -> Receipt:
        with connect(nodes[ROOT].endpoint) as client:
            return client.write("north:speed", 1.0, expires_s=0.5)

    def later() -> int:
        with device(nodes[NORTH], nodes[ROOT]) as adapter, connect(nodes[ROOT].endpoint) as client:
            assert client.write("north:speed", 2.0).outcome is Outcome.VERIFIED
            return [one.value for one in adapter.orders] == [2.0]

    async def story() -> None:
        async with up(nodes[ROOT]):
            async with up(nodes[NORTH]):
                await aside(known)
            assert (await aside(ordered)).outcome is Outcome.EXPIRED
            async with up(nodes[NORTH]):
                assert await aside(later)

    asyncio.run(story())


def test_the_course_of_an_order_is_shown_at_both_ends(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story_of() -> None:
        with device(nodes[PUMP], nodes[ROOT]):
            written = shown(nodes[ROOT], "write", "pump:speed", "42", "--reason", "more wind", "--user", "ann")
            own = shown(nodes[PUMP], "write", "speed", "7", "--user", "bob")
        command_id = written["command_id"]
        above, below = (shown(nodes[one], "command", "show", command_id) for one in (ROOT, PUMP))
        for course in (above, below):
            assert (course["state"], course["cause"], course["read_back"]) == ("verified", "none", 42.0)
            assert course["way"] == [ROOT, NORTH, PUMP]
            assert (course["user"], course["reason"]) == ("ann", "more wind")
            assert (course["subject"], course["guid"]) == (f"{PUMP}:speed = 42", written["ack_guid"])
        steps = [(one["stage"], one["node"]) for one in above["steps"]]
        assert steps == [
            ("requested", ROOT), ("authorised", ROOT), ("told", ROOT),
            ("accepted", PUMP), ("executing", PUMP), ("verified", PUMP),
        ]  # fmt: skip
        text = run(nodes[ROOT], "command", "show", command_id).stdout
        assert "root > root/north > root/north/pump" in text
        assert f"proof     {written['ack_guid']}" in text
        listed = shown(nodes[PUMP], "command", "list")["commands"]
        assert [one["command_id"] for one in listed] == [own["command_id"], command_id]
        assert [one["stage"] for one in listed[0]["steps"]] == ["requested", "authorised", "executing", "verified"]
        assert command_id in run(nodes[PUMP], "command", "list").stdout
        unknown = run(nodes[NORTH], "command", "show", command_id)
        assert unknown.exit_code == 1
        assert "given elsewhere" in unknown.output

    async def awaited() -> str:
        async with await aconnect(nodes[ROOT].data) as client:
            (one,) = await client.commands()
            assert await client.command(one.command_id) == one
            return one.state

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]), up(nodes[PUMP]):
            await aside(story_of)
            assert await awaited() == "verified"

    asyncio.run(story())


def test_an_item_two_levels_down_is_forced_listed_and_released_from_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)
    force = ("force", "pump:speed", "12.5", "--for", "10m", "--reason", "sensor broken", "--user", "ann")

    def awaited(node: TreeNode, value: object, quality: str) -> bool:
        """The node above shows the item so; that has to come with the state of its owner."""
        with connect(node.endpoint, timeout_s=PATIENCE_S) as client:
            for changes in client.watch("pump:speed", timeout_s=PATIENCE_S):
                for one in changes.readings:
                    if one.value == value and quality_name(one.quality) == quality:
                        return True
        return False

    def story_of() -> None:
        told = shown(nodes[ROOT], *force)
        assert (told["item"], told["value"], told["left_ms"]) == (f"{PUMP}:speed", 12.5, 600_000)
        for key in (ROOT, NORTH):
            assert awaited(nodes[key], 12.5, "GoodLocalOverride")
        for key in (ROOT, NORTH, PUMP):
            (row,) = shown(nodes[key], "forces")["forces"]
            assert (row["item"], row["value"], row["user"], row["reason"]) == (
                f"{PUMP}:speed", 12.5, "ann", "sensor broken",
            )  # fmt: skip
            assert row["measured"]["quality_name"] == "BadWaitingForInitialData"
            assert 0 < row["left_ms"] <= 600_000
        too_long = ("force", "pump:speed", "1", "--for", "8d", "--reason", "x")
        for refused, words in ((too_long, "lasts"), (force[:-4], "reason")):
            result = run(nodes[ROOT], *refused)
            assert result.exit_code == 1
            assert words in result.output
        listed = shown(nodes[ROOT], "command", "list")["commands"]
        done = [one for one in listed if one["state"] == "executed"]
        assert [(one["kind"], one["subject"]) for one in done] == [("force", f"{PUMP}:speed = 12.5 for 600 s")]
        assert shown(nodes[NORTH], "force", "pump:speed", "--release")["released"]
        assert "is not forced" in run(nodes[ROOT], "force", "pump:speed", "--release").output
        assert shown(nodes[PUMP], "forces") == {"forces": []}

    def with_device() -> None:
        with device(nodes[PUMP], nodes[ROOT]):
            story_of()

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]), up(nodes[PUMP]):
            await aside(with_device)

    asyncio.run(story())


def test_a_force_that_does_not_reach_its_owner_in_time_never_comes_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "EXPIRES_MS", 400)
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def known() -> None:
        with device(nodes[NORTH], nodes[ROOT]):
            pass

    def forced() -> None:
        with connect(nodes[ROOT].endpoint) as client, pytest.raises(NodeRefused, match="expired: root/north"):
            client.force("north:speed", 1.0, "broken", for_s=60)

    def later() -> None:
        with device(nodes[NORTH], nodes[ROOT]), connect(nodes[ROOT].endpoint) as client:
            assert client.write("north:speed", 2.0).outcome is Outcome.VERIFIED
            assert client.forces() == []

    async def story() -> None:
        async with up(nodes[ROOT]):
            async with up(nodes[NORTH]):
                await aside(known)
            await aside(forced)
            async with up(nodes[NORTH]):
                await aside(later)

    asyncio.run(story())


def test_an_order_to_a_site_that_is_away_is_taken_back_and_never_carried_out(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def known() -> None:
        with device(nodes[NORTH], nodes[ROOT]):
            pass

    def taken_back() -> None:
        with connect(nodes[ROOT].endpoint) as client, ThreadPoolExecutor(1) as pool:
            ordered = pool.submit(client.write, "north:speed", 1.0, expires_s=PATIENCE_S)
            listed = awaited(client.commands)
            command_id = listed[0].command_id
            assert shown(nodes[ROOT], "command", "cancel", command_id, "--reason", "mistake")["outcome"] == "cancelled"
            assert ordered.result().outcome is Outcome.REJECTED
            assert client.command(command_id).cause == "abortion-by-cancel"
            for other, words in ((command_id, "ended already"), ("c9", "no order")):
                result = run(nodes[ROOT], "command", "cancel", other)
                assert result.exit_code == 1
                assert words in result.output

    def later() -> None:
        with device(nodes[NORTH], nodes[ROOT]) as adapter, connect(nodes[ROOT].endpoint) as client:
            assert client.write("north:speed", 2.0).outcome is Outcome.VERIFIED
            assert [one.value for one in adapter.orders] == [2.0]

    async def story() -> None:
        async with up(nodes[ROOT]):
            async with up(nodes[NORTH]):
                await aside(known)
            await aside(taken_back)
            async with up(nodes[NORTH]):
                await aside(later)

    asyncio.run(story())
