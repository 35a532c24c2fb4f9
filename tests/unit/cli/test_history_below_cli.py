"""`albireo history` and `albireo events` at a node above, about items of the nodes below."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.codec.record import Audited, CaseChanged, GapFound, ItemDeclared, Stream
from albireo.model.case import Case
from albireo.model.instant import SECOND
from albireo.model.item import Condition, DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.store import HistoryStore
from tests.parts.core_pair import aside
from tests.parts.history import DAY_ZERO
from tests.parts.history_below import Historian, Site, sites
from tests.parts.lone import LoneNode

pytestmark = [pytest.mark.slow]

DESK = "anna@desk"
RANGE = ["--from", "2023-11-15T00:00", "--to", "2023-11-15T00:05"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def fill_below(data: Path) -> None:
    """Histories of four nodes, whose items have equal ids and names; two of them have equal ends of their ids too."""
    log, below = sites()
    for one in (Site(3, "root/north/middle"), Site(4, "root/south/middle")):
        log.declares(one.index, one.folder.node, one.log)
        below.append(one)
    for factor, site in enumerate(below, 1):
        item = DataItem(name="co", value_type=ValueType.FLOAT64, unit="ppm", adapter="p1")
        node = site.folder.node
        site.log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node=node, item=item)], DAY_ZERO)
        rows = [(1, DAY_ZERO + i * 10 * SECOND, float(i * factor), 0) for i in range(24)]
        site.log.samples(rows, DAY_ZERO + 240 * SECOND)
        gap = GapFound(
            source="p1", reason="device_lost", from_ns=rows[-1][1], to_ns=rows[-1][1] + SECOND, item_ids=(1,)
        )
        site.log.records(Stream.SAMPLES, [gap], DAY_ZERO + 240 * SECOND)
        case = Case(
            case_id=5, item_id=ItemId(1), condition=Condition.HI, severity=500, raised_ns=DAY_ZERO, changed_ns=DAY_ZERO
        )
        site.log.records(Stream.CASES, [CaseChanged(case=case, cause="raised")], DAY_ZERO + 240 * SECOND)
        entry = Audited(at_ns=DAY_ZERO, user="eva", action="write", subject=f"{node}:co")
        site.log.records(Stream.AUDIT, [entry], DAY_ZERO + 240 * SECOND)
        site.send(log, site.pending())
    life = Historian(data)
    life.take(log)
    life.seal()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def told(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def is_told(*place: str) -> None:
    """What is asked of the nodes below is answered alike, wherever it is asked."""
    for factor, node in ((1, "root/north"), (2, "root/south")):
        answer = told("history", f"{node}:co", *RANGE, *place)
        assert (answer["item"], answer["unit"]) == (f"{node}:co", "ppm")
        assert [row["value"] for row in answer["rows"]][:3] == [2.5 * factor, 8.5 * factor, 14.5 * factor]
        assert [gap["reason"] for gap in answer["gaps"]] == ["device_lost"]
        raw = told("history", f"{node}:co", *RANGE, "--aggregate", "raw", *place)
        assert [row["value"] for row in raw["rows"]] == [float(one * factor) for one in range(24)]
        end = node.removeprefix("root/")
        assert told("history", f"{end}:co", *RANGE, *place) == answer
        assert told("events", *RANGE, "--node", end, "--item", f"{node}:co", *place)["events"]
        for asked in (["--node", node], ["--node", end], ["--item", f"{node}:co"], ["--item", f"{end}:co"]):
            (case, *others) = told("events", *RANGE, *asked, *place)["events"]
            assert (case["kind"], case["item"]) == ("case", f"{node}:co")
            assert [row["subject"] for row in others] == ([f"{node}:co"] if "--node" in asked else [])
    for command in (["history", "middle:co"], ["events", "--node", "middle"], ["events", "--item", "middle:co"]):
        refused = run(*command, *RANGE, *place)
        assert refused.exit_code != 0
        assert "'middle' may be one of root/north/middle or root/south/middle" in refused.stderr
        assert "by its whole id, as in root/north/middle" in refused.stderr
    for command in (["history", "root/west:co"], ["events", "--node", "root/west"]):
        refused = run(*command, *RANGE, *place)
        assert refused.exit_code != 0
        assert "root/west" in refused.stderr
        assert "root/north, root/north/middle, root/south" in refused.stderr
    assert run("history", "root/north:nothing", *RANGE, *place).exit_code == ExitCode.USAGE
    assert run("events", "--node", "root/north", "--item", "root/south:co", *place).exit_code == ExitCode.FAILED


def test_files_of_a_node_above_answer_for_the_nodes_below(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    fill_below(tmp_path)
    is_told("--data", str(tmp_path))
    assert told("events", *RANGE, "--data", str(tmp_path))["events"] == []


def test_items_of_nodes_below_are_no_items_of_the_node_above(tmp_path: Path) -> None:
    (tmp_path / "log" / "segments").mkdir(parents=True)
    fill_below(tmp_path)
    assert run("history", "co", *RANGE, "--data", str(tmp_path)).exit_code == ExitCode.USAGE
    store, _ = HistoryStore.open(tmp_path, "root")
    assert not store.declared.versions


def test_a_running_node_above_answers_beside_it_and_through_its_door(tmp_path: Path) -> None:
    async def world() -> None:
        lone = LoneNode(tmp_path, DESK)
        fill_below(lone.data)
        (lone.data / "history" / "manifest.json").unlink()  # The log of this node begins now.
        async with lone.core_up(), lone.history_up():
            await aside(partial(is_told, "--data", str(lone.data)))
            await aside(partial(is_told, "--at", lone.endpoint, "--keys", str(lone.keys[DESK].directory)))

    asyncio.run(world())
