"""A kind of order that only this folder knows is carried out here and below, taken back, and told with its course."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.client import NodeRefused, connect
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.record import Audited
from albireo.machine.orders import declared
from albireo.model.tree.message import MessageOutcome
from tests.own.order.chalk import CHALK, Chalk, ChalkBody
from tests.parts import brought
from tests.parts.core_pair import aside
from tests.parts.root import World
from tests.parts.tree import TreeNode, tree_of
from tests.parts.tree_orders import NORTH, PUMP, ROOT, device, told, up
from tests.parts.waiting import PATIENCE_S, awaited

HERE = Path(__file__).parent


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kind is one of those that there are."""
    monkeypatch.setattr(declared, "KINDS", (*declared.KINDS, Chalk))
    monkeypatch.setitem(QUESTIONS, CHALK.name, CHALK)
    yield


def chalk(node: TreeNode, item: str, word: str = "wet paint", command_id: str = "") -> object:
    with connect(node.endpoint, timeout_s=PATIENCE_S) as client:
        return client.ask("chalk", item=item, word=word, command_id=command_id, user="ann", reason="new")


def course(node: TreeNode, command_id: str) -> Any:
    with connect(node.endpoint, timeout_s=PATIENCE_S) as client:
        return client.ask("command", command_id=command_id)


@pytest.mark.slow
@pytest.mark.usefixtures("known")
def test_it_is_carried_out_here_and_two_levels_below_and_its_course_is_told_at_both_ends(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story() -> None:
        with device(nodes[PUMP], nodes[ROOT]):
            assert chalk(nodes[PUMP], "speed") == {"item": f"{PUMP}:speed"}
            assert chalk(nodes[ROOT], "pump:speed", command_id="c1") == {"item": f"{PUMP}:speed"}
            for key in (ROOT, PUMP):
                one = course(nodes[key], "c1")
                assert (one["kind"], one["state"], one["detail"]) == ("chalk", "executed", "chalked wet paint")
                assert (one["subject"], one["user"], one["reason"]) == (f"{PUMP}:speed", "ann", "new")
            assert chalk(nodes[ROOT], "pump:speed", command_id="c1") == {"item": f"{PUMP}:speed"}
            with pytest.raises(NodeRefused, match="another content"):
                chalk(nodes[ROOT], "pump:speed", "dry", "c1")
            with pytest.raises(NodeRefused, match="no item 'draft'"):
                chalk(nodes[ROOT], "pump:draft")

    async def world() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]), up(nodes[PUMP]) as pump:
            await aside(story)
            chalked = [one.detail for one in told(pump.log, Audited) if one.action == "chalked"]
            assert chalked == ["wet paint"] * 2

    asyncio.run(world())


@pytest.mark.slow
@pytest.mark.usefixtures("known")
def test_it_is_taken_back_before_its_owner_hears_of_it(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def declare() -> None:
        with device(nodes[NORTH], nodes[ROOT]):
            pass

    def cancelled() -> None:
        with ThreadPoolExecutor(1) as pool:
            chalking: Future[object] = pool.submit(chalk, nodes[ROOT], "north:speed", command_id="c1")
            with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as client:
                awaited(lambda: client.ask("commands"))
                proof: Any = client.ask("cancel", command_id="c1", user="ann")
                assert proof["outcome"] == MessageOutcome.CANCELLED
            with pytest.raises(NodeRefused, match="cancelled"):
                chalking.result(PATIENCE_S)
        assert course(nodes[ROOT], "c1")["state"] == "cancelled"

    async def world() -> None:
        async with up(nodes[ROOT]):
            async with up(nodes[NORTH]):
                await aside(declare)
            await aside(cancelled)

    asyncio.run(world())


def test_its_owner_says_what_became_of_it() -> None:
    kind = Chalk(World().root)
    assert brought.executed(kind, b"\xc1")[0].outcome is MessageOutcome.REJECTED
    assert brought.executed(kind, msgspec.msgpack.encode(ChalkBody("x", "y")), 0)[0].detail == "never begun"
    end = brought.recovered(kind)
    assert (end.outcome, "look at the event journal" in end.detail) == (MessageOutcome.UNKNOWN, True)


def test_nothing_outside_this_folder_names_it() -> None:
    root = HERE.parents[2]
    naming = [
        path
        for path in (*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py"))
        if HERE not in path.parents and "chalk" in path.read_text().lower()
    ]
    assert naming == []
