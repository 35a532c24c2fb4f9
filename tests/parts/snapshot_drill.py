"""Parts that tests share: a pair of real processes whose holder has pruned."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.client import NodeUnreachable, connect
from albireo.runtime.link.lines import LineTo
from tests.parts.process_pair import Pair, until
from tests.parts.waiting import PATIENCE_S

SETTINGS = """
[node.log]
segment_mib = 1
disk_reserve_mib = 0
bytes_max_mib = 64
snapshot_every_s = 1
keep_h = 0
[node.history]
seal_every_s = 1
"""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(SETTINGS)
    try:
        yield made
    finally:
        made.end()


def members(pair: Pair) -> list[LineTo]:
    (node,) = tomllib.loads((pair.home / "plant.toml").read_text())["node"]
    return [LineTo(node[name]["client"], f"root[{name}]") for name in ("primary", "backup")]


def history(pair: Pair, member: str, what: str) -> dict[str, Any]:
    """An answer of its actor `history`, which starts a while after CORE does."""
    found: list[Any] = []

    def answers() -> bool:
        try:
            with connect(pair.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client:
                found.append(client.ask(what, of="history"))
        except NodeUnreachable:
            return False
        return True

    until(answers, lambda: f"the history of {member} does not answer")
    (answer,) = found
    assert isinstance(answer, dict)
    return answer
