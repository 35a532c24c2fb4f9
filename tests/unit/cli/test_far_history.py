"""`albireo history` and `albireo events` at a node elsewhere: the same as beside it, and ends that say where."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.node.far_history import as_far_as_it_came, cut_failure
from albireo.cli.output import ExitCode
from albireo.client import connect
from albireo.client.history import ToldRows
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.item_states import ItemState
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.client_history import wait_for
from tests.parts.core_pair import aside
from tests.parts.history import Sample, batch_of, iso
from tests.parts.lone import NODE, LoneNode
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]

DESK = "anna@desk"
BEGIN = (wall_ns() // SECOND - 1_200) * SECOND
COUNT = 20_000
"""More than one piece has."""
ROWS = [(0, BEGIN + at * SECOND // 50, float((at + 65) % 90), int(q.GOOD)) for at in range(COUNT)]
CO = DataItem(name="co", value_type=ValueType.FLOAT64, unit="ppm", alarm=AlarmSettings(hi=80.0))
DOOR = DataItem(
    name="door",
    value_type=ValueType.BOOL,
    states=(ItemState(0, "shut"), ItemState(1, "open")),
    alarm=AlarmSettings(off_normal=True),
)
MODE = DataItem(name="mode", value_type=ValueType.STRING)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def told(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def produce(lone: LoneNode) -> None:
    with connect(f"{lone.endpoint}#{NODE}", keys=lone.keys[DESK], timeout_s=PATIENCE_S) as client:
        with client.producer("boiler", [CO, MODE]) as producer:
            for first in range(0, COUNT, 5_000):
                rows = ROWS[first : first + 5_000]
                producer.offer([batch_of(rows, ValueType.FLOAT64, rows[-1][1])])
            text: list[Sample] = [(1, BEGIN, "auto", 0), (1, BEGIN + 70 * SECOND, "hand", 0)]
            producer.offer([batch_of(text, ValueType.STRING, BEGIN + 70 * SECOND)])
            assert producer.flush(PATIENCE_S)
        with client.producer("boiler", [CO, MODE]) as producer:  # A second life: something is missing since the first.
            producer.offer([batch_of([(1, BEGIN + 90 * SECOND, "auto", 0)], ValueType.STRING, BEGIN + 90 * SECOND)])
            assert producer.flush(PATIENCE_S)
        with client.producer("porter", [DOOR]) as producer:
            producer.offer([batch_of([(0, BEGIN, True, 0)], ValueType.BOOL, BEGIN)])
            assert producer.flush(PATIENCE_S)
        for name, count in (("co", COUNT), ("mode", 3), ("door", 1)):
            wait_for(count, partial(client.history, name, BEGIN - SECOND))


def both(lone: LoneNode, *arguments: str) -> tuple[Any, Any]:
    """The answer beside the node, and through its door; what moves with the time is left out."""
    here = told(*arguments, "--data", str(lone.data))
    far = told(*arguments, "--at", lone.endpoint, "--keys", str(lone.keys[DESK].directory))
    for one in (here, far):
        one.pop("complete_to_ns", None)
    return here, far


SPAN = ["--from", iso(BEGIN - 60 * SECOND), "--to", iso(BEGIN + 600 * SECOND)]


def test_answers_are_the_same_beside_the_node_and_through_its_door(tmp_path: Path) -> None:
    def story(lone: LoneNode) -> None:
        produce(lone)
        for options in (
            ["--aggregate", "raw"],
            ["--aggregate", "last", "--every", "30s"],
            ["--aggregate", "interpolated", "--every", "7s"],
            ["--aggregate", "max", "--only-raw"],
            ["--uncertain-is-good"],
            [],
        ):
            here, far = both(lone, "history", "co", *SPAN, *options)
            assert far == here
            assert len(far["rows"]) > 10
        to_now = ["--from", iso(BEGIN), "--to", iso(BEGIN + 4_000 * SECOND)]
        here, far = both(lone, "history", "root:mode", *to_now, "--aggregate", "raw")
        assert far == here
        assert [row["value"] for row in far["rows"]] == ["auto", "hand", "auto"]
        assert [gap["source"] for gap in far["gaps"]] == ["boiler"]
        here, far = both(lone, "events", *to_now)
        assert far == here
        assert {"case", "control"} <= {row["kind"] for row in far["events"]}
        cases = both(lone, "events", "--kind", "case", "--item", "co", "--limit", "3")[1]["events"]
        assert [row["item"] for row in cases] == ["root:co"] * len(cases) and 0 < len(cases) <= 3
        at = ["--at", lone.endpoint, "--keys", str(lone.keys[DESK].directory)]
        for place in (at, ["--data", str(lone.data)]):
            assert "open (true)" in run("events", "--item", "door", *to_now, *place).stdout
        far_only(lone)

    async def world() -> None:
        lone = LoneNode(tmp_path, DESK)
        async with lone.core_up(), lone.history_up():
            await aside(partial(story, lone))

    asyncio.run(world())


def far_only(lone: LoneNode) -> None:
    at = ["--at", lone.endpoint, "--keys", str(lone.keys[DESK].directory)]
    for row in told("history", "co", *at)["rows"][:1]:
        assert row["value"] is not None, "it begins with the first value ever stored"
    known = next(one for one in told("items", "co", *at)["items"])
    assert told("history", str(known["item_id"]), *SPAN, *at)["item"] == "root:co"
    shown = run("history", "co", *SPAN, "--aggregate", "raw", "--format", "csv", *at)
    assert len(shown.stdout.splitlines()) == COUNT + 1
    assert shown.stderr.count("history of root:co") == 1, "a long answer says that it is under way"
    refused = run("history", "--sql", "SELECT 1", *at)
    assert (refused.exit_code, "on its machine only" in refused.stderr) == (ExitCode.USAGE, True)
    for arguments in (["nothing"], ["nothing", "--format", "csv"]):
        assert run("history", *arguments, *at).exit_code == ExitCode.USAGE
    many = run("history", "co", "--from", "1900-01-01", "--every", "1ms", *at)
    assert (many.exit_code, "intervals" in many.stderr) == (ExitCode.FAILED, True)
    assert run("events", "--item", "nothing", *at).exit_code == ExitCode.USAGE


def test_an_answer_that_can_not_go_on_gives_what_came_and_says_where_it_ended(tmp_path: Path) -> None:
    def story(lone: LoneNode, stop: Callable[[], None]) -> None:
        produce(lone)
        with connect(f"{lone.endpoint}#{NODE}", keys=lone.keys[DESK], timeout_s=PATIENCE_S) as client:

            def ask(say: ToldRows) -> Any:
                def told(rows: int) -> None:
                    say(rows)
                    stop()

                return client.history("co", BEGIN, BEGIN + 600 * SECOND, told=told)

            table, cut = as_far_as_it_came("history of co", ask)
        assert cut is not None
        assert 0 < len(table) < COUNT
        failure = cut_failure(cut, ROWS[len(table) - 1][1], {"rows": len(table)})
        assert failure.exit_code == ExitCode.UNREACHABLE
        assert f"after {len(table)} rows" in failure.message
        assert f"--from {iso(BEGIN + (len(table) - 1) // 50 * SECOND)[:19]}" in failure.remedy

    async def world() -> None:
        lone, loop = LoneNode(tmp_path, DESK), asyncio.get_running_loop()
        async with lone.core_up(), contextlib.AsyncExitStack() as history:
            await history.enter_async_context(lone.history_up())

            def stop() -> None:
                asyncio.run_coroutine_threadsafe(history.aclose(), loop).result(PATIENCE_S)

            await aside(partial(story, lone, stop))

    asyncio.run(world())
