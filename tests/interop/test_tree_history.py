"""Real nodes of a tree: what a site recorded is asked for at the root by its name, live, sealed and after restarts."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.node.history.actor import Historian
from tests.parts.core_pair import aside
from tests.parts.history import stored_rows
from tests.parts.tree import TreeNode, tree_of
from tests.parts.tree_history import (
    BEGIN,
    NORTH,
    PUMP,
    RANGE,
    ROOT,
    SPAN_NS,
    has_all,
    home,
    places,
    rows_of,
    told,
    values,
)

pytestmark = pytest.mark.slow

__all__ = ["home"]


def test_items_of_two_levels_below_are_asked_for_at_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)
    root, north, pump = nodes.values()

    def story() -> None:
        north.produce(rows_of(30))
        pump.produce(rows_of(40))
        root.produce(rows_of(3))
        for node, count in ((ROOT, 3), (NORTH, 30), (PUMP, 40)):
            has_all(root, node, count)
        for place in places(root):
            counts = {name: len(values(f"{name}:co", place)) for name in (ROOT, NORTH, PUMP)}
            assert counts == {ROOT: 3, NORTH: 30, PUMP: 40}, place
            events = told("events", "--node", PUMP, "--kind", "control", *RANGE, *place)["events"]
            assert "epoch_granted" in [row["action"] for row in events]
            refused = CliRunner().invoke(cli, ["history", "root/west:co", *RANGE, *place])
            assert refused.exit_code != 0
            assert "root/west" in refused.output

    async def world() -> None:
        async with root.core_up(), north.core_up(), pump.core_up(), root.history_up():
            await aside(story)
        for node, site in ((NORTH, north), (PUMP, pump)):
            assert len(await aside(partial(values, f"{node}:co", places(root)[0]))) > 0, "the node does not run"
            assert len(below(root, site)) in (30, 40)

    asyncio.run(world())


def below(above: TreeNode, site: TreeNode) -> list[Any]:
    """Stored rows of a site's item `co`, which is the only one with the times of this test."""
    (folder,) = (above.data / "history-below").glob(f"{site.node.replace('/', '~')}-*")
    return [row for row in stored_rows(folder) if BEGIN <= row[2] < BEGIN + SPAN_NS]


def test_whoever_restarts_each_row_is_stored_once(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes.values()

    async def sealed(historian: Historian) -> None:
        historian._seal()
        await historian._until_idle()

    async def world() -> None:
        count = 0
        async with north.core_up():
            for life in range(3):
                async with root.core_up():
                    for _ in range(2):
                        async with root.history_up() as historian:
                            await aside(partial(north.produce, rows_of(20, count)))
                            count += 20
                            await aside(partial(has_all, root, NORTH, count))
                            if life:
                                await sealed(historian)
        found = below(root, north)
        assert sorted(row[3] for row in found) == [float(one) for one in range(count)]

    asyncio.run(world())
