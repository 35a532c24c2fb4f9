"""A real node on a store that an earlier release wrote, and what it says of one that it can't have."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL
from tests.parts.port import free_ports
from tests.parts.process_pair import ALBIREO, ENVIRONMENT, MEMBERS, VOTERS, Pair, until
from tests.parts.waiting import PATIENCE_S
from tests.stores.archive import kept, told_beside, unpack
from tests.stores.later import COPIES, REMEDY, make_later
from tests.stores.telling import command, compared

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ALONE = [one for one in kept() if one.name == "alone.tar.xz"]
PAIRS = [one for one in kept() if one not in ALONE]
ALL_RAW = ("--from", "2020-01-01", "--to", "2100-01-01", "--aggregate", "raw")
ENDED = 69
"""Exit code of a command while no node answers."""


class Node:
    """The lone node; at the address of its device nobody answers."""

    def __init__(self, home: Path, archive: Path) -> None:
        unpack(archive, home)
        self._home = home
        self.data = home / "root"
        self._topology = home / "plant.toml"
        (port,) = free_ports(1)
        self._topology.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", self._topology.read_text()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        order = ["node", "run", "--topology", str(self._topology), "--data", str(self.data), *more]
        with (self._home / "said").open("wb") as said:
            self._process = subprocess.Popen([*ALBIREO, *order], env=ENVIRONMENT, stdout=said, stderr=said)
        return self._process

    def said(self) -> str:
        return (self._home / "said").read_text()

    def order(self, *arguments: str) -> dict[str, Any]:
        return command(*arguments, "--data", str(self.data), exit_codes=(0, ENDED))

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_S)


@pytest.fixture(params=ALONE, ids=lambda one: one.parent.name)
def archive(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture
def node(tmp_path: Path, archive: Path) -> Iterator[Node]:
    made = Node(tmp_path, archive)
    yield made
    made.end()


def test_a_node_goes_on_where_the_kept_store_ends(node: Node, archive: Path) -> None:
    """Its cases, values and stored rows are those of before; the time without it is a gap; it stops in order."""
    told = json.loads(told_beside(archive).read_text())["nodes"]["root"]
    process = node.start()
    until(lambda: "log" in node.order("status"), node.said)
    status = node.order("status")
    assert status["log"]["epoch"] == told["end"][0] + 1

    cases = {one["case_id"]: one for one in node.order("cases", "list", "--all")["cases"]}
    names = (
        "condition",
        "severity",
        "is_active",
        "is_acked",
        "is_latched",
        "shelving",
        "is_out_of_service",
        "raised_ns",
    )
    for case in told["folds"]["cases"]:
        if case["condition"] != "device_lost":
            assert {name: cases[case["case_id"]][name] for name in names} == {name: case[name] for name in names}
    items = {one["name"]: one for one in node.order("items")["items"]}
    assert items["root:count"]["value"] == told["folds"]["items"]["root:count"][1]

    stored = told["history"]["items"]["root:level"]
    raw, down = stored["raw"], [gap["reason"] for gap in stored["gaps"]].count("node_down")

    def level() -> dict[str, Any]:
        return node.order("history", "root:level", *ALL_RAW)

    # The rows that only the log had, and one more time without the node.
    until(lambda: level()["rows"][-1]["sequence"] > told["history"]["position"][1], node.said)
    until(lambda: [gap["reason"] for gap in level()["gaps"]].count("node_down") == down + 1, node.said)
    rows = level()["rows"]
    assert [one["value"] for one in rows[: len(raw["value"])]] == raw["value"]
    assert [one["sequence"] for one in rows[: len(raw["value"])]] == raw["sequence"]

    node.order("stop")
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("archive", PAIRS, ids=lambda one: f"{one.parent.name}-{one.name.partition('.')[0]}")
def test_a_pair_goes_on_where_the_kept_stores_end(archive: Path, tmp_path: Path) -> None:
    """Its voters let one of the two lead under a higher epoch; both have what they had, and what was cut."""
    told = json.loads(told_beside(archive).read_text())["nodes"]
    unpack(archive, tmp_path)
    _, begin, settings = (tmp_path / "plant.toml").read_text().partition("[node.")
    pair = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(begin + settings)
    try:
        pair.start(*VOTERS, *MEMBERS)
        until(lambda: sorted(pair.states().values()) == ["active", "ready"], lambda: str(pair.states()))
        for member in MEMBERS:
            assert pair.run("status", member=member)[1]["log"]["epoch"] > told[member]["end"][0]
            stored = told[member]["history"]["items"]["root:energy"]["raw"]["value"]
            rows = pair.run("history", "root:energy", *ALL_RAW, member=member)[1]["rows"]
            assert [one["value"] for one in rows if one["value"] in stored] == stored
            assert pair.run("quarantine", member=member)[1]["quarantined"] == told[member]["quarantine"]
        pair.done("stop", "--all", member="primary")
        assert pair.wait_for_end(*MEMBERS) == [0, 0]
    finally:
        pair.end()
    assert compared(tmp_path / "primary", tmp_path / "backup")["kind"] == "equal"


@pytest.mark.parametrize("archive", ALONE[-1:], ids=lambda one: one.parent.name)
def test_a_node_that_may_know_less_than_the_log_says_which_level_it_lacks(node: Node, archive: Path) -> None:
    process = node.start()
    until(lambda: node.order("status").get("log", {}).get("feature_level") == FEATURE_LEVEL, node.said)
    node.order("stop")
    assert process.wait(PATIENCE_S) == 0
    assert node.start("--feature-level", str(OLDEST_LEVEL)).wait(PATIENCE_S) == 78
    assert f"feature level {FEATURE_LEVEL}, this node knows {OLDEST_LEVEL}; start it without" in node.said()


def test_a_node_on_a_log_of_a_later_format_says_what_to_do(node: Node) -> None:
    for name in COPIES:
        make_later(node.data / "log" / name)
    assert node.start().wait(PATIENCE_S) == 78
    assert REMEDY in node.said()
