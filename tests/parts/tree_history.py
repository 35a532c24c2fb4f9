"""Parts that tests share: what a site recorded, as it is asked for at the root."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.model import quality as q
from albireo.runtime.clock import wall_ns
from tests.parts.history import Sample, iso
from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode

ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"
BEGIN = wall_ns() // 1_000_000_000 * 1_000_000_000 - 60_000_000_000
SPAN_NS = 1_000_000_000
RANGE = ["--from", iso(BEGIN)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def rows_of(count: int, first: int = 0) -> list[Sample]:
    return [(0, BEGIN + (first + n) * 1_000_000, float(first + n), q.GOOD) for n in range(count)]


def told(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def places(node: TreeNode) -> list[list[str]]:
    """Ways to ask a node: on its machine, and from elsewhere."""
    return [["--data", str(node.data)], ["--at", node.endpoint]]


def values(name: str, place: list[str]) -> list[float]:
    answer = told("history", name, "--aggregate", "raw", *RANGE, *place)
    assert answer["item"] == name
    return [row["value"] for row in answer["rows"]]


def has_all(above: TreeNode, node: str, count: int) -> None:
    """The history above has all values of the node."""
    wanted = {"names": (f"{node}:co",), "from_ns": BEGIN, "to_ns": BEGIN + SPAN_NS}
    with above.program() as program:
        asked_until(program, lambda found: found["rows"] == count, "history_piece", "history", **wanted)
